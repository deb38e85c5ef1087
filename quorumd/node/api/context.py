"""The parts of a node that its API handlers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quorumd.controller.controller import Controller
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.api.authorization import RequestAuthorization
from quorumd.node.api.error_responses import counted_error_responses
from quorumd.node.api.forwarding import Forwarder
from quorumd.node.api.large_requests import LargeRequests
from quorumd.node.api.purgatory import ResponsePurgatory
from quorumd.node.consensus.leader_role import LeaderRole
from quorumd.node.controller.alter_partition_order import AlterPartitionOrder
from quorumd.node.controller.runner import ControllerRunner
from quorumd.node.health.quorum_monitor import QuorumMonitor
from quorumd.node.identity.cluster_identity import ClusterIdentity
from quorumd.node.peers.client import PeerClient
from quorumd.node.peers.connection import Call
from quorumd.node.peers.connections import PeerConnections
from quorumd.node.peers.discovery import Discovery
from quorumd.node.peers.leader_request import LeaderCaller
from quorumd.node.sessions.router import RequestRouter
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.settings import NodeSettings
from quorumd.node.state.committed_image import CommittedImage
from quorumd.node.state.metadata_writer import MetadataWriter
from quorumd.node.state.proposals import Proposals
from quorumd.node.state.state_machine import StateMachine
from quorumd.node.statistics import NodeStatistics
from quorumd.ports import Clock
from quorumd.quotas.client_quotas import ClientQuotas
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import Event, ReadRequested
from quorumd.security.authorizer import Authorizer


@dataclass(frozen=True, slots=True)
class ApiContext:
    """The parts that every family of API handlers is built from.

    `step` passes an event to the engine. `call_leader` returns False if no other node is known to lead.
    `scheduler` runs long tasks in ticks in which the image is readable.
    """

    settings: NodeSettings
    clock: Clock
    engine: RaftEngine
    log: SegmentedLog
    identity: ClusterIdentity
    statistics: NodeStatistics
    state_machine: StateMachine
    controller: Controller
    writer: MetadataWriter
    alter_partition_order: AlterPartitionOrder
    discovery: Discovery
    connections: PeerConnections
    monitor: QuorumMonitor
    role: LeaderRole
    router: RequestRouter
    step: Callable[[Event], None]
    call_leader: Callable[[Call], bool]
    committed_image: CommittedImage
    scheduler: SliceScheduler
    forwarder: Forwarder
    purgatory: ResponsePurgatory
    large_requests: LargeRequests
    authorization: RequestAuthorization
    quotas: ClientQuotas


def create_api_context(
    settings: NodeSettings,
    clock: Clock,
    engine: RaftEngine,
    log: SegmentedLog,
    identity: ClusterIdentity,
    statistics: NodeStatistics,
    state_machine: StateMachine,
    proposals: Proposals,
    controller: ControllerRunner,
    discovery: Discovery,
    connections: PeerConnections,
    peers: PeerClient,
    monitor: QuorumMonitor,
    role: LeaderRole,
    router: RequestRouter,
    step: Callable[[Event], None],
    quotas: ClientQuotas,
) -> ApiContext:
    """Build the parts that only API handlers use, and the context."""
    call_leader = LeaderCaller(engine, peers, settings.node_id).call
    errors = counted_error_responses(statistics)
    forwarder = Forwarder(clock, call_leader, role, router.route, errors, settings.request_timeout_ms)
    purgatory = ResponsePurgatory(
        statistics, proposals, lambda outcome: step(ReadRequested(outcome)), forwarder.forward
    )
    scheduler = SliceScheduler(state_machine.when_readable, settings.slice_partitions)
    large_requests = LargeRequests(
        controller.controller, role, purgatory, scheduler, settings.max_partitions_per_part
    )
    return ApiContext(
        *(settings, clock, engine, log, identity, statistics, state_machine),
        controller.controller,
        controller.writer,
        controller.order,
        discovery,
        connections,
        monitor,
        role,
        router,
        step,
        call_leader,
        CommittedImage(state_machine, proposals),
        scheduler,
        forwarder,
        purgatory,
        large_requests,
        _authorization(settings, clock, engine, state_machine, role, statistics),
        quotas,
    )


def _authorization(
    settings: NodeSettings,
    clock: Clock,
    engine: RaftEngine,
    state_machine: StateMachine,
    role: LeaderRole,
    statistics: NodeStatistics,
) -> RequestAuthorization:
    """The authorizer, if one is configured. It is not ready before the image holds what was committed at the
    start."""
    authorizer = None
    if settings.authorizer is not None:
        loading = AclLoading(engine, state_machine)
        authorizer = Authorizer(
            settings.authorizer,
            lambda: state_machine.image.security.acls,
            loading.is_complete,
            clock.now_ms,
            statistics.authorization,
        )
    return RequestAuthorization(authorizer, lambda: state_machine.image, role, statistics)


class AclLoading:
    """Whether the image has reached the first high watermark that this node knew. Once complete, it stays
    complete."""

    def __init__(self, engine: RaftEngine, state_machine: StateMachine) -> None:
        self._engine = engine
        self._state_machine = state_machine
        self._is_complete = False

    def is_complete(self) -> bool:
        if not self._is_complete:
            high_watermark, machine = self._engine.high_watermark, self._state_machine
            self._is_complete = machine.is_readable and 0 <= high_watermark <= machine.applied_offset
        return self._is_complete
