"""Looks up the log start offset and the log end offset of a leader, for a follower that is out of range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from quorumd.broker.channels.broker_client import BrokerClient
from quorumd.broker.channels.controller_channel import NoResponse
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.errors import ErrorCode
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from quorumd.protocol.messages.list_offsets_response import ListOffsetsResponse
from quorumd.protocol.wire import Message

EARLIEST: Final = -2
LATEST: Final = -1


class LeaderOffsets(NamedTuple):
    """The log start offset and the log end offset."""

    start: int
    end: int


def look_up_offsets(
    client: BrokerClient,
    leader_id: int,
    broker_id: int,
    hosted: HostedPartition,
    timeout_ms: float,
    found: Callable[[LeaderOffsets], None],
    failed: Callable[[str], None],
) -> None:
    """Request both offsets one after the other, because a request may name a partition only once."""

    def request(timestamp: int, on_offset: Callable[[int], None]) -> None:
        def build(version: int) -> ListOffsetsRequest:
            del version
            partition = ListOffsetsPartition(hosted.id.number, hosted.replica.leader_epoch, timestamp)
            return ListOffsetsRequest(
                broker_id, topics=[ListOffsetsTopic(hosted.topic, [partition])], timeout_ms=0
            )

        def handle_response(response: Message) -> None:
            assert isinstance(response, ListOffsetsResponse)
            results = [result for topic in response.topics for result in topic.partitions]
            if len(results) != 1:
                failed(f"the response has {len(results)} partitions, not 1")
            elif results[0].error_code != ErrorCode.NONE:
                failed(ErrorCode.describe(results[0].error_code))
            else:
                on_offset(results[0].offset)

        def handle_failure(failure: NoResponse) -> None:
            failed(failure.reason)

        client.send(leader_id, ApiKey.LIST_OFFSETS, build, handle_response, handle_failure, timeout_ms)

    def on_start(start: int) -> None:
        request(LATEST, lambda end: found(LeaderOffsets(start, end)))

    request(EARLIEST, on_start)
