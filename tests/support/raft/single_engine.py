"""A single engine, with a log in memory to which its effects are applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch, ReplicaKey
from quorumd.raft.effects import ControlBatch, Effects, Respond, Send
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import (
    Event,
    FlushCompleted,
    FoundingPermitted,
    PeerDiscovered,
    PeerRequestFailed,
    Propose,
    RequestReceived,
    ResponseReceived,
    TimerFired,
)
from quorumd.raft.messages import (
    NO_TOKEN,
    BeginEpochRequest,
    EndEpochRequest,
    FetchRequest,
    FetchResponse,
    LeaderResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Leader, Role
from quorumd.raft.settings import RaftSettings
from quorumd.raft.voters import VoterAssignment, VoterHistory, VoterSet
from tests.support.raft.quorum import Batch, MemoryLog, decode, encode, endpoint, key, unpinned, voter_set

ME = key(1)


class EngineHarness:
    """Node `me` of voters 1 to 3, whose log has records of `epochs`, beginning with the voter record.

    By default `randrange` returns 0, so that random timeouts are minimal.
    """

    def __init__(
        self,
        epochs: tuple[int, ...] = (1,),
        saved: QuorumState | None = None,
        me: ReplicaKey = ME,
        voters: VoterSet | None = None,
        settings: RaftSettings | None = None,
        randrange: Callable[[int], int] = lambda bound: 0,
        founders: tuple[int, ...] = (1, 2, 3),
    ) -> None:
        self.me = me
        self.log = MemoryLog.of_epochs(*epochs)
        self.history = VoterHistory()
        if epochs:
            self.history.append(0, VoterAssignment(voter_set(1, 2, 3) if voters is None else voters))
        self.settings = settings or RaftSettings()
        self.founders = founders
        self.saved = saved or QuorumState(max(epochs, default=0))
        self.engine = RaftEngine(self.settings, me, self.saved, self.log, self.history, randrange)
        self.now = 1000.0
        self.effects = Effects()
        self.open: dict[int, Request] = {}
        self.sent: list[tuple[int, Request]] = []
        self.saves: list[QuorumState] = []
        self._perform(self.engine.start(self.now))
        self._permit()

    def _permit(self) -> None:
        """Permit an empty log to found a quorum of founders without directory ids."""
        if self.founders and not self.log.end_offset:
            self.step(FoundingPermitted(unpinned(*self.founders)))

    @classmethod
    def restarted(cls, before: EngineHarness) -> EngineHarness:
        """Return the same replica after a restart."""
        after = cls((), before.state, before.me, settings=before.settings, founders=())
        after.founders = before.founders
        after.log, after.history = before.log, before.history
        after.engine = RaftEngine(
            after.settings, after.me, after.saved, after.log, after.history, lambda bound: 0
        )
        after._perform(after.engine.start(after.now))
        after._permit()
        return after

    # Input

    def step(self, event: Event) -> Effects:
        self._perform(self.engine.step(event, self.now))
        return self.effects

    def deliver(self, request: Request, reply: Any = "reply") -> Any:
        """Send a request to the engine; return its response, None while it is delayed."""
        return self.response_to(reply, self.step(RequestReceived(reply, request)))

    def respond(self, peer: int, response: Response) -> Effects:
        """Deliver a response of `peer` to its latest request."""
        return self.step(ResponseReceived(peer, self.open.pop(peer), response))

    def fail(self, peer: int, unsupported: bool = False, refused: bool = False) -> Effects:
        return self.step(PeerRequestFailed(peer, self.open.pop(peer), unsupported, refused))

    def fire_timer(self) -> Effects:
        """Advance time to the deadline."""
        self.now = max(self.now, self.engine.deadline)
        return self.step(TimerFired())

    def wait(self, milliseconds: float) -> Effects:
        """Advance time, with a timer event at the end."""
        self.now += milliseconds
        return self.step(TimerFired())

    def flush(self) -> Effects:
        return self.step(FlushCompleted(self.log.end_offset))

    def discover(self, *keys: ReplicaKey) -> None:
        for peer in keys:
            self.step(PeerDiscovered(peer, endpoint(peer.id)))

    def propose(self, body: bytes = b"data") -> Effects:
        return self.step(Propose(body, self.log.end_offset + 1))

    # Output

    @property
    def state(self) -> QuorumState:
        return self.saves[-1] if self.saves else self.saved

    @staticmethod
    def response_to(reply: Any, effects: Effects) -> Any:
        for message in [*effects.send, *effects.send_after_flush]:
            if isinstance(message, Respond) and message.reply == reply:
                return message.response
        return None

    def requests(self, kind: type[Any]) -> dict[int, Any]:
        """Return the requests of one type that the last step sent, by peer."""
        messages = [*self.effects.send, *self.effects.send_after_flush]
        return {m.peer: m.request for m in messages if isinstance(m, Send) and isinstance(m.request, kind)}

    def _perform(self, effects: Effects) -> None:
        self.effects = effects
        if effects.save is not None:
            self.saves.append(effects.save)
        if effects.truncate_to is not None:
            self.log.truncate(effects.truncate_to)
        if effects.reset_to_snapshot is not None:
            self.log.reset_to_snapshot(effects.reset_to_snapshot)
        part = effects.snapshot_chunk
        if part is not None:
            self.log.part = part.snapshot, b"x" * part.position + part.data
        body = effects.append
        if isinstance(body, ControlBatch) or (body is not None and self.engine.is_leader):
            base = self.log.end_offset
            self.log.batches.append(Batch(base, effects.append_end_offset, self.engine.epoch, body))
        elif body is not None:
            self.log.batches += decode(body)
        for message in [*effects.send, *effects.send_after_flush]:
            if isinstance(message, Send):
                self.open[message.peer] = message.request
                self.sent.append((message.peer, message.request))

    # Role setup

    def to_prospective(self) -> EngineHarness:
        while self.engine.role is not Role.PROSPECTIVE:
            self.fire_timer()
        return self

    def to_candidate(self) -> EngineHarness:
        self.to_prospective()
        for peer in list(self.open):
            if self.engine.role is Role.PROSPECTIVE:
                self.respond(peer, granted(self.engine.epoch))
        assert self.engine.role is Role.CANDIDATE
        return self

    def to_leader(self, committed: bool = True) -> EngineHarness:
        self.to_candidate()
        self.respond(2, granted(self.engine.epoch))
        assert self.engine.role is Role.LEADER
        if committed:
            self.flush()
            self.deliver(self.fetch_of(2))
            assert self.engine.high_watermark > self.engine.leader_epoch_start
        return self

    def to_follower(self, leader: int = 2, epoch: int | None = None) -> EngineHarness:
        epoch = self.engine.epoch if epoch is None else epoch
        assert self.deliver(begin(leader, epoch, self.me)).error is ErrorCode.NONE
        return self

    def to_resigned(self) -> EngineHarness:
        self.to_leader()
        while self.engine.role is not Role.RESIGNED:
            self.fire_timer()
        return self

    # Messages of peers

    @property
    def token(self) -> int:
        """The token of the engine's epoch while it leads."""
        state = self.engine._replica.state
        return state.token if isinstance(state, Leader) else NO_TOKEN

    def fetch_of(self, peer: int, offset: int | None = None, wait: int = 500, **fields: Any) -> FetchRequest:
        """Build a fetch of a voter that has the log up to `offset`, by default the whole log."""
        offset = self.log.end_offset if offset is None else offset
        fields = {"replica": key(peer), "epoch": self.engine.epoch, "max_bytes": 1000} | fields
        fields.setdefault("token", self.token)
        if "last_epoch" not in fields:
            fields["last_epoch"] = self.log.epochs[offset - 1] if offset else 0
        return FetchRequest(offset=offset, max_wait_ms=wait, **fields)

    def records(
        self, *batches: Batch, high_watermark: int = -1, leader: int = 2, **fields: Any
    ) -> FetchResponse:
        data, headers = encode(batches)
        epoch = self.engine.epoch
        return FetchResponse(
            ErrorCode.NONE, leader, epoch, high_watermark, records=data, batches=headers, **fields
        )


def granted(epoch: int) -> VoteResponse:
    return VoteResponse(ErrorCode.NONE, NO_NODE, epoch, True)


def refused(epoch: int, leader: int = NO_NODE) -> VoteResponse:
    return VoteResponse(ErrorCode.NONE, leader, epoch, False)


def vote(
    epoch: int, last: tuple[int, int], candidate: int = 2, me: ReplicaKey = ME, pre: bool = False
) -> VoteRequest:
    """Build a request for a vote. `last` is the candidate's log end offset, and the epoch of its last record."""
    return VoteRequest(epoch, key(candidate), me, OffsetAndEpoch(*last), pre)


def begin(leader: int, epoch: int, me: ReplicaKey = ME) -> BeginEpochRequest:
    return BeginEpochRequest(leader, epoch, me)


def end(leader: int, epoch: int, *successors: int) -> EndEpochRequest:
    return EndEpochRequest(leader, epoch, leader, tuple(key(n) for n in successors))


def fetch_error(error: ErrorCode, leader: int, epoch: int) -> FetchResponse:
    return FetchResponse(error, leader, epoch)


def accepted(leader: int, epoch: int) -> LeaderResponse:
    return LeaderResponse(ErrorCode.NONE, leader, epoch)
