"""Jobs in a process of their own, with real processes: half a second each is mostly Python starting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from quorumd.errors import CorruptSnapshot
from quorumd.ports import Disk
from quorumd.runtime.disk import OsDisk
from quorumd.runtime.job_process import WORK_SLICE_S
from tests.support.processes import subprocess_jobs

PATIENCE_S = 300.0


@pytest.fixture
def callbacks() -> SimpleQueue[Callable[[], None]]:
    return SimpleQueue()


@pytest.fixture
def disk(callbacks: SimpleQueue[Callable[[], None]]) -> Iterator[OsDisk]:
    disk = OsDisk(callbacks.put)
    yield disk
    disk.close()


@pytest.fixture
def run(disk: OsDisk, callbacks: SimpleQueue[Callable[[], None]]) -> Callable[[Callable[[Disk], Any]], Any]:
    """Run a job apart and return what `done` was told."""

    def run(job: Callable[[Disk], Any]) -> Any:
        outcomes: list[Any] = []
        disk.run_in_subprocess(job, outcomes.append)
        callbacks.get(timeout=PATIENCE_S)()
        return outcomes.pop()

    return run


Run = Callable[[Callable[[Disk], Any]], Any]


def test_job_works_on_the_same_files_and_its_result_comes_back(run: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    assert run(partial(subprocess_jobs.write_file, path, "text")) == (4, path)
    assert Path(path).read_text() == "text"


def test_it_is_another_process_of_low_priority(run: Run) -> None:
    pid, nice, policy = run(subprocess_jobs.process_info)
    assert pid != os.getpid()
    assert nice == min(19, os.nice(0) + 19)
    assert policy == (os.SCHED_IDLE if sys.platform == "linux" else -1)


def test_job_pauses_most_of_the_time_by_default(run: Run) -> None:
    computed, took, pauses = run(partial(subprocess_jobs.compute, 0.1))
    assert took > 4 * computed
    assert pauses >= computed / (2 * WORK_SLICE_S)


def test_full_duty_cycle_does_not_pause(disk: OsDisk, callbacks: SimpleQueue[Callable[[], None]]) -> None:
    outcomes: list[tuple[float, float, int]] = []
    disk.run_in_subprocess(partial(subprocess_jobs.compute, 0.2), outcomes.append)  # type: ignore[arg-type] # raises nothing
    disk.throttle_subprocess(1.0)
    callbacks.get(timeout=PATIENCE_S)()
    ((computed, _, pauses),) = outcomes
    assert computed >= 0.2
    # Other processes may take the processor; only the throttle makes it give the processor up.
    assert pauses < computed / (2 * WORK_SLICE_S)


def test_what_it_raises_comes_back(run: Run) -> None:
    outcome = run(subprocess_jobs.raise_error)
    assert isinstance(outcome, CorruptSnapshot)
    assert str(outcome) == "position 7: what a pity"


def test_what_it_prints_is_no_outcome(run: Run) -> None:
    assert run(subprocess_jobs.print_output) == "said"


def test_process_death_is_reported_and_next_job_runs(run: Run) -> None:
    outcome = run(partial(subprocess_jobs.kill_process, int(signal.SIGKILL)))
    assert isinstance(outcome, OSError)
    assert "signal 9" in str(outcome)
    assert run(subprocess_jobs.print_output) == "said"


def test_one_job_at_a_time(disk: OsDisk, callbacks: SimpleQueue[Callable[[], None]], tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    outcomes: list[object] = []
    disk.run_in_subprocess(partial(subprocess_jobs.wait_for_ever, str(started)), outcomes.append)
    with pytest.raises(RuntimeError, match="already running"):
        disk.run_in_subprocess(subprocess_jobs.print_output, outcomes.append)
    pid = int(started.read_text())
    disk.close()
    callbacks.get(timeout=PATIENCE_S)()
    assert isinstance(outcomes[0], OSError)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_it_ends_when_the_node_is_killed(tmp_path: Path) -> None:
    """Nobody is left to tell it: the end of its standard input does."""
    started = tmp_path / "started"
    os.mkfifo(started)
    node = (
        "import sys, time\n"
        "from functools import partial\n"
        "from quorumd.runtime.disk import OsDisk\n"
        "from tests.support.processes.subprocess_jobs import wait_for_ever\n"
        "OsDisk(print).run_in_subprocess(partial(wait_for_ever, sys.argv[1]), print)\n"
        "time.sleep(600)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-c", node, str(started)], env=environment, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    pid = int(started.read_text())
    os.kill(pid, 0)
    process.kill()
    process.wait()
    # The job shares this pipe; it ends with its last writer.
    assert process.stderr.read() == b""
    process.stderr.close()


def test_exits_when_node_dies_before_sending_job() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "quorumd.runtime.job_process"], stdin=subprocess.DEVNULL, capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
