"""Requests that must be refused: about voters, controllers and brokers, and in envelopes.

None of them may have an effect, so that any seed may include them, whatever else its operators do.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, ZERO_UUID, KafkaUuid
from quorumd.node.node import Node
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.messages import add_raft_voter_request as additions
from quorumd.protocol.messages import alter_quorum_request as targets
from quorumd.protocol.messages import assign_replicas_to_dirs_request as directories
from quorumd.protocol.messages import broker_registration_request as brokers
from quorumd.protocol.messages import controller_registration_request as controllers
from quorumd.protocol.messages import create_topics_request as topics
from quorumd.protocol.messages import update_raft_voter_request as updates
from quorumd.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.envelope_request import EnvelopeRequest
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.security.forwarded_principals import serialize
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import LISTENER_NAME, Cluster, Machine
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.faults.base import RunningNodeFault
from quorumd.simulator.workload.request_connection import RequestConnection

HOST: Final = "10.0.2.2"
UNKNOWN: Final = 950
"""An id that no node, broker or controller has."""
MAX_REQUESTS: Final = 30
MANY_TOPICS: Final = 101
TIMEOUT_MS: Final = 500


class Refused(NamedTuple):
    """A request in one of its versions."""

    request: Message
    version: int


class InvalidRequestFault(RunningNodeFault):
    """Sends invalid requests to a node, each of which must get an error."""

    invariant: str
    client: str
    """The client id of the requests."""
    host: str
    counted_as: str
    """The prefix of the counters of the requests."""
    closes: bool
    """Whether the connection is closed after the response."""

    def send(self, cluster: Cluster, machine: Machine, refused: Refused) -> None:
        """Send a request. The handler of its response raises InvariantViolation if it is accepted."""
        counter = f"{self.counted_as}: {refused.request.NAME.removesuffix('Request')}"

        def on_response(message: Message | None) -> None:
            if self.closes:
                link.abandon()
            if message is None:
                cluster.counters[f"{counter} without response"] += 1
                return
            cluster.counters[counter] += 1
            if not any(code for code, _ in errors_in(message)):
                raise InvariantViolation(self.invariant, f"{refused.request!r} was accepted: {message!r}")

        link = RequestConnection(self.client, *refused, on_response)
        cluster.network.host(self.host, Process(self.client)).connect(machine.host, machine.port, link)


class RefusedRequest(InvalidRequestFault):
    """Requests to one node, each of which is invalid in one way."""

    name = "refused request"
    invariant = "invalid requests are refused"
    client, host = "client", HOST
    counted_as = "refused"
    closes = False

    def inject(self, cluster: Cluster, random: Random) -> None:
        """Send the requests to any node, or to a leader, which does not refuse them for not leading."""
        running = cluster.running()
        leaders = [
            machine for machine in running if machine.node is not None and machine.node.engine.is_leader
        ]
        self.hurt(cluster, random, random.choice(leaders if leaders and random.random() < 0.5 else running))

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        node = machine.node
        if node is None or machine.exiting:
            return
        for _ in range(1 + random.randrange(MAX_REQUESTS)):
            refused = random.choice(_KINDS)(random, node)
            self.send(cluster, machine, refused)


def _uuid(random: Random) -> KafkaUuid:
    return KafkaUuid(random.randbytes(16))


def _target(random: Random, node: Node) -> Refused:
    voters = [targets.TargetVoter(each) for each in random.choice(([], [-1], [1, 1], [UNKNOWN]))]
    topic, cluster_id = METADATA_TOPIC, ""
    if random.random() < 0.4:
        topic, cluster_id = random.choice((("unknown", ""), (METADATA_TOPIC, "another")))
    topic_data = targets.TopicData(topic, [targets.PartitionData(METADATA_PARTITION, voters)])
    topic_count = MANY_TOPICS if random.random() < 0.2 else 1
    return Refused(targets.AlterQuorumRequest(cluster_id, [topic_data] * topic_count), 0)


def _addition(random: Random, node: Node) -> Refused:
    """Add a voter that is invalid, unreachable, a voter already, or unknown to the leader."""
    own = node.settings.listen
    listener = additions.Listener(LISTENER_NAME, own.host, own.port)
    request = additions.AddRaftVoterRequest(None, TIMEOUT_MS, UNKNOWN, _uuid(random), [listener])
    way = random.randrange(8)
    if way == 0:
        request.voter_id = -1
    elif way == 1:
        request.voter_directory_id = ZERO_UUID
    elif way == 2:
        request.listeners = random.choice(([], [listener, listener]))
    elif way == 3:
        listener.name = random.choice(("OTHER", "", "x" * 300))
    elif way == 4:
        listener.host, listener.port = random.choice(
            (("10.0.99.1", 9), (own.host, 9), (own.host, 0), ("", 9))
        )
    elif way == 5:
        request.cluster_id = "another"
    elif way == 6:
        voter = random.choice(node.engine.voters.current.voters or (None,))
        if voter is not None:
            request.voter_id = voter.key.id
    return Refused(request, random.choice((0, 1)))


def _removal(random: Random, node: Node) -> Refused:
    voter_id, directory_id = random.choice(((UNKNOWN, _uuid(random)), (-1, _uuid(random)), (1, ZERO_UUID)))
    cluster_id = "another" if random.random() < 0.2 else None
    return Refused(RemoveRaftVoterRequest(cluster_id, voter_id, directory_id), 0)


def _update(random: Random, node: Node) -> Refused:
    """Update a voter that does not exist, in an old epoch, or without an address or a supported version."""
    listener = updates.Listener(LISTENER_NAME, HOST, 9)
    request = updates.UpdateRaftVoterRequest(
        None, node.engine.epoch, UNKNOWN, _uuid(random), [listener], updates.KRaftVersionFeature(0, 1)
    )
    way = random.randrange(6)
    if way == 0:
        request.voter_directory_id = ZERO_UUID
    elif way == 1:
        request.listeners = random.choice(([], [listener, listener]))
    elif way == 2:
        request.kraft_version_feature = updates.KRaftVersionFeature(2, 3)
    elif way == 3:
        request.cluster_id = "another"
    elif way == 4:
        request.current_leader_epoch += random.choice((-1, 1, 1000))
    return Refused(request, 0)


def _controller(random: Random, node: Node) -> Refused:
    listener = controllers.Listener(LISTENER_NAME, HOST, 9, 0)
    feature = controllers.Feature("metadata.version", 7, 20)
    request = controllers.ControllerRegistrationRequest(UNKNOWN, _uuid(random), False, [listener], [feature])
    way = random.randrange(7)
    if way == 0:
        request.controller_id = -1
    elif way == 1:
        request.incarnation_id = ZERO_UUID
    elif way == 2:
        request.listeners = [listener, listener]
    elif way == 3:
        request.features = [feature] * random.choice((2, 101))
    elif way == 4:
        listener.name, listener.host, listener.port = random.choice(
            (("", HOST, 9), ("X", "", 9), ("X", HOST, 0))
        )
    elif way == 5:
        listener.security_protocol = 9
    else:
        feature.name, feature.min_supported_version = random.choice((("", 7), ("x", 21), ("x", -1)))
    return Refused(request, 0)


def _no_controller(random: Random, node: Node) -> Refused:
    return Refused(UnregisterControllerRequest(UNKNOWN), 0)


def _broker(random: Random, node: Node) -> Refused:
    """Register a broker of another cluster, or with an invalid id, listener, feature or directory."""
    listener = brokers.Listener("BROKER", HOST, 9, 0)
    level = node.state_machine.image.metadata_version
    feature = brokers.Feature("metadata.version", 1, level)
    request = brokers.BrokerRegistrationRequest(
        UNKNOWN, node.cluster_id or "", _uuid(random), [listener], [feature], None, log_dirs=[_uuid(random)]
    )
    way = random.randrange(8)
    if way == 0:
        request.broker_id = -1
    elif way == 1:
        request.cluster_id = "another"
    elif way == 2:
        request.listeners = [listener, listener]
    elif way == 3:
        request.log_dirs = random.choice(([request.log_dirs[0]] * 2, [ZERO_UUID]))
    elif way == 4:
        listener.name, listener.host, listener.port = random.choice(
            (("", HOST, 9), ("X", "", 9), ("X", HOST, 0))
        )
    elif way == 5:
        request.is_migrating_zk_broker = True
    elif way == 6:
        request.features = random.choice(
            ([], [feature, feature], [brokers.Feature("metadata.version", 30, 7)])
        )
    else:
        feature.max_supported_version = 1
    return Refused(request, request.MAX_VERSION)


def _of_broker(random: Random, node: Node) -> Refused:
    """Send a request in the name of a broker that is not registered."""
    part = directories.TopicData(_uuid(random), [directories.PartitionData(0)])
    data = directories.DirectoryData(_uuid(random), [part])
    request: Message = random.choice(
        (
            AllocateProducerIdsRequest(UNKNOWN, 1),
            BrokerHeartbeatRequest(UNKNOWN, 1),
            directories.AssignReplicasToDirsRequest(UNKNOWN, 1, [data]),
        )
    )
    return Refused(request, request.MAX_VERSION)


def _envelope(random: Random, node: Node) -> Refused:
    """Wrap a request that may not be forwarded, or that is damaged."""
    wrapped: Message = random.choice((ApiVersionsRequest("x", "1"), topics.CreateTopicsRequest()))
    if isinstance(wrapped, topics.CreateTopicsRequest):
        wrapped.topics = [topics.CreatableTopic(f"topic{number}", 1, 1) for number in range(3)]
    data = bytes(ClientConnection("client").request(wrapped, wrapped.MAX_VERSION)[1])[4:]
    if isinstance(wrapped, topics.CreateTopicsRequest):
        data = random.choice((data[:-3], data[: len(data) // 2], data[:9], b"", random.randbytes(60)))
    principal = random.choice((b"", serialize("User:client", False)))
    return Refused(EnvelopeRequest(data, principal, bytes(4)), 0)


_KINDS: tuple[Callable[[Random, Node], Refused], ...] = (
    _target,
    _addition,
    _addition,
    _removal,
    _update,
    _controller,
    _no_controller,
    _broker,
    _of_broker,
    _envelope,
)
