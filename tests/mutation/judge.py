"""Judges mutations in forked processes: by the tests that reach the changed lines, then by simulated seeds.

Everything is imported and collected once. A child replaces the code of the mutated function, runs the tests, those
that resemble the module's name and short ones first, and reports the first failure.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.mutation.covered_lines import ROOT, CoveredLines, measured_files
from tests.mutation.live_code import LiveFunctions
from tests.mutation.operators import MutableModule, Mutation
from tests.mutation.reached_seeds import ReachedSeeds

KILLED, SURVIVED, UNCHANGED = "killed", "survived", "unchanged"
LEAST_CPU_SECONDS = 10.0
CPU_FACTOR = 20.0
"""A test or seed that needs this many times its usual CPU time does not end."""
WALL_SECONDS = 120.0
TEST_SECONDS = 5.0
"""The tests of one mutation take at most about this long, as measured while they were traced."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`by` is the test, seed or timeout that killed a mutation."""

    outcome: str
    by: str = ""
    seconds: float = 0.0


Progress = Callable[[Mutation, Verdict], None]


class Judge:
    """A pytest plugin that judges mutations instead of running the tests it has collected."""

    def __init__(
        self, chosen: Sequence[Mutation], covered: CoveredLines, reached: ReachedSeeds, progress: Progress
    ) -> None:
        self._chosen = chosen
        self._covered = covered
        self._reached = reached
        self._progress = progress
        self._items: dict[str, pytest.Item] = {}
        self._trusted: dict[str, bool] = {}
        self._modules: dict[str, MutableModule] = {}

    def pytest_collection(self) -> None:
        """Make property tests repeatable, and brief when they fail."""
        # Imported here because pytest must be the first to import a plugin of its own.
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        present = settings.default
        settings.register_profile("mutation", present, phases=phases, derandomize=True, database=None)
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Judge every mutation."""
        self._items = {item.nodeid: item for item in session.items}
        for path in measured_files():
            import_module(module_of(path))
        import_module("quorumd.simulator.simulation")
        import_module("quorumd.simulator.profiles.draw")
        functions = LiveFunctions(f"{ROOT}/quorumd/")
        gc.collect()
        gc.freeze()
        for mutation in self._chosen:
            begun = time.monotonic()
            verdict = self._judged(functions, mutation)
            self._progress(mutation, Verdict(verdict.outcome, verdict.by, time.monotonic() - begun))
        return True

    def _judged(self, functions: LiveFunctions, mutation: Mutation) -> Verdict:
        """The verdict of tests and seeds that accept the code without the mutation."""
        path = path_of(mutation.module)
        tests = ordered(self._covered.tests_of(path, mutation.lines), path)
        tests = within_time([(name, seconds) for name, seconds in tests if name in self._items])
        seeds = self._reached.cheapest(path, mutation.lines)

        if mutation.module not in self._modules:
            self._modules[mutation.module] = MutableModule(mutation.module, path.read_text(encoding="utf-8"))
        module = self._modules[mutation.module]

        def child(report: Callable[[str], None]) -> Verdict:
            # The tree of the child is a copy.
            if not functions.replace(module.apply(mutation), str(path)):
                return Verdict(UNCHANGED)
            return self._run(tests, seeds, report)

        while True:
            verdict = in_child(child)
            if verdict.outcome != KILLED or self._is_trusted(verdict.by, tests, seeds):
                return verdict
            print(f"fails without a mutation: {verdict.by}", file=sys.stderr)
            tests = [each for each in tests if each[0] != verdict.by]
            seeds = [each for each in seeds if f"seed {each[0]}" != verdict.by]

    def _is_trusted(
        self, name: str, tests: Sequence[tuple[str, float]], seeds: Sequence[tuple[int, float]]
    ) -> bool:
        """Whether this test or seed accepts the code without a mutation."""
        if name not in self._trusted:
            tests = [each for each in tests if each[0] == name]
            seeds = [each for each in seeds if f"seed {each[0]}" == name]
            self._trusted[name] = in_child(lambda report: self._run(tests, seeds, report)) == Verdict(
                SURVIVED
            )
        return self._trusted[name]

    def _run(
        self,
        tests: Sequence[tuple[str, float]],
        seeds: Sequence[tuple[int, float]],
        report: Callable[[str], None],
    ) -> Verdict:
        following = [self._items[name] for name, _ in tests[1:]] + [None]
        for (name, seconds), next_item in zip(tests, following, strict=False):
            report(name)
            limit_time(seconds)
            item = self._items[name]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
            if item.session.testsfailed:
                return Verdict(KILLED, name)
        logging.disable(logging.CRITICAL)
        for seed, seconds in seeds:
            report(f"seed {seed}")
            limit_time(seconds)
            if not holds(seed):
                return Verdict(KILLED, f"seed {seed}")
        return Verdict(SURVIVED)


def holds(seed: int) -> bool:
    """Whether a simulated run of swarm violates no invariant."""
    from quorumd.simulator.profiles.draw import draw_options
    from quorumd.simulator.profiles.registry import DEFAULT
    from quorumd.simulator.simulation import Simulation

    return Simulation(seed, draw_options(seed, DEFAULT)).run().ok


def limit_time(usual_seconds: float) -> None:
    """End this process if it takes far longer from here."""
    signal.setitimer(signal.ITIMER_PROF, max(LEAST_CPU_SECONDS, CPU_FACTOR * usual_seconds))
    signal.setitimer(signal.ITIMER_REAL, max(WALL_SECONDS, 5 * CPU_FACTOR * usual_seconds))


def in_child(judge: Callable[[Callable[[str], None]], Verdict]) -> Verdict:
    """Call `judge` in a forked process; what it reports names the cause if the process ends early."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Later versions of Python warn about threads, such as those of pytest-xdist; the child starts none.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if not process:
        os.close(reader)
        _be_child(writer, judge)
    os.close(writer)
    with open(reader, encoding="utf-8") as lines:
        reports = [json.loads(line) for line in lines]
    os.waitpid(process, 0)
    last = reports[-1] if reports else {}
    if "outcome" in last:
        return Verdict(last["outcome"], last["by"])
    return Verdict(KILLED, last.get("running", "start"))


def _be_child(writer: int, judge: Callable[[Callable[[str], None]], Verdict]) -> None:
    """Judge and exit; anything that escapes, such as a lack of memory, ends the process without a verdict."""
    try:
        for each in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(each, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)

        def report(name: str) -> None:
            os.write(writer, json.dumps({"running": name}).encode() + b"\n")

        verdict = judge(report)
        os.write(writer, json.dumps({"outcome": verdict.outcome, "by": verdict.by}).encode() + b"\n")
    finally:
        os._exit(0)


def ordered(tests: dict[str, float], path: Path) -> list[tuple[str, float]]:
    """Unit tests of the module and of its package first, property tests last, short ones before long ones."""
    package = path.relative_to(ROOT).parts[1]

    def order(entry: tuple[str, float]) -> tuple[int, float]:
        name, seconds = entry
        file = name.partition("::")[0]
        if file.endswith(f"/test_{path.stem}.py"):
            return 0, seconds
        if "/property/" in f"/{file}":
            return 3, seconds
        return (1 if f"unit/{package}/" in file else 2), seconds

    return sorted(tests.items(), key=order)


def within_time(tests: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The first tests that together take TEST_SECONDS."""
    total = 0.0
    chosen = []
    for name, seconds in tests:
        total += seconds
        if chosen and total > TEST_SECONDS:
            break
        chosen.append((name, seconds))
    return chosen


def judge_all(
    chosen: Sequence[Mutation],
    covered: CoveredLines,
    reached: ReachedSeeds,
    progress: Progress,
    files: Sequence[Path],
) -> None:
    """Judge mutations by the tests in these files."""
    # Each child removes what the one before it left there.
    with TemporaryDirectory() as temporary:
        arguments = [*map(str, files), "-q", "-s", f"--basetemp={temporary}/tests"]
        pytest.main(arguments, plugins=[Judge(chosen, covered, reached, progress)])


def path_of(module: str) -> Path:
    """The file of a module or package."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def module_of(path: Path) -> str:
    """The module or package in a file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
