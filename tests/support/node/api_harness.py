"""The context of API handlers, with a real controller and write path and a scripted quorum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
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
from quorumd.node.sessions.router import RequestRouter
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.settings import NodeSettings
from quorumd.node.state.metadata_writer import MetadataWriter
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.routes import Session
from quorumd.protocol.wire import Message
from quorumd.quotas.client_quotas import ClientQuotas, QuotaSettings
from quorumd.security.authorizer import Authorizer
from tests.support.node.parts import CLUSTER_ID, NodeParts
from tests.support.node.recording_connections import RecordingConnections
from tests.support.node.recording_session import RecordingSession
from tests.support.node.scripted_discovery import LISTENER, ScriptedDiscovery
from tests.support.node.scripted_engine import ScriptedEngine
from tests.support.node.scripted_image import ScriptedCommits
from tests.support.node.scripted_role import ScriptedRole

TOPIC_ID = KafkaUuid(b"the topic's id..")
FIRST_OFFSET = 1000
TIMEOUT_MS = 2000


class RecordingForwarder(Forwarder):
    """Keeps the requests that the leader is to handle, with their hooks."""

    def __init__(self) -> None:
        self.forwarded: list[tuple[Request[Message], Callable[[Any], None] | None]] = []

    def forward(
        self, session: Session, request: Request[Message], hook: Callable[[Any], None] | None = None
    ) -> None:
        self.forwarded.append((request, hook))


def context_of(parts: dict[str, Any]) -> ApiContext:
    """Build a context of these parts, each named like the field of its group."""
    left = dict(parts)
    groups = {
        name: group(**{each.name: left.pop(each.name) for each in fields(group)})
        for name, group in get_type_hints(ApiContext).items()
    }
    assert not left, f"no parts of the context: {left}"
    return ApiContext(**groups)


def as_parts(group: Any) -> dict[str, Any]:
    """The parts of a group by name."""
    return {each.name: getattr(group, each.name) for each in fields(group)}


class ApiHarness(NodeParts):
    """A node that leads until `lose_leadership`.

    Batches are appended immediately unless `is_flushing`, to `batches` instead of the log, and committed by `commit`;
    reads are confirmed by `confirm`. `parts` replaces parts of the context.
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
        super().__init__(cluster_id)
        endpoint = Endpoint(listener, "here", 9092)
        self.settings = parts.pop("settings", None) or NodeSettings(
            node_id, "/data", endpoint, endpoint, static_configs=static_configs
        )
        self.engine = parts.pop("engine", None) or ScriptedEngine()
        self.authorizer = authorizer
        self.is_leader = True
        self.has_free_space = True
        self.session = RecordingSession()
        self.session.origin.listener = listener
        self.discovery = parts.pop("discovery", None) or ScriptedDiscovery()
        self.connections = RecordingConnections()
        self.forwarder = RecordingForwarder()
        self.reads: list[Callable[[bool], None]] = []
        self.batches: list[list[Any]] = []
        self.unclean_elections: list[UncleanElection] = []
        self.order = AlterPartitionOrder()
        self.controller = Controller(
            ControllerSettings(),
            lambda: "cluster",
            self.time.clock.now_ms,
            lambda: self.log_end + self.proposals.pending_records,
            lambda: TOPIC_ID,
        )
        self.machine: Any = parts.pop("state_machine", None) or self.machine_around(self.controller.image)
        scheduler = parts.pop("scheduler", None) or SliceScheduler(self.turns.append, slice_partitions)
        self.context = context_of(self._parts(scheduler) | parts)

    def _parts(self, scheduler: SliceScheduler) -> dict[str, Any]:
        purgatory = ResponsePurgatory(
            self.statistics, self.proposals, self.reads.append, self.forwarder.forward
        )
        writer = MetadataWriter(
            lambda: self.has_free_space, self.machine, self.proposals, self.unclean_elections.extend
        )
        role = ScriptedRole(lambda: self.is_leader and self.engine.is_leader)
        quorum = self.quorum(own=ReplicaKey(self.settings.node_id), role=role)
        return {
            **as_parts(self.basics),
            **as_parts(quorum),
            "state_machine": self.machine,
            "proposals": self.proposals,
            "controller": self.controller,
            "writer": writer,
            "alter_partition_order": self.order,
            "discovery": self.discovery,
            "connections": self.connections,
            "monitor": None,
            "router": RequestRouter(),
            "call_leader": self.call_leader,
            "committed_image": ScriptedCommits(),
            "scheduler": scheduler,
            "forwarder": self.forwarder,
            "purgatory": purgatory,
            "large_requests": LargeRequests(self.controller, role, purgatory, scheduler),
            "authorization": RequestAuthorization(
                self.authorizer, lambda: self.machine.image, role, self.statistics, scheduler.begin
            ),
            "quotas": ClientQuotas(
                QuotaSettings(), lambda: self.machine.image.security.quotas, self.statistics.quotas
            ),
        }

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
        """Fail the proposals and then the reads, in the order of a node."""
        self.is_leader = False
        self.proposals.on_leadership_lost()
        self.confirm(False)

    def schedule_batch(self, append: Callable[[], None]) -> None:
        """Append what was proposed at once, not in a later turn."""
        append()

    def append_values(self, values: Sequence[bytes]) -> int:
        self.batches.append([decode_record(value) for value in values])
        return self.log_end
