"""An active controller with the real planners and without a quorum: every batch is committed immediately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from quorumd.controller.bootstrap_metadata import feature_records
from quorumd.controller.broker_lifecycle import fence
from quorumd.controller.controller import Controller, ControllerSettings
from quorumd.controller.metadata_versions import SUPPORTED_FEATURES
from quorumd.controller.record_versions import encode_for_version
from quorumd.controller.request_context import NO_CONTEXT
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.node.api.controller_table import CONTROLLER_APIS
from quorumd.node.controller.alter_partition_order import AlterPartitionOrder, ConnectionOrder
from quorumd.protocol.apis import api
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.connection import encode_response, read_request
from quorumd.protocol.messages.alter_partition_request import AlterPartitionRequest
from quorumd.protocol.messages.envelope_request import EnvelopeRequest
from quorumd.protocol.messages.envelope_response import EnvelopeResponse
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import encode_batch
from quorumd.protocol.wire import Message
from quorumd.simulator.environment.entropy import SimulatedEntropy
from quorumd.simulator.environment.event_heap import EventHeap

CLUSTER_ID = "cluster"
SESSION_MS = 9_000.0
SESSION_CHECK_MS = 500.0
Batch = tuple[bytes, BatchHeader]
SUPPORTED = {key: (api(key).min_version, api(key).max_version) for key in CONTROLLER_APIS}


class StandInController:
    """An active controller, and the metadata log that it writes."""

    def __init__(self, heap: EventHeap, settings: ControllerSettings | None = None) -> None:
        self.batches: list[Batch] = []
        """The whole metadata log."""
        self.next_offset = 0
        self.on_commit: Callable[[], None] = lambda: None
        """Called after each batch."""
        self.is_deposed = False
        """Whether another controller leads, which this one does not know yet: the records that it plans for brokers
        are applied, never committed, and undone."""
        self.undone = 0
        """Number of records that a deposed controller has undone."""
        self.requests: list[Message] = []
        self._heap = heap
        self._order = AlterPartitionOrder()
        self.controller = Controller(
            settings or ControllerSettings(broker_session_timeout_ms=SESSION_MS),
            lambda: CLUSTER_ID,
            lambda: heap.now_ms,
            lambda: self.next_offset,
            SimulatedEntropy(Random("controller")).uuid,
        )
        levels = {feature.name: feature.highest for feature in SUPPORTED_FEATURES}
        self.append(feature_records(levels))
        self._schedule()

    @property
    def image(self) -> Any:
        return self.controller.image

    def append(self, records: Sequence[Message]) -> None:
        """Commit records as one batch."""
        if not records:
            return
        frames = [encode_for_version(record, self.image.metadata_version) for record in records]
        data = encode_batch(self.next_offset, 1, int(self._heap.now_ms), frames)
        self.batches.append((data, next(iter(headers(data)))))
        self.next_offset += len(frames)
        for frame in frames:
            self.image.apply(decode_record(frame), [], frame)
        self.on_commit()

    def handle(self, message: Message, version: int, connection: int | None = None) -> Message | None:
        """Handle a request of an admin client, or of a broker with the number of its connection. Return None if the
        connection is closed instead."""
        if isinstance(message, EnvelopeRequest):
            inner = read_request(message.request_data, SUPPORTED)
            response = self.handle(inner.message, inner.api_version, connection)
            return None if response is None else EnvelopeResponse(encode_response(inner, response))
        self.requests.append(message)
        assert message.API_KEY is not None
        if isinstance(message, AlterPartitionRequest) and connection is not None:
            order = self._order.check(connection, message.broker_id, message.broker_epoch)
            if order is not ConnectionOrder.CURRENT:
                return None
        handler = CONTROLLER_APIS[message.API_KEY]
        if handler.on_request is not None:
            handler.on_request(self.controller, message)
        plan = handler.plan(self.controller, message, version, NO_CONTEXT)
        assert plan.prepared is None
        if self.is_deposed and connection is not None:
            self._apply_and_undo(plan.records)
            return None
        self.append(plan.records)
        return plan.response

    def _apply_and_undo(self, records: Sequence[Message]) -> None:
        changes: list[UndoEntry] = []
        for record in records:
            frame = encode_for_version(record, self.image.metadata_version)
            self.image.apply(decode_record(frame), changes, frame)
        undo(reversed(changes))
        self.undone += len(records)

    def _schedule(self) -> None:
        self._heap.call_later(SESSION_CHECK_MS, self._check_sessions, b"sessions")

    def _check_sessions(self) -> None:
        for broker_id in self.controller.sessions.expired(self._heap.now_ms):
            self.append(fence(self.controller, self.image.brokers[broker_id]))
        self._schedule()
