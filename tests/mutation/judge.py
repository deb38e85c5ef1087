"""Judge mutations in forked processes: by the tests that reach the changed lines, then by simulated seeds.

Modules are imported and tests are collected once. A child process replaces the code of the mutated function, runs the
tests, first the tests of the module and short tests, and reports the first failure.
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
"""A test or seed is ended after this multiple of its usual CPU time."""
WALL_SECONDS = 120.0
TEST_SECONDS = 20.0
"""The approximate maximum time of the tests of a mutation, as measured with tracing."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a mutation."""

    outcome: str
    by: str = ""
    """The test or seed that killed the mutation."""
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
        """Make property tests repeatable, and let them fail without shrinking."""
        # hypothesis is imported here, since pytest must import its plugins first.
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
        """Judge a mutation by tests and seeds that pass without the mutation."""
        path = path_of(mutation.module)
        tests = ordered(self._covered.tests_of(path, mutation.lines), path)
        tests = within_time([(name, seconds) for name, seconds in tests if name in self._items])
        seeds = self._reached.cheapest(path, mutation.lines)

        if mutation.module not in self._modules:
            self._modules[mutation.module] = MutableModule(mutation.module, path.read_text(encoding="utf-8"))
        module = self._modules[mutation.module]

        def child(report: Callable[[str], None]) -> Verdict:
            # The mutation is applied to the child's copy of the tree.
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
        """Return True if a test or seed passes without a mutation."""
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
    """Return True if a simulation of swarm with this seed violates no invariant."""
    from quorumd.simulator.profiles.draw import draw_options
    from quorumd.simulator.profiles.registry import DEFAULT
    from quorumd.simulator.simulation import Simulation

    return Simulation(seed, draw_options(seed, DEFAULT)).run().ok


def limit_time(usual_seconds: float) -> None:
    """End this process if the next test or seed takes much longer than usual."""
    signal.setitimer(signal.ITIMER_PROF, max(LEAST_CPU_SECONDS, CPU_FACTOR * usual_seconds))
    signal.setitimer(signal.ITIMER_REAL, max(WALL_SECONDS, 5 * CPU_FACTOR * usual_seconds))


def in_child(judge: Callable[[Callable[[str], None]], Verdict]) -> Verdict:
    """Call `judge` in a forked process; if the process ends early, its last report is the cause."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Later versions of Python warn about existing threads, such as pytest-xdist's; the child starts no threads.
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
    """Judge and exit; an exception, such as MemoryError, ends the process without a verdict."""
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
    """Sort tests: unit tests of the module and its package first, property tests last, and short tests first."""
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
    """Return the first tests that together take at most TEST_SECONDS, but at least one."""
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
    """Judge mutations by the tests in `files`."""
    # All children use the same temporary directory, which each of them empties first.
    with TemporaryDirectory() as temporary:
        arguments = [*map(str, files), "-q", "-s", f"--basetemp={temporary}/tests"]
        pytest.main(arguments, plugins=[Judge(chosen, covered, reached, progress)])


def path_of(module: str) -> Path:
    """Return the file of a module or package."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def module_of(path: Path) -> str:
    """Return the module or package of a file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
