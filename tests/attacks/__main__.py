"""`make attack`: attacks on real daemons under load.

python -m tests.attacks                              run all attacks, print a table; exit code 1 after harm
python -m tests.attacks --only "forged leader"       run one attack
python -m tests.attacks --scale 3                    run every attack three times as long
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from tests.attacks.attack import Row, execute
from tests.attacks.catalogue import ATTACKS, BROKER_ATTACKS
from tests.attacks.field import broker_field, field

HEADER = (
    "| attack | processor ms: commit | any request | longest stall of commits ms | of the machine ms | memory MiB "
    "| log bytes/s | leader kept | commits | harm |\n|---|---:|---:|---:|---:|---:|---:|---|---:|---|"
)


def row(attacked: Row) -> str:
    """Format a row of the table."""
    measured = attacked.measured
    kept = "yes" if attacked.leader_kept else "no"
    return (
        f"| {attacked.name} | {measured.commit_cpu_ms:.0f} | {measured.wait_cpu_ms:.0f} | {measured.stall_ms:.0f} "
        f"| {measured.machine_ms:.0f} | +{attacked.growth_mib} | {attacked.log_bytes_per_s:,} | {kept} "
        f"| {measured.commits} | {'; '.join(attacked.harm) or 'none'} |"
    )


@click.command()
@click.option("--only", multiple=True, help="Run only this attack; may be repeated.")
@click.option("--scale", default=1.0, show_default=True, help="Multiply the duration of each attack.")
@click.option("--directory", type=click.Path(path_type=Path), help="Keep the data directories and logs here.")
def main(only: tuple[str, ...], scale: float, directory: Path | None) -> None:
    """Attack a cluster of three daemons and a broker, and print a table of the measurements."""
    unknown = set(only) - {attack.name for attack in ATTACKS + BROKER_ATTACKS}
    if unknown:
        raise click.UsageError(f"unknown attacks: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as temporary:
        rows = attack_all(directory or Path(temporary), only, scale)
    sys.exit(1 if any(each.harm for each in rows) else 0)


def attack_all(directory: Path, only: tuple[str, ...], scale: float) -> list[Row]:
    """Execute the attacks one after the other, and print the row of each."""
    rows = []
    print(HEADER, flush=True)
    for create, name, attacks in ((field, "controllers", ATTACKS), (broker_field, "broker", BROKER_ATTACKS)):
        chosen = [attack for attack in attacks if not only or attack.name in only]
        if not chosen:
            continue
        with create(directory / name) as attacked:
            for attack in chosen:
                rows.append(execute(attack, attacked, scale))
                print(row(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    main()
