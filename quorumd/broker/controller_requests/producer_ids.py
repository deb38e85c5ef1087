"""Allocates producer ids from blocks that the controller assigns to the broker (KIP-730)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from quorumd.broker.channels.controller_channel import ControllerChannel, NoResponse
from quorumd.errors import ErrorCode
from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from quorumd.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from quorumd.protocol.wire import Message

logger = logging.getLogger("quorumd.broker")

PREFETCH_THRESHOLD: Final = 0.9
"""The fraction of a block that is used when the next block is requested."""
RETRY_MS: Final = 100.0
NO_ID: Final = -1

ProducerIdCallback = Callable[[int], None]
"""Called with a producer id, or with NO_ID if none is available now."""


class ProducerIds:
    """Allocates each id once. `broker_epoch()` returns -1 before registration."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        channel: ControllerChannel,
        clock: Clock,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._clock = clock
        self._next = self._end = self._prefetch_at = 0
        self._next_block: tuple[int, int] | None = None
        """The start and the end of the block after the current one."""
        self._waiting: list[ProducerIdCallback] = []
        self._is_requested = False
        self._retry_at_ms = 0.0

    def take(self, done: ProducerIdCallback) -> None:
        """Call `done` once, with the next id or NO_ID: immediately, or after the controller has allocated a block."""
        if self._next == self._end and self._next_block is not None:
            self._begin_block(*self._next_block)
            self._next_block = None
        if self._next < self._end:
            self._next += 1
            if self._next >= self._prefetch_at:
                self._request_block()
            done(self._next - 1)
            return
        self._waiting.append(done)
        self._request_block()

    def _begin_block(self, start: int, end: int) -> None:
        self._next, self._end = start, end
        self._prefetch_at = start + int((end - start) * PREFETCH_THRESHOLD)

    def _request_block(self) -> None:
        if self._is_requested or self._next_block is not None:
            return
        if self._broker_epoch() < 0 or self._clock.now_ms() < self._retry_at_ms:
            self._fail_waiting()
            return
        self._is_requested = True

        def build(version: int) -> Message:
            del version
            return AllocateProducerIdsRequest(self._broker_id, self._broker_epoch())

        self._channel.send(ApiKey.ALLOCATE_PRODUCER_IDS, build, self._on_response, self._on_failure)

    def _on_response(self, response: Message) -> None:
        assert isinstance(response, AllocateProducerIdsResponse)
        if response.error_code != ErrorCode.NONE or response.producer_id_len <= 0:
            self._on_no_block(ErrorCode.describe(response.error_code))
            return
        self._is_requested = False
        start = response.producer_id_start
        self._next_block = (start, start + response.producer_id_len)
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            self.take(done)

    def _on_failure(self, failure: NoResponse) -> None:
        self._on_no_block(failure.reason)

    def _on_no_block(self, reason: str) -> None:
        logger.info("broker %d received no producer ids: %s", self._broker_id, reason)
        self._is_requested = False
        self._retry_at_ms = self._clock.now_ms() + RETRY_MS
        self._fail_waiting()

    def _fail_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(NO_ID)
