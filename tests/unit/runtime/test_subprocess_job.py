"""Subprocess jobs with real processes: half a second each is mostly the start of Python."""

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
    """Run a job in a subprocess and return its outcome."""

    def run(job: Callable[[Disk], Any]) -> Any:
        outcomes: list[Any] = []
        disk.run_in_subprocess(job, outcomes.append)
        callbacks.get(timeout=PATIENCE_S)()
        return outcomes.pop()

    return run


Run = Callable[[Callable[[Disk], Any]], Any]


def test_job_uses_the_same_files_and_returns_its_result(run: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    assert run(partial(subprocess_jobs.write_file, path, "text")) == (4, path)
    assert Path(path).read_text() == "text"


def test_job_runs_in_a_process_of_low_priority(run: Run) -> None:
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
    # Other processes may use the processor; only the throttle makes the job yield it.
    assert pauses < computed / (2 * WORK_SLICE_S)


def test_exception_of_a_job_is_returned(run: Run) -> None:
    outcome = run(subprocess_jobs.raise_error)
    assert isinstance(outcome, CorruptSnapshot)
    assert str(outcome) == "position 7: what a pity"


def test_output_of_a_job_is_not_its_outcome(run: Run) -> None:
    assert run(subprocess_jobs.print_output) == "said"


def test_process_death_is_reported_and_next_job_runs(run: Run) -> None:
    outcome = run(partial(subprocess_jobs.kill_process, int(signal.SIGKILL)))
    assert isinstance(outcome, OSError)
    assert "signal 9" in str(outcome)
    assert run(subprocess_jobs.print_output) == "said"


class DeadProcess(subprocess.Popen[bytes]):
    """A process that is dead before its job is sent."""

    def __init__(self, command: list[str], **options: Any) -> None:
        super().__init__(["sh", "-c", "kill -9 $$"], **options)
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)


def test_process_that_dies_before_it_has_its_job_is_reported(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", DeadProcess)
    assert "signal 9" in str(run(subprocess_jobs.print_output))


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


def test_job_ends_when_the_node_is_killed(tmp_path: Path) -> None:
    """The end of its standard input stops it."""
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
