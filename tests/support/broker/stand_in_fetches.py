"""The fetch API of a leader as its followers need it, without sessions and purgatory."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.broker.broker import Broker
from quorumd.broker.partitions import PartitionUnavailable
from quorumd.broker.replication.replica_fetch import ReplicaFetch
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import fetch_response, list_offsets_response
from quorumd.protocol.messages.fetch_request import FetchPartition, FetchRequest
from quorumd.protocol.messages.list_offsets_request import ListOffsetsRequest
from quorumd.protocol.wire import Message

EARLIEST = -2


def serve(
    broker: Broker,
    request: Message,
    respond: Callable[[Message], None],
    later: Callable[[Callable[[], None]], None],
) -> None:
    """Handle a request of a follower. One without new records gets its response a little later."""
    if isinstance(request, ListOffsetsRequest):
        respond(_offsets(broker, request))
        return
    assert isinstance(request, FetchRequest)
    topics = [
        fetch_response.FetchableTopicResponse(
            "", topic.topic_id, [_fetch(broker, request, topic.topic_id, each) for each in topic.partitions]
        )
        for topic in request.topics
    ]
    response = fetch_response.FetchResponse(0, 0, 0, topics)
    if any(partition.records for topic in topics for partition in topic.partitions):
        respond(response)
    else:
        later(lambda: respond(response))


def _fetch(
    broker: Broker, request: FetchRequest, topic_id: KafkaUuid, fetched: FetchPartition
) -> fetch_response.PartitionData:
    data = fetch_response.PartitionData(fetched.partition, high_watermark=-1, records=b"")
    hosted = broker.partitions.hosted(PartitionId(topic_id, fetched.partition))
    if hosted is None:
        data.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return data
    decision = hosted.replica.serve_fetch(
        ReplicaFetch(
            request.replica_state.replica_id,
            request.replica_state.replica_epoch,
            fetched.current_leader_epoch,
            fetched.fetch_offset,
            fetched.last_fetched_epoch,
            fetched.log_start_offset,
        ),
        broker.clock.now_ms(),
    )
    data.error_code = int(decision.error)
    data.high_watermark, data.log_start_offset = decision.high_watermark, decision.start_offset
    if decision.diverging is not None:
        data.diverging_epoch.epoch = decision.diverging.epoch
        data.diverging_epoch.end_offset = decision.diverging.offset
    elif decision.has_records:
        data.records = hosted.log.read(fetched.fetch_offset, fetched.partition_max_bytes, decision.end_offset)
    return data


def _offsets(broker: Broker, request: ListOffsetsRequest) -> Message:
    topics = []
    for topic in request.topics:
        partitions = []
        for each in topic.partitions:
            result = list_offsets_response.ListOffsetsPartitionResponse(each.partition_index)
            try:
                hosted = broker.partitions.find(topic.name, each.partition_index)
                log = hosted.log
                result.offset = log.start_offset if each.timestamp == EARLIEST else log.end_offset
                result.leader_epoch = hosted.replica.leader_epoch
            except PartitionUnavailable as unavailable:
                result.error_code = int(unavailable.error)
            partitions.append(result)
        topics.append(list_offsets_response.ListOffsetsTopicResponse(topic.name, partitions))
    return list_offsets_response.ListOffsetsResponse(0, topics)
