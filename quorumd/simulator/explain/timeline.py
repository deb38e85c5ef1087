"""The timeline of one run: messages, roles, processes, disks and client operations.

A timeline only observes: the cluster after every event, and the messages through a `WireTap`. It does not affect the
run.
"""

from __future__ import annotations

import json
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from operator import attrgetter

from quorumd.node.node import Node
from quorumd.simulator.checkers.linearizability import Operation
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment.event_heap import EventHeap
from quorumd.simulator.explain.wire_tap import Message, WireTap
from quorumd.simulator.inspection.inspector import QUORUM_STATE
from quorumd.simulator.report import Violation
from quorumd.simulator.workload import History

CLIENTS = "clients"
"""The lane of all clients, and of entries without a node."""
KINDS = ("fault", "process", "role", "disk", "message", "client", "verdict")


@dataclass(slots=True)
class Entry:
    """One entry of the timeline. `lane` is its place: `node 1`, or CLIENTS."""

    time_ms: float
    kind: str
    lane: str
    text: str
    details: list[str] = field(default_factory=list)
    message: Message | None = None
    to: str = ""
    """Target lane of a message."""
    epoch: int = -1
    """Epoch of a role."""

    @property
    def is_idle(self) -> bool:
        return self.message is not None and self.message.is_idle

    def as_json(self) -> dict[str, object]:
        """Return JSON-ready values for `--output json`."""
        plain: dict[str, object] = {
            "time_ms": self.time_ms, "kind": self.kind, "where": self.lane, "what": self.text,
            "details": self.details,
        }  # fmt: skip
        if self.message is not None:
            message = self.message
            plain |= {"to": self.to, "arrived_ms": message.arrived_ms, "is_under_way": message.in_flight}
        return plain

    def __str__(self) -> str:
        text = "; ".join([self.text, *self.details]) if self.kind != "message" else self._sent()
        return f"{self.time_ms:12.3f}  {self.lane:<8}  {text}"

    def _sent(self) -> str:
        assert self.message is not None
        arrived = self.message.arrived_ms
        if arrived is not None:
            how = f"arrives after {arrived - self.time_ms:.1f} ms"
        else:
            how = "in flight at the end" if self.message.in_flight else "never arrives"
        facts = f" {', '.join(self.details)}" if self.details else ""
        return f"-> {self.to}: {self.text}{facts}  [{how}]"


@dataclass(slots=True)
class _NodeView:
    """The last observation of one node."""

    incarnation: int = 0
    runs: bool = False
    opened: bool = False
    """Whether this incarnation has opened its log."""
    role: str = ""
    epoch: int = 0
    leader_id: int = -1
    log_end: int = 0
    durable_end: int = 0
    high_watermark: int = -1
    saved: bytes = b""


class Timeline:
    """Records the entries of a run. Pass it to a `Simulation`, and read `entries` after the run."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.lanes: list[str] = []
        self._heap: EventHeap
        self._cluster: Cluster
        self._history: History
        self._tap: WireTap
        self._seen: dict[int, _NodeView] = {}
        self._blocked: set[tuple[str, str]] = set()
        self._calls_reported = 0
        self._open: list[Operation] = []

    # ---- called by the simulation

    def attach(self, heap: EventHeap, cluster: Cluster, history: History) -> None:
        self._heap, self._cluster, self._history = heap, cluster, history
        self.lanes = [CLIENTS, *(f"node {node_id}" for node_id in cluster.machines)]
        self._seen = {node_id: _NodeView() for node_id in cluster.machines}
        self._tap = cluster.network.tap = WireTap(lambda: heap.now_ms, self._on_message)

    def fault(self, number: int, name: str) -> None:
        """Record an injected fault; the next observation shows its effects."""
        self._report("fault", CLIENTS, f"fault {number}: {name}")

    def ended(self, violations: Sequence[Violation]) -> None:
        self._tap.ended()
        for violation in violations:
            self._report("verdict", CLIENTS, f"BROKEN: {violation.invariant}", [violation.text])
        if not violations:
            self._report("verdict", CLIENTS, "every invariant held")

    def look(self) -> None:
        """Observe the cluster after an event."""
        self._observe_paths()
        self._observe_clients()
        for node_id, machine in self._cluster.machines.items():
            self._observe(machine, self._seen[node_id], f"node {node_id}")

    # ---- observation

    def _observe(self, machine: Machine, seen: _NodeView, lane: str) -> None:
        if seen.runs and (machine.process is None or machine.incarnation != seen.incarnation):
            self._report_end(seen, lane)
        if machine.incarnation != seen.incarnation:
            seen.runs, seen.opened, seen.incarnation, seen.high_watermark = (
                True,
                False,
                machine.incarnation,
                -1,
            )
            self._report("process", lane, f"starts, incarnation {machine.incarnation}")
            if machine.process is None:
                self._report_end(seen, lane)
        # A process that ends while it starts has no engine.
        node = machine.node
        self._observe_disk(machine, node, seen, lane)
        if node is None:
            return
        engine = node.engine
        role = (engine.role_name, engine.epoch, engine.leader_id)
        if role != (seen.role, seen.epoch, seen.leader_id):
            seen.role, seen.epoch, seen.leader_id = role
            leader = f", leader {engine.leader_id}" if engine.leader_id >= 0 else ""
            self._report(
                "role", lane, f"{engine.role_name} in epoch {engine.epoch}{leader}", epoch=engine.epoch
            )
        if engine.high_watermark != seen.high_watermark:
            seen.high_watermark = engine.high_watermark
            self._report("disk", lane, f"high watermark {engine.high_watermark}")

    def _report_end(self, seen: _NodeView, lane: str) -> None:
        seen.runs, seen.role = False, ""
        self._report("process", lane, "ends")

    def _observe_disk(self, machine: Machine, node: Node | None, seen: _NodeView, lane: str) -> None:
        self._observe_quorum_state(machine, seen, lane)
        if node is not None:
            seen.opened = True
            end, batches = node.log.end_offset, machine.mirror.batches
        elif machine.process is None and seen.opened:
            batches = machine.recoverable_batches
            end = batches[-1].end_offset if batches else 0
        else:
            return
        if end != seen.log_end:
            what = "appended up to" if end > seen.log_end else "log truncated to"
            seen.log_end = end
            self._report("disk", lane, f"{what} offset {end}")
        if end != (batches[-1].end_offset if batches else 0):
            return  # The mirror is out of date until the inspector has observed the node.
        held = machine.durable_log.holds(batches)
        durable_end = batches[held - 1].end_offset if held else 0
        if durable_end != seen.durable_end:
            seen.durable_end = durable_end
            self._report("disk", lane, f"durable up to offset {durable_end}")

    def _observe_quorum_state(self, machine: Machine, seen: _NodeView, lane: str) -> None:
        saved = machine.disk.durable_bytes(QUORUM_STATE, 0, 1 << 16)
        if saved != seen.saved:
            seen.saved = saved
            if saved.partition(b"\n")[0]:
                state = json.loads(saved.partition(b"\n")[0])
                voted = f", voted for {state['votedId']}" if state["votedId"] >= 0 else ""
                self._report("disk", lane, f"quorum-state: epoch {state['leaderEpoch']}{voted}")

    def _observe_paths(self) -> None:
        blocked = set(self._cluster.network.blocked_paths())
        for source, target in sorted(blocked - self._blocked):
            self._report("fault", self._lane(source), f"cannot reach {self._lane(target)}")
        for source, target in sorted(self._blocked - blocked):
            self._report("fault", self._lane(source), f"reaches {self._lane(target)} again")
        self._blocked = blocked

    def _observe_clients(self) -> None:
        operations = self._history.operations
        for operation in operations[self._calls_reported :]:
            value = "" if operation.value is None else f" {operation.value}"
            self._report(
                "client", CLIENTS, f"{operation.kind}s {operation.key}{value}", [f"client {operation.client}"]
            )
            self._open.append(operation)
        self._calls_reported = len(operations)
        returned = [operation for operation in self._open if operation.returned_ms != inf]
        for operation in returned:
            self._open.remove(operation)
            self._report(
                "client", CLIENTS, f"{operation.kind} of {operation.key} returned: {operation.value}",
                [f"client {operation.client}"],
            )  # fmt: skip

    def _on_message(self, message: Message) -> None:
        lane, to = self._lane(message.sender), self._lane(message.receiver)
        self._add(Entry(message.written_ms, "message", lane, message.name, message.facts, message, to))

    def _lane(self, host: str) -> str:
        found = [m.node_id for m in self._cluster.machines.values() if m.host == host]
        return f"node {found[0]}" if found else CLIENTS

    def _report(
        self, kind: str, lane: str, text: str, details: Sequence[str] = (), *, epoch: int = -1
    ) -> None:
        self._add(Entry(self._heap.now_ms, kind, lane, text, list(details), epoch=epoch))

    def _add(self, entry: Entry) -> None:
        """Insert an entry in order of time: a busy node's message may be later than entries that follow it."""
        insort(self.entries, entry, key=attrgetter("time_ms"))


def window(entries: Sequence[Entry], from_ms: float, to_ms: float) -> list[Entry]:
    """Return the entries within a time span, ends included."""
    return [entry for entry in entries if from_ms <= entry.time_ms <= to_ms]


def lines(entries: Sequence[Entry]) -> Iterator[str]:
    """Format one line per entry; consecutive routine messages share a line."""
    idle: list[Entry] = []
    for entry in entries:
        if entry.is_idle:
            idle.append(entry)
            continue
        if idle:
            yield _folded(idle)
            idle = []
        yield str(entry)
    if idle:
        yield _folded(idle)


def _folded(idle: Sequence[Entry]) -> str:
    if len(idle) == 1:
        return str(idle[0])
    until = f" until {idle[-1].time_ms:.3f}" if idle[-1].time_ms > idle[0].time_ms else ""
    return f"{idle[0].time_ms:12.3f}  {'...':<8}  {len(idle)} routine messages{until}"
