"""Reports of a runner to the node: refused requests, free space each time there is some again, and busy time."""

from __future__ import annotations

from quorumd.errors import DiskFull
from quorumd.node.consensus.raft_runner import FREE_SPACE_CHECK_MS
from quorumd.raft.effects import Effects, RequestRefused
from quorumd.raft.events import StorageAvailable
from quorumd.raft.quorum_state import QuorumState
from tests.support.node.runner_harness import RunnerHarness


def test_refused_request_is_reported() -> None:
    harness = RunnerHarness()
    harness.step(Effects(refused=RequestRefused("vote", 7, "192.0.2.7:1", 3, "its log is shorter")))
    assert harness.done() == ["vote refused to 7"]


def test_engine_is_notified_each_time_the_disk_has_space_again() -> None:
    harness = RunnerHarness()
    for _ in range(2):
        harness.scripted_log.append_error, harness.scripted_log.is_roomy = DiskFull("full"), False
        harness.step(Effects(append=b"batch", append_end_offset=12))
        harness.scripted_log.append_error, harness.scripted_log.is_roomy = None, True
        harness.new_events()
        harness.time.pass_ms(FREE_SPACE_CHECK_MS)
        assert harness.new_events() == [StorageAvailable()]


def test_time_after_a_save_counts_as_that_of_an_event() -> None:
    harness = RunnerHarness()
    harness.step(Effects(save=QuorumState(2)))
    before = sum(harness.statistics.event_processing_ms.counts)
    harness.manual_disk.finish()
    assert sum(harness.statistics.event_processing_ms.counts) == before + 1


def test_latency_of_a_flush_begins_with_that_flush() -> None:
    harness = RunnerHarness()
    for duration_ms in (10.0, 20.0):
        before = harness.statistics.flush_latency_ms.total
        harness.time.pass_ms(1000.0)
        harness.step(Effects(append=b"batch", append_end_offset=harness.scripted_log.end_offset + 1))
        harness.time.pass_ms(duration_ms)
        harness.manual_disk.finish()
        assert harness.statistics.flush_latency_ms.total == before + duration_ms
