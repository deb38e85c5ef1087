"""The APIs of committed offsets: OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from quorumd.broker.api.coordinator_lookup import GroupLookup
from quorumd.broker.api.topic_names import has_partition, topic_name, unknown_topic_error
from quorumd.broker.coordinator.groups import GroupClient
from quorumd.broker.coordinator.offset_requests import CommittedOffset, Errors, FetchedOffset
from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.offset_commit_request import OffsetCommitRequest
from quorumd.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from quorumd.protocol.messages.offset_delete_request import OffsetDeleteRequest
from quorumd.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from quorumd.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from quorumd.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from quorumd.protocol.routes import Route, Session

IDS_SINCE: Final = 10
"""The first version in which OffsetCommit and OffsetFetch identify topics by id."""
GROUPS_SINCE: Final = 8
TOP_LEVEL_ERROR_SINCE: Final = 2


class OffsetApis:
    """Handlers of OffsetCommit, OffsetFetch and OffsetDelete."""

    def __init__(self, groups: GroupLookup, metadata: BrokerMetadata) -> None:
        self._groups = groups
        self._metadata = metadata

    def routes(self) -> Iterable[Route]:
        """Return the routes of these APIs."""
        return (
            Route(OffsetCommitRequest, self.offset_commit),
            Route(OffsetFetchRequest, self.offset_fetch),
            Route(OffsetDeleteRequest, self.offset_delete),
        )

    def offset_commit(self, session: Session, request: Request[OffsetCommitRequest]) -> None:
        """Commit the offsets of partitions that exist; respond once they are replicated."""
        message = request.message
        by_id = request.api_version >= IDS_SINCE
        image = self._metadata.image
        offsets = []
        names = []
        for topic in message.topics:
            name = topic_name(image, topic.name, topic.topic_id, by_id)
            names.append(name)
            for partition in topic.partitions:
                if name is not None and has_partition(image, name, partition.partition_index):
                    offsets.append(
                        CommittedOffset(
                            TopicPartition(name, partition.partition_index),
                            partition.committed_offset,
                            partition.committed_leader_epoch,
                            partition.committed_metadata,
                            image.topic_ids[name],
                        )
                    )
        client = GroupClient(
            message.group_id,
            message.member_id,
            message.group_instance_id,
            message.generation_id_or_member_epoch,
        )

        def respond(errors: Errors) -> None:
            session.respond(request, _commit_response(message, names, errors, by_id))

        self._groups.run(
            client.group,
            lambda machine, times: machine.commit(client, offsets, times, respond, message.retention_time_ms),
            lambda error: respond({offset.target: error for offset in offsets}),
        )

    # OffsetFetch

    def offset_fetch(self, session: Session, request: Request[OffsetFetchRequest]) -> None:
        """Respond with the committed offsets of every requested group."""
        message, version = request.message, request.api_version
        if version < GROUPS_SINCE:
            self._fetch_one(session, request)
            return
        found: dict[int, OffsetFetchResponseGroup] = {}

        def collect(index: int, group: OffsetFetchResponseGroup) -> None:
            found[index] = group
            if len(found) == len(message.groups):
                session.respond(
                    request, OffsetFetchResponse(groups=[found[each] for each in range(len(message.groups))])
                )

        for index, group in enumerate(message.groups):
            self._fetch_group(group, message.require_stable, version >= IDS_SINCE, index, collect)
        if not message.groups:
            session.respond(request, OffsetFetchResponse())

    def _fetch_group(
        self,
        group: OffsetFetchRequestGroup,
        require_stable: bool,
        by_id: bool,
        index: int,
        collect: Callable[[int, OffsetFetchResponseGroup], None],
    ) -> None:
        image = self._metadata.image
        unknown: list[OffsetFetchResponseTopics] = []
        targets: list[TopicPartition] | None = None
        if group.topics is not None:
            targets = []
            for topic in group.topics:
                name = topic_name(image, topic.name, topic.topic_id, True) if by_id else topic.name
                if name is None:
                    error = ErrorCode.UNKNOWN_TOPIC_ID
                    failed = [_fetched(FetchedOffset(TopicPartition("", number), error=error))
                              for number in topic.partition_indexes]  # fmt: skip
                    unknown.append(OffsetFetchResponseTopics("", topic.topic_id, failed))
                else:
                    targets += [TopicPartition(name, number) for number in topic.partition_indexes]
        client = GroupClient(group.group_id, group.member_id or "", None, group.member_epoch)

        def respond(error: ErrorCode, offsets: Sequence[FetchedOffset]) -> None:
            topics = [] if error is not ErrorCode.NONE else list(unknown)
            for name, partitions in _by_topic(offsets).items():
                topic_id = image.topic_ids.get(name, ZERO_UUID) if by_id else ZERO_UUID
                if not by_id or topic_id != ZERO_UUID:
                    topics.append(
                        OffsetFetchResponseTopics(name, topic_id, [_fetched(each) for each in partitions])
                    )
            collect(index, OffsetFetchResponseGroup(group.group_id, topics, error))

        self._groups.run(
            client.group,
            lambda machine, times: machine.fetch_offsets(client, targets, require_stable, times, respond),
            lambda error: respond(error, ()),
        )

    def _fetch_one(self, session: Session, request: Request[OffsetFetchRequest]) -> None:
        message = request.message
        targets: list[TopicPartition] | None = None
        if message.topics is not None:
            targets = [
                TopicPartition(topic.name, number)
                for topic in message.topics
                for number in topic.partition_indexes
            ]

        def respond(error: ErrorCode, offsets: Sequence[FetchedOffset]) -> None:
            if error is not ErrorCode.NONE and request.api_version < TOP_LEVEL_ERROR_SINCE:
                offsets = [FetchedOffset(target, error=error) for target in targets or ()]
            topics = [
                OffsetFetchResponseTopic(
                    name,
                    [
                        OffsetFetchResponsePartition(
                            each.target.partition, each.offset, each.leader_epoch, each.metadata, each.error
                        )
                        for each in partitions
                    ],
                )
                for name, partitions in _by_topic(offsets).items()
            ]
            session.respond(request, OffsetFetchResponse(topics=topics, error_code=error))

        self._groups.run(
            message.group_id,
            lambda machine, times: machine.fetch_offsets(
                GroupClient(message.group_id), targets, message.require_stable, times, respond
            ),
            lambda error: respond(error, ()),
        )

    def offset_delete(self, session: Session, request: Request[OffsetDeleteRequest]) -> None:
        """Delete committed offsets of topics to which no member subscribes."""
        message = request.message
        image = self._metadata.image
        requested = [
            TopicPartition(topic.name, partition.partition_index)
            for topic in message.topics
            for partition in topic.partitions
        ]
        targets = [target for target in requested if has_partition(image, *target)]

        def respond(error: ErrorCode, errors: Errors) -> None:
            topics = [
                OffsetDeleteResponseTopic(
                    topic.name,
                    [
                        OffsetDeleteResponsePartition(
                            each.partition_index,
                            errors.get(
                                TopicPartition(topic.name, each.partition_index),
                                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                            ),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in message.topics
            ]
            failed = error is not ErrorCode.NONE
            session.respond(request, OffsetDeleteResponse(error, 0, [] if failed else topics))

        self._groups.run(
            message.group_id,
            lambda machine, times: machine.delete_offsets(message.group_id, targets, respond),
            lambda error: respond(error, {}),
        )


def _commit_response(
    message: OffsetCommitRequest, names: Sequence[str | None], errors: Errors, by_id: bool
) -> OffsetCommitResponse:
    topics = []
    for topic, name in zip(message.topics, names, strict=True):
        missing = unknown_topic_error(by_id) if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions = [
            OffsetCommitResponsePartition(
                each.partition_index, errors.get(TopicPartition(name or "", each.partition_index), missing)
            )
            for each in topic.partitions
        ]
        topics.append(OffsetCommitResponseTopic(topic.name, _id_or_zero(topic.topic_id, by_id), partitions))
    return OffsetCommitResponse(0, topics)


def _id_or_zero(topic_id: KafkaUuid, by_id: bool) -> KafkaUuid:
    return topic_id if by_id else ZERO_UUID


def _by_topic(offsets: Sequence[FetchedOffset]) -> dict[str, list[FetchedOffset]]:
    topics: dict[str, list[FetchedOffset]] = {}
    for each in offsets:
        topics.setdefault(each.target.topic, []).append(each)
    return topics


def _fetched(each: FetchedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        each.target.partition, each.offset, each.leader_epoch, each.metadata, each.error
    )
