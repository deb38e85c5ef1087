"""The context of API handlers: the controller and its write path are real, the quorum around them is scripted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any, get_type_hints

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.controller import Controller, ControllerSettings
from quorumd.controller.elections import UncleanElection
from quorumd.ids import Endpoint, KafkaUuid, ReplicaKey
from quorumd.node.api.authorization import RequestAuthorization
from quorumd.node.api.context import ApiContext
from quorumd.node.api.forwarding import Forwarder
from quorumd.node.api.large_requests import LargeRequests
from quorumd.node.api.purgatory import ResponsePurgatory
from quorumd.node.controller.alter_partition_order import AlterPartitionOrder
from quorumd.node.identity.cluster_identity import ClusterIdentity
from quorumd.node.peers.address_book import Address
from quorumd.node.peers.connection import Call
from quorumd.node.sessions.router import RequestRouter
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.settings import NodeSettings
from quorumd.node.state.committed_image import CommittedImage, FinalizedFeatures
from quorumd.node.state.metadata_writer import MetadataWriter
from quorumd.node.state.proposals import Proposals
from quorumd.node.statistics import NodeStatistics
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.routes import Session
from quorumd.protocol.wire import Message
from quorumd.quotas.client_quotas import ClientQuotas, QuotaSettings
from quorumd.raft.events import Event, RequestReceived
from quorumd.raft.messages import BeginEpochRequest
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet
from quorumd.security.authorizer import Authorizer
from quorumd.simulator.environment.entropy import SimulatedEntropy
from tests.support.node.parts import state_machine_of
from tests.support.node.recording_session import RecordingSession
from tests.support.node.scripted_role import ScriptedRole
from tests.support.node.virtual_time import VirtualTime

CLUSTER_ID, OTHER_CLUSTER_ID = "o" * 22, "t" * 22
LISTENER = "CONTROLLER"
TOPIC_ID = KafkaUuid(b"the topic's id..")
FIRST_OFFSET = 1000
TIMEOUT_MS = 2000


@dataclass
class ScriptedEngine:
    """The engine as handlers see it: node 1 leads voters 1 to 3, whose addresses are in no voter record."""

    leader_id: int = 1
    epoch: int = 4
    is_leader: bool = True
    high_watermark: int = 9
    voters: VoterAssignment = field(
        default_factory=lambda: VoterAssignment(
            VoterSet(tuple(Voter(ReplicaKey(node_id), ()) for node_id in (1, 2, 3)))
        )
    )

    def accepts_leader(self, event: RequestReceived, now: float) -> bool:
        del now
        assert isinstance(event.request, BeginEpochRequest)
        return event.request.epoch >= self.epoch


@dataclass
class ScriptedDiscovery:
    """Nodes 1 to 4 are known by address; nodes in `unreachable` cannot be reached."""

    known: dict[int, Address] = field(
        default_factory=lambda: {node_id: Address(f"host-{node_id}", 9092) for node_id in (1, 2, 3, 4)}
    )
    unreachable: tuple[int, ...] = ()
    own_id: int = 2
    learned: list[tuple[BeginEpochRequest, int]] = field(default_factory=list)

    def addresses(self) -> list[tuple[int, Address]]:
        return sorted(self.known.items())

    def is_reachable(self, node_id: int) -> bool:
        return node_id not in self.unreachable

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        address = self.known.get(node_id)
        return None if address is None else Endpoint(LISTENER, address.host, address.port)

    def learn_leader(self, announced: BeginEpochRequest, end_offset: int) -> None:
        self.learned.append((announced, end_offset))


@dataclass
class ScriptedImage:
    """A state machine with any image, which is readable unless the test says otherwise."""

    image: ClusterImage = field(default_factory=ClusterImage)
    committed_offset: int = 17
    applied_offset: int = 20
    is_readable: bool = True
    readers: list[Callable[[], None]] = field(default_factory=list)

    def when_readable(self, callback: Callable[[], None]) -> None:
        self.readers.append(callback)


@dataclass
class ScriptedCommits(CommittedImage):
    """Callbacks wait while `is_behind`, or the image is not readable."""

    state: ScriptedImage = field(default_factory=ScriptedImage)
    is_behind: bool = False
    waiting: list[Callable[[bool], None]] = field(default_factory=list)

    def features(self) -> FinalizedFeatures:
        return FinalizedFeatures(self.state.image.features, self.state.committed_offset)

    def when_committed(self, callback: Callable[[bool], None]) -> None:
        if not self.state.is_readable:
            self.state.when_readable(lambda: callback(False))
        elif self.is_behind:
            self.waiting.append(callback)
        else:
            callback(True)


class RecordingForwarder(Forwarder):
    """Keeps the requests that the leader is to handle, with their hooks."""

    def __init__(self) -> None:
        self.forwarded: list[tuple[Request[Message], Callable[[Any], None] | None]] = []

    def forward(
        self, session: Session, request: Request[Message], hook: Callable[[Any], None] | None = None
    ) -> None:
        self.forwarded.append((request, hook))


class RecordingConnections:
    """Keeps the calls to addresses."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, Call]] = []

    def call(self, host: str, port: int, call: Call) -> None:
        self.calls.append((host, port, call))


def context_of(parts: dict[str, Any]) -> ApiContext:
    """The context with these parts, each named as the field of its group."""
    left = dict(parts)
    groups = {
        name: group(**{each.name: left.pop(each.name) for each in fields(group)})
        for name, group in get_type_hints(ApiContext).items()
    }
    assert not left, f"no parts of the context: {left}"
    return ApiContext(**groups)


class ApiHarness:
    """A node that leads until `lose_leadership`.

    Batches are appended at once unless `may_append` is false and committed by `commit`; reads are confirmed by
    `confirm`. `turns` are the callbacks for later ticks. `parts` replaces parts of the context.
    """

    def __init__(
        self,
        node_id: int = 2,
        cluster_id: str | None = CLUSTER_ID,
        listener: str = LISTENER,
        slice_partitions: int = 400,
        static_configs: tuple[tuple[str, str], ...] = (),
        authorizer: Authorizer | None = None,
        **parts: Any,
    ) -> None:
        self.authorizer = authorizer
        self.time = VirtualTime()
        self.is_leader = True
        self.has_free_space = True
        self.may_append = True
        self.now_ms = 0.0
        self.session = RecordingSession()
        self.session.origin.listener = listener
        self.statistics = NodeStatistics()
        self.engine = parts.pop("engine", None) or ScriptedEngine()
        self.discovery = parts.pop("discovery", None) or ScriptedDiscovery()
        self.connections = RecordingConnections()
        self.forwarder = RecordingForwarder()
        self.events: list[Event] = []
        self.reads: list[Callable[[bool], None]] = []
        self.turns: list[Callable[[], None]] = []
        self.batches: list[list[Any]] = []
        self.unclean_elections: list[UncleanElection] = []
        self.order = AlterPartitionOrder()
        self.proposals = Proposals(
            self._append,
            lambda turn: turn(),
            lambda: self.may_append,
            lambda: self.now_ms,
            lambda ms, count: None,
        )
        self.controller = Controller(
            ControllerSettings(),
            lambda: "cluster",
            lambda: self.now_ms,
            lambda: self.log_end + self.proposals.pending_records,
            lambda: TOPIC_ID,
        )
        self.machine: Any = parts.pop("state_machine", None) or state_machine_of(self.controller.image)
        endpoint = Endpoint(listener, "here", 9092)
        settings = NodeSettings(node_id, "/data", endpoint, endpoint, static_configs=static_configs)
        scheduler = parts.pop("scheduler", None) or SliceScheduler(self.turns.append, slice_partitions)
        found = self._parts(settings, scheduler) | {"identity": self._identity(cluster_id)} | parts
        self.context = context_of(found)

    def _parts(self, settings: NodeSettings, scheduler: SliceScheduler) -> dict[str, Any]:
        purgatory = ResponsePurgatory(
            self.statistics, self.proposals, self.reads.append, self.forwarder.forward
        )
        writer = MetadataWriter(
            lambda: self.has_free_space, self.machine, self.proposals, self.unclean_elections.extend
        )
        role = ScriptedRole(lambda: self.is_leader and self.engine.is_leader)
        return {
            "settings": settings,
            "clock": self.time.clock,
            "own": ReplicaKey(settings.node_id),
            "engine": self.engine,
            "log": None,
            "statistics": self.statistics,
            "state_machine": self.machine,
            "proposals": self.proposals,
            "controller": self.controller,
            "writer": writer,
            "alter_partition_order": self.order,
            "discovery": self.discovery,
            "connections": self.connections,
            "monitor": None,
            "role": role,
            "router": RequestRouter(),
            "step": self.events.append,
            "call_leader": None,
            "committed_image": ScriptedCommits(),
            "scheduler": scheduler,
            "forwarder": self.forwarder,
            "purgatory": purgatory,
            "large_requests": LargeRequests(self.controller, role, purgatory, scheduler),
            "authorization": RequestAuthorization(
                self.authorizer, lambda: self.machine.image, role, self.statistics
            ),
            "quotas": ClientQuotas(
                QuotaSettings(), lambda: self.machine.image.security.quotas, self.statistics.quotas
            ),
        }

    @staticmethod
    def _identity(cluster_id: str | None) -> ClusterIdentity:
        return ClusterIdentity(cluster_id, SimulatedEntropy(Random(1)))

    @property
    def forwarded(self) -> list[Request[Message]]:
        return [request for request, _ in self.forwarder.forwarded]

    @property
    def image(self) -> ClusterImage:
        image: ClusterImage = self.machine.image
        return image

    @property
    def log_end(self) -> int:
        return FIRST_OFFSET + sum(map(len, self.batches))

    def finalize(self, feature: str, level: int) -> None:
        self.image.apply(FeatureLevelRecord(feature, level), [])

    def commit(self) -> None:
        self.proposals.committed(self.log_end)

    def confirm(self, confirmed: bool = True) -> None:
        reads, self.reads[:] = list(self.reads), []
        for outcome in reads:
            outcome(confirmed)

    def lose_leadership(self) -> None:
        """In the order of a node: first the proposals, then the reads."""
        self.is_leader = False
        self.proposals.on_leadership_lost()
        self.confirm(False)

    def _append(self, values: Sequence[bytes]) -> int:
        self.batches.append([decode_record(value) for value in values])
        return self.log_end
