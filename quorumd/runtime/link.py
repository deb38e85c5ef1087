"""An established connection, between the event loop and the node.

Compiled, because every request passes through it. Its class therefore has no base class of asyncio, whose loops need
only its methods.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, Protocol, cast

from quorumd.errors import StorageError
from quorumd.ports import ANONYMOUS, Connection, StoredBytes
from quorumd.runtime.connection_quotas import ConnectionQuotas
from quorumd.runtime.disconnects import Disconnects
from quorumd.runtime.null_connection import NullConnection
from quorumd.runtime.send_queue import SendQueue
from quorumd.runtime.tls import TlsStream, UnreadMessages, reason_of
from quorumd.runtime.tls_listeners import TlsListeners

logger = logging.getLogger(__name__)

TURN_BYTES: Final = 4 * 1024 * 1024
"""Bytes that a connection may read before the others get their turn."""
ENCRYPTED_BYTES: Final = 256 * 1024
"""Stored bytes that are read and encrypted at once: less than a block that the allocator returns to the system."""
PROBE_BYTES: Final = 4096
"""Waiting bytes that the loop gets, so that it reports when a full socket accepts more."""


class LinkNetwork(Protocol):
    """The network as its links see it."""

    connection_quotas: ConnectionQuotas
    disconnects: Disconnects
    tls: TlsListeners

    def call_soon(self, callback: Callable[[], None]) -> None: ...

    def on_link_opened(self, link: Link) -> None: ...

    def on_link_closed(self, link: Link) -> None: ...

    def on_reading_paused(self, link: Link) -> None: ...

    def on_reading_resumed(self, link: Link) -> None: ...


class Link:
    """One connection: a protocol for asyncio, and a Transport for the node."""

    def __init__(self, network: LinkNetwork, connection: Connection, tls: TlsStream | None = None) -> None:
        self._network = network
        self._connection = connection
        self._tls = tls
        self._transport: asyncio.Transport
        self._failure = ""
        self._closing = False
        self._is_reading_paused = False
        self._is_writing_paused = False
        self._is_ending = False
        """Whether the connection is to be closed once nothing waits."""
        self._on_sent: Callable[[], None] | None = None
        self._waiting = SendQueue()
        self.host = ""
        self.peer = ""
        self.last_active = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._adopt(cast(asyncio.Transport, transport))
        self._begin()

    def _begin(self) -> None:
        """Report the connection as established, if it has TLS after the handshake."""
        self._network.on_link_opened(self)
        if self._tls is None:
            self._establish()
        else:
            self._tls.start(self._transport, self._on_handshake_complete, self._on_handshake_failed)

    def _establish(self) -> None:
        self._connection.connected(self)

    def _on_handshake_complete(self) -> None:
        self._establish()
        self.data_received(b"")  # The peer may have sent more than the handshake.

    def _on_handshake_failed(self, reason: str) -> None:
        self._network.tls.handshakes.log_failure(self.peer, reason)
        self._failure = f"TLS handshake failed: {reason}"
        self._closing = True
        # Not aborted, so that the peer gets the TLS alert with the reason.
        self._transport.close()

    @property
    def principal(self) -> str:
        """See `ports.Transport`."""
        return ANONYMOUS if self._tls is None else self._tls.principal

    def data_received(self, data: bytes) -> None:
        self.last_active = monotonic()
        if self._closing:
            return
        if self._tls is None:
            self._connection.received(data)
        else:
            try:
                data = self._tls.receive(data)
            except ssl.SSLError as error:
                self._on_broken_stream(error)
                return
            if data:
                self._connection.received(data)
            if self._tls.is_ended:
                self.close()
            elif self._tls.has_more:
                self._transport.pause_reading()
                self._network.tls.handshakes.shares.wait(self)

    def continue_decrypting(self) -> None:
        """See `Decrypting`. No more is read before what waits is decrypted."""
        if not self._closing:
            self.data_received(b"")
            self._read_if_wanted()

    def _read_if_wanted(self) -> None:
        if not (self._is_reading_paused or self._closing or (self._tls is not None and self._tls.has_more)):
            self._transport.resume_reading()

    def _on_broken_stream(self, error: ssl.SSLError) -> None:
        self._failure = f"TLS: {reason_of(error)}"
        if isinstance(error, UnreadMessages):
            self._network.tls.handshakes.log_unread(self.peer)
        self.abort()

    def eof_received(self) -> bool:
        """Close the connection after what waits is sent, in a later iteration if many end at once."""
        if self._waiting:
            self.close()
        return bool(self._waiting) or self._network.disconnects.defers(self.close)

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._drop_waiting()
        if self._tls is not None:
            self._tls.connection_lost()
        self._network.on_link_closed(self)
        self._connection.closed(self._failure or str(error or ""), refused=False)

    def write(self, data: bytes) -> None:
        """See `ports.Transport`. uvloop combines the writes of one iteration of the loop."""
        if not self._closing:
            if self._waiting:
                self._waiting.add(data)
            else:
                self._send(data)

    def write_parts(self, parts: Sequence[bytes | StoredBytes]) -> None:
        """See `ports.Transport`. uvloop passes parts that are all in memory to one system call."""
        if all(isinstance(part, bytes) for part in parts):
            for part in parts:
                self.write(cast(bytes, part))
        elif not self._closing:
            for part in parts:
                self._waiting.add(part)
            self._send_waiting()

    def _send(self, data: bytes) -> None:
        if self._tls is not None:
            try:
                data = self._tls.encrypt(data)
            except ssl.SSLError as error:
                self._on_broken_stream(error)
                return
        self._transport.write(data)

    def _drop_waiting(self) -> None:
        self._on_sent = None
        self._is_ending = False
        self._waiting.clear()

    def _send_waiting(self) -> None:
        """Send waiting parts until the socket accepts no more; then close the connection if it is to be closed."""
        remaining = TURN_BYTES
        while self._waiting and not self._is_writing_paused:
            if remaining <= 0:
                self._network.call_soon(self._send_waiting)
                return
            try:
                remaining -= self._send_directly(remaining) or self._send_next()
            except StorageError as fault:
                logger.warning("closing the connection to %s: %s", self.peer, fault)
                self.abort()
                return
        if self._is_ending and not self._waiting:
            self._finish()
        elif not self._waits:
            callback, self._on_sent = self._on_sent, None
            if callback is not None:
                callback()

    def _send_directly(self, limit: int) -> int:
        """Send waiting bytes past the transport, and return their number.

        0 if it has bytes to send before them, or if the socket accepts no more.
        """
        if self._tls is not None or self._transport.get_write_buffer_size():
            return 0
        return self._waiting.send(self.descriptor, limit)

    def _send_next(self) -> int:
        """Pass the next waiting bytes to the transport; return their number."""
        if self._tls is not None:
            chunk = self._waiting.take(ENCRYPTED_BYTES)
            self._send(chunk)
        else:
            chunk = self._waiting.take(PROBE_BYTES)
            # Writing pauses with the first byte that the socket does not accept, and resumes once it accepts it.
            self._transport.set_write_buffer_limits(0)
            self._transport.write(chunk)
            self._transport.set_write_buffer_limits()
        return len(chunk)

    @property
    def _waits(self) -> bool:
        """Whether the socket has to accept bytes first."""
        return self._is_writing_paused or bool(self._waiting)

    def close(self) -> None:
        """See `ports.Transport`."""
        if not self._closing:
            self._closing = True
            if self._waiting:
                self._is_ending = True
            else:
                self._finish()

    def _finish(self) -> None:
        self._is_ending = False
        if self._tls is not None:
            self._transport.write(self._tls.closing())
        self._transport.close()

    def abort(self) -> None:
        """See `ports.Transport`."""
        self._closing = True
        self._drop_waiting()
        self._transport.abort()

    def on_idle_timeout(self) -> None:
        """Handle the idle timeout."""
        # The node closes outgoing connections itself; abort one only if it does not finish closing.
        if self._closing:
            self.abort()

    def pause_reading(self) -> None:
        """See `ports.Transport`."""
        self._is_reading_paused = True
        self._transport.pause_reading()
        self._network.on_reading_paused(self)

    def resume_reading(self) -> None:
        """See `ports.Transport`."""
        self._is_reading_paused = False
        self._network.on_reading_resumed(self)
        self._read_if_wanted()

    def reserve_for_host(self) -> None:
        """See `ports.Transport`."""
        self._network.connection_quotas.reserve_for(self.host)

    @property
    def encrypted_bytes(self) -> int:
        """See `Decrypting`."""
        return 0 if self._tls is None else self._tls.encrypted_bytes

    @property
    def descriptor(self) -> int:
        """The file descriptor of the socket."""
        return int(self._transport.get_extra_info("socket").fileno())

    @property
    def unsent_bytes(self) -> int:
        """See `ports.Transport`."""
        return self._transport.get_write_buffer_size() + self._waiting.unsent_bytes

    @property
    def held_bytes(self) -> int:
        """See `ports.Transport`."""
        return self._transport.get_write_buffer_size() + self._waiting.held_bytes

    def call_when_sent(self, callback: Callable[[], None]) -> None:
        """See `ports.Transport`."""
        if self._waits:
            self._on_sent = callback
        else:
            self._network.call_soon(callback)

    def pause_writing(self) -> None:
        """Record that many bytes are unsent. The loop calls this, and `resume_writing` when few are left."""
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._send_waiting()

    def _adopt(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.last_active = monotonic()
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        self.host = str(host)
        self.peer = f"[{host}]:{port}" if ":" in self.host else f"{host}:{port}"
        # A response must not wait for the TCP acknowledgement of the previous one.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class AcceptedLink(Link):
    """An accepted connection: counts towards the limits, and is closed when idle."""

    def __init__(
        self, network: LinkNetwork, host: str, accept: Callable[[], Connection], tls: TlsStream | None
    ) -> None:
        super().__init__(network, NullConnection(), tls)
        self._accept = accept
        self._counted_host = host

    def release(self) -> None:
        """Stop counting the connection."""
        self._network.connection_quotas.release(self._counted_host)

    def _establish(self) -> None:
        self._connection = self._accept()
        super()._establish()

    def connection_lost(self, error: Exception | None) -> None:
        self.release()
        super().connection_lost(error)

    def on_idle_timeout(self) -> None:
        if self._closing:
            self.abort()
        else:
            logger.info(
                "closing the connection from %s: idle for longer than connections.max.idle.ms", self.peer
            )
            self.close()
