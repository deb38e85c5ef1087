from __future__ import annotations

from math import inf

import pytest

from quorumd.errors import DiskFull, ErrorCode, FlushFailed, StorageError, UnknownRecord
from quorumd.ids import OffsetAndEpoch, ReplicaKey
from quorumd.node.consensus.raft_runner import FREE_SPACE_CHECK_MS
from quorumd.protocol.record_batch import encode_batch
from quorumd.raft.effects import ControlBatch, Effects, KRaftVersion, ReadReady, Respond, Send
from quorumd.raft.events import (
    FlushCompleted,
    PeerRequestFailed,
    Propose,
    StorageAvailable,
    StorageFull,
    TimerFired,
)
from quorumd.raft.messages import LeaderResponse, Response, VoteRequest
from quorumd.raft.quorum_state import QuorumState
from tests.support.node.runner_harness import ANY_EVENT, RunnerHarness, fetch
from tests.support.text import shows

VOTE = Send(2, VoteRequest(2, ReplicaKey(1), ReplicaKey(2), OffsetAndEpoch(0, 0), False))
STATE, NEWER = QuorumState(2), QuorumState(3)


@pytest.fixture
def harness() -> RunnerHarness:
    return RunnerHarness()


def test_recovered_log_is_reported_as_durable() -> None:
    harness = RunnerHarness()
    harness.step()
    assert harness.runner.durable_offset == 10


def test_effects_are_applied_in_the_order_of_the_contract(harness: RunnerHarness) -> None:
    harness.step(
        Effects(
            save=STATE,
            truncate_to=8,
            append=b"batch",
            append_end_offset=12,
            leadership_changed=True,
            new_high_watermark=8,
            reads_ready=[ReadReady(harness.read_token("r1"), 8)],
            reads_failed=[harness.read_token("r2")],
        )
    )
    assert harness.done() == [
        "save 2",
        "truncate 8",
        "truncated 8",
        "flush 8",
        "append b'batch'",
        "leadership changed",
        "committed 8",
        "ready r1",
        "failed r2",
    ]


def test_hole_38_no_message_leaves_before_an_earlier_save_is_durable(harness: RunnerHarness) -> None:
    harness.step(Effects(save=STATE, send_after_flush=[harness.response]))
    harness.step(Effects(send=[VOTE]))
    assert harness.done() == ["save 2"]
    harness.manual_disk.finish()
    assert harness.done() == ["saved 2", "response", "send VoteRequest"]


def test_fetch_leaves_when_the_log_up_to_its_offset_is_durable(harness: RunnerHarness) -> None:
    harness.step(Effects(append=b"batch", append_end_offset=12, send_after_flush=[fetch(12)]))
    assert harness.done() == ["append b'batch'", "flush 12"]
    harness.manual_disk.finish()
    assert harness.done() == ["send FetchRequest", "flush done"]
    assert harness.new_events() == [ANY_EVENT, FlushCompleted(12)]


def test_one_flush_covers_all_appends_during_the_previous_one(harness: RunnerHarness) -> None:
    for end_offset in (11, 12, 13):
        harness.step(Effects(append=b"batch", append_end_offset=end_offset))
    assert [line for line in harness.done() if line.startswith("flush")] == ["flush 11"]
    harness.manual_disk.finish()
    assert harness.done() == ["flush 13", "flush done"]
    assert harness.runner.is_flushing
    harness.manual_disk.finish()
    assert harness.new_events()[-2:] == [FlushCompleted(11), FlushCompleted(13)]
    assert not harness.runner.is_flushing


def test_flush_overlapped_by_a_truncation_counts_only_up_to_the_truncation(harness: RunnerHarness) -> None:
    """Records above the truncation are not those that the flush made durable."""
    harness.step(Effects(append=b"old", append_end_offset=15))
    harness.step(Effects(truncate_to=11))
    harness.step(Effects(append=b"new", append_end_offset=15, send_after_flush=[fetch(15)]))
    harness.done()
    harness.manual_disk.finish()
    assert harness.new_events()[-1] == FlushCompleted(11)
    assert "send FetchRequest" not in harness.done()
    harness.manual_disk.finish()
    assert harness.new_events()[-1] == FlushCompleted(15)
    assert "send FetchRequest" in harness.done()


def test_held_fetch_of_truncated_records_fails(harness: RunnerHarness) -> None:
    held = fetch(15)
    harness.step(Effects(append=b"old", append_end_offset=15, send_after_flush=[held]))
    harness.step(Effects(truncate_to=11))
    harness.time.end_turn()
    assert harness.new_events()[-1] == PeerRequestFailed(2, held.request)


def test_control_records_are_encoded_at_the_end_of_the_log(harness: RunnerHarness) -> None:
    harness.step(Effects(append=ControlBatch((KRaftVersion(1),)), append_end_offset=11))
    assert harness.done() == ["append b'control 10 4'", "flush 11"]


def test_flush_is_reported_to_a_leader_only_once_its_epoch_is_saved(harness: RunnerHarness) -> None:
    """Otherwise a record could be committed in an epoch that this node forgets in a crash."""
    harness.step(Effects(save=STATE, append=b"batch", append_end_offset=11))
    (save, flush), harness.manual_disk.queue[:] = list(harness.manual_disk.queue), []
    harness.manual_disk.queue += [flush, save]
    harness.new_events()
    harness.manual_disk.finish()
    assert harness.new_events() == []
    harness.manual_disk.finish()
    assert harness.new_events() == [FlushCompleted(11)]


# A full disk


def test_append_rejected_by_a_full_disk_is_reported_and_not_acknowledged(
    harness: RunnerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.scripted_log.append_error = DiskFull("no room")
    held = fetch(12)
    harness.step(Effects(append=b"batch", append_end_offset=12, send_after_flush=[held, harness.response]))
    assert harness.done() == ["truncated 10", "response"]
    assert shows(caplog.text, "no space", "/data/log")
    assert harness.new_events() == [ANY_EVENT, StorageFull()]
    harness.time.end_turn()
    assert harness.new_events() == [PeerRequestFailed(2, held.request)]
    assert not harness.runner.propose(b"batch", 12)


def test_rejected_records_are_not_committed(harness: RunnerHarness) -> None:
    harness.scripted_log.append_error = DiskFull("no room")
    harness.step(Effects(append=b"batch", append_end_offset=12, new_high_watermark=12))
    assert "committed 10" in harness.done()


def test_engine_is_notified_when_the_disk_has_space_again(harness: RunnerHarness) -> None:
    harness.scripted_log.append_error, harness.scripted_log.is_roomy = DiskFull("no room"), False
    harness.step(Effects(append=b"batch", append_end_offset=12))
    harness.step(Effects(append=b"batch", append_end_offset=12))
    harness.time.pass_ms(3 * FREE_SPACE_CHECK_MS)
    assert StorageAvailable() not in harness.new_events()
    harness.scripted_log.is_roomy = True
    harness.time.pass_ms(3 * FREE_SPACE_CHECK_MS)
    assert harness.new_events() == [StorageAvailable()]


def test_save_rejected_by_a_full_disk_holds_all_messages_until_it_succeeds(
    harness: RunnerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.step(Effects(save=STATE, send_after_flush=[harness.response]))
    harness.manual_disk.finish(DiskFull("no room"))
    assert harness.done() == ["save 2"]
    assert shows(caplog.text, "no space", "/data/log")
    harness.step(Effects(send=[VOTE]))
    harness.time.pass_ms(FREE_SPACE_CHECK_MS)
    harness.manual_disk.finish()
    assert harness.done() == ["save 2", "saved 2", "response", "send VoteRequest"]
    assert harness.fatal_errors == []


def test_rejected_save_is_retried_with_the_newest_state(harness: RunnerHarness) -> None:
    harness.step(Effects(save=STATE, send_after_flush=[harness.response]))
    harness.manual_disk.finish(DiskFull("no room"))
    harness.step(Effects(save=NEWER, send_after_flush=[VOTE]))
    harness.manual_disk.finish()
    assert harness.done()[-1] == "response", "a newer state includes the vote of the older one"
    harness.time.pass_ms(FREE_SPACE_CHECK_MS)
    harness.manual_disk.finish()
    assert harness.done() == ["save 3", "saved 3", "send VoteRequest"]


def test_save_that_waits_for_space_does_not_delay_a_shutdown(harness: RunnerHarness) -> None:
    harness.step(Effects(save=STATE))
    assert harness.runner.is_saving
    harness.manual_disk.finish(DiskFull("no room"))
    assert not harness.runner.is_saving
    harness.time.pass_ms(FREE_SPACE_CHECK_MS)
    assert harness.runner.is_saving


# Stopping


@pytest.mark.parametrize("error", [FlushFailed("EIO"), OSError(5, "EIO"), ValueError("closed")])
def test_failed_flush_stops_the_node(harness: RunnerHarness, error: BaseException) -> None:
    harness.step(Effects(append=b"batch", append_end_offset=12, send_after_flush=[harness.response]))
    harness.done()
    harness.manual_disk.finish(error)
    (fatal_errors,) = harness.fatal_errors
    assert isinstance(fatal_errors, FlushFailed)
    assert harness.done() == []
    harness.new_events()
    harness.step(Effects(send=[VOTE]))
    assert (harness.new_events(), harness.done()) == ([], [])


def test_failed_save_stops_the_node(harness: RunnerHarness) -> None:
    harness.step(Effects(save=STATE, send_after_flush=[harness.response]))
    harness.manual_disk.finish(StorageError("EIO"))
    assert [str(error) for error in harness.fatal_errors] == ["EIO"]
    assert "response" not in harness.done()


@pytest.mark.parametrize(
    ("errors", "effects"),
    [
        ("append_error", Effects(append=b"batch", append_end_offset=12)),
        ("truncate_error", Effects(truncate_to=5)),
    ],
)
def test_log_failure_within_a_step_stops_the_node_before_messages_leave(
    harness: RunnerHarness, errors: str, effects: Effects
) -> None:
    setattr(harness.scripted_log, errors, FlushFailed("EIO"))
    effects.send = [harness.response]
    harness.step(effects)
    (fatal_errors,) = harness.fatal_errors
    assert isinstance(fatal_errors, FlushFailed)
    assert "response" not in harness.done()


def test_log_that_cannot_be_read_for_a_response_stops_the_node(harness: RunnerHarness) -> None:
    def unreadable(response: Response) -> None:
        raise StorageError("input/output error")

    harness.step(Effects(send=[Respond(unreadable, LeaderResponse(ErrorCode.NONE, 1, 1))]))
    assert [str(error) for error in harness.fatal_errors] == ["input/output error"]


def test_invariant_violation_stops_the_node(harness: RunnerHarness) -> None:
    harness.step(Effects(fatal="two leaders"))
    assert harness.fatal_errors == ["two leaders"]


def test_no_effect_is_applied_after_stop(harness: RunnerHarness) -> None:
    harness.engine.deadline = harness.time.clock.now_ms() + 10
    harness.step(Effects(save=STATE, append=b"batch", append_end_offset=12))
    harness.runner.stop()
    harness.new_events()
    harness.done()
    harness.manual_disk.finish()
    harness.manual_disk.finish()
    harness.time.pass_ms(1000)
    harness.step(Effects(send=[VOTE]))
    assert harness.new_events() == []
    assert [line for line in harness.done() if line != "saved 2"] == []


def test_stop_within_a_step_arms_no_timer(harness: RunnerHarness) -> None:
    """A timer whose deadline is no longer handled would fire forever."""

    def stop(high_watermark: int) -> None:
        harness.runner.stop()

    harness.committed = stop  # type: ignore[method-assign]  # replaced for this test
    harness.engine.deadline = harness.time.clock.now_ms()
    harness.step(Effects(new_high_watermark=5))
    assert not any(harness.time.heap.step(harness.time.heap.now_ms + 10) for _ in range(5))


# Time


def test_timer_follows_the_deadline_of_the_engine(harness: RunnerHarness) -> None:
    now = harness.time.clock.now_ms()
    harness.engine.deadline = now + 100
    harness.step()
    harness.engine.deadline = now + 50
    harness.step()
    harness.new_events()
    harness.time.pass_ms(49)
    assert harness.new_events() == []
    harness.engine.deadline = now + 200
    harness.time.pass_ms(1)
    assert harness.new_events() == [TimerFired()], "an early timer is harmless"
    harness.engine.deadline = inf
    harness.time.pass_ms(150)
    assert harness.new_events() == [TimerFired()]
    harness.time.pass_ms(10_000)
    assert harness.new_events() == []


def test_propose_returns_whether_the_batch_was_appended(harness: RunnerHarness) -> None:
    harness.engine.script.append(Effects(append=b"batch", append_end_offset=12))
    assert harness.runner.propose(b"batch", 12)
    assert isinstance(harness.new_events()[0], Propose)
    harness.runner.stop()
    assert not harness.runner.propose(b"batch", 14)


def test_follower_stops_before_it_appends_a_record_of_a_later_version(harness: RunnerHarness) -> None:
    harness.engine.is_leader = False
    harness.step(Effects(append=encode_batch(0, 1, 0, [b"\1\x63\0\0"]), append_end_offset=1))
    (fatal_errors,) = harness.fatal_errors
    assert isinstance(fatal_errors, UnknownRecord)
    assert harness.done() == []
