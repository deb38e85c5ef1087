from __future__ import annotations

import pytest

from quorumd.controller.new_partitions import (
    RECORD_FRAMING_BYTES,
    TOPIC_BYTES,
    free_space_for,
    partition_records,
    placement_of,
)
from quorumd.controller.record_versions import record_version
from quorumd.ids import ZERO_UUID
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import encode_record
from tests.support.controller.topic_harness import TopicHarness, a_broker


@pytest.mark.parametrize("replication_factor", [1, 3, 20, 50])
def test_estimated_batch_size_is_a_tight_upper_bound(replication_factor: int) -> None:
    cluster = TopicHarness(tuple(a_broker(number) for number in range(1, replication_factor + 1)))
    numbers = range(100)
    placement = placement_of(cluster.controller, ZERO_UUID, replication_factor)
    place_replicas = ((number, placement.replicas_of(number)) for number in numbers)
    records = partition_records(cluster.controller, ZERO_UUID, place_replicas)
    needed = sum(RECORD_FRAMING_BYTES + len(encode_record(r, record_version(r, 25))) for r in records)
    assert needed <= free_space_for(100, replication_factor) <= needed * 1.15


def test_record_of_the_longest_topic_name_fits() -> None:
    assert RECORD_FRAMING_BYTES + len(encode_record(TopicRecord("a" * 249, ZERO_UUID), 0)) <= TOPIC_BYTES
