"""Measures which lines and branches simulated clusters reach, and lists the functions with the most that they do not.

    python -m tests.simulation.reached_branches [--seeds 192] [--first 1] [--profile swarm] [--functions 40]

Seeds run in this process, interpreted and traced. build/reached/seeds.json holds the lines that each seed reaches and
its CPU time, build/reached/data the data of coverage.py.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from coverage import Coverage

from scripts.check_coverage import EXCLUDED, function_lines, missing_in, module_name

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "build" / "reached"
SEEDS_FILE = DIRECTORY / "seeds.json"
PACKAGES = ("raft", "log", "node", "controller")
NOT_SIMULATED = ("cli", "client", "observability", "pipeline", "runtime", "testing")


@dataclass(frozen=True, slots=True)
class Reached:
    """How much of a package simulation reaches; `missing` has the missing lines and branches of each function."""

    package: str
    branches: int
    reached_branches: int
    lines: int
    reached_lines: int
    missing: Mapping[str, list[str]]

    @property
    def row(self) -> str:
        """The line of a Markdown table."""
        branches, lines = self.reached_branches / self.branches, self.reached_lines / self.lines
        return f"| {self.package} | {self.branches} | {branches:.1%} | {self.lines} | {lines:.1%} |"


@click.command()
@click.option("--seeds", default=192, show_default=True, help="Simulate this many consecutive seeds.")
@click.option("--first", default=1, show_default=True, help="Start with this seed.")
@click.option("--profile", default="", help="Draw the options of this profile.  [default: swarm]")
@click.option("--functions", default=40, show_default=True, help="List this many functions.")
def main(seeds: int, first: int, profile: str, functions: int) -> None:
    """Simulate seeds and print a table of what they reach."""
    coverage = new_coverage()
    seconds = trace_seeds(coverage, range(first, first + seeds), profile)
    coverage.save()
    lines = lines_by_seed(coverage)
    digests = {path.relative_to(ROOT).as_posix(): digest(path) for path in simulated_files()}
    SEEDS_FILE.write_text(json.dumps({"seconds": seconds, "lines": lines, "digests": digests}))
    reached = [package_reached(package, report_of(coverage, package)) for package in PACKAGES]
    click.echo("| package | branches | reached | lines | reached |\n|---|---:|---:|---:|---:|")
    for each in reached:
        click.echo(each.row)
    click.echo(f"\nShare of the reached lines that the first seeds reach: {growth(lines, seeds)}")
    click.echo(f"Seeds that together reach all of them: {cover(lines)}")
    click.echo("\n| not reached by any seed | lines and branches |\n|---|---|")
    for name, missing in largest(reached, functions):
        click.echo(f"| {name} | {len(missing)}: {', '.join(missing)} |")


def new_coverage() -> Coverage:
    """Coverage of the measured packages, without data."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    coverage = Coverage(
        data_file=str(DIRECTORY / "data"),
        branch=True,
        config_file=False,
        include=[f"{ROOT}/quorumd/{package}/*" for package in PACKAGES],
    )
    coverage.erase()
    for pattern in EXCLUDED:
        coverage.exclude(pattern)
    return coverage


def trace_seeds(coverage: Coverage, seeds: Iterable[int], profile: str) -> dict[int, float]:
    """Simulate seeds, each in a context of its number; their CPU seconds."""
    coverage.start()
    # Imported here because the lines of definitions count too.
    from quorumd.simulator.profiles.draw import draw_options
    from quorumd.simulator.profiles.registry import DEFAULT
    from quorumd.simulator.simulation import Simulation

    logging.disable(logging.CRITICAL)
    seconds = {}
    for seed in seeds:
        coverage.switch_context(str(seed))
        begun = time.process_time()
        report = Simulation(seed, draw_options(seed, profile or DEFAULT)).run()
        seconds[seed] = time.process_time() - begun
        if not report.ok:
            click.echo(f"seed {seed}: {report.violations[0].invariant}", err=True)
        if len(seconds) % 16 == 0:
            click.echo(f"{len(seconds)} seeds in {sum(seconds.values()):.0f} s", err=True)
    coverage.stop()
    return seconds


def lines_by_seed(coverage: Coverage) -> dict[str, dict[int, list[int]]]:
    """The seeds that reach each line, by path below the root."""
    data = coverage.get_data()
    found: dict[str, dict[int, list[int]]] = {}
    for path in data.measured_files():
        by_line = {
            line: sorted(int(context) for context in contexts if context)
            for line, contexts in data.contexts_by_lineno(path).items()
            if line > 0
        }
        found[str(Path(path).relative_to(ROOT))] = by_line
    return found


def simulated_files() -> list[Path]:
    """The files that a simulated run depends on."""
    found = sorted((ROOT / "quorumd").rglob("*.py"))
    return [path for path in found if path.relative_to(ROOT).parts[1] not in NOT_SIMULATED]


def digest(path: Path) -> str:
    """Identify the content of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def growth(lines: Mapping[str, Mapping[int, Sequence[int]]], seeds: int) -> str:
    """The share of the reached lines that the first eighth, quarter and half of the seeds reach."""
    reaching = [by for each in lines.values() for by in each.values() if by]
    first_seed = min(seed for by in reaching for seed in by)
    shares = []
    for count in (seeds // 8, seeds // 4, seeds // 2):
        reached = sum(by[0] < first_seed + count for by in reaching)
        shares.append(f"{count} {reached / len(reaching):.1%}")
    return ", ".join(shares)


def cover(lines: Mapping[str, Mapping[int, Sequence[int]]]) -> list[int]:
    """Few seeds that reach all lines that any seed reaches: again and again the one that adds the most."""
    left: defaultdict[int, set[tuple[str, int]]] = defaultdict(set)
    for path, each in lines.items():
        for line, by in each.items():
            for seed in by:
                left[seed].add((path, line))
    chosen: list[int] = []
    while any(left.values()):
        best = max(left, key=lambda seed: (len(left[seed]), -seed))
        chosen.append(best)
        added = left.pop(best)
        for reached in left.values():
            reached -= added
    return chosen


def report_of(coverage: Coverage, package: str) -> dict[Path, dict[str, Any]]:
    """The entries of coverage.py's JSON report for every file of a package."""
    paths = sorted((ROOT / "quorumd" / package).rglob("*.py"))
    report = DIRECTORY / f"{package}.json"
    coverage.json_report(morfs=[str(path) for path in paths], outfile=str(report))
    files = json.loads(report.read_text())["files"]
    return {(Path.cwd() / name).resolve(): file for name, file in files.items()}


def package_reached(package: str, files: Mapping[Path, dict[str, Any]]) -> Reached:
    """Sum up the entries of a package's files."""
    totals: defaultdict[str, int] = defaultdict(int)
    missing: defaultdict[str, list[str]] = defaultdict(list)
    for path, file in files.items():
        for name, number in file["summary"].items():
            if isinstance(number, int):
                totals[name] += number
        places = function_lines(path)
        for line, text in missing_in(file):
            missing[places.get(line, module_name(path))].append(text)
    return Reached(
        package,
        totals["num_branches"],
        totals["covered_branches"],
        totals["num_statements"],
        totals["covered_lines"],
        missing,
    )


def largest(reached: Iterable[Reached], count: int) -> list[tuple[str, list[str]]]:
    """The functions with the most missing lines and branches."""
    functions = [item for each in reached for item in each.missing.items()]
    return sorted(functions, key=lambda item: (-len(item[1]), item[0]))[:count]


if __name__ == "__main__":
    main()
