"""The parts of a node that its API handlers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quorumd.controller.controller import Controller
from quorumd.node.api.authorization import RequestAuthorization
from quorumd.node.api.error_responses import counted_error_responses
from quorumd.node.api.forwarding import Forwarder
from quorumd.node.api.large_requests import LargeRequests
from quorumd.node.api.purgatory import ResponsePurgatory
from quorumd.node.basics import NodeBasics, QuorumParts
from quorumd.node.controller.alter_partition_order import AlterPartitionOrder
from quorumd.node.health.quorum_monitor import QuorumMonitor
from quorumd.node.peers.connection import Call
from quorumd.node.peers.connections import PeerConnections
from quorumd.node.peers.discovery import Discovery
from quorumd.node.sessions.router import RequestRouter
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.state.committed_image import CommittedImage
from quorumd.node.state.metadata_writer import MetadataWriter
from quorumd.node.state.proposals import Proposals
from quorumd.node.state.state_machine import StateMachine
from quorumd.quotas.client_quotas import ClientQuotas
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import ReadRequested
from quorumd.security.authorizer import Authorizer


@dataclass(frozen=True, slots=True)
class MetadataParts:
    """The metadata that the log describes: its image, and the controller that changes it."""

    state_machine: StateMachine
    proposals: Proposals
    controller: Controller
    writer: MetadataWriter
    alter_partition_order: AlterPartitionOrder


@dataclass(frozen=True, slots=True)
class PeerParts:
    """The other nodes. `call_leader` returns False if no other node is known to lead."""

    discovery: Discovery
    connections: PeerConnections
    monitor: QuorumMonitor
    call_leader: Callable[[Call], bool]


@dataclass(frozen=True, slots=True)
class RequestGates:
    """The parts that a request passes on its way to its handler."""

    router: RequestRouter
    authorization: RequestAuthorization
    quotas: ClientQuotas


@dataclass(frozen=True, slots=True)
class RequestExecution:
    """The parts that execute, delay, split and forward requests.

    `scheduler` runs long tasks in ticks in which the image is readable.
    """

    committed_image: CommittedImage
    scheduler: SliceScheduler
    forwarder: Forwarder
    purgatory: ResponsePurgatory
    large_requests: LargeRequests


@dataclass(frozen=True, slots=True)
class ApiContext:
    """The parts that every family of API handlers is built from."""

    node: NodeBasics
    quorum: QuorumParts
    metadata: MetadataParts
    peers: PeerParts
    gates: RequestGates
    execution: RequestExecution


def create_api_context(
    node: NodeBasics,
    quorum: QuorumParts,
    metadata: MetadataParts,
    peers: PeerParts,
    router: RequestRouter,
    quotas: ClientQuotas,
) -> ApiContext:
    """Build the parts that only API handlers use, and the context."""
    scheduler = SliceScheduler(
        metadata.state_machine.when_readable, node.settings.slice_partitions, node.paying
    )
    authorization = _authorization(node, quorum, metadata, scheduler)
    return ApiContext(
        node=node,
        quorum=quorum,
        metadata=metadata,
        peers=peers,
        gates=RequestGates(router=router, authorization=authorization, quotas=quotas),
        execution=_execution(node, quorum, metadata, peers, router, authorization, scheduler),
    )


def _execution(
    node: NodeBasics,
    quorum: QuorumParts,
    metadata: MetadataParts,
    peers: PeerParts,
    router: RequestRouter,
    authorization: RequestAuthorization,
    scheduler: SliceScheduler,
) -> RequestExecution:
    settings, step = node.settings, quorum.step
    forwarder = Forwarder(
        clock=node.clock,
        call_leader=peers.call_leader,
        role=quorum.role,
        route=router.route,
        error_response=counted_error_responses(node.statistics),
        admit=authorization.admit,
        request_timeout_ms=settings.request_timeout_ms,
    )
    purgatory = ResponsePurgatory(
        statistics=node.statistics,
        proposals=metadata.proposals,
        confirm_read=lambda outcome: step(ReadRequested(outcome)),
        forward=forwarder.forward,
    )
    return RequestExecution(
        committed_image=CommittedImage(metadata.state_machine, metadata.proposals),
        scheduler=scheduler,
        forwarder=forwarder,
        purgatory=purgatory,
        large_requests=LargeRequests(
            controller=metadata.controller,
            role=quorum.role,
            purgatory=purgatory,
            scheduler=scheduler,
            max_partitions=settings.max_partitions_per_part,
        ),
    )


def _authorization(
    node: NodeBasics, quorum: QuorumParts, metadata: MetadataParts, scheduler: SliceScheduler
) -> RequestAuthorization:
    """The authorizer, if one is configured. It is ready once the image has reached the high watermark."""
    settings, machine = node.settings, metadata.state_machine
    authorizer = None
    if settings.authorizer is not None:
        authorizer = Authorizer(
            settings.authorizer,
            lambda: machine.image.security.acls,
            AclLoading(quorum.engine, machine).is_complete,
            node.clock.now_ms,
            node.statistics.authorization,
        )
    return RequestAuthorization(
        authorizer, lambda: machine.image, quorum.role, node.statistics, scheduler.begin
    )


class AclLoading:
    """Whether the image has reached the high watermark since the start. Once complete, it stays complete.

    A high watermark of 0 does not count: a follower with an empty log takes it from a response without records.
    """

    def __init__(self, engine: RaftEngine, state_machine: StateMachine) -> None:
        self._engine = engine
        self._state_machine = state_machine
        self._is_complete = False

    def is_complete(self) -> bool:
        if not self._is_complete:
            high_watermark, machine = self._engine.high_watermark, self._state_machine
            self._is_complete = machine.is_readable and 0 < high_watermark <= machine.applied_offset
        return self._is_complete
