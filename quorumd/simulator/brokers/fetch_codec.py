"""Fetch between model brokers, in Kafka's format except for the records, which have the format of `data_log`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quorumd.broker.replication.replica_fetch import FetchDecision, FetchedPartition, ReplicaFetch
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid, OffsetAndEpoch
from quorumd.protocol.messages import fetch_request, fetch_response
from quorumd.simulator.brokers.data_log import Record, encode

VERSION = 17

FetchPartitions = Sequence[tuple[PartitionId, ReplicaFetch]]


class ServedPartition(NamedTuple):
    """One partition of a response that a leader sends."""

    where: PartitionId
    decision: FetchDecision
    records: Sequence[Record] = ()


class ReceivedPartition(NamedTuple):
    """One partition of a response that a follower receives, with the leader's log end offset."""

    where: PartitionId
    fetched: FetchedPartition
    end_offset: int


def request_of(fetches: FetchPartitions, longest_wait_ms: float) -> fetch_request.FetchRequest:
    """Build the request for partitions with the same leader."""
    wire = fetch_request
    _, first = fetches[0]
    topics: dict[KafkaUuid, list[fetch_request.FetchPartition]] = {}
    for where, fetch in fetches:
        topics.setdefault(where.topic_id, []).append(
            wire.FetchPartition(
                where.number, fetch.leader_epoch, fetch.offset, fetch.last_epoch, fetch.start_offset
            )
        )
    return wire.FetchRequest(
        replica_state=wire.ReplicaState(first.replica_id, first.broker_epoch),
        max_wait_ms=int(longest_wait_ms),
        topics=[wire.FetchTopic("", topic_id, partitions) for topic_id, partitions in topics.items()],
    )


def decode_request(request: fetch_request.FetchRequest) -> FetchPartitions:
    """Return the requested partitions."""
    state = request.replica_state
    assert state is not None, "only brokers fetch data"
    return [
        (
            PartitionId(topic.topic_id, part.partition),
            ReplicaFetch(
                state.replica_id,
                state.replica_epoch,
                part.current_leader_epoch,
                part.fetch_offset,
                part.last_fetched_epoch,
                part.log_start_offset,
            ),
        )
        for topic in request.topics
        for part in topic.partitions
    ]


def response_of(served: Sequence[ServedPartition]) -> fetch_response.FetchResponse:
    """Build a response. The leader's log end offset, which a follower would otherwise look up with ListOffsets, uses
    the field of the last stable offset: the model has no transactions."""
    wire = fetch_response
    topics: dict[KafkaUuid, list[fetch_response.PartitionData]] = {}
    for where, decision, records in served:
        diverging = decision.diverging
        topics.setdefault(where.topic_id, []).append(
            wire.PartitionData(
                where.number,
                int(decision.error),
                decision.high_watermark,
                decision.end_offset,
                decision.start_offset,
                wire.EpochEndOffset(diverging.epoch, diverging.offset) if diverging is not None else None,
                records=encode(records),
            )
        )
    return wire.FetchResponse(
        responses=[wire.FetchableTopicResponse("", topic_id, parts) for topic_id, parts in topics.items()]
    )


def decode_response(response: fetch_response.FetchResponse) -> list[ReceivedPartition]:
    """Return the partitions of a response."""
    return [
        ReceivedPartition(
            PartitionId(topic.topic_id, part.partition_index), _fetched(part), part.last_stable_offset
        )
        for topic in response.responses
        for part in topic.partitions
    ]


def _fetched(part: fetch_response.PartitionData) -> FetchedPartition:
    diverging = part.diverging_epoch
    return FetchedPartition(
        ErrorCode(part.error_code),
        part.high_watermark,
        part.log_start_offset,
        part.records or b"",
        OffsetAndEpoch(diverging.end_offset, diverging.epoch)
        if diverging is not None and diverging.end_offset >= 0
        else None,
    )
