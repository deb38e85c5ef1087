"""TxnOffsetCommit: commits offsets that become visible when a transaction is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from quorumd.broker.api.coordinator_lookup import GroupLookup
from quorumd.broker.api.topic_names import has_partition, topic_name, unknown_topic_error
from quorumd.broker.api.transaction_verification import TransactionVerifier
from quorumd.broker.coordinator.groups import GroupClient
from quorumd.broker.coordinator.internal_topics import InternalTopic, InternalTopics
from quorumd.broker.coordinator.offset_requests import CommittedOffset, Errors
from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.errors import ErrorCode
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from quorumd.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from quorumd.protocol.routes import Route, Session

IDS_SINCE: Final = 6
ADDS_SINCE: Final = 5
"""The first version whose clients do not send AddOffsetsToTxn: the broker adds the partition (KIP-890)."""


class TransactionalOffsetApis:
    """Handles TxnOffsetCommit.

    `verifier` adds the partition of the group to the transaction, or verifies that the transaction includes it.
    """

    def __init__(
        self,
        groups: GroupLookup,
        metadata: BrokerMetadata,
        internal_topics: InternalTopics,
        topic: InternalTopic,
        verifier: TransactionVerifier,
    ) -> None:
        self._groups = groups
        self._metadata = metadata
        self._internal_topics = internal_topics
        self._topic = topic
        self._verifier = verifier

    def routes(self) -> Iterable[Route]:
        """Return the routes of these APIs."""
        return (Route(TxnOffsetCommitRequest, self.commit),)

    def commit(self, session: Session, request: Request[TxnOffsetCommitRequest]) -> None:
        """Commit offsets as part of a transaction; respond once they are replicated."""
        message = request.message
        offsets, respond = self._read(session, request)

        def failed(error: ErrorCode) -> None:
            respond({offset.target: error for offset in offsets})

        def verified(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                failed(_for_client(error))
                return
            client = GroupClient(
                message.group_id,
                message.member_id,
                message.group_instance_id,
                message.generation_id_or_member_epoch,
            )
            self._groups.run(
                message.group_id,
                lambda machine, times: machine.commit(
                    client, offsets, times, respond, -1, message.producer_id, message.producer_epoch
                ),
                failed,
            )

        number = self._internal_topics.partition_of(self._topic, message.group_id)
        self._verifier.verify(
            message.transactional_id,
            (message.producer_id, message.producer_epoch),
            TopicPartition(self._topic.name, number),
            request.api_version >= ADDS_SINCE,
            verified,
        )

    def _read(
        self, session: Session, request: Request[TxnOffsetCommitRequest]
    ) -> tuple[list[CommittedOffset], Callable[[Errors], None]]:
        """Return the offsets of partitions that exist, and the responder for their errors."""
        message, by_id, image = request.message, request.api_version >= IDS_SINCE, self._metadata.image
        names = [topic_name(image, topic.name, topic.topic_id, by_id) for topic in message.topics]
        offsets = [
            CommittedOffset(
                TopicPartition(name, each.partition_index),
                each.committed_offset,
                each.committed_leader_epoch,
                each.committed_metadata,
                image.topic_ids[name],
            )
            for name, topic in zip(names, message.topics, strict=True)
            for each in topic.partitions
            if name is not None and has_partition(image, name, each.partition_index)
        ]

        def respond(errors: Errors) -> None:
            topics = []
            for name, topic in zip(names, message.topics, strict=True):
                missing = unknown_topic_error(by_id) if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                partitions = [
                    TxnOffsetCommitResponsePartition(
                        each.partition_index,
                        errors.get(TopicPartition(name or "", each.partition_index), missing),
                    )
                    for each in topic.partitions
                ]
                topics.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, partitions))
            session.respond(request, TxnOffsetCommitResponse(0, topics))

        return offsets, respond


def _for_client(error: ErrorCode) -> ErrorCode:
    """Return the error for the client, which has to retry if the transaction coordinator is not ready."""
    retriable = (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    )
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if error in retriable else error
