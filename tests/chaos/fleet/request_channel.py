"""A connection for one purpose, to whoever leads at the moment: one request at a time, no answer for an error."""

from __future__ import annotations

import asyncio

from quorumd.client.connection import NodeConnection
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.request_channel import errors_in

Address = tuple[str, int]

ANSWER_S = 1.0


class Channel:
    """Nobody is asked twice: what to do without an answer is the caller's to know."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._address: Address | None = None
        self._connection: NodeConnection | None = None

    async def ask(self, address: Address, message: Message, version: int | None = None) -> Message | None:
        """The answer of this node, None without one in time."""
        try:
            async with asyncio.timeout(ANSWER_S):
                if self._connection is None or not self._connection.is_open or self._address != address:
                    self.close()
                    self._connection = await NodeConnection.open(*address, self._name)
                    self._address = address
                answer = await self._connection.send(message, version)
        except (RequestFailed, TimeoutError):
            self.close()
            return None
        if ErrorCode.NOT_CONTROLLER in errors_in(answer):
            # As brokers do. A leader takes no AlterPartition from a connection that is older than its leadership.
            self.close()
        return answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
