"""A connection to one node at a time, for one request at a time."""

from __future__ import annotations

import asyncio

from quorumd.client.connection import NodeConnection
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message

Address = tuple[str, int]

RESPONSE_TIMEOUT_S = 1.0


class Channel:
    """Sends requests without retries, and returns None without a response."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._address: Address | None = None
        self._connection: NodeConnection | None = None

    async def send(self, address: Address, message: Message, version: int | None = None) -> Message | None:
        """Send a request to a node and return its response; None if it fails or takes too long."""
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                if self._connection is None or not self._connection.is_open or self._address != address:
                    self.close()
                    self._connection = await NodeConnection.open(*address, self._name)
                    self._address = address
                response = await self._connection.send(message, version)
        except (RequestFailed, TimeoutError):
            self.close()
            return None
        if any(code == ErrorCode.NOT_CONTROLLER for code, _ in errors_in(response)):
            # Brokers reconnect as well: a leader rejects AlterPartition on connections older than its leadership.
            self.close()
        return response

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
