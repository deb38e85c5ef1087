"""One asyncio connection to one node: any number of requests in flight."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from math import inf
from ssl import SSLError
from typing import cast

from quorumd.client.security import CLIENT_SECURITY, PLAIN, ClientSecurity, connection_failure
from quorumd.errors import (
    AuthenticationFailed,
    MalformedMessage,
    QuorumdError,
    RequestFailed,
    UnsupportedVersion,
)
from quorumd.protocol.apis import api
from quorumd.protocol.connection import ClientConnection, VersionRanges
from quorumd.protocol.handshake import Handshake, choose_version
from quorumd.protocol.wire import Message

Outcome = Message | QuorumdError
RENEW_SHARE = 0.85
"""The fraction of its lifetime after which an authentication is no longer used, as in Kafka's clients (KIP-368)."""


def _reason(error: OSError) -> str:
    """The reason of a failed connection without the address that asyncio adds."""
    known = errno.errorcode.get(error.errno or 0)
    if isinstance(error, SSLError):
        return connection_failure(error)
    return os.strerror(error.errno) if known and error.errno else error.strerror or str(error)


class NodeConnection(asyncio.Protocol):
    """A connection to one node, created by `open`. Requests sent in one tick of the event loop share one write.

    If the connection is lost before its response, a request fails with RequestFailed, and may or may not have
    taken effect. There are no retries or timeouts here; `AdminClient` has both.
    """

    def __init__(self, host: str, port: int, client_id: str, security: ClientSecurity = PLAIN) -> None:
        self.host = host
        self.port = port
        self._client = ClientConnection(client_id)
        self._handshake = Handshake(
            self._client, security.new_sasl_client if security.login is not None else None
        )
        self._expires_at_s = inf
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._pending: dict[int, Callable[[Outcome], None]] = {}
        self._output: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._close_reason: str | None = None

    @classmethod
    async def open(cls, host: str, port: int, client_id: str = "quorumd") -> NodeConnection:
        """Connect with the security in `CLIENT_SECURITY` and negotiate API versions.

        Raises RequestFailed if the node cannot be reached or does not support Kafka's protocol.
        """
        loop = asyncio.get_running_loop()
        security = CLIENT_SECURITY.get()
        try:
            _, connection = await loop.create_connection(
                lambda: cls(host, port, client_id, security), host, port, ssl=security.context
            )
        except OSError as error:
            raise RequestFailed(f"cannot connect to {host}:{port}: {_reason(error)}") from None
        try:
            await connection._ready
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        """Whether further requests may be sent: the connection is open and its authentication has not expired."""
        return self._close_reason is None and self._loop.time() < self._expires_at_s

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    @property
    def peer_ranges(self) -> VersionRanges:
        """The supported version range of each API of the node."""
        return self._handshake.peer_ranges

    def __repr__(self) -> str:
        state = f"{len(self._pending)} in flight" if self.is_open else f"closed: {self._close_reason}"
        return f"<connection to {self.host}:{self.port}, {state}>"

    def best_version(self, api_key: int) -> int:
        """Return the highest common version of an API. Raises UnsupportedVersion if there is none."""
        version = choose_version(api_key, self.peer_ranges)
        if version is None:
            supported = self.peer_ranges.get(api_key)
            theirs = "not at all" if supported is None else f"versions {supported[0]} to {supported[1]}"
            own = api(api_key)
            raise UnsupportedVersion(
                f"this client supports {own.name} versions {own.min_version} to {own.max_version}, "
                f"{self.host}:{self.port} {theirs}"
            )
        return version

    def submit(self, message: Message, done: Callable[[Outcome], None], version: int | None = None) -> None:
        """Send a request; `done` gets the response, or the error if the connection is lost first.

        Raises UnsupportedVersion, and RequestFailed on a lost connection; `done` is not called then.
        """
        if self._close_reason is not None:
            raise RequestFailed(self._close_reason)
        if version is None:
            assert message.API_KEY is not None, f"{message.NAME} is not a request"
            version = self.best_version(message.API_KEY)
        correlation_id, data = self._client.request(message, version)
        self._pending[correlation_id] = done
        self._write(data)

    async def send(self, message: Message, version: int | None = None) -> Message:
        """Send a request and return its response. Raises the errors of `submit`, and RequestFailed on a lost
        connection."""
        response: asyncio.Future[Message] = self._loop.create_future()

        def done(outcome: Outcome) -> None:
            if response.done():
                return
            if isinstance(outcome, Message):
                response.set_result(outcome)
            else:
                response.set_exception(outcome)

        self.submit(message, done, version)
        return await response

    def close(self) -> None:
        """Close the connection; pending requests fail."""
        self._fail("closed by this client")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        transport.write(self._handshake.begin())

    def data_received(self, data: bytes) -> None:
        try:
            for correlation_id, response in self._client.receive(data):
                if self._ready.done():
                    self._pending.pop(correlation_id)(response)
                else:
                    self._continue_handshake(response)
        except (AuthenticationFailed, MalformedMessage, UnsupportedVersion) as error:
            self._fail(str(error))

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"lost: {connection_failure(error)}" if error else "closed by the node")

    def _continue_handshake(self, response: Message) -> None:
        next_request = self._handshake.handle_response(response)
        if next_request is not None:
            self._write(next_request)
        else:
            lifetime_s = self._handshake.session_lifetime_ms / 1000
            self._expires_at_s = self._loop.time() + lifetime_s * RENEW_SHARE if lifetime_s else inf
            self._ready.set_result(None)

    def _write(self, data: bytes) -> None:
        self._output.append(data)
        if len(self._output) == 1:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._transport is not None and self._close_reason is None:
            self._transport.write(b"".join(self._output))
        self._output.clear()

    def _fail(self, reason: str) -> None:
        if self._close_reason is not None:
            return
        self._close_reason = f"connection to {self.host}:{self.port}: {reason}"
        if self._transport is not None:
            self._transport.close()
        waiting, self._pending = self._pending, {}
        for done in waiting.values():
            done(RequestFailed(self._close_reason))
        if not self._ready.done():
            self._ready.set_exception(RequestFailed(self._close_reason))
