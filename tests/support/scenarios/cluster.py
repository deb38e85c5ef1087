"""The engines of a scenario, with links and disks that can be held, and a transcript of what they do.

Unlike `Quorum`, whose network has a delay, here a message arrives immediately unless its link is held
or cut, so that transcripts are short. Messages of a node go through its own `DurabilityGate`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop
from math import inf

from quorumd.ids import ReplicaKey
from quorumd.node.consensus.durability_gate import DurabilityGate
from quorumd.raft.effects import Effects, Respond, Send
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import (
    Event,
    FlushCompleted,
    FoundingPermitted,
    PeerDiscovered,
    PeerRequestFailed,
    RequestReceived,
    ResponseReceived,
    StorageAvailable,
    StorageFull,
    TimerFired,
)
from quorumd.raft.messages import FetchResponse, Response
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.settings import RaftSettings
from tests.support.raft.quorum import REQUEST_TIMEOUT_MS, Node, Quorum, encode, endpoint, key, voter_set
from tests.support.scenarios.words import (
    describe_request,
    describe_response,
    describe_role,
    describe_state,
    records,
)

MAX_STEPS = 2000
"""More events than this at one time mean that nodes exchange messages endlessly."""

Link = tuple[int, int]


class ScenarioNode(Node):
    """A node whose random timeouts depend on its rank: rank 0 draws the shortest, the last rank the longest."""

    def __init__(self, key: ReplicaKey, settings: RaftSettings, ranks: dict[int, int]) -> None:
        super().__init__(key, settings, seed=0)
        self.ranks = ranks
        self.durable_state = QuorumState()
        self.saving: deque[QuorumState] = deque()
        self.full = False
        self.gate: DurabilityGate

    def randrange(self, bound: int) -> int:
        return bound * (self.ranks[self.id] + 1) // (len(self.ranks) + 1)

    def create_engine(self) -> None:
        history = self.log.voter_history()
        self.engine = RaftEngine(self.settings, self.key, self.saved, self.log, history, self.randrange)
        self.up, self.committed = True, -1
        self.saving.clear()


@dataclass
class InFlightMessage:
    """A message in flight. `fate` returns why it has no effect, "" if it has one; `arrive` delivers it."""

    link: Link
    text: str
    fate: Callable[[], str]
    arrive: Callable[[], None]


@dataclass
class Transcript:
    """The lines of one command, without repetitions."""

    lines: list[str] = field(default_factory=list)
    began: float = 0.0
    _shown: float = 0.0
    _seen: set[str] = field(default_factory=set)

    def begin(self, now: float) -> None:
        self.lines, self._seen = [], set()
        self.began = self._shown = now

    def add(self, now: float, who: str, text: str) -> None:
        line = f"  {who:<7} {text}"
        if not text or line in self._seen:
            return
        self._seen.add(line)
        if now != self._shown:
            self._shown = now
            self.lines.append(f"  after {now - self.began:g} ms")
        self.lines.append(line)


class ScenarioQuorum(Quorum):
    """Nodes 1..voters are voters, the others observers. No node starts by itself."""

    def __init__(self, voters: int, observers: int = 0) -> None:
        super().__init__(voters, observers)
        self.ranks = {node_id: rank for rank, node_id in enumerate(self.nodes)}
        self.nodes = {n: ScenarioNode(key(n), self.settings, self.ranks) for n in self.ranks}
        self.transcript = Transcript()
        self.held_links: dict[Link, deque[InFlightMessage]] = {}
        self.in_flight: deque[InFlightMessage] = deque()
        self.last_fetches: dict[tuple[Link, str], str] = {}

    def record(self, who: int | str, text: str) -> None:
        self.transcript.add(self.now, str(who), text)

    def node(self, node_id: int) -> ScenarioNode:
        node = self.nodes[node_id]
        assert isinstance(node, ScenarioNode)
        return node

    # Processes of nodes

    def start(self, *ids: int) -> None:
        for node_id in ids or tuple(self.nodes):
            node = self.node(node_id)
            node.create_engine()
            node.gate = DurabilityGate(self.dispatcher(node), node.durable)
            effects = node.engine.start(self.now)
            self.perform(node, effects, f"starts: {describe_role(node.engine)}")
            self.step(node_id, FlushCompleted(node.durable))
            for other in self.nodes:
                self.step(node_id, PeerDiscovered(self.nodes[other].key, endpoint(other)))
            if node_id in self.founders and node.key == key(node_id) and not node.log.end_offset:
                self.step(node_id, FoundingPermitted(voter_set(*self.founders)))

    def dispatcher(self, node: Node) -> Callable[[Send | Respond], None]:
        return lambda message: self.dispatch(node, message)

    def crash(self, node_id: int) -> None:
        """Lose unflushed records. Peers with pending requests see a lost connection if their link works."""
        node = self.node(node_id)
        losses = [records(node.durable, node.log.end_offset)] if node.durable < node.log.end_offset else []
        losses += [describe_state(node.saving[-1])] if node.saving else []
        self.record(node_id, " and ".join(["crashes", *(f"loses {loss}" for loss in losses)]))
        node.up = False
        node.saved = node.durable_state
        node.log.truncate(node.durable)
        waiting, self.waiting = self.waiting, []
        for target, connection_lost in waiting:
            if target == node_id:
                self.at(0, connection_lost)
            else:
                self.waiting.append((target, connection_lost))

    def wipe(self, node_id: int, incarnation: int = 2) -> None:
        old = self.node(node_id)
        if old.up:
            self.crash(node_id)
        self.nodes[node_id] = ScenarioNode(key(node_id, incarnation), old.settings, self.ranks)
        self.record(node_id, "has a new, empty disk")

    # Time

    def settle(self) -> None:
        """Run every event that is due now."""
        for _ in range(MAX_STEPS):
            if self.in_flight:
                message_in_flight = self.in_flight.popleft()
                self.deliver(message_in_flight, shown=self.is_reportable(message_in_flight))
            elif self._heap and self._heap[0][0] <= self.now:
                heappop(self._heap)[2]()
            elif not self.fire_timers():
                return
        raise AssertionError("endless exchange of messages:\n" + "\n".join(self.transcript.lines[-20:]))

    def fire_timers(self) -> bool:
        due = [node for node in self.nodes.values() if node.up and node.engine.deadline <= self.now]
        for node in due:
            self.step(node.id, TimerFired())
        return bool(due)

    def advance(self, milliseconds: float, until: Callable[[], bool] = lambda: False) -> None:
        end = self.now + milliseconds
        self.settle()
        while not until():
            deadlines = [node.engine.deadline for node in self.nodes.values() if node.up]
            due = min([*deadlines, self._heap[0][0] if self._heap else inf])
            if due > end:
                self.now = end
                return
            self.now = max(self.now, due)
            self.settle()

    # Links

    def hold(self, link: Link) -> None:
        self.held_links.setdefault(link, deque())

    def release(self, link: Link) -> None:
        self.in_flight += self.held_links.pop(link, ())

    def post(self, message_in_flight: InFlightMessage) -> None:
        way = f"{message_in_flight.link[0]} -> {message_in_flight.link[1]}"
        if message_in_flight.link in self.cuts:
            self.record(way, message_in_flight.text and f"{message_in_flight.text} (lost)")
        elif message_in_flight.link in self.held_links:
            self.held_links[message_in_flight.link].append(message_in_flight)
            self.record(way, message_in_flight.text and f"{message_in_flight.text} (held)")
        else:
            self.in_flight.append(message_in_flight)

    def deliver(self, message_in_flight: InFlightMessage, shown: bool = True) -> None:
        source, target = message_in_flight.link
        if shown:
            self.record(
                f"{source} -> {target}",
                message_in_flight.text and message_in_flight.text + message_in_flight.fate(),
            )
        message_in_flight.arrive()

    def is_reportable(self, message_in_flight: InFlightMessage) -> bool:
        """Whether a message belongs in the transcript: repeated fetches and their responses do not."""
        kind = message_in_flight.text[: len("Fetch:")]
        if kind not in ("Fetch ", "Fetch:"):
            return True
        text = message_in_flight.text + message_in_flight.fate()
        last = self.last_fetches.get((message_in_flight.link, kind))
        self.last_fetches[message_in_flight.link, kind] = text
        return text != last

    def dispatch(self, node: Node, message: Send | Respond) -> None:
        if isinstance(message, Send):
            self.trace.append((self.now, node.id, message.peer, message.request))
            self.send(node, node.engine, message)
            return
        response = message.response
        if isinstance(response, FetchResponse) and response.read_start_offset >= 0:
            response.records, response.batches = encode(
                node.log.read(response.read_start_offset, response.read_max_offset)
            )
        message.reply(response)

    def send(self, source: Node, engine: RaftEngine, message: Send) -> None:
        """Deliver a request and its response; the request times out if that takes too long."""
        request, target = message.request, message.peer
        waiting = [True]

        def is_awaited() -> bool:
            return bool(waiting) and source.up and source.engine is engine

        def deliver_event(event: Event) -> None:
            awaited = is_awaited()
            waiting.clear()
            if awaited:
                self.step(source.id, event)

        def lateness() -> str:
            return "" if is_awaited() else " (too late)"

        def connection_lost() -> None:
            ways = {(source.id, target), (target, source.id)}
            if not ways & (self.cuts | set(self.held_links)):
                deliver_event(PeerRequestFailed(target, request))

        def respond(response: Response) -> None:
            event = ResponseReceived(target, request, response)
            text = describe_response(request, response)
            self.post(InFlightMessage((target, source.id), text, lateness, lambda: deliver_event(event)))

        def arrive() -> None:
            if self.nodes[target].up:
                self.waiting.append((target, connection_lost))
                self.step(target, RequestReceived(respond, request))
            else:
                deliver_event(PeerRequestFailed(target, request, refused=True))

        def absence() -> str:
            return "" if self.nodes[target].up else " (not running)"

        self.at(REQUEST_TIMEOUT_MS, lambda: deliver_event(PeerRequestFailed(target, request)))
        self.post(InFlightMessage((source.id, target), describe_request(request), absence, arrive))

    # What a node does in one step

    def step(self, node_id: int, event: Event) -> Effects:
        node = self.node(node_id)
        before = describe_role(node.engine)
        effects = node.engine.step(event, self.now)
        after = describe_role(node.engine)
        self.perform(node, effects, after if after != before else "")
        return effects

    def perform(self, node: Node, effects: Effects, role: str = "") -> None:
        """Perform effects as `quorumd.node.consensus.raft_runner` does, with a line in the transcript."""
        assert isinstance(node, ScenarioNode)
        if effects.fatal is not None:
            node.up = False
            self.record(node.id, f"stops: {effects.fatal}")
            return
        words = [role] if role else []
        if effects.save is not None:
            words.append(f"{'saves' if node.flushes else 'begins to save'} {describe_state(effects.save)}")
            node.saved = effects.save
            node.saving.append(effects.save)
            node.gate.save_started()
        if effects.truncate_to is not None:
            words.append(f"truncates {records(effects.truncate_to, node.log.end_offset)}")
            self.truncate(node, effects.truncate_to)
        refused = node.full and effects.append is not None
        if refused:
            words.append("has no free space for the records")
        elif effects.append is not None:
            words.append(f"appends {records(node.log.end_offset, effects.append_end_offset)}")
            self.append(node, effects)
        if effects.new_high_watermark is not None and effects.new_high_watermark > node.committed:
            node.committed = min(effects.new_high_watermark, node.log.end_offset)
            words.append(f"high watermark {node.committed}")
        words += [f"completes read {ready.token} at {ready.offset}" for ready in effects.reads_ready]
        words += [f"fails read {token}" for token in effects.reads_failed]
        self.record(node.id, "; ".join(words))
        node.gate.release_after(effects.send)
        self.release_after(node, effects, refused)
        self.check(node)
        if node.flushes:
            self.flush(node)

    def release_after(self, node: ScenarioNode, effects: Effects, refused: bool) -> None:
        if not refused:
            node.gate.release_after(effects.send_after_flush, node.log.end_offset)
            return
        for message in effects.send_after_flush:
            if isinstance(message, Send):
                self.fail_soon(node, message)
        self.step(node.id, StorageFull())

    def fail_soon(self, node: Node, send: Send) -> None:
        self.at(0, lambda: self.record_failure(node.id, send))

    def record_failure(self, node_id: int, send: Send) -> None:
        self.step(node_id, PeerRequestFailed(send.peer, send.request))

    def truncate(self, node: ScenarioNode, end_offset: int) -> None:
        node.log.truncate(end_offset)
        node.durable = min(node.durable, end_offset)
        for send in node.gate.truncated(end_offset):
            self.fail_soon(node, send)

    def flush(self, node: Node) -> None:
        """Complete the disk operations, and release the messages that wait for them."""
        assert isinstance(node, ScenarioNode)
        changed = node.durable != node.log.end_offset
        while node.saving:
            node.durable_state = node.saving.popleft()
            node.gate.save_completed()
        node.durable = node.log.end_offset
        node.gate.flushed(node.durable)
        if changed:
            self.step(node.id, FlushCompleted(node.durable))

    def set_disk_full(self, node_id: int, full: bool) -> None:
        self.node(node_id).full = full
        if not full:
            self.step(node_id, StorageAvailable())

    def set_log(self, node_id: int, *epochs: int, epoch: int = 0) -> None:
        super().set_log(node_id, *epochs, epoch=epoch)
        self.node(node_id).durable_state = self.node(node_id).saved

    def set_state(self, node_id: int, state: QuorumState) -> None:
        self.node(node_id).saved = self.node(node_id).durable_state = state
