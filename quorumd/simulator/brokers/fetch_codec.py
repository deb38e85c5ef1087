"""Fetch between model brokers, in Kafka's format except for the records, which have the format of `data_log`."""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import fetch_request, fetch_response
from quorumd.simulator.brokers.data_log import EpochEnd, decode, encode
from quorumd.simulator.brokers.replica import Fetch, Fetched

VERSION = 17

FetchPartitions = Sequence[tuple[PartitionId, Fetch]]
FetchedPartitions = Sequence[tuple[PartitionId, Fetched]]


def request_of(fetches: FetchPartitions, longest_wait_ms: float) -> fetch_request.FetchRequest:
    """Build the request for partitions with the same leader."""
    wire = fetch_request
    _, first = fetches[0]
    topics: dict[KafkaUuid, list[fetch_request.FetchPartition]] = {}
    for where, fetch in fetches:
        topics.setdefault(where.topic_id, []).append(
            wire.FetchPartition(where.number, fetch.leader_epoch, fetch.offset, fetch.last_epoch, 0)
        )
    return wire.FetchRequest(
        replica_state=wire.ReplicaState(first.replica_id, first.replica_epoch),
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
            Fetch(
                state.replica_id,
                state.replica_epoch,
                part.current_leader_epoch,
                part.fetch_offset,
                part.last_fetched_epoch,
            ),
        )
        for topic in request.topics
        for part in topic.partitions
    ]


def response_of(results: FetchedPartitions) -> fetch_response.FetchResponse:
    """Build a response. The leader's log end offset uses the field of the last stable offset: the model has no
    transactions."""
    wire = fetch_response
    topics: dict[KafkaUuid, list[fetch_response.PartitionData]] = {}
    for where, fetched in results:
        diverging = fetched.diverging
        topics.setdefault(where.topic_id, []).append(
            wire.PartitionData(
                where.number,
                int(fetched.error),
                fetched.high_watermark,
                fetched.end_offset,
                0,
                wire.EpochEndOffset(*diverging) if diverging is not None else None,
                records=encode(fetched.records),
            )
        )
    return wire.FetchResponse(
        responses=[wire.FetchableTopicResponse("", topic_id, parts) for topic_id, parts in topics.items()]
    )


def decode_response(response: fetch_response.FetchResponse) -> FetchedPartitions:
    return [
        (PartitionId(topic.topic_id, part.partition_index), _fetched(part))
        for topic in response.responses
        for part in topic.partitions
    ]


def _fetched(part: fetch_response.PartitionData) -> Fetched:
    diverging = part.diverging_epoch
    return Fetched(
        ErrorCode(part.error_code),
        part.high_watermark,
        decode(part.records or b""),
        EpochEnd(diverging.epoch, diverging.end_offset)
        if diverging is not None and diverging.end_offset >= 0
        else None,
        part.last_stable_offset,
    )
