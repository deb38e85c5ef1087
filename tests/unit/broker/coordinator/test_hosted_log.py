"""The log of a coordinator on a hosted partition: with `flush.messages`, its records count once they are flushed."""

from __future__ import annotations

import pytest

from quorumd.broker.coordinator.hosted_log import HostedLog
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from tests.support.broker.api_clients import Client, cluster_with_groups
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.log.data_batches import produced

TOPIC = "__consumer_offsets"


def log_of(cluster: SimulatedBrokers, flushed: list[HostedPartition]) -> HostedLog:
    cluster.start()
    cluster.create_topic(TOPIC, (1,), flush_messages="1")
    cluster.await_leader(TOPIC)
    hosted = cluster.hosted(1, TOPIC)
    assert hosted is not None
    return HostedLog(cluster.brokers[1].broker.partitions, hosted, flushed.append)


def test_records_count_once_they_are_flushed() -> None:
    cluster, flushed = SimulatedBrokers(), list[HostedPartition]()
    log = log_of(cluster, flushed)
    assert [log.append(produced([(b"key", b"value")])) for _ in range(2)] == [ErrorCode.NONE, ErrorCode.NONE]
    assert (log.end_offset, log.high_watermark, flushed) == (2, 0, [])
    cluster.run_until(lambda: len(flushed) == 2)
    assert log.high_watermark == 2
    assert flushed[0].log.recovery_point == 2


def test_refused_append_reports_its_error_at_once() -> None:
    cluster = SimulatedBrokers()
    log = log_of(cluster, [])
    cluster.brokers[1].broker.partitions.close()
    assert log.append(produced([(b"key", b"value")])) == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("flush_messages", ["1", "2"])
def test_groups_work_with_flushed_offsets(flush_messages: str) -> None:
    cluster = cluster_with_groups()
    cluster.create_topic(TOPIC, (1,), (1,), (1,), flush_messages=flush_messages)
    cluster.create_topic("topic", (1,), (1,))
    client = Client(cluster)
    client.find_coordinator("c")
    cluster.run_for(1_000)
    joined = client.call(
        ConsumerGroupHeartbeatRequest("c", "m", 0, None, None, 30_000, ["topic"], topic_partitions=[])
    )
    assert (joined.error_code, joined.member_epoch) == (0, 1)
