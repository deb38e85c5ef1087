"""The runner of the Raft engine with scripted effects, and a log and a disk that a test controls."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import inf
from typing import Any, cast

from quorumd.errors import ErrorCode, StorageError
from quorumd.ids import OffsetAndEpoch, ReplicaKey
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.consensus.raft_runner import RaftRunner, RunnerOutputs
from quorumd.node.wire.voter_records import VoterRecord
from quorumd.ports import Disk
from quorumd.raft.effects import ControlBatch, Effects, RequestRefused, Respond, Send
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import Event, ReadRequested
from quorumd.raft.messages import FetchRequest, LeaderResponse
from quorumd.raft.quorum_state import QuorumState
from tests.support.node.parts import NodeParts
from tests.support.node.scripted_engine import ScriptedEngine

ANY_EVENT = ReadRequested("any event")


def fetch(offset: int) -> Send:
    return Send(2, FetchRequest(ReplicaKey(1), 1, offset, 1, 500, 1000))


class SteppedEngine(ScriptedEngine):
    """Returns the next effects of `script` at each step, or empty ones; records the events."""

    def __init__(self) -> None:
        super().__init__()
        self.script: list[Effects] = []
        self.events: list[Event] = []
        self.deadline = inf

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

    @cached_property
    def engine(self) -> SteppedEngine:
        return SteppedEngine()

    def step(self, *script: Effects) -> None:
        self.engine.script += script
        self.runner.step(ANY_EVENT)

    def done(self) -> list[str]:
        """The calls since the last `done`."""
        seen, self.seen[:] = list(self.seen), []
        return seen

    def new_events(self) -> list[Event]:
        """The events since the last `new_events`."""
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
