from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.broker.api_clients import Client
from tests.support.broker.simulated_brokers import SimulatedBrokers


def started(brokers: tuple[int, ...], *replicas: tuple[int, ...], **configs: str) -> SimulatedBrokers:
    cluster = SimulatedBrokers(brokers)
    cluster.start()
    cluster.create_topic("events", *replicas, **configs)
    for number in range(len(replicas)):
        cluster.await_leader("events", number)
    for _ in range(3):
        cluster.produce_and_wait("events")
    return cluster


def request(offset: int, number: int = 0, timeout_ms: int = 5_000) -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(number, offset)]
    return DeleteRecordsRequest([DeleteRecordsTopic("events", partitions)], timeout_ms)


def result(response: Any) -> tuple[int, int]:
    (partition,) = response.topics[0].partitions
    return partition.error_code, partition.low_watermark


@pytest.mark.parametrize(
    ("offset", "number", "expected"),
    [
        (2, 0, (0, 2)),
        (-1, 0, (0, 3)),
        (4, 0, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
        (-2, 0, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
        (1, 9, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)),
    ],
)
def test_log_start_is_raised(offset: int, number: int, expected: tuple[int, int]) -> None:
    cluster = started((1,), (1,))
    assert result(Client(cluster).call(request(offset, number))) == expected
    hosted = cluster.hosted(1, "events")
    assert hosted is not None
    assert hosted.log.start_offset == max(0, expected[1])


def test_records_of_a_compacted_topic_are_kept() -> None:
    cluster = started((1,), (1,))
    hosted = cluster.hosted(1, "events")
    assert hosted is not None
    hosted.log.settings.cleanup_policy = ("compact",)
    assert result(Client(cluster).call(request(2))) == (ErrorCode.POLICY_VIOLATION, -1)


def test_response_waits_for_the_followers() -> None:
    cluster = started((1, 2), (1, 2))
    client = Client(cluster)
    client.send(request(2))
    assert client.responses == []
    cluster.run_until(lambda: bool(client.responses))
    assert result(client.responses[0]) == (0, 2)
    follower = cluster.hosted(2, "events")
    assert follower is not None
    assert follower.log.start_offset == 2


def test_follower_that_does_not_fetch_lets_the_request_time_out() -> None:
    cluster = started((1, 2), (1, 2))
    cluster.brokers[2].kill()
    client = Client(cluster)
    client.send(request(2, timeout_ms=1_000))
    cluster.run_for(900.0)
    assert client.responses == []
    cluster.run_for(200.0)
    assert result(client.responses[0])[0] == ErrorCode.REQUEST_TIMED_OUT
