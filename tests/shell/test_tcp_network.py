"""The real network: callbacks of connections, coalescing, limits; on uvloop and on asyncio's own loop."""

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from quorumd.node.peers.connection import Call, Failure, PeerConnection, PeerSettings
from quorumd.ports import Listener, Transport
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.runtime import listener as listener_module
from quorumd.runtime import network as real_network
from quorumd.runtime.clock import LoopClock
from quorumd.runtime.connection_quotas import NetworkLimits
from quorumd.runtime.network import TcpNetwork
from quorumd.runtime.tls_listeners import TlsListeners

PATIENCE_S = 300.0
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


class Recorder:
    """A Connection that records its callbacks and lets a test wait for them."""

    def __init__(self) -> None:
        self.transport: Transport
        self.data = bytearray()
        self.sizes: list[int] = []
        """The bytes of each call of `received`."""
        self.calls: list[str] = []
        self.ends: list[tuple[str, bool]] = []
        self._changed = asyncio.Event()

    def connected(self, transport: Transport) -> None:
        self.transport = transport
        self._note("connected")

    def received(self, data: bytes) -> None:
        self.data += data
        self.sizes.append(len(data))
        self._note("received")

    def closed(self, reason: str, refused: bool) -> None:
        self.ends.append((reason, refused))
        self._note("closed")

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                await self._changed.wait()
                self._changed.clear()

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self._changed.set()


class Echo(Recorder):
    def received(self, data: bytes) -> None:
        for position in range(len(data)):
            self.transport.write(data[position : position + 1])
        super().received(data)


@asynccontextmanager
async def network(
    limits: NetworkLimits | None = None,
    on_rejected: Callable[[], None] = lambda: None,
    tls: TlsListeners | None = None,
) -> AsyncIterator[TcpNetwork]:
    network = TcpNetwork(asyncio.get_running_loop(), limits, on_rejected, tls)
    try:
        yield network
    finally:
        await network.close(timeout_s=1)


async def connected(net: TcpNetwork, name: str = "") -> tuple[Listener, Recorder, Recorder]:
    """A listener of this name, and the accepted and the connecting end of a connection."""
    server, client = Recorder(), Recorder()
    listener = net.listen("127.0.0.1", 0, lambda: server, name)
    net.connect("127.0.0.1", listener.port, client, name)
    await server.until(lambda: "connected" in server.calls)
    await client.until(lambda: "connected" in client.calls)
    return listener, server, client


def run(scenario: Callable[[], object], loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(scenario())  # type: ignore[arg-type]  # every scenario is a coroutine function


pytestmark = pytest.mark.parametrize("loop_factory", LOOPS, ids=["asyncio", "uvloop"])
LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def test_bytes_flow_both_ways_and_each_side_is_closed_once(loop_factory: LoopFactory) -> None:
    async def scenario() -> None:
        async with network() as net:
            accepted: list[Echo] = []

            def accept() -> Echo:
                accepted.append(Echo())
                return accepted[-1]

            listener = net.listen("127.0.0.1", 0, accept)
            client = Recorder()
            net.connect("127.0.0.1", listener.port, client)
            assert client.calls == []
            await client.until(lambda: "connected" in client.calls)
            assert client.transport.peer == f"127.0.0.1:{listener.port}"
            client.transport.write(b"hello")
            await client.until(lambda: client.data == b"hello")
            client.transport.close()
            client.transport.write(b"dropped without a word")
            await client.until(lambda: bool(client.ends))
            await accepted[0].until(lambda: bool(accepted[0].ends))
            assert client.ends == accepted[0].ends == [("", False)]
            assert accepted[0].data == b"hello"
            assert net.open_connections == 0
            listener.close()

    run(scenario, loop_factory)


def test_bytes_written_before_close_still_arrive(loop_factory: LoopFactory) -> None:
    async def scenario() -> None:
        async with network() as net:
            listener, server, client = await connected(net)
            parts = [b"head", bytes(20_000_000), b"tail"]  # more than the socket buffers of both ends
            client.transport.write_parts(parts)
            assert client.transport.unsent_bytes > 0
            client.transport.close()
            client.transport.write(b"dropped without a word")
            await server.until(lambda: bool(server.ends))
            assert server.data == b"".join(parts)
            listener.close()

    run(scenario, loop_factory)


def test_paused_reader_makes_the_unsent_bytes_of_its_peer_grow(loop_factory: LoopFactory) -> None:
    async def scenario() -> None:
        async with network() as net:
            listener, server, client = await connected(net)
            server.transport.pause_reading()
            size = 20_000_000
            client.transport.write(bytes(size))
            await asyncio.sleep(0.05)
            assert client.transport.unsent_bytes > 1_000_000
            server.transport.resume_reading()
            await server.until(lambda: len(server.data) == size)
            assert client.transport.unsent_bytes == 0
            listener.close()

    run(scenario, loop_factory)


def test_writer_learns_when_its_bytes_are_sent(loop_factory: LoopFactory) -> None:
    async def scenario() -> None:
        async with network() as net:
            listener, server, client = await connected(net)
            sent = asyncio.Event()
            client.transport.call_when_sent(sent.set)
            assert not sent.is_set()
            await sent.wait()
            server.transport.pause_reading()
            size = 20_000_000
            client.transport.write(bytes(size))
            unsent: list[int] = []
            client.transport.call_when_sent(lambda: unsent.append(client.transport.unsent_bytes))
            await asyncio.sleep(0.05)
            assert unsent == []
            server.transport.resume_reading()
            await server.until(lambda: len(server.data) == size)
            assert len(unsent) == 1
            assert unsent[0] < 1_000_000
            listener.close()

    run(scenario, loop_factory)


def test_writer_whose_connection_is_closed_does_not_learn_that_its_bytes_are_sent(
    loop_factory: LoopFactory,
) -> None:
    async def scenario() -> None:
        async with network() as net:
            listener, server, client = await connected(net)
            server.transport.pause_reading()
            client.transport.write(bytes(20_000_000))
            client.transport.call_when_sent(lambda: client.calls.append("sent"))
            client.transport.abort()
            await client.until(lambda: bool(client.ends))
            assert client.calls == ["connected", "closed"]
            listener.close()

    run(scenario, loop_factory)


def test_paused_reader_learns_that_its_client_has_closed(loop_factory: LoopFactory) -> None:
    """Also if the client has sent more than was read."""

    async def scenario() -> None:
        async with network() as net:
            server = Recorder()
            listener = net.listen("127.0.0.1", 0, lambda: server)
            with socket.create_connection(("127.0.0.1", listener.port)) as client:
                await server.until(lambda: "connected" in server.calls)
                server.transport.pause_reading()
                client.sendall(b"not read")
            await server.until(lambda: bool(server.ends))
            assert server.data == b""
            listener.close()

    run(scenario, loop_factory)


def test_no_free_descriptor_stops_neither_the_listener_nor_its_connections(
    loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "RETRY_S", 0.0)

    async def scenario() -> None:
        async with network() as net:
            listener = net.listen("127.0.0.1", 0, Echo)
            early, late = Recorder(), Recorder()
            net.connect("127.0.0.1", listener.port, early)
            await early.until(lambda: "connected" in early.calls)
            with socket.socket() as client, contextlib.ExitStack() as files:
                client.setblocking(False)
                with contextlib.suppress(OSError):
                    while True:
                        files.enter_context(open(os.devnull))
                client.connect_ex(("127.0.0.1", listener.port))
                early.transport.write(b"still here")
                await early.until(lambda: early.data == b"still here")
            net.connect("127.0.0.1", listener.port, late)
            await late.until(lambda: "connected" in late.calls)
            late.transport.write(b"back")
            await late.until(lambda: late.data == b"back")
            listener.close()

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        run(scenario, loop_factory)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_refused_is_true_only_without_a_listener(loop_factory: LoopFactory) -> None:
    async def scenario() -> None:
        async with network(NetworkLimits(connect_timeout_ms=300_000)) as net:
            with socket.socket() as unused:
                unused.bind(("127.0.0.1", 0))
                refused = Recorder()
                net.connect("127.0.0.1", unused.getsockname()[1], refused)
                await refused.until(lambda: bool(refused.ends))
            assert refused.calls == ["closed"]
            assert refused.ends == [("Connection refused", True)]

            for host, port in (("a" * 70, 1), ("a\0", 1), ("127.0.0.1", 70000), ("127.0.0.1", -1), ("", 0)):
                impossible = Recorder()
                net.connect(host, port, impossible)
                await impossible.until(lambda impossible=impossible: bool(impossible.ends))
                assert impossible.calls == ["closed"]

        async with network(NetworkLimits(connect_timeout_ms=50)) as net:
            with socket.socket() as silent:
                # With a backlog of 0 in use, further attempts get no response, as from an unreachable host.
                silent.bind(("127.0.0.1", 0))
                silent.listen(0)
                with socket.create_connection(silent.getsockname()):
                    cut_off = Recorder()
                    net.connect("127.0.0.1", silent.getsockname()[1], cut_off)
                    await cut_off.until(lambda: bool(cut_off.ends))
            assert cut_off.ends == [("not connected within 50 ms", False)]

    run(scenario, loop_factory)


def test_address_in_use_is_an_error_of_listen(loop_factory: LoopFactory) -> None:
    async def scenario() -> None:
        async with network() as net:
            listener = net.listen("127.0.0.1", 0, Recorder)
            with pytest.raises(OSError, match="Address already in use"):
                net.listen("127.0.0.1", listener.port, Recorder)
            listener.close()

    run(scenario, loop_factory)


def test_closed_listener_accepts_no_more_and_keeps_its_connections(loop_factory: LoopFactory) -> None:
    async def scenario() -> None:
        async with network() as net:
            listener = net.listen("127.0.0.1", 0, Echo)
            first, second = Recorder(), Recorder()
            net.connect("127.0.0.1", listener.port, first)
            await first.until(lambda: "connected" in first.calls)
            listener.close()
            await asyncio.sleep(0)
            net.connect("127.0.0.1", listener.port, second)
            await second.until(lambda: bool(second.calls))
            assert second.ends == [("Connection refused", True)]
            first.transport.write(b"still here")
            await first.until(lambda: first.data == b"still here")

    run(scenario, loop_factory)


def test_connections_beyond_a_limit_are_closed_and_counted(loop_factory: LoopFactory) -> None:
    async def scenario() -> None:
        refused: list[None] = []
        limits = NetworkLimits(max_connections_per_host=1)
        async with network(limits, lambda: refused.append(None)) as net:
            accepted: list[Recorder] = []

            def accept() -> Recorder:
                accepted.append(Recorder())
                return accepted[-1]

            listener = net.listen("127.0.0.1", 0, accept)
            first, second, third = Recorder(), Recorder(), Recorder()
            net.connect("127.0.0.1", listener.port, first)
            await first.until(lambda: "connected" in first.calls)
            net.connect("127.0.0.1", listener.port, second)
            await second.until(lambda: bool(second.ends))
            assert len(refused) == len(accepted) == 1
            first.transport.close()
            await accepted[0].until(lambda: bool(accepted[0].ends))
            net.connect("127.0.0.1", listener.port, third)
            await third.until(lambda: "connected" in third.calls)
            third.transport.write(b"let in")
            await accepted[-1].until(lambda: accepted[-1].data == b"let in")
            assert len(refused) == 1
            listener.close()

    run(scenario, loop_factory)


@pytest.mark.stand_in
def test_only_idle_connections_are_closed(loop_factory: LoopFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test controls the clock; only the check interval of the network is real."""
    now_s = 0.0
    monkeypatch.setattr(real_network, "time", SimpleNamespace(monotonic=lambda: now_s))
    monkeypatch.setattr("quorumd.runtime.link.monotonic", lambda: now_s)

    async def scenario() -> None:
        nonlocal now_s
        async with network(NetworkLimits(max_idle_ms=120)) as net:
            listener = net.listen("127.0.0.1", 0, Echo)
            idle, busy = Recorder(), Recorder()
            for client in (idle, busy):
                net.connect("127.0.0.1", listener.port, client)
                await client.until(lambda client=client: "connected" in client.calls)
                client.transport.write(b"a")
                await client.until(lambda client=client: client.data == b"a")
            now_s = 0.119
            busy.transport.write(b"b")
            await busy.until(lambda: busy.data == b"ab")
            assert idle.ends == []
            now_s = 0.121
            await idle.until(lambda: bool(idle.ends))
            busy.transport.write(b"c")
            await busy.until(lambda: busy.data == b"abc")
            assert busy.ends == []
            listener.close()

    run(scenario, loop_factory)


def test_nagle_is_disabled(loop_factory: LoopFactory) -> None:
    async def scenario() -> None:
        async with network() as net:
            server, client = Recorder(), Recorder()
            listener = net.listen("127.0.0.1", 0, lambda: server)
            net.connect("127.0.0.1", listener.port, client)
            await server.until(lambda: "connected" in server.calls)
            await client.until(lambda: "connected" in client.calls)
            for link in net._links:
                option = link._transport.get_extra_info("socket").getsockopt(
                    socket.IPPROTO_TCP, socket.TCP_NODELAY
                )
                assert option
            listener.close()

    run(scenario, loop_factory)


def test_exception_of_a_connection_reaches_the_exception_handler_of_the_loop(
    loop_factory: LoopFactory,
) -> None:
    class InvariantViolation(Recorder):
        def received(self, data: bytes) -> None:
            raise AssertionError("a violated invariant")

        def closed(self, reason: str, refused: bool) -> None: ...

    async def scenario() -> None:
        errors: list[BaseException] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: errors.append(context["exception"])
        )
        async with network() as net:
            listener = net.listen("127.0.0.1", 0, InvariantViolation)
            client = Recorder()
            net.connect("127.0.0.1", listener.port, client)
            await client.until(lambda: "connected" in client.calls)
            client.transport.write(b"x")
            await client.until(lambda: bool(client.ends))
            listener.close()
        assert [str(error) for error in errors] == ["a violated invariant"]

    run(scenario, loop_factory)


class LoopWithNames:
    """A loop whose resolver returns the current addresses in `names`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, names: dict[str, str]) -> None:
        self._loop = loop
        self.names = names
        self.lookups: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def getaddrinfo(self, host: str, port: int, **options: Any) -> Any:
        self.lookups.append(host)
        return await self._loop.getaddrinfo(self.names[host], port, **options)


MOVED = "node-2.example"
"""A host whose address changes between two attempts."""


def test_host_name_is_resolved_at_each_attempt(loop_factory: LoopFactory) -> None:
    async def scenario() -> None:
        loop: Any = LoopWithNames(asyncio.get_running_loop(), {MOVED: "127.0.0.2"})
        net = TcpNetwork(loop)
        server = Recorder()
        listener = net.listen("127.0.0.1", 0, lambda: server)
        first, second = Recorder(), Recorder()
        net.connect(MOVED, listener.port, first)
        await first.until(lambda: bool(first.ends))
        assert [refused for _, refused in first.ends] == [True]
        loop.names[MOVED] = "127.0.0.1"
        net.connect(MOVED, listener.port, second)
        await second.until(lambda: "connected" in second.calls)
        assert second.transport.peer == f"127.0.0.1:{listener.port}"
        assert loop.lookups == [MOVED, MOVED]
        listener.close()
        await net.close(timeout_s=1)

    run(scenario, loop_factory)


def test_moved_peer_is_reached_under_its_name(loop_factory: LoopFactory) -> None:
    """The connection of peers, discovery and forwarding reconnects to the name, not to the old address."""

    async def scenario() -> None:
        loop: Any = LoopWithNames(asyncio.get_running_loop(), {MOVED: "127.0.0.1"})
        net, clock = TcpNetwork(loop), LoopClock(loop)
        here = Recorder()
        listener = net.listen("127.0.0.1", 0, lambda: here)
        there = Recorder()
        moved_to = net.listen("127.0.0.2", listener.port, lambda: there)
        peer = PeerConnection(net, clock, MOVED, listener.port, PeerSettings("quorumd-test"))
        failures: list[Failure] = []

        def send() -> None:
            deadline_ms = clock.now_ms() + PATIENCE_S * 1000
            peer.call(
                Call(ApiKey.METADATA, lambda _: MetadataRequest([]), print, failures.append, deadline_ms)
            )

        send()
        await here.until(lambda: len(here.data) > 0)
        loop.names[MOVED] = "127.0.0.2"
        here.transport.close()
        while not failures:
            await asyncio.sleep(0.001)
        send()
        await there.until(lambda: len(there.data) > 0)
        peer.close()
        for each in (listener, moved_to):
            each.close()
        await net.close(timeout_s=1)

    run(scenario, loop_factory)
