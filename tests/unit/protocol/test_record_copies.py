"""Record batches in requests and responses are copied once: from the frame into the message, or into the frame."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from quorumd.protocol.apis import ApiKey
from quorumd.protocol.codec import decode, encode_into
from quorumd.protocol.connection import ClientConnection, read_request
from quorumd.protocol.messages import fetch_response, produce_request

RECORDS = bytes(range(256)) * 32 * 1024
PRODUCE = {int(ApiKey.PRODUCE): (3, 13)}


def allocated(work: Callable[[], object]) -> int:
    """The peak of the memory that `work` allocates."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_produce_request_copies_its_records_once(version: int) -> None:
    wire = produce_request
    message = wire.ProduceRequest(
        acks=-1,
        topic_data=[wire.TopicProduceData("t", partition_data=[wire.PartitionProduceData(0, RECORDS)])],
    )
    frame = ClientConnection("client").request(message, version)[1][4:]
    request = read_request(frame, PRODUCE)
    assert isinstance(request.message, wire.ProduceRequest)
    assert request.message.topic_data[0].partition_data[0].records == RECORDS
    assert allocated(lambda: read_request(frame, PRODUCE)) < 1.1 * len(RECORDS)


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_fetch_response_copies_its_records_once(version: int) -> None:
    wire = fetch_response
    partition = wire.PartitionData(high_watermark=5, records=RECORDS)
    message = wire.FetchResponse(responses=[wire.FetchableTopicResponse(partitions=[partition])])
    out = bytearray()
    # A growing bytearray keeps an eighth of its size in reserve.
    assert allocated(lambda: encode_into(message, version, out)) < 1.2 * len(RECORDS)
    encoded = bytes(out)
    assert decode(wire.FetchResponse, version, encoded) == message
    assert allocated(lambda: decode(wire.FetchResponse, version, encoded)) < 1.1 * len(RECORDS)
