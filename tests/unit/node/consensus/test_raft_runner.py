from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, cast

import pytest

from quorumd.errors import DiskFull, ErrorCode, FlushFailed, StorageError, UnknownRecord
from quorumd.ids import OffsetAndEpoch, ReplicaKey
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.consensus.raft_runner import FREE_SPACE_CHECK_MS, RaftRunner, RunnerOutputs
from quorumd.node.wire.voter_records import VoterRecord
from quorumd.ports import Disk
from quorumd.protocol.record_batch import encode_batch
from quorumd.raft.effects import ControlBatch, Effects, KRaftVersion, ReadReady, RequestRefused, Respond, Send
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import (
    Event,
    FlushCompleted,
    PeerRequestFailed,
    Propose,
    ReadRequested,
    StorageAvailable,
    StorageFull,
    TimerFired,
)
from quorumd.raft.messages import FetchRequest, LeaderResponse, Response, VoteRequest
from quorumd.raft.quorum_state import QuorumState
from tests.support.node.parts import NodeParts
from tests.support.text import shows

VOTE = Send(2, VoteRequest(2, ReplicaKey(1), ReplicaKey(2), OffsetAndEpoch(0, 0), False))
ANY_EVENT = ReadRequested("any event")
STATE, NEWER = QuorumState(2), QuorumState(3)


def fetch(offset: int) -> Send:
    return Send(2, FetchRequest(ReplicaKey(1), 1, offset, 1, 500, 1000))


class ScriptedEngine:
    """Returns the next effects of `script` at each step, or empty ones."""

    def __init__(self) -> None:
        self.script: list[Effects] = []
        self.events: list[Event] = []
        self.deadline = inf
        self.epoch = 4
        self.is_leader = True

    def start(self, now: float) -> Effects:
        return Effects()

    def step(self, event: Event, now: float) -> Effects:
        self.events.append(event)
        return self.script.pop(0) if self.script else Effects()


class ScriptedLog:
    """A log with an end offset and scripted errors."""

    directory = "/data/log"

    def __init__(self, seen: list[str]) -> None:
        self.end_offset = 10
        self.append_error: StorageError | None = None
        self.truncate_error: StorageError | None = None
        self.is_roomy = True
        self._seen = seen

    def append(self, data: bytes, end_offset: int) -> None:
        if self.append_error is not None:
            raise self.append_error
        self._seen.append(f"append {data!r}")
        self.end_offset = end_offset

    def truncate(self, end_offset: int) -> None:
        if self.truncate_error is not None:
            raise self.truncate_error
        self._seen.append(f"truncate {end_offset}")
        self.end_offset = end_offset

    def begin_flush(self) -> Callable[[], int]:
        end_offset = self.end_offset
        self._seen.append(f"flush {end_offset}")
        return lambda: end_offset

    def has_free_space(self) -> bool:
        return self.is_roomy


class ManualDisk:
    """Runs submitted operations one by one, when `finish` is called."""

    def __init__(self) -> None:
        self.queue: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def submit(self, operation: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.queue.append((operation, done))

    def finish(self, error: BaseException | None = None) -> None:
        operation, done = self.queue.pop(0)
        try:
            outcome = error if error is not None else operation()
        except StorageError as fault:
            outcome = fault
        done(outcome)


def response_recorded_in(seen: list[str]) -> Respond:
    return Respond(lambda response: seen.append("response"), LeaderResponse(ErrorCode.NONE, 1, 1))


def outputs_of(harness: Any) -> RunnerOutputs:
    """Runner outputs that call the methods of a harness."""
    return RunnerOutputs(
        outbound=harness,
        control_log=harness,
        progress=harness,
        save_operation=lambda state: harness.save(state),
        write_no_op=lambda: harness.write_no_op(),
        refused=lambda refused: harness.refused(refused),
    )


class RunnerHarness(NodeParts):
    """A runner on a scripted engine, log and disk; records every call of the runner in `seen`."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.response = response_recorded_in(self.seen)
        self.prepared: list[Send] = []
        self.engine = ScriptedEngine()
        self.scripted_log = ScriptedLog(self.seen)
        self.manual_disk = ManualDisk()
        self.fatal_errors: list[BaseException | str] = []
        self.runner = RaftRunner(
            self.basics,
            cast(RaftEngine, self.engine),
            cast(SegmentedLog, self.scripted_log),
            cast(Disk, self.manual_disk),
            self.tick,
            self.on_fatal_error,
        )
        self.runner.start(outputs_of(self))
        self.engine.events.clear()

    def step(self, *script: Effects) -> None:
        self.engine.script += script
        self.runner.step(ANY_EVENT)

    def done(self) -> list[str]:
        """The calls since the last `done`."""
        seen, self.seen[:] = list(self.seen), []
        return seen

    def events(self) -> list[Event]:
        events, self.engine.events[:] = list(self.engine.events), []
        return events

    # Called by the runner

    def send(self, send: Send) -> None:
        self.seen.append(f"send {type(send.request).__name__}")

    def prepare(self, send: Send) -> None:
        self.prepared.append(send)

    def save(self, state: QuorumState) -> Callable[[], None]:
        self.seen.append(f"save {state.epoch}")
        return lambda: self.seen.append(f"saved {state.epoch}")

    def encode_control(self, batch: ControlBatch, base_offset: int, epoch: int) -> bytes:
        return f"control {base_offset} {epoch}".encode()

    def truncated(self, end_offset: int) -> None:
        self.seen.append(f"truncated {end_offset}")

    def committed(self, high_watermark: int) -> None:
        self.seen.append(f"committed {high_watermark}")

    def on_flush_completed(self) -> None:
        self.seen.append("flush done")

    def leadership_changed(self) -> None:
        self.seen.append("leadership changed")

    def restarted(self, snapshot: OffsetAndEpoch, voters: VoterRecord | None) -> None:
        self.seen.append(f"restarted at {snapshot.offset}")

    def write_no_op(self) -> None:
        self.seen.append("no-op written")

    def refused(self, refused: RequestRefused) -> None:
        self.seen.append(f"{refused.kind} refused to {refused.sender}")

    def read_token(self, name: str) -> Callable[[bool], None]:
        return lambda ready: self.seen.append(f"{'ready' if ready else 'failed'} {name}")

    def on_fatal_error(self, error: BaseException | str) -> None:
        self.fatal_errors.append(error)
        self.runner.stop()


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
    assert harness.events() == [ANY_EVENT, FlushCompleted(12)]


def test_one_flush_covers_all_appends_during_the_previous_one(harness: RunnerHarness) -> None:
    for end_offset in (11, 12, 13):
        harness.step(Effects(append=b"batch", append_end_offset=end_offset))
    assert [line for line in harness.done() if line.startswith("flush")] == ["flush 11"]
    harness.manual_disk.finish()
    assert harness.done() == ["flush 13", "flush done"]
    assert harness.runner.is_flushing
    harness.manual_disk.finish()
    assert harness.events()[-2:] == [FlushCompleted(11), FlushCompleted(13)]
    assert not harness.runner.is_flushing


def test_flush_overlapped_by_a_truncation_counts_only_up_to_the_truncation(harness: RunnerHarness) -> None:
    """Records above the truncation are not those that the flush made durable."""
    harness.step(Effects(append=b"old", append_end_offset=15))
    harness.step(Effects(truncate_to=11))
    harness.step(Effects(append=b"new", append_end_offset=15, send_after_flush=[fetch(15)]))
    harness.done()
    harness.manual_disk.finish()
    assert harness.events()[-1] == FlushCompleted(11)
    assert "send FetchRequest" not in harness.done()
    harness.manual_disk.finish()
    assert harness.events()[-1] == FlushCompleted(15)
    assert "send FetchRequest" in harness.done()


def test_held_fetch_of_truncated_records_fails(harness: RunnerHarness) -> None:
    held = fetch(15)
    harness.step(Effects(append=b"old", append_end_offset=15, send_after_flush=[held]))
    harness.step(Effects(truncate_to=11))
    harness.time.end_turn()
    assert harness.events()[-1] == PeerRequestFailed(2, held.request)


def test_control_records_are_encoded_at_the_end_of_the_log(harness: RunnerHarness) -> None:
    harness.step(Effects(append=ControlBatch((KRaftVersion(1),)), append_end_offset=11))
    assert harness.done() == ["append b'control 10 4'", "flush 11"]


def test_flush_is_reported_to_a_leader_only_once_its_epoch_is_saved(harness: RunnerHarness) -> None:
    """Otherwise a record could be committed in an epoch that this node forgets in a crash."""
    harness.step(Effects(save=STATE, append=b"batch", append_end_offset=11))
    (save, flush), harness.manual_disk.queue[:] = list(harness.manual_disk.queue), []
    harness.manual_disk.queue += [flush, save]
    harness.events()
    harness.manual_disk.finish()
    assert harness.events() == []
    harness.manual_disk.finish()
    assert harness.events() == [FlushCompleted(11)]


# A full disk


def test_append_rejected_by_a_full_disk_is_reported_and_not_acknowledged(
    harness: RunnerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.scripted_log.append_error = DiskFull("no room")
    held = fetch(12)
    harness.step(Effects(append=b"batch", append_end_offset=12, send_after_flush=[held, harness.response]))
    assert harness.done() == ["truncated 10", "response"]
    assert shows(caplog.text, "no space", "/data/log")
    assert harness.events() == [ANY_EVENT, StorageFull()]
    harness.time.end_turn()
    assert harness.events() == [PeerRequestFailed(2, held.request)]
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
    assert StorageAvailable() not in harness.events()
    harness.scripted_log.is_roomy = True
    harness.time.pass_ms(3 * FREE_SPACE_CHECK_MS)
    assert harness.events() == [StorageAvailable()]


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
    harness.events()
    harness.step(Effects(send=[VOTE]))
    assert (harness.events(), harness.done()) == ([], [])


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
    harness.events()
    harness.done()
    harness.manual_disk.finish()
    harness.manual_disk.finish()
    harness.time.pass_ms(1000)
    harness.step(Effects(send=[VOTE]))
    assert harness.events() == []
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
    harness.events()
    harness.time.pass_ms(49)
    assert harness.events() == []
    harness.engine.deadline = now + 200
    harness.time.pass_ms(1)
    assert harness.events() == [TimerFired()], "an early timer is harmless"
    harness.engine.deadline = inf
    harness.time.pass_ms(150)
    assert harness.events() == [TimerFired()]
    harness.time.pass_ms(10_000)
    assert harness.events() == []


def test_propose_returns_whether_the_batch_was_appended(harness: RunnerHarness) -> None:
    harness.engine.script.append(Effects(append=b"batch", append_end_offset=12))
    assert harness.runner.propose(b"batch", 12)
    assert isinstance(harness.events()[0], Propose)
    harness.runner.stop()
    assert not harness.runner.propose(b"batch", 14)


def test_follower_stops_before_it_appends_a_record_of_a_later_version(harness: RunnerHarness) -> None:
    harness.engine.is_leader = False
    harness.step(Effects(append=encode_batch(0, 1, 0, [b"\1\x63\0\0"]), append_end_offset=1))
    (fatal_errors,) = harness.fatal_errors
    assert isinstance(fatal_errors, UnknownRecord)
    assert harness.done() == []
