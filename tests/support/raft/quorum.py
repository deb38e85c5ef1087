"""Raft engines that exchange messages, with logs in memory and virtual time.

Unlike the simulator, this runs only the engine of each node. Links can be cut in one direction, and nodes crash and
lose unflushed records. Raft's invariants are checked after every step (`Quorum.check`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Any

from quorumd.ids import ZERO_UUID, Endpoint, KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.raft.effects import ControlBatch, Effects, Respond, Send
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import (
    Event,
    FlushCompleted,
    FoundingPermitted,
    PeerDiscovered,
    PeerRequestFailed,
    Propose,
    ReadRequested,
    RequestReceived,
    ResponseReceived,
    TimerFired,
)
from quorumd.raft.messages import FetchedBatch, FetchResponse, Request, Response
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from quorumd.raft.settings import RaftSettings
from quorumd.raft.voters import Voter, VoterAssignment, VoterHistory, VoterSet

REQUEST_TIMEOUT_MS = 2000


def directory(node_id: int, incarnation: int = 1) -> KafkaUuid:
    return KafkaUuid(bytes([incarnation, node_id]) * 8)


def key(node_id: int, incarnation: int = 1) -> ReplicaKey:
    return ReplicaKey(node_id, directory(node_id, incarnation))


def endpoint(node_id: int) -> Endpoint:
    return Endpoint("CONTROLLER", "localhost", 9000 + node_id)


def voter_set(*ids: int) -> VoterSet:
    return VoterSet(tuple(Voter(key(node_id), (endpoint(node_id),)) for node_id in sorted(ids)))


def unpinned(*ids: int) -> VoterSet:
    """Return voters without directory ids and addresses."""
    return VoterSet(tuple(Voter(ReplicaKey(node_id, ZERO_UUID), ()) for node_id in sorted(ids)))


@dataclass(frozen=True)
class Batch:
    """One batch: its offsets, the end exclusive, its epoch, and its body as the engine appended it."""

    base: int
    end: int
    epoch: int
    body: Any


@dataclass
class MemoryLog:
    """A LogView that keeps batches as objects. Encoded, a batch is its index in the table BODIES."""

    batches: list[Batch] = field(default_factory=list)
    start_offset: int = 0
    start_epoch: int = 0
    latest_snapshot: OffsetAndEpoch | None = None
    part: tuple[OffsetAndEpoch, bytes] | None = None
    """The fetched part of a snapshot."""

    def fetched_bytes(self, snapshot: OffsetAndEpoch) -> int:
        return len(self.part[1]) if self.part is not None and self.part[0] == snapshot else 0

    @classmethod
    def of_epochs(cls, *epochs: int) -> MemoryLog:
        """Create a log with one record per batch, of these epochs, like the figures of the Raft paper."""
        return cls([Batch(offset, offset + 1, epoch, b"x") for offset, epoch in enumerate(epochs)])

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end if self.batches else self.start_offset

    @property
    def last_epoch(self) -> int:
        return self.batches[-1].epoch if self.batches else self.start_epoch

    @property
    def epochs(self) -> list[int]:
        return [batch.epoch for batch in self.batches for _ in range(batch.base, batch.end)]

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        for batch in reversed(self.batches):
            if batch.epoch <= epoch:
                return OffsetAndEpoch(batch.end, batch.epoch)
        return OffsetAndEpoch(self.start_offset, self.start_epoch if epoch >= self.start_epoch else 0)

    def reset_to_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        self.batches = []
        self.start_offset, self.start_epoch = snapshot

    def truncate(self, end_offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.end <= end_offset]

    def voter_history(self) -> VoterHistory:
        history = VoterHistory()
        for batch in self.batches:
            for offset, assignment in voters_in(batch):
                history.append(offset, assignment)
        return history

    def read(self, offset: int, end_offset: int = -1) -> list[Batch]:
        return [b for b in self.batches if b.base >= offset and (end_offset < 0 or b.end <= end_offset)]


def voters_in(batch: Batch) -> tuple[tuple[int, VoterAssignment], ...]:
    if not isinstance(batch.body, ControlBatch):
        return ()
    records = enumerate(batch.body.records)
    return tuple((batch.base + n, record) for n, record in records if isinstance(record, VoterAssignment))


BODIES: list[Batch] = []


def encode(batches: Iterable[Batch]) -> tuple[bytes, tuple[FetchedBatch, ...]]:
    data = bytearray()
    headers = []
    for batch in batches:
        headers.append(FetchedBatch(batch.base, batch.end, batch.epoch, len(data), voters_in(batch)))
        data += len(BODIES).to_bytes(8, "big")
        BODIES.append(batch)
    return bytes(data), tuple(headers)


def decode(data: bytes) -> list[Batch]:
    return [BODIES[int.from_bytes(data[n : n + 8], "big")] for n in range(0, len(data), 8)]


class Node:
    """One engine with its log and durable state."""

    def __init__(self, key: ReplicaKey, settings: RaftSettings, seed: int) -> None:
        self.key = key
        self.settings = settings
        self.random = Random(seed * 1000 + key.id)
        self.saved = QuorumState()
        self.log = MemoryLog()
        self.durable = 0
        self.up = False
        self.flushes = True
        self.held: list[Send | Respond] = []
        self.ready: dict[Any, int] = {}
        self.failed: list[Any] = []
        self.committed = -1
        self.saves: list[QuorumState] = []
        self.engine: RaftEngine

    @property
    def id(self) -> int:
        return self.key.id

    def create_engine(self) -> None:
        history = self.log.voter_history()
        args = (self.settings, self.key, self.saved, self.log, history, self.random.randrange)
        self.engine = RaftEngine(*args)
        self.up, self.committed, self.held = True, -1, []


class Quorum:
    """Voters 1..n and observers, the network between them, and a clock."""

    def __init__(
        self,
        voters: int = 3,
        observers: int = 0,
        seed: int = 0,
        settings: RaftSettings | None = None,
        discovered: bool = True,
    ) -> None:
        ids = tuple(range(1, voters + 1))
        self.settings = settings or RaftSettings()
        self.founders = ids
        self.now = 0.0
        self.nodes = {
            n: Node(key(n), self.settings, seed) for n in [*ids, *range(voters + 1, voters + observers + 1)]
        }
        self.cuts: set[tuple[int, int]] = set()
        self.leaders: dict[int, int] = {}
        self.agreed: list[Batch] = []
        self.agreed_in: list[int] = []
        self.trace: list[tuple[float, int, int, Request]] = []
        self.discovered = discovered
        self.waiting: list[tuple[int, Callable[[], None]]] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    # Driving

    def start(self, *ids: int) -> None:
        for node_id in ids or tuple(self.nodes):
            node = self.nodes[node_id]
            node.create_engine()
            self.perform(node, node.engine.start(self.now))
            if self.discovered:
                for other in self.nodes:
                    self.step(node_id, PeerDiscovered(self.nodes[other].key, endpoint(other)))
            if node_id in self.founders and node.key == key(node_id) and not node.log.end_offset:
                self.step(node_id, FoundingPermitted(voter_set(*self.founders)))

    def set_log(self, node_id: int, *epochs: int, epoch: int = 0) -> None:
        """Set a durable log of one record per batch, the voter record first, before the node starts."""
        node = self.nodes[node_id]
        node.log = MemoryLog.of_epochs(*epochs)
        first = ControlBatch((VoterAssignment(voter_set(*self.founders)),))
        node.log.batches[0] = Batch(0, 1, epochs[0], first)
        node.durable = len(epochs)
        node.saved = QuorumState(epoch or epochs[-1])

    def crash(self, node_id: int) -> None:
        """Kill the process; unflushed records are lost."""
        node = self.nodes[node_id]
        node.up = False
        node.log.truncate(node.durable)
        waiting, self.waiting = self.waiting, []
        for target, connection_lost in waiting:
            if target == node_id:
                self.at(1, connection_lost)
            else:
                self.waiting.append((target, connection_lost))

    def wipe(self, node_id: int, incarnation: int = 2) -> None:
        """Replace the disk of the node."""
        self.crash(node_id)
        old = self.nodes[node_id]
        self.nodes[node_id] = Node(key(node_id, incarnation), old.settings, incarnation)

    def cut(self, source: int, target: int, both: bool = True) -> None:
        self.cuts.add((source, target))
        if both:
            self.cuts.add((target, source))

    def isolate(self, node_id: int) -> None:
        for other in self.nodes:
            self.cut(node_id, other)

    def heal(self) -> None:
        self.cuts.clear()

    def step(self, node_id: int, event: Event) -> Effects:
        node = self.nodes[node_id]
        effects = node.engine.step(event, self.now)
        self.perform(node, effects)
        return effects

    def propose(self, node_id: int, body: bytes = b"data", records: int = 1) -> int:
        """Append one batch at a leader; return the offset after it."""
        node = self.nodes[node_id]
        end = node.log.end_offset + records
        self.step(node_id, Propose(body, end))
        return end

    def read(self, node_id: int, token: Any) -> Effects:
        return self.step(node_id, ReadRequested(token))

    def run(self, duration_ms: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Advance time until `until` holds, at most by `duration_ms`; return whether it holds."""
        end = self.now + duration_ms
        while not until():
            due = min((n.engine.deadline for n in self.nodes.values() if n.up), default=inf)
            message = self._heap[0][0] if self._heap else inf
            if min(due, message) > end:
                self.now = end
                return until()
            self.now = max(self.now, min(due, message))
            if message <= due:
                heappop(self._heap)[2]()
            else:
                for node in list(self.nodes.values()):
                    if node.up and node.engine.deadline <= self.now:
                        self.step(node.id, TimerFired())
        return True

    def run_to_leader(self, duration_ms: float = 30_000) -> int:
        """Run until a majority follows a leader; return its id."""
        assert self.run(duration_ms, lambda: self.leader() is not None), f"no leader: {self}"
        leader = self.leader()
        assert leader is not None
        return leader

    def leader(self) -> int | None:
        up = [node for node in self.nodes.values() if node.up]
        for node in up:
            if node.engine.is_leader and node.engine.high_watermark >= 0:
                epoch = node.engine.epoch
                followers = [n for n in up if (n.engine.leader_id, n.engine.epoch) == (node.id, epoch)]
                if len(followers) * 2 > len(self.founders):
                    return node.id
        return None

    def leader_of_voters(self) -> int | None:
        """Return the leader of the newest epoch that has committed in its epoch, whatever the voters are."""
        leading = [
            n for n in self.nodes.values() if n.up and n.engine.is_leader and n.engine.high_watermark >= 0
        ]
        return max(leading, key=lambda n: n.engine.epoch).id if leading else None

    def run_to_commit(self, offset: int, *ids: int, duration_ms: float = 30_000) -> None:
        nodes = [self.nodes[n] for n in ids or tuple(self.nodes)]
        reached = self.run(duration_ms, lambda: all(node.committed >= offset for node in nodes))
        assert reached, f"not committed up to {offset}: {self}"

    def __repr__(self) -> str:
        return "\n".join(
            repr(node.engine) if node.up else f"node {node.id} down" for node in self.nodes.values()
        )

    # Environment

    def at(self, delay: float, action: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._heap, (self.now + delay, self._count, action))

    def perform(self, node: Node, effects: Effects) -> None:
        assert effects.fatal is None, effects.fatal
        if effects.save is not None:
            assert effects.save.epoch >= node.saved.epoch
            node.saved = effects.save
            node.saves.append(effects.save)
        if effects.truncate_to is not None:
            node.log.truncate(effects.truncate_to)
            node.durable = min(node.durable, effects.truncate_to)
        if effects.append is not None:
            self.append(node, effects)
        for message in effects.send:
            self.dispatch(node, message)
        node.held += effects.send_after_flush
        if effects.new_high_watermark is not None:
            assert effects.new_high_watermark > node.committed
            node.committed = effects.new_high_watermark
        for read in effects.reads_ready:
            node.ready[read.token] = read.offset
        node.failed += effects.reads_failed
        for response in effects.voter_change_results:
            response.token(response)
        self.check(node)
        if node.flushes:
            self.flush(node)

    def append(self, node: Node, effects: Effects) -> None:
        body, base = effects.append, node.log.end_offset
        if isinstance(body, ControlBatch) or node.engine.is_leader:
            batches = [Batch(base, effects.append_end_offset, node.engine.epoch, body)]
        else:
            assert isinstance(body, bytes)
            batches = decode(body)
        for batch in batches:
            assert batch.base == node.log.end_offset, "a gap or an overlap"
            assert batch.epoch >= node.log.last_epoch
            node.log.batches.append(batch)
        assert node.log.end_offset == effects.append_end_offset

    def flush(self, node: Node) -> None:
        held, node.held = node.held, []
        changed = node.durable != node.log.end_offset
        node.durable = node.log.end_offset
        for message in held:
            self.dispatch(node, message)
        if changed:
            self.step(node.id, FlushCompleted(node.durable))

    def dispatch(self, node: Node, message: Send | Respond) -> None:
        if isinstance(message, Respond):
            response = message.response
            if isinstance(response, FetchResponse) and response.read_start_offset >= 0:
                found = node.log.read(response.read_start_offset, response.read_max_offset)
                assert not found or found[0].base == response.read_start_offset
                response.records, response.batches = encode(found)
            message.reply(response)
            return
        self.trace.append((self.now, node.id, message.peer, message.request))
        self.at(1, lambda: self.deliver(node, node.engine, message))

    def deliver(self, source: Node, engine: RaftEngine, message: Send) -> None:
        target = self.nodes.get(message.peer)
        waiting = [True]

        def deliver_event(event: Event) -> None:
            if waiting and source.up and source.engine is engine:
                waiting.clear()
                self.step(source.id, event)

        def respond(response: Response) -> None:
            assert target is not None
            if (target.id, source.id) not in self.cuts:
                self.at(1, lambda: deliver_event(ResponseReceived(message.peer, message.request, response)))

        if (source.id, message.peer) in self.cuts:
            self.at(
                REQUEST_TIMEOUT_MS, lambda: deliver_event(PeerRequestFailed(message.peer, message.request))
            )
        elif target is None or not target.up:
            deliver_event(PeerRequestFailed(message.peer, message.request, refused=True))
        else:
            lost = PeerRequestFailed(message.peer, message.request)
            self.at(REQUEST_TIMEOUT_MS, lambda: deliver_event(lost))
            self.waiting.append((target.id, lambda: deliver_event(lost)))
            self.step(target.id, RequestReceived(respond, message.request))

    # Invariants after every step

    def check(self, node: Node) -> None:
        engine = node.engine
        assert engine.epoch == node.saved.epoch
        if engine.is_leader:
            assert self.leaders.setdefault(engine.epoch, node.id) == node.id, "election safety"
        known = [batch for batch in node.log.batches if batch.end <= node.committed]
        for mine, agreed in zip(known, self.agreed, strict=False):
            assert mine == agreed, "state machine safety"
        for batch in known[len(self.agreed) :]:
            self.agreed.append(batch)
            self.agreed_in.append(engine.epoch)
        if engine.role is Role.LEADER:
            earlier = sum(1 for epoch in self.agreed_in if epoch < engine.epoch)
            assert node.log.batches[:earlier] == self.agreed[:earlier], "leader completeness"
