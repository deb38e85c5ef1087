"""The Network port on asyncio: incoming and outgoing TCP connections."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Coroutine
from typing import Any, cast

from quorumd.ports import Connection
from quorumd.quotas.connection_rates import ConnectionRates
from quorumd.runtime.connection_quotas import ConnectionQuotas, NetworkLimits
from quorumd.runtime.disconnects import Disconnects
from quorumd.runtime.link import AcceptedLink, Link
from quorumd.runtime.listener import TcpListener
from quorumd.runtime.tls_listeners import TlsListeners

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
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._paused: set[Link] = set()
        self.disconnects = Disconnects(self.call_soon)
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
                link = AcceptedLink(self, host, accept, self.tls.accepted(listener))
                self._start(self._adopt(accepted, link))
            else:
                accepted.close()
            return self._connection_rates.connected(listener, time.monotonic() * 1000) / 1000

        bound = TcpListener(sock, self._loop, admit)
        if self._sweep_timer is None:
            self._sweep()
        return bound

    async def _adopt(self, accepted: socket.socket, link: AcceptedLink) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: cast(asyncio.Protocol, link), accepted)
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
                        link = Link(self, connection, self.tls.outgoing(listener, host))
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

    async def _connect_to(self, host: str, port: int, family: int, protocol: int, link: Link) -> None:
        try:
            await self._loop.create_connection(
                lambda: cast(asyncio.Protocol, link), host, port, family=family, proto=protocol
            )
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

    def on_link_opened(self, link: Link) -> None:
        """Add an established link."""
        self._links.add(link)

    def on_link_closed(self, link: Link) -> None:
        """Remove a link that has ended."""
        self._links.discard(link)
        self._paused.discard(link)

    def on_reading_paused(self, link: Link) -> None:
        """Watch a link from which the loop does not read: it would not notice the end of the connection."""
        self._paused.add(link)
        if self._disconnect_timer is None:
            self._disconnect_timer = self._loop.call_later(DISCONNECT_CHECK_S, self._abort_disconnected)

    def on_reading_resumed(self, link: Link) -> None:
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
            self.disconnects.close(links[descriptor].abort)
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
