from __future__ import annotations

from collections.abc import Callable

import pytest

from quorumd.errors import CorruptLog, DiskFull, ExitCode, FlushFailed, StorageError
from quorumd.node.lifecycle import Lifecycle
from tests.support.node.virtual_time import VirtualTime


class Harness:
    def __init__(self) -> None:
        self.time = VirtualTime()
        self.seen: list[object] = []
        self.lifecycle = Lifecycle(self.time.clock, lambda exit_code, reason: self.seen.append(exit_code))

    def note(self, word: str) -> Callable[[], None]:
        return lambda: self.seen.append(word)


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_stop_closes_in_order_and_reports_the_exit_code_once(harness: Harness) -> None:
    harness.lifecycle.on_stop(harness.note("runner"), harness.note("listener"))
    harness.lifecycle.on_stop(harness.note("lock"))
    harness.lifecycle.stop(ExitCode.DONE, "")
    harness.lifecycle.fail("a second failure")
    assert harness.seen == ["runner", "listener", "lock", ExitCode.DONE]


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (FlushFailed("fsync"), ExitCode.FLUSH_FAILED),
        (CorruptLog("record 7"), ExitCode.DATA_DIRECTORY),
        ("two leaders", ExitCode.INVARIANT_VIOLATED),
    ],
)
def test_exit_code_depends_on_the_error(
    harness: Harness, error: BaseException | str, exit_code: ExitCode
) -> None:
    harness.lifecycle.fail(error)
    assert harness.seen == [exit_code]


def test_full_disk_does_not_stop_the_node_when_a_checkpoint_is_written(harness: Harness) -> None:
    for outcome in (None, DiskFull("no space")):
        harness.lifecycle.file_written(outcome)
    assert not harness.lifecycle.is_stopped
    harness.lifecycle.file_written(StorageError("input/output error"))
    assert harness.seen == [ExitCode.DATA_DIRECTORY]


def test_storage_error_in_scheduled_work_stops_the_node(harness: Harness) -> None:
    def fail() -> None:
        raise StorageError("input/output error")

    harness.lifecycle.call_soon(fail)
    harness.lifecycle.call_later(5.0, harness.note("late"))
    harness.time.pass_ms(10.0)
    assert harness.seen == [ExitCode.DATA_DIRECTORY]
