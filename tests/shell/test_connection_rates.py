"""The rate of new connections on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from quorumd.ports import Transport
from quorumd.quotas.connection_rates import ConnectionRateLimits
from quorumd.runtime import network as real_network
from quorumd.runtime.connection_quotas import NetworkLimits
from quorumd.runtime.network import TcpNetwork

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
