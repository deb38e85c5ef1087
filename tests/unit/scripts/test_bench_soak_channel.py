"""Requests of a broker of the soak, and the changes that it counts as committed."""

from __future__ import annotations

import asyncio
import struct
from array import array
from collections import Counter
from typing import Any, cast

import pytest

from quorumd.client.admin import AdminClient
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages import alter_partition_response as altered
from quorumd.protocol.messages.alter_partition_request import AlterPartitionRequest
from quorumd.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from quorumd.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from scripts.bench.soak_channel import CLIENT_ID, RESOURCES, Channel

TOPIC = KafkaUuid(b"t" * 16)
REPLICAS = [1000, 1001, 1002]
BODY_AT = 14 + len(CLIENT_ID) + 1


class Controller:
    """The other end of a channel; the test composes its responses."""

    def __init__(self, partitions: int) -> None:
        self.failures: Counter[str] = Counter()
        self.channel = Channel(cast(AdminClient, None), 1000, 7, self.failures)
        self.channel.lead(TOPIC, REPLICAS, partitions)
        self.written: list[bytes] = []
        self.is_aborted = False
        self.channel.connection_made(cast(asyncio.Transport, self))

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.is_aborted = True

    def last(self, request: type[Any], version: int) -> Any:
        return decode(request, version, self.written[-1], BODY_AT)

    def respond(self, body: bytes) -> None:
        response = struct.pack(">ix", len(self.written)) + body
        self.channel.data_received(struct.pack(">i", len(response)) + response)


def change(controller: Controller, error: ErrorCode, took_ms: array[float]) -> tuple[int, int, list[int]]:
    """Let the channel change an ISR; return the partition, its epoch and the ISR in the request."""
    controller.channel.change_isr(0.0, took_ms)
    (topic,) = controller.last(AlterPartitionRequest, 3).topics
    (sent,) = topic.partitions
    isr = [state.broker_id for state in sent.new_isr_with_epochs]
    reply = altered.PartitionData(sent.partition_index, error, 1000, 0, isr, 0, sent.partition_epoch + 1)
    controller.respond(
        encode(altered.AlterPartitionResponse(0, 0, [altered.TopicData("", TOPIC, [reply])]), 3)
    )
    return sent.partition_index, sent.partition_epoch, isr


def test_isrs_of_all_partitions_alternate() -> None:
    controller, took_ms = Controller(2), array("d")
    changes = [change(controller, ErrorCode.NONE, took_ms) for _ in range(5)]
    assert [(number, epoch) for number, epoch, _ in changes] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
    assert [isr for _, _, isr in changes] == [REPLICAS[:2], REPLICAS[:2], REPLICAS, REPLICAS, REPLICAS[:2]]
    assert len(took_ms) == 5
    assert not controller.failures


def test_partition_is_not_changed_again_after_a_failure() -> None:
    controller, took_ms = Controller(1), array("d")
    change(controller, ErrorCode.FENCED_LEADER_EPOCH, took_ms)
    assert (list(took_ms), controller.failures) == ([], {"AlterPartition: FENCED_LEADER_EPOCH (74)": 1})
    controller.channel.change_isr(0.0, took_ms)
    assert len(controller.written) == 1
    assert controller.failures.total() == 2


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.INVALID_CONFIG])
def test_config_write_counts_unless_it_failed(error: ErrorCode) -> None:
    controller, took_ms = Controller(1), array("d")
    controller.channel.write_config(RESOURCES + 3, 0.0, took_ms)
    (resource,) = controller.last(IncrementalAlterConfigsRequest, 1).resources
    assert (resource.resource_name, resource.configs[0].value[0]) == ("soak-3", "y")
    result = AlterConfigsResourceResponse(error, None, 16, "soak-3")
    controller.respond(encode(IncrementalAlterConfigsResponse(0, [result]), 1))
    assert (len(took_ms), controller.failures.total()) == ((1, 0) if error == ErrorCode.NONE else (0, 1))


def test_requests_in_flight_are_lost_with_the_controller_and_later_ones_wait() -> None:
    async def run() -> None:
        controller, took_ms = Controller(3), array("d")
        controller.channel.change_isr(0.0, took_ms)
        change_of_another = controller.channel.outstanding
        controller.respond(encode(altered.AlterPartitionResponse(0, ErrorCode.NOT_CONTROLLER, []), 3))
        assert (change_of_another, controller.is_aborted) == (1, True)
        controller.channel.change_isr(0.0, took_ms)
        controller.channel.connection_lost(None)
        assert controller.failures["connection lost before the response"] == 1
        controller.channel.heartbeat()
        assert (len(controller.written), controller.channel.outstanding) == (2, 1)
        controller.channel.connection_made(cast(asyncio.Transport, controller))
        assert (len(controller.written), controller.channel.outstanding) == (3, 1)
        controller.channel.close()

    asyncio.run(run())
