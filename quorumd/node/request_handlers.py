"""What answers the APIs of a node: makes the `*_requests` and tells the router of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.authorization import may_alter_cluster
from quorumd.node.cluster_identity import ClusterIdentity
from quorumd.node.cluster_requests import ClusterRequests
from quorumd.node.committed_answers import CommittedAnswers
from quorumd.node.config_requests import ConfigRequests
from quorumd.node.controller_apis import CONTROLLER_APIS
from quorumd.node.controller_requests import ControllerRequests
from quorumd.node.controller_runner import ControllerRunner
from quorumd.node.discovery import Discovery
from quorumd.node.error_answers import MAY_BE_FORWARDED, counting
from quorumd.node.forwarding import EnvelopeRequests, Forwarder
from quorumd.node.peer_requests import PeerRequests
from quorumd.node.peers import Call, Purpose
from quorumd.node.proposals import Proposals
from quorumd.node.quorum_requests import QuorumRequests
from quorumd.node.request_router import RequestRouter
from quorumd.node.settings import NodeSettings
from quorumd.node.state_machine import StateMachine
from quorumd.node.statistics import NodeStatistics
from quorumd.node.topic_requests import TopicRequests
from quorumd.node.voter_requests import VoterRequests
from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import Event, ReadAsked


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a node that its requests are answered from. `leads()`: requests for the leader are for it."""

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
    peers: PeerRequests
    step: Callable[[Event], None]
    leads: Callable[[], bool]

    def call_leader(self, call: Call) -> bool:
        leader_id = self.engine.leader_id
        if leader_id < 0 or leader_id == self.settings.node_id:
            return False
        return self.peers.call_node(leader_id, call, Purpose.FORWARD)


def add_handlers(router: RequestRouter, parts: Parts) -> QuorumRequests:
    """Add every API to the router. Returns those requests that the engine answers by itself."""
    settings, leads = parts.settings, parts.leads
    forwarder = Forwarder(
        parts.clock,
        parts.call_leader,
        leads,
        router.route,
        counting(parts.statistics),
        settings.request_timeout_ms,
    )
    quorum = QuorumRequests(
        parts.engine,
        parts.log,
        parts.clock,
        parts.identity,
        parts.statistics,
        parts.step,
        parts.discovery.endpoint_of,
        leads,
        forwarder.forward,
    )
    answers = CommittedAnswers(
        parts.statistics,
        parts.proposals,
        lambda outcome: parts.step(ReadAsked(outcome)),
        forwarder.forward,
    )
    configs = ConfigRequests(
        settings.node_id,
        settings.static_configs,
        leads,
        parts.state_machine,
        parts.controller.controller,
        parts.statistics,
        parts.controller.writer,
        answers,
    )
    controller = ControllerRequests(
        CONTROLLER_APIS,
        parts.controller.controller,
        parts.controller.order,
        leads,
        parts.controller.writer,
        answers,
        parts.statistics,
    )
    envelopes = EnvelopeRequests(leads, router.route, MAY_BE_FORWARDED, router.spoken)
    topics = TopicRequests(parts.state_machine, parts.proposals.follow, parts.clock.call_soon)
    router.add(quorum.handlers())
    router.add(configs.handlers())
    router.add(controller.handlers())
    router.add(_voter_requests(parts, forwarder).handlers())
    router.add(parts.discovery.handlers())
    router.add([(ApiKey.ENVELOPE, envelopes.envelope)])
    router.add(topics.handlers())
    router.add(_cluster_requests(parts, topics, router).handlers())
    return quorum


def _cluster_requests(parts: Parts, topics: TopicRequests, router: RequestRouter) -> ClusterRequests:
    return ClusterRequests(
        parts.engine,
        parts.identity,
        parts.discovery,
        parts.state_machine,
        topics,
        parts.proposals.follow,
        router.spoken,
        parts.settings.advertised.name,
    )


def _voter_requests(parts: Parts, forwarder: Forwarder) -> VoterRequests:
    return VoterRequests(
        parts.engine,
        parts.clock,
        parts.identity,
        parts.statistics,
        parts.settings.advertised.name,
        parts.settings.request_timeout_ms,
        parts.leads,
        may_alter_cluster,
        parts.step,
        parts.peers.call,
        parts.discovery.endpoint_of,
        forwarder.forward,
    )
