"""AllocateProducerIds: blocks of producer ids, each allocated once (KIP-730)."""

from __future__ import annotations

from typing import Final

from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from quorumd.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from quorumd.protocol.messages.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE: Final = 1_000
MAX_PRODUCER_ID: Final = 2**63 - 1


def plan_allocate_producer_ids(
    controller: Controller, message: AllocateProducerIdsRequest, version: int
) -> ControllerResult:
    """Allocate the next block of BLOCK_SIZE producer ids to this incarnation of the broker."""
    del version
    broker = controller.image.brokers.get(message.broker_id)
    if broker is None or broker.epoch != message.broker_epoch:
        return _refused(ErrorCode.STALE_BROKER_EPOCH)
    start = controller.image.next_producer_id
    if start > MAX_PRODUCER_ID - BLOCK_SIZE:
        return _refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    record = ProducerIdsRecord(broker.id, broker.epoch, start + BLOCK_SIZE)
    return ControllerResult((record,), AllocateProducerIdsResponse(0, 0, start, BLOCK_SIZE))


def _refused(error: ErrorCode) -> ControllerResult:
    return ControllerResult((), AllocateProducerIdsResponse(0, int(error), -1, 0))
