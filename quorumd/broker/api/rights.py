"""The ACL operations that requests about topics require, as rules that check a request before its handler runs.

A rule removes from the request what the client may not access. It returns None, an `Extend` that adds the results of
the removed items to the response, or a complete response. The errors are the same as in Kafka; the result of
a removed item contains only what the request names. The rule of an API whose requests are not divided into parts
decides in steps."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import (
    alter_replica_log_dirs_response,
    delete_records_response,
    describe_producers_response,
    list_offsets_response,
    metadata_response,
    offset_for_leader_epoch_response,
    produce_response,
)
from quorumd.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from quorumd.protocol.messages.delete_records_request import DeleteRecordsRequest, DeleteRecordsTopic
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.messages.describe_producers_request import DescribeProducersRequest
from quorumd.protocol.messages.describe_producers_request import TopicRequest as ProducersTopic
from quorumd.protocol.messages.list_offsets_request import ListOffsetsRequest, ListOffsetsTopic
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderTopic,
)
from quorumd.protocol.messages.produce_request import ProduceRequest, TopicProduceData
from quorumd.protocol.response_errors import top_level_error
from quorumd.protocol.wire import Message, MessageStruct
from quorumd.security.acls import CLUSTER_NAME, Operation, ResourceType
from quorumd.security.authorizer import Access

DENIED_TOPIC: Final = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
AUTHORIZATION_FAILED: Final = "Authorization failed."
CREATE_ON_METADATA: Final = 4
"""The first version of Metadata in which the client chooses whether missing topics are created."""

T = TypeVar("T")
M_co = TypeVar("M_co", bound=Message, covariant=True)
R = TypeVar("R", bound=Message)


class Extend(Generic[R]):
    """The request may be handled; then the response is extended."""

    def __init__(
        self,
        hook: Callable[[R], None],
        is_complete: bool = False,
        extend_part: Callable[[R], None] = lambda part: None,
    ) -> None:
        self.hook = hook
        """Extends the response, or its last part."""
        self.is_complete = is_complete
        """Whether the whole request was refused, so that the hook extends an empty response."""
        self.extend_part = extend_part
        """Extends each part but the last of a response that is sent in parts."""


class Close:
    """Close the connection: the client expects no response, as after Produce with acks=0."""


Ruling = Message | Extend[Any] | Close | None
"""A complete response, an extension of the response, or None if the whole request is allowed."""
Steps = Generator[int, None, Ruling]
"""Steps that yield their units of work and return a ruling; see `SteppedTask`."""


class Check(Generic[M_co]):
    """A request to check, with the access of its client and the metadata of this node."""

    __slots__ = ("access", "image", "message", "request")

    def __init__(self, access: Access, image: ClusterImage, request: Request[M_co]) -> None:
        self.access = access
        self.image = image
        self.request = request
        self.message: M_co = request.message

    def topic_name(self, item: object) -> str | None:
        """The name of a topic in a request, by name or by id; None for an unknown id, which no ACL protects."""
        topic_id = getattr(item, "topic_id", ZERO_UUID)
        if topic_id != ZERO_UUID:
            topic = self.image.topics.get(topic_id)
            return topic.name if topic is not None else None
        name: str | None = getattr(item, "name", None) or getattr(item, "topic", None)
        return name or ""

    def split(
        self, items: Iterable[T], operation: int, *, logs_denied: bool = True
    ) -> tuple[list[T], list[T]]:
        """Split items that name topics into (allowed, refused), by whether the client may do the operation."""
        known: dict[str, bool] = {}
        kept: list[T] = []
        refused: list[T] = []
        for item in items:
            name = self.topic_name(item)
            if name is None:
                kept.append(item)
                continue
            if name not in known:
                known[name] = self.access.allows(operation, ResourceType.TOPIC, name, logs_denied=logs_denied)
            (kept if known[name] else refused).append(item)
        return kept, refused

    def filter(
        self, items: list[T], operation: int, results: str, refuse: Callable[[T], MessageStruct]
    ) -> Ruling:
        """Keep the allowed items in a list of the request; `refuse` builds the results of the refused ones.

        `results` is the name of the field of the response that contains the results.
        """
        kept, refused = self.split(items, operation)
        if not refused:
            return None
        items[:] = kept
        added = [refuse(item) for item in refused]

        def hook(response: Message) -> None:
            getattr(response, results).extend(added)

        return Extend(hook, not kept)

    def top_level(self, error: ErrorCode) -> Message:
        """Build an empty response with a top-level error."""
        return top_level_error(self.request.api_key, error, AUTHORIZATION_FAILED)

    @property
    def is_cluster_member(self) -> bool:
        """Whether the client acts for the cluster, as brokers do."""
        return self.access.allows_cluster(Operation.CLUSTER_ACTION, logs_denied=False)


Rule = Callable[[Check[Any]], Ruling | Steps]
"""Checks the requests of one API; see `TOPIC_RULES`."""


def produce(check: Check[ProduceRequest]) -> Ruling:
    """WRITE on the transactional id and on the topics."""
    message, wire = check.message, produce_response
    transactional_id = message.transactional_id

    def refuse(
        topic: TopicProduceData, error: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ) -> produce_response.TopicProduceResponse:
        return wire.TopicProduceResponse(
            topic.name,
            topic.topic_id,
            [wire.PartitionProduceResponse(each.index, int(error), -1) for each in topic.partition_data],
        )

    ruling: Ruling
    if transactional_id is not None and not check.access.allows(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        ruling = wire.ProduceResponse([refuse(topic, error) for topic in message.topic_data])
    else:
        ruling = check.filter(message.topic_data, Operation.WRITE, "responses", refuse)
    return ruling if ruling is None or message.acks != 0 else Close()


def list_offsets(check: Check[ListOffsetsRequest]) -> Ruling:
    """DESCRIBE on the topics."""
    wire = list_offsets_response

    def refuse(topic: ListOffsetsTopic) -> list_offsets_response.ListOffsetsTopicResponse:
        return wire.ListOffsetsTopicResponse(
            topic.name,
            [wire.ListOffsetsPartitionResponse(p.partition_index, DENIED_TOPIC) for p in topic.partitions],
        )

    return check.filter(check.message.topics, Operation.DESCRIBE, "topics", refuse)


def metadata(check: Check[MetadataRequest]) -> Steps:
    """DESCRIBE on the topics, and CREATE on topics that would be created. A request for all topics gets those with
    DESCRIBE."""
    return _metadata(check, check.message.allow_auto_topic_creation)


def metadata_without_creation(check: Check[MetadataRequest]) -> Steps:
    """DESCRIBE on the topics, on a node that creates none: a missing topic is unknown whatever else is allowed."""
    return _metadata(check, creates=False)


def _metadata(check: Check[MetadataRequest], creates: bool) -> Steps:
    message = check.message
    version = check.request.api_version
    requested = message.topics
    added: list[metadata_response.MetadataResponseTopic] = []
    lists_all = requested is None or (version == 0 and not requested)
    if requested is None or lists_all:
        yield from _keep_described(check)
    else:
        message.topics = yield from _kept(check, requested, added, creates)
    hides_all = not message.topics and ((version == 0 and lists_all) or bool(added))
    wants_operations = message.include_topic_authorized_operations
    wants_cluster = message.include_cluster_authorized_operations and 8 <= version <= 10
    if not (added or hides_all or wants_operations or wants_cluster):
        return None

    def extend_part(response: metadata_response.MetadataResponse) -> None:
        if hides_all:
            response.topics = []
        if wants_operations:
            add_topic_operations(check.access, response.topics)

    def hook(response: metadata_response.MetadataResponse) -> None:
        extend_part(response)
        if wants_cluster:
            response.cluster_authorized_operations = cluster_operations(check.access)
        response.topics.extend(added)
        added.clear()

    return Extend(hook, extend_part=extend_part)


def _keep_described(check: Check[MetadataRequest]) -> Generator[int, None, None]:
    """Turn a request for all topics into one for those with DESCRIBE, unless these are all."""
    message, names = check.message, check.image.topic_ids.names()
    kept: list[MetadataRequestTopic] = []
    for name in names:
        if check.access.allows(Operation.DESCRIBE, ResourceType.TOPIC, name, logs_denied=False):
            kept.append(MetadataRequestTopic(name=name))
        yield 1
    if len(kept) < len(names):
        message.topics = kept
        message.allow_auto_topic_creation = False


def _kept(
    check: Check[MetadataRequest],
    requested: Iterable[MetadataRequestTopic],
    added: list[metadata_response.MetadataResponseTopic],
    creates: bool,
) -> Generator[int, None, list[MetadataRequestTopic]]:
    """Return the topics that the client may describe or, if they are missing and would be created, create. Add the
    results of the others to `added`."""
    known: dict[str, bool] = {}
    kept: list[MetadataRequestTopic] = []
    for item in requested:
        name = check.topic_name(item)
        if name is not None and name not in known:
            known[name] = _may_request(check, name, creates)
        if name is None or known[name]:
            kept.append(item)
        else:
            added.append(_refused_metadata(item))
        yield 1
    return kept


def _may_request(check: Check[MetadataRequest], name: str, creates: bool) -> bool:
    access = check.access
    if not access.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
        return False
    if not name or name in check.image.topic_ids or not creates:
        return True
    return access.allows_cluster(Operation.CREATE, logs_denied=False) or access.allows(
        Operation.CREATE, ResourceType.TOPIC, name
    )


def _refused_metadata(item: MetadataRequestTopic) -> metadata_response.MetadataResponseTopic:
    """Build the result of a refused topic, with only what the request contains: its name or its id."""
    if item.topic_id != ZERO_UUID:
        return metadata_response.MetadataResponseTopic(DENIED_TOPIC, None, item.topic_id)
    return metadata_response.MetadataResponseTopic(DENIED_TOPIC, item.name)


def add_topic_operations(access: Access, topics: Iterable[metadata_response.MetadataResponseTopic]) -> None:
    """Set the authorized operations of topics in a response."""
    for topic in topics:
        if topic.name:
            topic.topic_authorized_operations = access.operations(ResourceType.TOPIC, topic.name)


def cluster_operations(access: Access) -> int:
    """The authorized operations of the cluster, 0 for a client that may not describe it."""
    if not access.allows_cluster(Operation.DESCRIBE):
        return 0
    return access.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def delete_records(check: Check[DeleteRecordsRequest]) -> Ruling:
    """DELETE on the topics."""
    wire = delete_records_response

    def refuse(topic: DeleteRecordsTopic) -> delete_records_response.DeleteRecordsTopicResult:
        return wire.DeleteRecordsTopicResult(
            topic.name,
            [
                wire.DeleteRecordsPartitionResult(p.partition_index, -1, DENIED_TOPIC)
                for p in topic.partitions
            ],
        )

    return check.filter(check.message.topics, Operation.DELETE, "topics", refuse)


def offset_for_leader_epoch(check: Check[OffsetForLeaderEpochRequest]) -> Ruling:
    """CLUSTER_ACTION, or DESCRIBE on the topics."""
    if check.is_cluster_member:
        return None
    wire = offset_for_leader_epoch_response

    def refuse(topic: OffsetForLeaderTopic) -> offset_for_leader_epoch_response.OffsetForLeaderTopicResult:
        return wire.OffsetForLeaderTopicResult(
            topic.topic, [wire.EpochEndOffset(DENIED_TOPIC, each.partition) for each in topic.partitions]
        )

    return check.filter(check.message.topics, Operation.DESCRIBE, "topics", refuse)


def describe_producers(check: Check[DescribeProducersRequest]) -> Ruling:
    """READ on the topics."""
    wire = describe_producers_response

    def refuse(topic: ProducersTopic) -> describe_producers_response.TopicResponse:
        return wire.TopicResponse(
            topic.name, [wire.PartitionResponse(number, DENIED_TOPIC) for number in topic.partition_indexes]
        )

    return check.filter(check.message.topics, Operation.READ, "topics", refuse)


def alter_replica_log_dirs(check: Check[AlterReplicaLogDirsRequest]) -> Ruling:
    """ALTER on the cluster."""
    if check.access.allows_cluster(Operation.ALTER):
        return None
    wire, error = alter_replica_log_dirs_response, int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return wire.AlterReplicaLogDirsResponse(
        0,
        [
            wire.AlterReplicaLogDirTopicResult(
                topic.name,
                [wire.AlterReplicaLogDirPartitionResult(number, error) for number in topic.partitions],
            )
            for directory in check.message.dirs
            for topic in directory.topics
        ],
    )


def describe_cluster(check: Check[DescribeClusterRequest]) -> Ruling:
    """Nothing for the brokers, DESCRIBE on the cluster for its authorized operations, and for the epochs and all
    listeners of the brokers, which Kafka's response does not have."""
    if check.message.include_registrations and not check.access.allows_cluster(Operation.DESCRIBE):
        return check.top_level(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not check.message.include_cluster_authorized_operations:
        return None

    def hook(response: DescribeClusterResponse) -> None:
        response.cluster_authorized_operations = cluster_operations(check.access)

    return Extend(hook)


def requires_cluster(operation: Operation) -> Rule:
    """Return the rule of an API that requires an operation on the cluster; its response has a top-level error."""

    def rule(check: Check[Message]) -> Ruling:
        if check.access.allows_cluster(operation):
            return None
        return check.top_level(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    return rule


TOPIC_RULES: Final[Mapping[int, Rule]] = {
    ApiKey.PRODUCE: produce,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.METADATA: metadata,
    ApiKey.DELETE_RECORDS: delete_records,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: requires_cluster(Operation.DESCRIBE),
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
}
"""The rules by API key. Fetch is checked by its handler, since a fetch session outlives a request."""
