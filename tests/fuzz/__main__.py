"""`make fuzz`: hostile input for every parser of bytes from outside.

    python -m tests.fuzz --inputs 2000000                    run a campaign; exit code 1 after a finding
    python -m tests.fuzz --target quorum-state --block 7     repeat one block in this process, with tracebacks

Each finding is saved in build/fuzz as two files: the input, and the command that repeats it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from tests.fuzz.campaign import BLOCK_INPUTS, Finding, Tally, prepare_process, run_block, run_target
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

DIRECTORY = Path("build/fuzz")


@click.command()
@click.option("--inputs", default=1_000_000, show_default=True, help="Number of inputs of all targets.")
@click.option("--seed", default=1, show_default=True, help="Seed of the inputs.")
@click.option(
    "--jobs", default=min(2, os.cpu_count() or 1), show_default=True, help="Number of worker processes."
)
@click.option("--target", "names", multiple=True, help="Fuzz only this target; may be repeated.")
@click.option("--block", type=int, help="Repeat only this block; requires one --target.")
def main(inputs: int, seed: int, jobs: int, names: tuple[str, ...], block: int | None) -> None:
    """Fuzz every target, print a table, and save findings in build/fuzz."""
    unknown = set(names) - {target.name for target in TARGETS}
    if unknown:
        raise click.UsageError(f"unknown targets: {', '.join(sorted(unknown))}; valid targets: {_names()}")
    chosen = [target for target in TARGETS if not names or target.name in names]
    if block is not None:
        _again(chosen, seed, block)
    shares = sum(target.share for target in chosen)
    total = Tally()
    began = time.monotonic()
    click.echo(
        "| target | inputs | accepted | inputs/s | slowest ms | memory beyond 4 x input KiB | findings |"
    )
    click.echo("|---|---:|---:|---:|---:|---:|---:|")
    for target in chosen:
        blocks = max(1, round(inputs * target.share / shares / BLOCK_INPUTS))
        tally = run_target(target, seed, range(blocks), jobs)
        click.echo(_row(target.name, tally))
        for finding in _first_of_each(tally.findings):
            _keep(finding, seed)
        total.add(tally)
    click.echo(_row("all", total))
    click.echo(f"\nseed {seed}, {time.monotonic() - began:.0f} s on {jobs} processes")
    sys.exit(1 if total.findings else 0)


def _names() -> str:
    return ", ".join(target.name for target in TARGETS)


def _again(chosen: list[Target], seed: int, block: int) -> None:
    if len(chosen) != 1:
        raise click.UsageError(f"--block requires exactly one --target; valid targets: {_names()}")
    prepare_process()
    findings = run_block(chosen[0], seed, block).findings
    for finding in findings:
        click.echo(f"input {finding.index}: {finding.data[:200]!r}\n{finding.details}")
    sys.exit(1 if findings else 0)


def _row(name: str, tally: Tally) -> str:
    rate = tally.inputs / tally.seconds if tally.seconds else 0
    cells = (
        name,
        f"{tally.inputs:,}",
        f"{tally.accepted / max(tally.inputs, 1):.0%}",
        f"{rate:,.0f}",
        f"{tally.slowest * 1000:.0f}",
        f"{max(tally.peak_bytes, 0) / 1024:,.0f}",
        str(len(tally.findings)),
    )
    return f"| {' | '.join(cells)} |"


def _first_of_each(findings: list[Finding]) -> list[Finding]:
    """Return the finding with the smallest input for each signature."""
    smallest: dict[str, Finding] = {}
    for finding in findings:
        known = smallest.get(finding.signature)
        if known is None or len(finding.data) < len(known.data):
            smallest[finding.signature] = finding
    return list(smallest.values())


def _keep(finding: Finding, seed: int) -> None:
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    stem = f"{finding.target}-{seed}-{finding.block}-{finding.index}".replace(" ", "_").replace(",", "")
    (DIRECTORY / f"{stem}.bin").write_bytes(finding.data)
    again = f'python -m tests.fuzz --seed {seed} --target "{finding.target}" --block {finding.block}'
    (DIRECTORY / f"{stem}.txt").write_text(
        f"{finding.signature}\ninput {finding.index} of: {again}\n\n{finding.details}"
    )
    click.echo(f"  - {finding.signature}: {DIRECTORY / stem}.bin, repeat with: {again}")


if __name__ == "__main__":
    main()
