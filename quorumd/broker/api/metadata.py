"""Metadata and DescribeCluster of brokers, which respond from the committed records of the metadata log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final

from quorumd.broker.api.broker_messages import add_registration, broker_message
from quorumd.broker.api.context import BrokerApiContext
from quorumd.broker.api.new_topics import NewTopics
from quorumd.broker.api.topic_listing import (
    Described,
    LargeTopics,
    TopicEntry,
    TopicListings,
    TopicSource,
    all_topics,
    requested_topics,
)
from quorumd.broker.api.topic_messages import SharedLists, metadata_partitions, missing_topic_error
from quorumd.broker.controller_requests.topic_creation import NewTopic, RequestingClient
from quorumd.controller.partition import NO_LEADER, PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID
from quorumd.protocol.connection import Request
from quorumd.protocol.endpoint_type import EndpointType
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from quorumd.protocol.routes import Route, Session

SLICE_PARTITIONS: Final = 400
"""The number of partitions of a large topic that are described per slice."""
MAX_CREATED: Final = 1000
"""Missing topics that one request creates; the client requests the others again, since it gets an error for them."""


class MetadataApis:
    """Handles Metadata, which may create missing topics, and DescribeCluster."""

    def __init__(self, context: BrokerApiContext) -> None:
        self._context = context
        source = TopicSource(
            lambda topic_id: context.metadata.image.topic_revision(topic_id),
            self._describe,
            lambda callback: callback(True),
            SLICE_PARTITIONS,
            LargeTopics(),
        )
        self._listings = TopicListings(source, context.begin)
        self._new_topics = NewTopics(context)

    def routes(self) -> Iterable[Route]:
        return (Route(MetadataRequest, self.metadata), Route(DescribeClusterRequest, self.describe_cluster))

    # Metadata

    def metadata(self, session: Session, request: Request[MetadataRequest]) -> None:
        """Describe brokers and topics, in slices if there are many, once new topics are served."""
        requested = request.message.topics
        entries: Callable[[], Iterator[TopicEntry | None]]
        missing: dict[str, NewTopic] = {}
        if not requested and request.api_version == 0:
            requested = None
        if requested is None:
            entries = partial(all_topics, lambda: self._context.metadata.image)
        else:
            entries = partial(requested_topics, lambda: self._context.metadata.image, requested)
            if request.message.allow_auto_topic_creation and self._context.settings.auto_create_topics:
                missing = self._missing_topics(requested)
        respond = partial(
            self._listings.respond,
            session,
            request,
            entries,
            partial(self._response, session.origin.listener),
        )
        if missing:
            self._context.topic_creation.create(missing, _client_of(session, request))
        awaited = missing.keys() | self._new_topics.opening(requested)
        if awaited:
            self._new_topics.when_served(awaited, respond)
        else:
            respond()

    def _response(self, listener: str, topics: list[MetadataResponseTopic]) -> MetadataResponse:
        """Build the response with these topics and the unfenced brokers that have an endpoint of the listener, or
        with this broker if all are fenced."""
        context = self._context
        settings, registered = context.settings, context.metadata.image.brokers
        unfenced = [each for each in sorted(registered) if not registered[each].is_fenced]
        brokers = [
            MetadataResponseBroker(broker_id, endpoint.host, endpoint.port, registered[broker_id].rack)
            # Without a broker, librdkafka forgets every address that it has, and does not connect again.
            for broker_id in unfenced or [settings.broker_id]
            if (endpoint := context.metadata.endpoint(broker_id, listener)) is not None
        ]
        cluster_id = settings.cluster_id
        return MetadataResponse(0, brokers, cluster_id, self._controller_id(), topics)

    def _controller_id(self) -> int:
        """Return the id of this broker, which forwards requests for the controller; -1 while it is fenced."""
        own_id = self._context.settings.broker_id
        return own_id if self._context.unfenced(own_id) is not None else NO_LEADER

    def _missing_topics(self, requested: Iterable[MetadataRequestTopic]) -> dict[str, NewTopic]:
        """Return the first MAX_CREATED requested topics that do not exist and have valid names, with the defaults of
        this broker."""
        existing = self._context.metadata.image.topic_ids
        missing = (
            (name, self._context.topic_defaults(name))
            for topic in requested
            if topic.topic_id == ZERO_UUID
            and (name := topic.name or "") not in existing
            and missing_topic_error(name) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        return dict(islice(missing, MAX_CREATED))

    def _describe(self, entry: TopicEntry, numbers: list[int], shared: SharedLists) -> Described:
        context, topic_id = self._context, entry.head.topic_id
        described = metadata_partitions(context.metadata.image, entry.partitions, numbers, shared)
        are_served = True
        for partition in described:
            # If the leader were named before it can append, the first batches would fail, and their retries could
            # be reordered.
            if partition.leader_id == context.settings.broker_id and not context.partitions.is_served(
                PartitionId(topic_id, partition.partition_index)
            ):
                are_served = False
                partition.leader_id = NO_LEADER
                partition.error_code = int(ErrorCode.LEADER_NOT_AVAILABLE)
        return Described(described, are_served)

    # DescribeCluster

    def describe_cluster(self, session: Session, request: Request[DescribeClusterRequest]) -> None:
        """List the brokers. Controllers are listed only by controllers."""
        message = request.message
        if message.endpoint_type != EndpointType.BROKER:
            is_known = message.endpoint_type == EndpointType.CONTROLLER
            error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            text = f"This endpoint belongs to a broker; endpoint type {message.endpoint_type} was requested."
            session.respond(request, DescribeClusterResponse(0, int(error), text))
            return
        context = self._context
        brokers: list[DescribeClusterBroker] = []
        for broker_id, broker in sorted(context.metadata.image.brokers.items()):
            endpoint = context.metadata.endpoint(broker_id, session.origin.listener)
            if endpoint is None or (broker.is_fenced and not message.include_fenced_brokers):
                continue
            described = broker_message(broker)
            described.host, described.port = endpoint.host, endpoint.port
            if message.include_registrations:
                add_registration(described, broker, context.metadata.image.index.leader_count(broker_id))
            brokers.append(described)
        cluster_id = context.settings.cluster_id
        session.respond(
            request,
            DescribeClusterResponse(
                0, 0, None, EndpointType.BROKER, cluster_id, self._controller_id(), brokers
            ),
        )


def _client_of(session: Session, request: Request[MetadataRequest]) -> RequestingClient:
    origin = session.origin
    return RequestingClient(
        origin.principal, origin.token_authenticated, origin.host, request.client_id or ""
    )
