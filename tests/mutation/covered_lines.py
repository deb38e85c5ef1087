"""Record the lines that every test executes, so that a mutation is judged by the tests that reach it.

python -m tests.mutation.covered_lines      record the tests of new and changed files in build/mutation/tests.json
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
from coverage import Coverage

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "build" / "mutation"
FILE = DIRECTORY / "tests.json"
PACKAGES = ("raft", "log", "node", "controller", "broker", "security")
TESTS = tuple(
    ROOT / "tests" / name
    for name in (*(f"unit/{package}" for package in PACKAGES), "paper", "scenarios", "property")
)
LEFT_OUT = (
    *("test_messages_hostile.py", "test_messages_oracles.py", "test_messages_round_trip.py"),
    *("test_pipeline_decode.py", "test_plan_properties.py", "test_every_hole_has_a_test.py"),
)
"""Tests of other packages, and a test of the tests."""


@dataclass(slots=True)
class TestLines:
    """A test that passes, and the lines that it executes."""

    __test__ = False
    seconds: float
    """The CPU time of the test with tracing."""
    lines: dict[str, list[int]] = field(default_factory=dict)
    """The lines by path below the root."""


@dataclass(slots=True)
class CoveredLines:
    """The recorded tests."""

    digests: dict[str, str] = field(default_factory=dict)
    """The digests of the files of tests, and of the files whose lines are recorded."""
    tests: dict[str, dict[str, TestLines]] = field(default_factory=dict)
    """The tests by file and name."""

    @classmethod
    def load(cls, path: Path = FILE) -> CoveredLines:
        """Load the recorded lines; without a file, return an empty record."""
        if not path.exists():
            return cls()
        document = json.loads(path.read_text())
        tests = {
            file: {name: TestLines(**entry) for name, entry in entries.items()}
            for file, entries in document["tests"].items()
        }
        return cls(document["digests"], tests)

    def save(self, path: Path = FILE) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self)))

    def stale_files(self, root: Path, files: Iterable[Path]) -> list[Path]:
        """Return the files that are new or have changed."""
        return [path for path in files if self.digests.get(name_of(root, path)) != digest(path)]

    def tests_of(self, path: Path, lines: tuple[int, int], root: Path = ROOT) -> dict[str, float]:
        """Return the seconds of every test that executes one of the lines, or any line if the file has changed."""
        name = name_of(root, path)
        is_current = self.digests.get(name) == digest(path)
        first, last = lines
        return {
            test: entry.seconds
            for tests in self.tests.values()
            for test, entry in tests.items()
            if name in entry.lines
            and (not is_current or any(first <= line <= last for line in entry.lines[name]))
        }


class Recorder:
    """A pytest plugin that records lines; it must be created before quorumd is imported."""

    def __init__(self) -> None:
        self._coverage = Coverage(data_file=None, config_file=False, include=_measured())
        self._coverage.set_option("run:disable_warnings", ["no-data-collected"])
        self._coverage.start()
        self.tests: defaultdict[str, dict[str, TestLines]] = defaultdict(dict)
        self._failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record that a test failed or was skipped, so that it judges no mutations."""
        self._failed = self._failed or not report.passed

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Trace a test in a context with its name."""
        self._coverage.switch_context(item.nodeid)
        self._failed = False
        begun = time.process_time()
        try:
            return (yield)
        finally:
            if not self._failed:
                file = name_of(ROOT, item.path)
                self.tests[file][item.nodeid] = TestLines(time.process_time() - begun)

    def pytest_sessionfinish(self) -> None:
        """Assign the lines to their tests."""
        self._coverage.stop()
        tests = {name: entry for entries in self.tests.values() for name, entry in entries.items()}
        data = self._coverage.get_data()
        for path in data.measured_files():
            for line, contexts in data.contexts_by_lineno(path).items():
                for context in contexts:
                    if context in tests:
                        lines = tests[context].lines
                        lines.setdefault(name_of(ROOT, Path(path)), []).append(line)


def judging_files() -> list[Path]:
    """Return the files of all tests that judge mutations."""
    found = [path for directory in TESTS for path in sorted(directory.rglob("test_*.py"))]
    return [path for path in found if path.name not in LEFT_OUT]


def digest(path: Path) -> str:
    """Return a digest of the content of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def name_of(root: Path, path: Path) -> str:
    """Return the path below the root."""
    return path.relative_to(root).as_posix()


def record() -> None:
    """Run the tests of new and changed files, and record the lines that they execute."""
    known = CoveredLines.load()
    stale = known.stale_files(ROOT, judging_files())
    if not stale:
        return
    print(f"recording the lines of the tests in {len(stale)} files", file=sys.stderr)
    recorder = Recorder()
    pytest.main([*map(str, stale), "-q"], plugins=[recorder])
    existing = {name_of(ROOT, path) for path in judging_files()}
    known.tests = {file: tests for file, tests in known.tests.items() if file in existing}
    for path in stale:
        name = name_of(ROOT, path)
        known.digests[name] = digest(path)
        known.tests[name] = recorder.tests[name]
    if len(stale) == len(existing):
        known.digests |= {name_of(ROOT, path): digest(path) for path in measured_files()}
    known.save()


def measured_files() -> list[Path]:
    """Return the files whose lines are recorded."""
    return [path for package in PACKAGES for path in sorted((ROOT / "quorumd" / package).rglob("*.py"))]


def _measured() -> list[str]:
    return [f"{ROOT}/quorumd/{package}/*" for package in PACKAGES]


if __name__ == "__main__":
    record()
