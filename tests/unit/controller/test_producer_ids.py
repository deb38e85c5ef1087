from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.image_records import snapshot_records
from quorumd.controller.producer_ids import BLOCK_SIZE, MAX_PRODUCER_ID, plan_allocate_producer_ids
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from quorumd.protocol.messages.producer_ids_record import ProducerIdsRecord
from tests.support.controller.partition_harness import PartitionHarness, broker_epoch


@pytest.fixture
def cluster() -> PartitionHarness:
    return PartitionHarness([1, 2])


def allocate(cluster: PartitionHarness, broker_id: int, epoch: int | None = None) -> Any:
    epoch = broker_epoch(broker_id) if epoch is None else epoch
    plan = plan_allocate_producer_ids(cluster.controller, AllocateProducerIdsRequest(broker_id, epoch), 0)
    cluster.apply(*plan.records)
    return plan.response


def test_producer_id_blocks_do_not_overlap(cluster: PartitionHarness) -> None:
    blocks = [allocate(cluster, broker_id) for broker_id in (1, 2, 1)]
    assert [(block.error_code, block.producer_id_start, block.producer_id_len) for block in blocks] == [
        (0, 0, 1000),
        (0, 1000, 1000),
        (0, 2000, 1000),
    ]


def test_snapshot_keeps_allocated_producer_ids(cluster: PartitionHarness) -> None:
    allocate(cluster, 1)
    restored = ClusterImage()
    for record in snapshot_records(cluster.controller.image):
        restored.apply(record, [])
    cluster.controller.image = restored
    assert allocate(cluster, 1).producer_id_start == BLOCK_SIZE


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, broker_epoch(1) - 1), (3, 7)])
def test_only_registered_incarnation_gets_producer_ids(
    cluster: PartitionHarness, broker_id: int, epoch: int
) -> None:
    reply = allocate(cluster, broker_id, epoch)
    assert (reply.error_code, reply.producer_id_len) == (ErrorCode.STALE_BROKER_EPOCH, 0)
    assert cluster.controller.image.next_producer_id == 0


def test_last_block_ends_at_the_largest_producer_id(cluster: PartitionHarness) -> None:
    cluster.apply(ProducerIdsRecord(1, 1, MAX_PRODUCER_ID - BLOCK_SIZE))
    assert allocate(cluster, 1).error_code == 0
    assert cluster.controller.image.next_producer_id == MAX_PRODUCER_ID
    assert allocate(cluster, 1).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
