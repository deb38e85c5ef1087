"""The Network port on asyncio: incoming and outgoing TCP connections."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import socket
import ssl
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Coroutine
from typing import Any, cast

from quorumd.ports import ANONYMOUS, Connection
from quorumd.quotas.connection_rates import ConnectionRates
from quorumd.runtime.connection_quotas import ConnectionQuotas, NetworkLimits
from quorumd.runtime.listener import TcpListener
from quorumd.runtime.tls import TlsStream, reason_of
from quorumd.runtime.tls_listeners import TlsListeners

logger = logging.getLogger(__name__)

BACKLOG = 1024
DISCONNECT_CHECK_S = 0.1
"""Interval of checks whether the peers of paused connections have disconnected."""
DISCONNECTED = getattr(select, "POLLRDHUP", select.POLLHUP)
"""The event of a peer that has disconnected. Linux reports it even if there is unread data before it."""


class TcpNetwork:
    """The Network port. `on_rejected` is called for every connection that a limit refuses; `tls` has the listeners
    with TLS."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        limits: NetworkLimits | None = None,
        on_rejected: Callable[[], None] = lambda: None,
        tls: TlsListeners | None = None,
    ) -> None:
        self._loop = loop
        self._limits = limits or NetworkLimits()
        self.connection_quotas = ConnectionQuotas(self._limits, on_rejected)
        self._connection_rates = ConnectionRates(self._limits.rates)
        self.tls = tls or TlsListeners({}, loop)
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._paused: set[_Link] = set()
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._disconnect_timer: asyncio.TimerHandle | None = None

    def listen(
        self, host: str, port: int, accept: Callable[[], Connection], listener: str = ""
    ) -> TcpListener:
        """See `ports.Network`. An empty host binds all IPv4 addresses."""
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(BACKLOG)
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise

        def admit(accepted: socket.socket, host: str) -> float:
            if self.connection_quotas.admit(host, accepted.fileno()):
                link = _AcceptedLink(self, host, accept, self.tls.accepted(listener))
                self._start(self._adopt(accepted, link))
            else:
                accepted.close()
            return self._connection_rates.connected(listener, time.monotonic() * 1000) / 1000

        bound = TcpListener(sock, self._loop, admit)
        if self._sweep_timer is None:
            self._sweep()
        return bound

    async def _adopt(self, accepted: socket.socket, link: _AcceptedLink) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: link, accepted)
        except OSError:
            accepted.close()
            link.release()

    def connect(self, host: str, port: int, connection: Connection, listener: str = "") -> None:
        """See `ports.Network`."""
        self._start(self._establish(host, port, connection, listener))

    @property
    def open_connections(self) -> int:
        """Number of established connections, incoming and outgoing."""
        return len(self._links)

    async def close(self, timeout_s: float) -> None:
        """Send queued bytes and close all connections; abort those that take longer than `timeout_s`."""
        for timer in (self._sweep_timer, self._disconnect_timer):
            if timer is not None:
                timer.cancel()
        self.tls.close()
        for task in self._tasks:
            task.cancel()
        for link in tuple(self._links):
            link.close()
        deadline_s = time.monotonic() + timeout_s
        while self._links and time.monotonic() < deadline_s:
            await asyncio.sleep(0.005)
        for link in tuple(self._links):
            link.abort()
        await asyncio.sleep(0)

    async def _establish(self, host: str, port: int, connection: Connection, listener: str) -> None:
        refusals, failures = 0, []
        try:
            async with asyncio.timeout(self._limits.connect_timeout_ms / 1000):
                addresses = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                for family, _, protocol, _, address in addresses:
                    try:
                        link = _Link(self, connection, self.tls.outgoing(listener, host))
                        await self._connect_to(str(address[0]), int(address[1]), family, protocol, link)
                        return
                    except OSError as error:
                        refusals += isinstance(error, ConnectionRefusedError)
                        failures.append(os.strerror(error.errno) if error.errno else str(error))
        except TimeoutError:
            failures.append(f"not connected within {self._limits.connect_timeout_ms} ms")
        except (OSError, ValueError, OverflowError) as error:
            # An address that another node announced may have an invalid host name or port.
            failures.append(f"no such address: {error}")
        connection.closed("; ".join(failures), refused=0 < refusals == len(failures))

    async def _connect_to(self, host: str, port: int, family: int, protocol: int, link: _Link) -> None:
        try:
            await self._loop.create_connection(lambda: link, host, port, family=family, proto=protocol)
        except BaseException:
            # If cancelled just after the connection is established, the loop never calls `connection_lost`.
            self.on_link_closed(link)
            raise

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": "a connection callback failed", "exception": error, "task": task}
            self._loop.call_exception_handler(context)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call a callback in the next iteration of the loop."""
        self._loop.call_soon(callback)

    def on_link_opened(self, link: _Link) -> None:
        """Add an established link."""
        self._links.add(link)

    def on_link_closed(self, link: _Link) -> None:
        """Remove a link that has ended."""
        self._links.discard(link)
        self._paused.discard(link)

    def on_reading_paused(self, link: _Link) -> None:
        """Watch a link from which the loop does not read: it would not notice the end of the connection."""
        self._paused.add(link)
        if self._disconnect_timer is None:
            self._disconnect_timer = self._loop.call_later(DISCONNECT_CHECK_S, self._abort_disconnected)

    def on_reading_resumed(self, link: _Link) -> None:
        """Stop watching a link from which the loop reads again."""
        self._paused.discard(link)

    def _abort_disconnected(self) -> None:
        """Abort the paused links whose peers have closed the connection."""
        self._disconnect_timer = None
        poll = select.poll()
        links = {link.descriptor: link for link in self._paused}
        for descriptor in links:
            poll.register(descriptor, DISCONNECTED)
        for descriptor, _ in poll.poll(0):
            links[descriptor].abort()
            self._paused.discard(links[descriptor])
        if self._paused:
            self._disconnect_timer = self._loop.call_later(DISCONNECT_CHECK_S, self._abort_disconnected)

    def _sweep(self) -> None:
        timeout_s = self._limits.max_idle_ms / 1000
        now = time.monotonic()
        for link in tuple(self._links):
            if now - link.last_active >= timeout_s:
                link.on_idle_timeout()
        self._sweep_timer = self._loop.call_later(max(timeout_s / 4, 0.01), self._sweep)


class _Link(asyncio.Protocol):
    """One connection: a protocol for asyncio, and a Transport for the node."""

    def __init__(self, network: TcpNetwork, connection: Connection, tls: TlsStream | None = None) -> None:
        self._network = network
        self._connection = connection
        self._tls = tls
        self._transport: asyncio.Transport
        self._failure = ""
        self._closing = False
        self._is_writing_paused = False
        self._on_sent: Callable[[], None] | None = None
        self.host = ""
        self.peer = ""
        self.last_active = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        self._adopt(transport)
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
        self.last_active = time.monotonic()
        if self._tls is None:
            self._connection.received(data)
        elif not self._closing:
            try:
                data = self._tls.receive(data)
            except ssl.SSLError as error:
                self._on_broken_stream(error)
                return
            if data:
                self._connection.received(data)
            if self._tls.is_ended:
                self.close()

    def _on_broken_stream(self, error: ssl.SSLError) -> None:
        self._failure = f"TLS: {reason_of(error)}"
        self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._on_sent = None
        if self._tls is not None:
            self._tls.connection_lost()
        self._network.on_link_closed(self)
        self._connection.closed(self._failure or str(error or ""), refused=False)

    def write(self, data: bytes) -> None:
        """See `ports.Transport`. uvloop combines the writes of one iteration of the loop."""
        if self._closing:
            return
        if self._tls is not None:
            try:
                data = self._tls.encrypt(data)
            except ssl.SSLError as error:
                self._on_broken_stream(error)
                return
        self._transport.write(data)

    def close(self) -> None:
        """See `ports.Transport`."""
        if not self._closing:
            self._closing = True
            if self._tls is not None:
                self._transport.write(self._tls.closing())
            self._transport.close()

    def abort(self) -> None:
        """See `ports.Transport`."""
        self._closing = True
        self._transport.abort()

    def on_idle_timeout(self) -> None:
        """Handle the idle timeout."""
        # The node closes outgoing connections itself; abort one only if it does not finish closing.
        if self._closing:
            self.abort()

    def pause_reading(self) -> None:
        """See `ports.Transport`."""
        self._transport.pause_reading()
        self._network.on_reading_paused(self)

    def resume_reading(self) -> None:
        """See `ports.Transport`."""
        self._network.on_reading_resumed(self)
        self._transport.resume_reading()

    def reserve_for_host(self) -> None:
        """See `ports.Transport`."""
        self._network.connection_quotas.reserve_for(self.host)

    @property
    def descriptor(self) -> int:
        """The file descriptor of the socket."""
        return int(self._transport.get_extra_info("socket").fileno())

    @property
    def unsent_bytes(self) -> int:
        """See `ports.Transport`."""
        return self._transport.get_write_buffer_size()

    def call_when_sent(self, callback: Callable[[], None]) -> None:
        """See `ports.Transport`."""
        if self._is_writing_paused:
            self._on_sent = callback
        else:
            self._network.call_soon(callback)

    def pause_writing(self) -> None:
        """Record that many bytes are unsent. The loop calls this, and `resume_writing` when few are left."""
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        callback, self._on_sent = self._on_sent, None
        if callback is not None:
            callback()

    def _adopt(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.last_active = time.monotonic()
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        self.host = str(host)
        self.peer = f"[{host}]:{port}" if ":" in self.host else f"{host}:{port}"
        # A response must not wait for the TCP acknowledgement of the previous one.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _AcceptedLink(_Link):
    """An accepted connection: counts towards the limits, and is closed when idle."""

    def __init__(
        self, network: TcpNetwork, host: str, accept: Callable[[], Connection], tls: TlsStream | None
    ) -> None:
        super().__init__(network, _NullConnection(), tls)
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


class _NullConnection:
    """The Connection of an accepted link until its handshake is complete."""

    def connected(self, transport: object) -> None: ...

    def received(self, data: bytes) -> None: ...

    def closed(self, reason: str, refused: bool) -> None: ...
