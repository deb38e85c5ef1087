"""Simulate seeds with a planted bug until an invariant is violated, in a separate process for each bug.

    python -m tests.mutants.hunt NAME PROFILE SEED...

NAME "-" plants nothing. The process prints one JSON object per line: {"done": seed} after every seed without a
violation, and {"seed", "invariant", "text"} for the first violation.
"""

from __future__ import annotations

import ast
import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from subprocess import PIPE, Popen

from tests.mutants.catalogue import Mutant, load_mutants
from tests.mutants.planting import plant
from tests.mutants.table import SWARM
from tests.mutation.reached_seeds import ReachedSeeds

NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Catch:
    """The first seed whose simulation violated an invariant."""

    seed: int
    invariant: str
    text: str


class HuntFailed(Exception):
    """The simulating process failed; the message has its error output."""


def hunt(
    mutant: Mutant | None, profile: str, seeds: Sequence[int], progress: Callable[[int], None]
) -> Catch | None:
    """Simulate `seeds` in a new process, and return the first violation, or None if there is none.

    `progress` is called with each seed without a violation.
    """
    if not seeds:
        return None
    name = mutant.name if mutant is not None else NOTHING
    command = [sys.executable, "-m", "tests.mutants.hunt", name, profile or SWARM, *map(str, seeds)]
    with Popen(command, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        catch = None
        for line in process.stdout:
            report = json.loads(line)
            if "done" in report:
                progress(report["done"])
            else:
                catch = Catch(**report)
        errors = process.stderr.read()
    if process.returncode:
        raise HuntFailed(f"{name}: exit code {process.returncode}\n{errors}")
    return catch


def seeds_that_reach(mutant: Mutant, seeds: Iterable[int], reached: ReachedSeeds) -> list[int]:
    """Return the seeds of plain swarm that run a changed statement or have not been measured."""
    found: set[int] = set()
    for module, path in mutant.modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for edit in mutant.edits:
            if edit.module == module:
                lines = edit.lines_before(tree)
                if lines is None:
                    return list(seeds)
                found |= reached.seeds_of(path, lines)
    return [seed for seed in seeds if seed in found or seed not in reached.seconds]


def main(name: str, profile: str, *seeds: str) -> None:
    """Simulate in this process."""
    if name != NOTHING:
        (mutant,) = (mutant for mutant in load_mutants() if mutant.name == name)
        plant(mutant)
    # Simulated nodes log warnings about injected faults.
    logging.disable(logging.CRITICAL)
    for report in simulate(map(int, seeds), profile):
        print(json.dumps(report), flush=True)


def simulate(seeds: Iterable[int], profile: str) -> Iterator[dict[str, object]]:
    # These are imported after the bug is planted.
    from quorumd.simulator.profiles.draw import draw_options
    from quorumd.simulator.simulation import Simulation

    for seed in seeds:
        report = Simulation(seed, draw_options(seed, profile)).run()
        if not report.ok:
            violation = report.violations[0]
            yield {"seed": seed, "invariant": violation.invariant, "text": violation.text}
            return
        yield {"done": seed}


if __name__ == "__main__":
    main(*sys.argv[1:])
