"""Parts of a node on the simulator's ports. Each is built when a test first uses it.

Every harness of a part derives from `NodeParts`; tests of whole nodes use `nodes.Cluster`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from random import Random
from typing import Any

from quorumd.controller.cluster_image import ClusterImage
from quorumd.ids import Endpoint, KafkaUuid, ReplicaKey
from quorumd.log import LogSettings
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.basics import NodeBasics, QuorumParts
from quorumd.node.identity.cluster_identity import ClusterIdentity
from quorumd.node.identity.founding import Founding
from quorumd.node.leader_role import LeaderRole
from quorumd.node.lifecycle import Lifecycle
from quorumd.node.peers.connection import Call
from quorumd.node.settings import NodeSettings
from quorumd.node.state.proposals import Proposals
from quorumd.node.state.state_machine import StateMachine
from quorumd.node.statistics import NodeStatistics
from quorumd.node.tick import Tick
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch
from quorumd.protocol.wire import Message
from quorumd.raft.events import Event
from quorumd.raft.voters import VoterSet
from quorumd.simulator.environment.clock import SimulatedClock
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.entropy import SimulatedEntropy
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.environment.network import SimulatedNetwork
from tests.support.log.config_logs import ConfigLog
from tests.support.node.nodes import EVEN_LINKS
from tests.support.node.scripted_engine import ScriptedEngine
from tests.support.node.virtual_time import VirtualTime

CLUSTER_ID, OTHER_CLUSTER_ID = "o" * 22, "t" * 22
OWN = ReplicaKey(1, KafkaUuid(bytes(15) + b"\x42"))
OWN_ENDPOINT = Endpoint("CONTROLLER", "me", 9092)
GROUP = (int(ConfigResourceType.GROUP), "g")
"""The resource whose configs `append` writes."""


class NodeParts:
    """Clock, disk, network, log, state machine and proposals of one node, wired as a node wires them, with a scripted
    engine.

    A test's own harness derives from this class, overrides the parts that it scripts, and adds observations. `turns`
    has the callbacks that the parts schedule for a later iteration of the event loop, `leader_calls` the calls to the
    leader, `events` the events for the engine, and `exits` the exits of the node.
    """

    def __init__(self, cluster_id: str | None = CLUSTER_ID) -> None:
        self.cluster_id = cluster_id
        self.statistics = NodeStatistics()
        self.turns: list[Callable[[], None]] = []
        self.events: list[Event] = []
        self.leader_calls: list[Call] = []
        self.has_leader = True
        self.exits: list[tuple[int, str]] = []
        """Exit code and reason."""
        self.is_flushing = False
        self.latencies: list[tuple[float, int]] = []
        """Latency and number of records of each committed batch of proposals."""
        self.activations = 0
        """How often the state machine has applied the whole log as leader."""

    @cached_property
    def time(self) -> VirtualTime:
        return VirtualTime()

    @cached_property
    def settings(self) -> NodeSettings:
        return NodeSettings(OWN.id, "/data", OWN_ENDPOINT, OWN_ENDPOINT, request_timeout_ms=500)

    @cached_property
    def basics(self) -> NodeBasics:
        return NodeBasics(self.settings, self.time.clock, self.statistics)

    @cached_property
    def engine(self) -> ScriptedEngine:
        return ScriptedEngine()

    @cached_property
    def lifecycle(self) -> Lifecycle:
        return Lifecycle(self.time.clock, lambda exit_code, reason: self.exits.append((exit_code, reason)))

    def quorum(self, **parts: Any) -> QuorumParts:
        """The place of replica OWN in the quorum; `parts` replaces parts of it."""
        found: dict[str, Any] = {
            "own": OWN,
            "engine": self.engine,
            "log": self.log,
            "identity": self.identity,
            "step": self.events.append,
        } | parts
        found.setdefault("role", LeaderRole(found["engine"], found["own"].id))
        return QuorumParts(**found)

    def founding(self, formatted: VoterSet | None = None) -> Founding:
        """Whether replica OWN may found a quorum; `formatted` has the founders that `format` saved."""
        engine: Any = self.engine
        return Founding(OWN, self.settings, engine, self.identity, formatted)

    def call_leader(self, call: Call) -> bool:
        """Send a call to the leader if there is one."""
        if self.has_leader:
            self.leader_calls.append(call)
        return self.has_leader

    @cached_property
    def tick(self) -> Tick:
        return Tick(self.time.clock, self.statistics.event_processing_ms)

    @cached_property
    def network(self) -> SimulatedNetwork:
        return SimulatedNetwork(self.time.heap, Random(1), EVEN_LINKS)

    @cached_property
    def disk(self) -> SimulatedDisk:
        return SimulatedDisk(self.time.heap, Random(1))

    @cached_property
    def log(self) -> SegmentedLog:
        """An empty log."""
        self.disk.make_directory("/log")
        log, _ = SegmentedLog.open(self.disk, "/log", LogSettings(allocate_bytes=0))
        return log

    @cached_property
    def configs(self) -> ConfigLog:
        """A data directory with a log of voters, a feature and configs; independent of `log`."""
        return ConfigLog(self.disk)

    @cached_property
    def identity(self) -> ClusterIdentity:
        return ClusterIdentity(self.cluster_id, SimulatedEntropy(Random(2)))

    @cached_property
    def machine(self) -> StateMachine:
        return self.make_machine()

    @cached_property
    def proposals(self) -> Proposals:
        return Proposals(
            self.append_values,
            self.schedule_batch,
            lambda: not self.is_flushing,
            self.time.clock.now_ms,
            lambda ms, count: self.latencies.append((ms, count)),
        )

    def make_machine(self, record_ms: float = 0.0) -> StateMachine:
        """Create a state machine of `log` that needs `record_ms` of processor time per record."""
        clock = SimulatedClock(self.time.heap, Process("node"), record_ms=record_ms)
        return StateMachine(self.log, clock, self.turns.append, self.turns.append)

    def machine_around(self, image: ClusterImage) -> StateMachine:
        """A state machine of `log` that holds an image."""
        machine = self.make_machine()
        machine.image = image
        return machine

    def lead(self) -> None:
        """Let the state machine apply the whole log as leader, and then count it in `activations`."""
        self.machine.lead(self.activate)

    def activate(self) -> None:
        self.activations += 1

    def append(self, *pairs: tuple[str, str | None], epoch: int = 1) -> int:
        """Append a batch of config records of GROUP; return the log end offset."""
        return self.write(*(ConfigRecord(*GROUP, key, value) for key, value in pairs), epoch=epoch)

    def write(self, *records: Message, epoch: int = 1) -> int:
        """Append a batch of records; return the log end offset."""
        return self.write_values([encode_record(record, 0) for record in records], epoch)

    def write_values(self, values: Sequence[bytes], epoch: int = 1) -> int:
        """Append a batch of encoded records; return the log end offset."""
        base_offset = self.log.end_offset
        self.log.append(encode_batch(base_offset, epoch, 1000, values), base_offset + len(values))
        return self.log.end_offset

    def schedule_batch(self, append: Callable[[], None]) -> None:
        """Append in a later turn what was proposed in this one."""
        self.turns.append(append)

    def append_values(self, values: Sequence[bytes]) -> int | None:
        """Append a batch of proposals; return the log end offset. A subclass may return None for a refused batch."""
        return self.write_values(values)

    def config(self) -> dict[str, str]:
        """Return the configs of GROUP in the image."""
        return self.machine.image.config(GROUP)

    def end_turn(self) -> None:
        """Run the callbacks of one iteration of the event loop."""
        turns, self.turns[:] = list(self.turns), []
        for turn in turns:
            turn()

    def run_turns(self) -> int:
        """Run callbacks until none is left; return their number."""
        count = 0
        while self.turns:
            self.turns.pop(0)()
            count += 1
        return count
