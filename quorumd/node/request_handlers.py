"""What answers the APIs of a node: makes the `*_requests` and tells the router of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quorumd.ids import Endpoint, ReplicaKey
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.authorization import may_alter_cluster
from quorumd.node.auto_join import AutoJoin
from quorumd.node.cluster_identity import ClusterIdentity
from quorumd.node.cluster_requests import ClusterRequests
from quorumd.node.committed_answers import CommittedAnswers
from quorumd.node.committed_image import CommittedImage
from quorumd.node.config_requests import ConfigRequests
from quorumd.node.controller_apis import CONTROLLER_APIS
from quorumd.node.controller_requests import ControllerRequests
from quorumd.node.controller_runner import ControllerRunner
from quorumd.node.discovery import Discovery
from quorumd.node.error_answers import MAY_BE_FORWARDED, counting
from quorumd.node.forwarding import EnvelopeRequests, Forwarder
from quorumd.node.membership import Membership
from quorumd.node.node_requests import NodeRequests
from quorumd.node.own_registration import OwnRegistration
from quorumd.node.own_voter import OwnVoter
from quorumd.node.peer_requests import PeerRequests
from quorumd.node.peers import Call, Purpose
from quorumd.node.proposals import Outcome, Proposals
from quorumd.node.quorum_requests import QuorumRequests
from quorumd.node.quorum_watch import QuorumWatch
from quorumd.node.request_router import RequestRouter
from quorumd.node.settings import NodeSettings
from quorumd.node.sliced_work import SlicedWork
from quorumd.node.state_machine import StateMachine
from quorumd.node.statistics import NodeStatistics
from quorumd.node.topic_requests import TopicRequests
from quorumd.node.voter_requests import VoterRequests
from quorumd.ports import Clock, Entropy
from quorumd.protocol.apis import ApiKey
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import Event, ReadAsked


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a node that its requests are answered from. `leads()`: requests for the leader are for it.
    `decides()`: also those that need its image."""

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
    watch: QuorumWatch
    step: Callable[[Event], None]
    leads: Callable[[], bool]
    decides: Callable[[], bool]

    def call_leader(self, call: Call) -> bool:
        leader_id = self.engine.leader_id
        if leader_id < 0 or leader_id == self.settings.node_id:
            return False
        return self.peers.call_node(leader_id, call, Purpose.FORWARD)


def add_handlers(router: RequestRouter, parts: Parts) -> QuorumRequests:
    """Add every API to the router. Returns those requests that the engine answers by itself."""
    settings, decides = parts.settings, parts.decides
    forwarder = Forwarder(
        parts.clock,
        parts.call_leader,
        decides,
        router.route,
        counting(parts.statistics),
        settings.request_timeout_ms,
    )
    quorum = _quorum_requests(parts, forwarder)
    answers = CommittedAnswers(
        parts.statistics,
        parts.proposals,
        lambda outcome: parts.step(ReadAsked(outcome)),
        forwarder.forward,
    )
    configs = ConfigRequests(
        settings.node_id,
        settings.static_configs,
        decides,
        parts.state_machine,
        parts.controller.controller,
        parts.statistics,
        parts.controller.writer,
        answers,
    )
    sliced = SlicedWork(parts.state_machine.when_readable, parts.settings.slice_partitions)
    controller = ControllerRequests(
        CONTROLLER_APIS,
        parts.controller.controller,
        parts.controller.order,
        decides,
        parts.controller.writer,
        answers,
        parts.statistics,
        sliced,
    )
    envelopes = EnvelopeRequests(decides, router.route, MAY_BE_FORWARDED, router.spoken, sliced)
    when_committed = CommittedImage(parts.state_machine, parts.proposals).when_committed
    topics = TopicRequests(parts.state_machine, when_committed, sliced)
    router.add(quorum.handlers())
    router.add(configs.handlers())
    router.add(controller.handlers())
    router.add(_voter_requests(parts, forwarder).handlers())
    router.add(parts.discovery.handlers())
    router.add(NodeRequests(parts).handlers())
    router.add([(ApiKey.ENVELOPE, envelopes.envelope)])
    router.add(topics.handlers())
    router.add(_cluster_requests(parts, topics, when_committed, router).handlers())
    return quorum


def _quorum_requests(parts: Parts, forwarder: Forwarder) -> QuorumRequests:
    return QuorumRequests(
        parts.engine,
        parts.log,
        parts.clock,
        parts.identity,
        parts.statistics,
        parts.step,
        parts.discovery.endpoint_of,
        parts.discovery.learn_leader,
        parts.leads,
        forwarder.forward,
    )


def membership(
    parts: Parts, own: ReplicaKey, entropy: Entropy, own_endpoint: Callable[[], Endpoint]
) -> Membership:
    """What this node does for its place in the cluster."""
    clock, timeout_ms = parts.clock, parts.settings.request_timeout_ms
    voter = OwnVoter(parts.engine, clock, parts.identity, own, parts.call_leader, timeout_ms)
    registration = None
    if parts.settings.registers:
        engine = parts.engine
        parts.controller.controller.other_voters = lambda: [
            voter for voter in engine.voters.current.ids if voter != own.id
        ]
        registration = OwnRegistration(
            own.id,
            entropy.uuid(),
            clock,
            parts.state_machine,
            parts.controller.controller,
            parts.controller.writer,
            parts.decides,
            parts.call_leader,
            timeout_ms,
        )
    auto_join = None
    if parts.settings.auto_join:
        fetch_timeout_ms = parts.settings.raft.fetch_timeout_ms
        auto_join = AutoJoin(
            parts.engine, clock, parts.identity, own, parts.call_leader, fetch_timeout_ms, timeout_ms
        )
    return Membership(clock, own_endpoint, voter, registration, auto_join)


def _cluster_requests(
    parts: Parts, topics: TopicRequests, when_committed: Callable[[Outcome], None], router: RequestRouter
) -> ClusterRequests:
    return ClusterRequests(
        parts.engine,
        parts.identity,
        parts.discovery,
        parts.state_machine,
        topics,
        when_committed,
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
