"""Many real connections that end at once."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from quorumd.ports import Transport
from quorumd.runtime import disconnects
from quorumd.runtime.network import TcpNetwork
from tests.support.processes.daemons import PATIENCE_S

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
CONNECTIONS = 5


class Ends:
    """Pauses every connection if `pauses`, and counts those that are established and that have ended."""

    def __init__(self, pauses: bool) -> None:
        self.established = 0
        self.ended: list[tuple[str, bool]] = []
        self._pauses = pauses

    def connected(self, transport: Transport) -> None:
        self.established += 1
        if self._pauses:
            transport.pause_reading()

    def received(self, data: bytes) -> None: ...

    def closed(self, reason: str, refused: bool) -> None:
        self.ended.append((reason, refused))


@pytest.mark.parametrize("pauses", [False, True], ids=["reading", "paused"])
@pytest.mark.parametrize("loop_factory", LOOPS, ids=["asyncio", "uvloop"])
def test_connections_that_end_at_once_are_closed_in_several_iterations(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], pauses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disconnects, "CLOSED_PER_ITERATION", 1)

    async def scenario() -> None:
        net = TcpNetwork(asyncio.get_running_loop())
        ends = Ends(pauses)
        listener = net.listen("127.0.0.1", 0, lambda: ends)
        clients = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(CONNECTIONS)]
        async with asyncio.timeout(PATIENCE_S):
            while ends.established < CONNECTIONS:
                await asyncio.sleep(0)
            for client in clients:
                client.close()
            while len(ends.ended) < CONNECTIONS:
                await asyncio.sleep(0)
        assert ends.ended == [("", False)] * CONNECTIONS
        assert net.open_connections == 0
        listener.close()
        await net.close(0)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(scenario())
