"""The rate of new connections on real sockets, of a listener and of an address."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from quorumd.client.access import alter_quota
from quorumd.client.admin import AdminClient
from quorumd.ports import Transport
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.quotas.connection_rates import ConnectionRateLimits
from quorumd.runtime import network as real_network
from quorumd.runtime.connection_quotas import NetworkLimits
from quorumd.runtime.network import TcpNetwork
from tests.support.processes.daemons import PATIENCE_S
from tests.support.processes.fixtures import running_cluster

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


class Echo:
    """A Connection that sends back what it receives."""

    def connected(self, transport: Transport) -> None:
        self._transport = transport

    def received(self, data: bytes) -> None:
        self._transport.write(data)

    def closed(self, reason: str, refused: bool) -> None: ...


class LoopWithHeldTimers:
    """The running loop, whose timers of `held_s` run when a test says so."""

    def __init__(self, loop: asyncio.AbstractEventLoop, held_s: float) -> None:
        self._loop = loop
        self._held_s = held_s
        self.held: list[Callable[[], object]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> object:
        if delay_s != self._held_s:
            return self._loop.call_later(delay_s, callback, *args)
        self.held.append(callback)
        return SimpleNamespace(cancel=lambda: None)


LoopFactory = Callable[[], asyncio.AbstractEventLoop]


@pytest.mark.parametrize("loop_factory", LOOPS, ids=["asyncio", "uvloop"])
def test_connections_beyond_the_rate_wait_in_the_backlog(
    loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At one per second over one window the second connection makes the third wait for a second."""
    monkeypatch.setattr(real_network, "time", SimpleNamespace(monotonic=lambda: 0.0))

    async def scenario() -> None:
        loop: Any = LoopWithHeldTimers(asyncio.get_running_loop(), held_s=1.0)
        limits = NetworkLimits(rates=ConnectionRateLimits(listeners={"CLIENTS": 1}, windows=2))
        net = TcpNetwork(loop, limits)
        listener = net.listen("127.0.0.1", 0, Echo, "CLIENTS")
        other = net.listen("127.0.0.1", 0, Echo, "CONTROLLER")
        clients = []
        try:
            for port in [listener.port] * 3 + [other.port]:
                clients.append(await asyncio.open_connection("127.0.0.1", port))
            for number in (0, 1, 3):
                await assert_served(*clients[number])
            assert net.open_connections == 3
            (resume,) = loop.held
            resume()
            await assert_served(*clients[2])
        finally:
            for _, writer in clients:
                writer.close()
            listener.close()
            other.close()
            await net.close(timeout_s=1)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(scenario())


async def assert_served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"a")
    assert await reader.readexactly(1) == b"a"


CONNECTIONS = 60
"""What an address may open in one window of a minute at one per second."""
WINDOWS = "quota.window.num=2\nquota.window.size.seconds=60\n"
LIMITED, OTHER = "127.0.0.2", "127.0.0.3"


def connect_from(host: str, port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), PATIENCE_S, source_address=(host, 0))
    client.sendall(ClientConnection("test").request(ApiVersionsRequest("test", "1"), 3)[1])
    return client


def is_served(client: socket.socket) -> bool:
    """Whether the node responds; it closes the connection otherwise."""
    return len(client.recv(4)) == 4


def test_address_beyond_its_rate_is_not_served_by_a_daemon(tmp_path: Path) -> None:
    async def limit(rate: float | None) -> None:
        async with AdminClient(cluster.addresses) as admin:
            await alter_quota(admin, {"ip": LIMITED}, {"connection_creation_rate": rate})

    with running_cluster(tmp_path, size=1, extra=WINDOWS) as cluster, ExitStack() as opened:
        port = cluster[1].port
        asyncio.run(limit(1))
        clients = [opened.enter_context(connect_from(LIMITED, port)) for _ in range(CONNECTIONS + 1)]
        assert [is_served(client) for client in clients] == [True] * CONNECTIONS + [False]
        assert is_served(opened.enter_context(connect_from(OTHER, port)))
        asyncio.run(limit(None))
        assert is_served(opened.enter_context(connect_from(LIMITED, port)))
