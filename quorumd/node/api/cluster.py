"""The APIs that describe the cluster and that every node serves: ApiVersions, Metadata, DescribeCluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from quorumd.broker.api.broker_messages import add_registered_brokers, endpoint_for_clients
from quorumd.broker.api.topic_listing import TopicEntry
from quorumd.controller.cluster_image import KRAFT_VERSION
from quorumd.controller.features import KRAFT_VERSION_LEVEL
from quorumd.controller.metadata_versions import SUPPORTED_FEATURES
from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, METADATA_TOPIC_ID, NO_NODE
from quorumd.node.api.context import ApiContext
from quorumd.node.api.endpoints import NodeEndpoints
from quorumd.node.api.topic_listing import NodeTopics
from quorumd.protocol.apis import APIS
from quorumd.protocol.connection import CLIENT_SOFTWARE_NAME, Request
from quorumd.protocol.endpoint_type import EndpointType
from quorumd.protocol.messages import (
    api_versions_response,
    describe_cluster_response,
    metadata_response,
)
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.routes import Route, Session
from quorumd.protocol.wire import Message

Node = tuple[int, str, int]
"""Id, host and port."""

MIN_ZERO_FEATURES_VERSION = 4
"""Versions of ApiVersions below this cannot carry a supported feature whose minimum is 0 (KAFKA-17492)."""


class ClusterApis:
    """Describes the cluster as this node knows it.

    Responses about topics and brokers wait until their content is committed. Responses about the metadata log and
    the controllers do not wait, since clients find the leader with them. A client gets the endpoints with the
    name of its own listener.
    """

    def __init__(self, context: ApiContext) -> None:
        self._engine = context.quorum.engine
        self._identity = context.quorum.identity
        self._discovery = context.peers.discovery
        self._state_machine = context.metadata.state_machine
        self._committed_image = context.execution.committed_image
        self._topics = NodeTopics(context)
        self._router = context.gates.router
        self._endpoints = NodeEndpoints(context)

    def routes(self) -> Iterable[Route]:
        return (
            Route(ApiVersionsRequest, self.api_versions),
            Route(MetadataRequest, self.metadata),
            Route(DescribeClusterRequest, self.describe_cluster),
        )

    def api_versions(self, session: Session, request: Request[ApiVersionsRequest]) -> None:
        """List the supported APIs; private ones only to quorumd, since kafka-python fails on unknown keys.

        A client that names another cluster or node (KIP-1242) gets a normal response, as from Kafka's controllers:
        only brokers send clients back to their bootstrap servers (REBOOTSTRAP_REQUIRED).
        """
        message = request.message
        wire = api_versions_response
        if (message.cluster_id is None) != (message.node_id == NO_NODE):
            session.respond(request, wire.ApiVersionsResponse(int(ErrorCode.INVALID_REQUEST)))
            return
        is_ours = message.client_software_name == CLIENT_SOFTWARE_NAME
        response = wire.ApiVersionsResponse(
            0,
            [
                wire.ApiVersion(key, low, high)
                for key, (low, high) in sorted(self._router.supported_versions.items())
                if is_ours or not APIS[key].private
            ],
        )
        if request.api_version >= 3:
            response.supported_features = [
                wire.SupportedFeatureKey(name, low, high)
                for name, low, high in SUPPORTED_FEATURES
                if low > 0 or request.api_version >= MIN_ZERO_FEATURES_VERSION
            ]
            features = self._committed_image.features()
            response.finalized_features_epoch = features.end_offset
            response.finalized_features = [
                wire.FinalizedFeatureKey(name, level, level)
                for name, level in sorted(self._finalized(features.levels))
            ]
        session.respond(request, response)

    def metadata(self, session: Session, request: Request[MetadataRequest]) -> None:
        """List the quorum nodes and the unfenced registered brokers as brokers. The metadata log is listed only if
        requested by name or id. No topic is created."""
        requested = request.message.topics
        describe = partial(self._metadata, session.origin.listener)
        if requested is None or (not requested and request.api_version == 0):
            self._topics.respond(session, request, self._topics.all_topics, describe)
        elif all(_is_metadata_log(topic) for topic in requested):
            # Nodes find the leader with this request, so it must not wait for a commit.
            topics = [self._metadata_log(session.origin.listener)] if requested else []
            self._topics.send(session, request, describe(topics))
        else:
            self._topics.respond(
                session,
                request,
                lambda: self._requested_entries(session.origin.listener, requested),
                describe,
            )

    def _requested_entries(
        self, listener: str, requested: list[MetadataRequestTopic]
    ) -> Iterator[TopicEntry | None]:
        is_log_listed = False
        entries = self._topics.requested_topics(requested)
        for topic, entry in zip(requested, entries, strict=True):
            if not _is_metadata_log(topic):
                yield entry
            elif is_log_listed:
                yield None
            else:
                is_log_listed = True
                yield TopicEntry(self._metadata_log(listener), {})

    def _metadata(
        self, listener: str, topics: list[metadata_response.MetadataResponseTopic]
    ) -> metadata_response.MetadataResponse:
        wire = metadata_response
        nodes = self._nodes(listener)
        brokers = {node_id: wire.MetadataResponseBroker(node_id, host, port) for node_id, host, port in nodes}
        for broker in self._state_machine.image.brokers.values():
            endpoint = endpoint_for_clients(broker, listener)
            if endpoint is not None and not broker.is_fenced:
                brokers.setdefault(
                    broker.id,
                    wire.MetadataResponseBroker(broker.id, endpoint.host, endpoint.port, broker.rack),
                )
        return wire.MetadataResponse(
            0,
            [broker for _, broker in sorted(brokers.items())],
            self._identity.cluster_id or None,
            self._controller_among(nodes),
            topics,
        )

    def describe_cluster(self, session: Session, request: Request[DescribeClusterRequest]) -> None:
        """Endpoint type 1: all nodes and registered brokers as brokers (KIP-1073: fenced ones on request), once
        committed. Type 2: the registered controllers and the voters not yet registered, with the leader as active."""
        message = request.message
        wire = describe_cluster_response
        if message.endpoint_type not in set(EndpointType):
            error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            text = f"Endpoint type {message.endpoint_type} is neither 1 (brokers) nor 2 (controllers)."
            session.respond(request, wire.DescribeClusterResponse(0, int(error), text))
            return
        if message.endpoint_type == EndpointType.CONTROLLER:
            session.origin.is_controller_client = True
            session.respond(request, self._controllers(session.origin.listener))
            return
        self._committed_image.respond(
            session, request, lambda: self._brokers(session.origin.listener, message)
        )

    def _brokers(self, listener: str, message: DescribeClusterRequest) -> Message:
        nodes = self._nodes(listener)
        brokers = _by_id(nodes)
        add_registered_brokers(
            brokers,
            self._state_machine.image,
            message.include_fenced_brokers,
            message.include_registrations,
        )
        return self._cluster(EndpointType.BROKER, self._controller_among(nodes), brokers)

    def _controllers(self, listener: str) -> Message:
        leader_id, voters = self._engine.leader_id, self._engine.voters.current.ids
        nodes = {node[0]: node for node in self._nodes(listener) if node[0] in voters or node[0] == leader_id}
        for registered in self._state_machine.image.controllers.values():
            for each in registered.listeners:
                if each.name == listener:
                    nodes[registered.id] = (registered.id, each.host, each.port)
        described = list(nodes.values())
        return self._cluster(EndpointType.CONTROLLER, self._leader_among(described), _by_id(described))

    def _cluster(
        self,
        endpoint_type: int,
        controller_id: int,
        brokers: dict[int, describe_cluster_response.DescribeClusterBroker],
    ) -> Message:
        return describe_cluster_response.DescribeClusterResponse(
            0,
            0,
            None,
            endpoint_type,
            self._identity.cluster_id or "",
            controller_id,
            [broker for _, broker in sorted(brokers.items())],
        )

    def _finalized(self, features: Mapping[str, int]) -> list[tuple[str, int]]:
        """The features above level 0. kraft.version follows from the voter records, not from a feature record."""
        found = [(name, level) for name, level in features.items() if level > 0 and name != KRAFT_VERSION]
        if self._engine.voters.current.voters and self._identity.cluster_id is not None:
            found.append((KRAFT_VERSION, KRAFT_VERSION_LEVEL))
        return found

    def _leader_among(self, nodes: list[Node]) -> int:
        """The leader's id if it is among the nodes: clients fail on a controller that is not in the list."""
        leader_id = self._engine.leader_id
        return leader_id if any(node_id == leader_id for node_id, _, _ in nodes) else NO_NODE

    def _controller_among(self, nodes: list[Node]) -> int:
        """The controller for clients of brokers: the leader, or else this node, which forwards to the next leader.

        Always a reachable node: librdkafka does not refresh its metadata while it waits for a controller. Kafka's
        brokers also name one of themselves.
        """
        leader_id = self._leader_among(nodes)
        is_usable = leader_id != NO_NODE and self._discovery.is_reachable(leader_id)
        return leader_id if is_usable else self._discovery.own_id

    def _nodes(self, listener: str) -> list[Node]:
        """The nodes that are known to be reachable, and the leader in any case, since clients look for it."""
        leader_id = self._engine.leader_id
        return [
            (node_id, endpoint.host, endpoint.port)
            for node_id, _ in self._discovery.addresses()
            if node_id == leader_id or self._discovery.is_reachable(node_id)
            if (endpoint := self._endpoints.endpoint_of(node_id, listener)) is not None
        ]

    def _metadata_log(self, listener: str) -> metadata_response.MetadataResponseTopic:
        """The metadata log as a topic: its leader and its voters."""
        wire = metadata_response
        leader_id = self._leader_among(self._nodes(listener))
        voters = list(self._engine.voters.current.ids)
        error = ErrorCode.NONE if leader_id != NO_NODE else ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition = wire.MetadataResponsePartition(
            int(error), METADATA_PARTITION, leader_id, self._engine.epoch, voters, voters, []
        )
        return wire.MetadataResponseTopic(0, METADATA_TOPIC, METADATA_TOPIC_ID, True, [partition])


def _by_id(nodes: list[Node]) -> dict[int, describe_cluster_response.DescribeClusterBroker]:
    wire = describe_cluster_response
    return {node_id: wire.DescribeClusterBroker(node_id, host, port) for node_id, host, port in nodes}


def _is_metadata_log(requested: MetadataRequestTopic) -> bool:
    return requested.name == METADATA_TOPIC or requested.topic_id == METADATA_TOPIC_ID
