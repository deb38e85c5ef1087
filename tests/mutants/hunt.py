"""Simulates seed after seed with one bug planted until a promise is broken; a process of its own for each bug.

    python -m tests.mutants.hunt NAME FIRST_SEED LAST_SEED [PROFILE]

NAME "-" plants nothing: what a seed says about the code as it is. Prints a JSON object a line: {"done": seed}
after every seed that held, at last {"seed", "invariant", "text"} of the one that did not.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from subprocess import PIPE, Popen

from tests.mutants.catalogue import Mutant, load_mutants
from tests.mutants.planting import plant

NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Catch:
    """The first seed whose simulation broke a promise."""

    seed: int
    invariant: str
    text: str


class HuntFailed(Exception):
    """The process that simulated came to an end it should not have; the text is what it said."""


def hunt(mutant: Mutant | None, profile: str, seeds: range, progress: Callable[[int], None]) -> Catch | None:
    """Simulate `seeds` in a new process; None if all of them hold. `progress` is told each seed that does."""
    name = mutant.name if mutant is not None else NOTHING
    command = [sys.executable, "-m", "tests.mutants.hunt", name, str(seeds[0]), str(seeds[-1]), profile]
    with Popen(command, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        catch = None
        for line in process.stdout:
            told = json.loads(line)
            if "done" in told:
                progress(told["done"])
            else:
                catch = Catch(**told)
        errors = process.stderr.read()
    if process.returncode:
        raise HuntFailed(f"{name}: exit code {process.returncode}\n{errors}")
    return catch


def main(name: str, first: str, last: str, profile: str) -> None:
    """The process that simulates."""
    if name != NOTHING:
        (mutant,) = (mutant for mutant in load_mutants() if mutant.name == name)
        plant(mutant)
    # Nodes of a simulation complain about the faults that they are given.
    logging.disable(logging.CRITICAL)
    for told in simulated(range(int(first), int(last) + 1), profile):
        print(json.dumps(told), flush=True)


def simulated(seeds: range, profile: str) -> Iterator[dict[str, object]]:
    # Imported here and not above: first the bug is planted.
    from quorumd.simulator.profiles.draw import draw_options
    from quorumd.simulator.profiles.registry import DEFAULT
    from quorumd.simulator.simulation import Simulation

    for seed in seeds:
        report = Simulation(seed, draw_options(seed, profile or DEFAULT)).run()
        if not report.ok:
            violation = report.violations[0]
            yield {"seed": seed, "invariant": violation.invariant, "text": violation.text}
            return
        yield {"done": seed}


if __name__ == "__main__":
    main(*sys.argv[1:])
