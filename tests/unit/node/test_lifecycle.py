from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import pytest

from quorumd.errors import CorruptLog, DiskFull, ExitCode, FlushFailed, StorageError
from quorumd.node.lifecycle import Lifecycle
from tests.support.node.parts import NodeParts


class LifecycleHarness(NodeParts):
    """`seen`: closed parts, and then the exit code."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    @cached_property
    def lifecycle(self) -> Lifecycle:
        return Lifecycle(self.time.clock, lambda exit_code, reason: self.seen.append(exit_code))

    def note(self, word: str) -> Callable[[], None]:
        return lambda: self.seen.append(word)


@pytest.fixture
def harness() -> LifecycleHarness:
    return LifecycleHarness()


def test_stop_closes_in_order_and_reports_the_exit_code_once(harness: LifecycleHarness) -> None:
    harness.lifecycle.on_stop(harness.note("runner"), harness.note("listener"))
    harness.lifecycle.on_stop(harness.note("lock"))
    harness.lifecycle.stop(ExitCode.DONE, "")
    harness.lifecycle.fail("a second failure")
    assert harness.seen == ["runner", "listener", "lock", ExitCode.DONE]


def test_graceful_shutdown_begins_once_and_not_after_a_stop(harness: LifecycleHarness) -> None:
    assert harness.lifecycle.begin_shutdown()
    assert harness.lifecycle.is_stopping
    assert not harness.lifecycle.begin_shutdown()
    stopped = LifecycleHarness()
    stopped.lifecycle.stop(ExitCode.DONE, "")
    assert not stopped.lifecycle.begin_shutdown()


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (FlushFailed("fsync"), ExitCode.FLUSH_FAILED),
        (CorruptLog("record 7"), ExitCode.DATA_DIRECTORY),
        ("two leaders", ExitCode.INVARIANT_VIOLATED),
    ],
)
def test_exit_code_depends_on_the_error(
    harness: LifecycleHarness, error: BaseException | str, exit_code: ExitCode
) -> None:
    harness.lifecycle.fail(error)
    assert harness.seen == [exit_code]


def test_full_disk_does_not_stop_the_node_when_a_checkpoint_is_written(harness: LifecycleHarness) -> None:
    for outcome in (None, DiskFull("no space")):
        harness.lifecycle.file_written(outcome)
    assert not harness.lifecycle.is_stopped
    harness.lifecycle.file_written(StorageError("input/output error"))
    assert harness.seen == [ExitCode.DATA_DIRECTORY]


def test_storage_error_in_scheduled_work_stops_the_node(harness: LifecycleHarness) -> None:
    def fail() -> None:
        raise StorageError("input/output error")

    harness.lifecycle.call_soon(fail)
    harness.lifecycle.call_later(5.0, harness.note("late"))
    harness.time.pass_ms(10.0)
    assert harness.seen == [ExitCode.DATA_DIRECTORY]
