"""What answers the APIs of a node: makes the `*_requests` and tells the router of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quorumd.ids import Endpoint, ReplicaKey
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.api.authorization import may_alter_cluster
from quorumd.node.api.cluster import ClusterApis
from quorumd.node.api.configs import ConfigApis
from quorumd.node.api.controller import ControllerApis
from quorumd.node.api.controller_table import CONTROLLER_APIS
from quorumd.node.api.describe_node import NodeApis
from quorumd.node.api.error_responses import FORWARDABLE, counted_error_responses
from quorumd.node.api.forwarding import EnvelopeApis, Forwarder
from quorumd.node.api.large_requests import LargeRequests
from quorumd.node.api.purgatory import ResponsePurgatory
from quorumd.node.api.quorum import QuorumApis
from quorumd.node.api.topics import TopicApis
from quorumd.node.api.voters import VoterApis
from quorumd.node.consensus.leader_role import LeaderRole
from quorumd.node.controller.runner import ControllerRunner
from quorumd.node.health.quorum_monitor import QuorumMonitor
from quorumd.node.identity.cluster_identity import ClusterIdentity
from quorumd.node.membership.auto_join import AutoJoin
from quorumd.node.membership.controller_registration import ControllerRegistration
from quorumd.node.membership.manager import MembershipManager
from quorumd.node.membership.voter_endpoint_update import VoterEndpointUpdate
from quorumd.node.peers.client import PeerClient
from quorumd.node.peers.connection import Call, Purpose
from quorumd.node.peers.discovery import Discovery
from quorumd.node.sessions.router import RequestRouter
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.settings import NodeSettings
from quorumd.node.state.committed_image import CommittedImage
from quorumd.node.state.proposals import CommitCallback, Proposals
from quorumd.node.state.state_machine import StateMachine
from quorumd.node.statistics import NodeStatistics
from quorumd.ports import Clock, Entropy
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import Event, ReadRequested


@dataclass(frozen=True, slots=True)
class NodeContext:
    """The parts of a node that its request handlers use."""

    settings: NodeSettings
    clock: Clock
    engine: RaftEngine
    log: SegmentedLog
    identity: ClusterIdentity
    statistics: NodeStatistics
    state_machine: StateMachine
    proposals: Proposals
    controller: ControllerRunner
    discovery: Discovery
    peers: PeerClient
    watch: QuorumMonitor
    step: Callable[[Event], None]
    role: LeaderRole

    def call_leader(self, call: Call) -> bool:
        leader_id = self.engine.leader_id
        if leader_id < 0 or leader_id == self.settings.node_id:
            return False
        return self.peers.call_node(leader_id, call, Purpose.FORWARD)


def add_handlers(router: RequestRouter, context: NodeContext) -> None:
    """Add every API to the router."""
    settings, role = context.settings, context.role
    forwarder = _forwarder(context, router)
    responses = ResponsePurgatory(
        context.statistics,
        context.proposals,
        lambda outcome: context.step(ReadRequested(outcome)),
        forwarder.forward,
    )
    scheduler = SliceScheduler(context.state_machine.when_readable, settings.slice_partitions)
    large = LargeRequests(
        context.controller.controller, responses, scheduler, settings.max_partitions_per_part
    )
    configs = ConfigApis(
        settings.node_id,
        settings.static_configs,
        role,
        context.state_machine,
        context.controller.controller,
        context.statistics,
        context.controller.writer,
        responses,
        large,
    )
    controller = ControllerApis(
        CONTROLLER_APIS,
        context.controller.controller,
        context.controller.order,
        role,
        context.controller.writer,
        responses,
        context.statistics,
        large,
    )
    when_committed = CommittedImage(context.state_machine, context.proposals).when_committed
    topics = TopicApis(context.state_machine, when_committed, scheduler)
    router.add(_quorum_requests(context, forwarder).routes())
    router.add(configs.routes())
    router.add(controller.routes())
    router.add(_voter_requests(context, forwarder).routes())
    router.add(context.discovery.routes())
    router.add(NodeApis(context).routes())
    router.add(_envelopes(context, router, scheduler).routes())
    router.add(topics.routes())
    router.add(_cluster_requests(context, topics, when_committed, router).routes())


def _forwarder(context: NodeContext, router: RequestRouter) -> Forwarder:
    return Forwarder(
        context.clock,
        context.call_leader,
        context.role,
        router.route,
        counted_error_responses(context.statistics),
        context.settings.request_timeout_ms,
    )


def _envelopes(context: NodeContext, router: RequestRouter, scheduler: SliceScheduler) -> EnvelopeApis:
    return EnvelopeApis(
        context.role,
        router.route,
        FORWARDABLE,
        router.spoken,
        scheduler,
        context.settings.large_request_bytes,
    )


def _quorum_requests(context: NodeContext, forwarder: Forwarder) -> QuorumApis:
    return QuorumApis(
        context.engine,
        context.log,
        context.clock,
        context.identity,
        context.statistics,
        context.step,
        context.discovery.endpoint_of,
        context.discovery.learn_leader,
        context.role,
        forwarder.forward,
    )


def membership(
    context: NodeContext, own: ReplicaKey, entropy: Entropy, own_endpoint: Callable[[], Endpoint]
) -> MembershipManager:
    """What this node does for its place in the cluster."""
    clock, timeout_ms = context.clock, context.settings.request_timeout_ms
    voter = VoterEndpointUpdate(context.engine, clock, context.identity, own, context.call_leader, timeout_ms)
    registration = None
    if context.settings.registers:
        engine = context.engine
        context.controller.controller.other_voters = lambda: [
            voter for voter in engine.voters.current.ids if voter != own.id
        ]
        registration = ControllerRegistration(
            own.id,
            entropy.uuid(),
            clock,
            context.state_machine,
            context.controller.controller,
            context.controller.writer,
            context.role,
            context.call_leader,
            timeout_ms,
        )
    auto_join = None
    if context.settings.auto_join:
        fetch_timeout_ms = context.settings.raft.fetch_timeout_ms
        auto_join = AutoJoin(
            context.engine, clock, context.identity, own, context.call_leader, fetch_timeout_ms, timeout_ms
        )
    return MembershipManager(clock, own_endpoint, voter, registration, auto_join)


def _cluster_requests(
    context: NodeContext,
    topics: TopicApis,
    when_committed: Callable[[CommitCallback], None],
    router: RequestRouter,
) -> ClusterApis:
    return ClusterApis(
        context.engine,
        context.identity,
        context.discovery,
        context.state_machine,
        topics,
        when_committed,
        router.spoken,
        context.settings.advertised.name,
    )


def _voter_requests(context: NodeContext, forwarder: Forwarder) -> VoterApis:
    return VoterApis(
        context.engine,
        context.clock,
        context.identity,
        context.statistics,
        context.settings.advertised.name,
        context.settings.request_timeout_ms,
        context.role,
        may_alter_cluster,
        context.step,
        context.peers.call,
        context.discovery.endpoint_of,
        forwarder.forward,
    )
