"""A runner that was stopped, or whose log failed, does nothing more."""

from __future__ import annotations

from quorumd.errors import DiskFull, FlushFailed
from quorumd.node.consensus.raft_runner import FREE_SPACE_CHECK_MS
from quorumd.raft.effects import Effects
from quorumd.raft.quorum_state import QuorumState
from tests.support.node.runner_harness import RunnerHarness


def test_no_event_is_handled_after_a_log_failure() -> None:
    """The content of the log is unknown."""
    harness = RunnerHarness()
    harness.scripted_log.append_error = FlushFailed("EIO")
    harness.step(Effects(append=b"batch", append_end_offset=12))
    harness.new_events()
    harness.step(Effects(send=[harness.response]))
    assert harness.new_events() == []
    assert "response" not in harness.done()


def test_no_event_is_handled_after_a_failed_flush() -> None:
    harness = RunnerHarness()
    harness.runner._on_fatal_error = harness.fatal_errors.append
    harness.step(Effects(append=b"batch", append_end_offset=12))
    harness.manual_disk.finish(FlushFailed("EIO"))
    assert len(harness.fatal_errors) == 1
    harness.new_events()
    harness.step()
    assert harness.new_events() == []


def test_no_timer_is_left_after_stop() -> None:
    harness = RunnerHarness()
    harness.engine.deadline = harness.time.clock.now_ms() + 10
    harness.step()
    harness.runner.stop()
    assert not harness.time.heap.step(harness.time.heap.now_ms + 1000)


def test_failed_log_ends_all_steps() -> None:
    harness = RunnerHarness()
    harness.scripted_log.truncate_error = FlushFailed("the disk failed")
    harness.runner._on_fatal_error = harness.fatal_errors.append
    harness.step(Effects(truncate_to=8))
    assert len(harness.fatal_errors) == 1
    harness.new_events()
    harness.step()
    assert harness.new_events() == []


def test_no_event_is_handled_after_a_failed_save() -> None:
    harness = RunnerHarness()
    harness.runner._on_fatal_error = harness.fatal_errors.append
    harness.step(Effects(save=QuorumState(2)))
    harness.manual_disk.finish(FlushFailed("EIO"))
    assert len(harness.fatal_errors) == 1
    harness.new_events()
    harness.step()
    assert harness.new_events() == []


def test_stopped_runner_does_not_wait_for_free_space() -> None:
    harness = RunnerHarness()
    harness.scripted_log.append_error, harness.scripted_log.is_roomy = DiskFull("full"), False
    harness.step(Effects(append=b"batch", append_end_offset=12))
    harness.runner.stop()
    assert not harness.time.heap.step(harness.time.heap.now_ms + 10 * FREE_SPACE_CHECK_MS)
