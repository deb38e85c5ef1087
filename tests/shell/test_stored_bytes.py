"""Stored bytes on the real network: they are read as the socket accepts them, with TLS, or sent from their file."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from quorumd.errors import StorageError
from quorumd.ports import File, Listener
from quorumd.runtime.disk import OsFile
from quorumd.runtime.link import ENCRYPTED_BYTES, PROBE_BYTES, TURN_BYTES
from quorumd.runtime.network import TcpNetwork
from quorumd.runtime.tls_listeners import TlsListeners
from tests.shell.test_tcp_network import LOOPS, LoopFactory, Recorder, connected, network, run
from tests.shell.test_tls_network import settings
from tests.support.security.certificates import Certificates

SIZE = 20_000_000
"""More than the socket buffers of both ends."""
HIGH_WATER = 64 * 1024
"""Bytes that a transport may buffer before it pauses writing."""
HELD_BYTES = {"plain": PROBE_BYTES, "sendfile": PROBE_BYTES, "TLS": ENCRYPTED_BYTES + HIGH_WATER + 1024}
"""With TLS, the last piece comes after the bytes that asyncio buffers; its records add less than 1 KiB."""
PATTERN = bytes(range(251)) * (SIZE // 251 + 1)

pytestmark = [
    pytest.mark.parametrize("loop_factory", LOOPS, ids=["asyncio", "uvloop"]),
    pytest.mark.parametrize("way", ["plain", "TLS", pytest.param("sendfile", marks=pytest.mark.stand_in)]),
]
MakeTls = Callable[[], TlsListeners | None]


class Stored:
    """`size` bytes of PATTERN from `begin`, of which those from `readable` on cannot be read."""

    def __init__(self, file: File, begin: int, size: int, readable: int = SIZE) -> None:
        self.content = PATTERN[begin : begin + size]
        self.readable = readable
        self.reads: list[tuple[int, int]] = []
        self.sent_bytes = 0
        """Bytes sent from the file."""
        self._file = file
        self._begin = begin

    def __len__(self) -> int:
        return len(self.content)

    def read(self, position: int, length: int) -> bytes:
        if position + length > self.readable:
            raise StorageError("the log is truncated")
        self.reads.append((position, length))
        return self.content[position : position + length]

    def locate(self, position: int) -> tuple[File, int]:
        file = self._file
        if isinstance(file, ObservedFile):
            file.observer = self
        return file, self._begin + position

    @property
    def readable_end(self) -> int:
        """The position in the file from which on it cannot be read."""
        return self._begin + self.readable

    @property
    def read_bytes(self) -> int:
        return self.sent_bytes + sum(length for _, length in self.reads)


class ObservedFile(OsFile):
    """A file of this process, which counts the bytes that are sent from it."""

    observer: Stored

    def send(self, socket: int, position: int, length: int) -> int:
        """Send nothing that cannot be read, as from a file that is too short."""
        sent = super().send(socket, position, min(length, self.observer.readable_end - position))
        self.observer.sent_bytes += sent
        return sent


class NoFile:
    """A file that the process cannot send from, and that is not read either."""

    def read_at(self, position: int, length: int) -> bytes:
        raise AssertionError("read past the stored bytes")


MakeStored = Callable[..., Stored]


@pytest.fixture
def make_stored(tmp_path: Path, way: str) -> Iterator[MakeStored]:
    if way != "sendfile":
        yield partial(Stored, cast(File, NoFile()))
        return
    path = tmp_path / "stored"
    path.write_bytes(PATTERN)
    file = ObservedFile(os.open(path, os.O_RDONLY))
    yield partial(Stored, file)
    file.close()


class Ends:
    """Both ends of a connection. The accepted one sends."""

    def __init__(self, net: TcpNetwork, listener: Listener, sender: Recorder, receiver: Recorder) -> None:
        self.net = net
        self.listener = listener
        self.sender = sender
        self.receiver = receiver


@pytest.fixture
def tls(tmp_path: Path, way: str) -> MakeTls:
    if way != "TLS":
        return lambda: None
    certificates = Certificates(tmp_path)
    certificates.issue("server")
    return lambda: TlsListeners({"TLS": settings(certificates, "server")}, asyncio.get_running_loop())


@asynccontextmanager
async def ends(tls: MakeTls) -> AsyncIterator[Ends]:
    async with network(tls=tls()) as net:
        listener, sender, receiver = await connected(net, "TLS")
        yield Ends(net, listener, sender, receiver)
        listener.close()


def test_parts_arrive_in_order_and_later_writes_after_them(
    loop_factory: LoopFactory, tls: MakeTls, make_stored: MakeStored, way: str
) -> None:
    async def scenario() -> None:
        async with ends(tls) as each:
            stored = [make_stored(0, 3 * ENCRYPTED_BYTES + 7), make_stored(5, 100_000), make_stored(9, SIZE)]
            transport = each.sender.transport
            transport.write(b"before")
            transport.write_parts([b"head", stored[0], b"between", stored[1], stored[2], b"tail"])
            transport.write(b"after")
            parts = [b"before", b"head", *[one.content for one in stored]]
            parts[3:3] = [b"between"]
            expected = b"".join([*parts, b"tail", b"after"])
            assert transport.unsent_bytes > 0
            await each.receiver.until(lambda: len(each.receiver.data) == len(expected))
            assert each.receiver.data == expected
            assert transport.unsent_bytes == 0
            if way == "TLS":
                pieces = [(number * ENCRYPTED_BYTES, ENCRYPTED_BYTES) for number in range(3)]
                assert stored[0].reads == [*pieces, (3 * ENCRYPTED_BYTES, 7)]

    run(scenario, loop_factory)


def test_stored_bytes_follow_what_the_transport_has_not_sent_yet(
    loop_factory: LoopFactory, tls: MakeTls, make_stored: MakeStored
) -> None:
    async def scenario() -> None:
        async with ends(tls) as each:
            transport, stored = each.sender.transport, make_stored(0, SIZE)
            each.receiver.transport.pause_reading()
            written = 0
            while transport.unsent_bytes < 40_000:
                # Below the limit from which on the transport accepts no more.
                transport.write(b"w" * 5000)
                written += 5000
            transport.write_parts([stored])
            each.receiver.transport.resume_reading()
            await each.receiver.until(lambda: len(each.receiver.data) == written + SIZE)
            assert each.receiver.data == b"w" * written + stored.content

    run(scenario, loop_factory)


def test_only_bytes_in_a_file_are_sent_past_the_transport(
    loop_factory: LoopFactory, tls: MakeTls, make_stored: MakeStored, way: str
) -> None:
    async def scenario() -> None:
        async with ends(tls) as each:
            stored = make_stored(0, SIZE)
            each.sender.transport.write_parts([b"head", stored])
            await each.receiver.until(lambda: len(each.receiver.data) == 4 + SIZE)
            assert (stored.sent_bytes > 0) == (way == "sendfile")
            assert stored.read_bytes == SIZE

    run(scenario, loop_factory)


def test_reads_no_faster_than_the_peer(
    loop_factory: LoopFactory, tls: MakeTls, make_stored: MakeStored, way: str
) -> None:
    async def scenario() -> None:
        async with ends(tls) as each:
            each.receiver.transport.pause_reading()
            transport, stored, sent = each.sender.transport, make_stored(0, SIZE), asyncio.Event()
            transport.write_parts([stored])
            transport.call_when_sent(sent.set)
            # More than the socket buffers accept is neither read nor counted as sent.
            await asyncio.sleep(0.05)
            assert stored.read_bytes < SIZE * 3 // 4
            assert transport.unsent_bytes >= SIZE - stored.read_bytes > SIZE // 4
            assert transport.held_bytes <= HELD_BYTES[way]
            transport.write(b"tail")
            assert transport.held_bytes == transport.unsent_bytes - (SIZE - stored.read_bytes)
            assert not sent.is_set()
            each.receiver.transport.resume_reading()
            await sent.wait()
            await each.receiver.until(lambda: len(each.receiver.data) == SIZE + 4)
            assert transport.unsent_bytes == transport.held_bytes == 0
            _, high = transport._transport.get_write_buffer_limits()  # type: ignore[attr-defined]  # of the real one
            assert high == HIGH_WATER, "other writes are buffered as before"

    run(scenario, loop_factory)


@pytest.mark.parametrize("closes", ["sender", "half-closed receiver"])
def test_everything_arrives_before_the_connection_is_closed(
    loop_factory: LoopFactory, tls: MakeTls, make_stored: MakeStored, closes: str
) -> None:
    async def scenario() -> None:
        async with ends(tls) as each:
            transport, stored = each.sender.transport, make_stored(0, SIZE)
            transport.write_parts([b"head", stored, b"tail"])
            if closes == "sender":
                transport.close()
                transport.write(b"dropped without a word")
                transport.write_parts([make_stored(0, SIZE)])
            else:
                descriptor = each.receiver.transport.descriptor  # type: ignore[attr-defined]  # of the real one
                with socket.socket(fileno=socket.dup(descriptor)) as duplicate:
                    duplicate.shutdown(socket.SHUT_WR)
            await each.receiver.until(lambda: bool(each.receiver.ends))
            await each.sender.until(lambda: bool(each.sender.ends))
            assert each.receiver.data == b"head" + stored.content + b"tail"
            assert each.sender.ends == [("", False)]

    run(scenario, loop_factory)


def test_abort_reads_no_more(loop_factory: LoopFactory, tls: MakeTls, make_stored: MakeStored) -> None:
    async def scenario() -> None:
        async with ends(tls) as each:
            each.receiver.transport.pause_reading()
            transport, stored = each.sender.transport, make_stored(0, SIZE)
            transport.write_parts([stored])
            transport.call_when_sent(lambda: each.sender.calls.append("sent"))
            before = stored.read_bytes
            transport.abort()
            assert transport.unsent_bytes < SIZE - before
            await each.sender.until(lambda: bool(each.sender.ends))
            assert stored.read_bytes == before
            assert each.sender.calls[-1] == "closed"
            assert "sent" not in each.sender.calls

    run(scenario, loop_factory)


def test_bytes_that_cannot_be_read_end_the_connection(
    loop_factory: LoopFactory, tls: MakeTls, make_stored: MakeStored, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with ends(tls) as each:
            stored = make_stored(0, SIZE, readable=SIZE // 2)
            each.sender.transport.write_parts([b"head", stored, b"tail"])
            await each.receiver.until(lambda: bool(each.receiver.ends))
            await each.sender.until(lambda: bool(each.sender.ends))
            assert len(each.receiver.data) <= 4 + SIZE // 2
            assert (b"head" + stored.content).startswith(each.receiver.data)
            assert "the log is truncated" in caplog.text

    run(scenario, loop_factory)


def test_other_connections_get_their_turn(
    loop_factory: LoopFactory, tls: MakeTls, make_stored: MakeStored
) -> None:
    async def scenario() -> None:
        async with ends(tls) as each:
            stored = make_stored(0, SIZE)
            transport = each.sender.transport
            real, transport._transport = transport._transport, Everything()  # type: ignore[attr-defined]  # of the real one
            turns, sent = [], []
            transport.write_parts([stored])
            transport.call_when_sent(lambda: sent.append(stored.read_bytes))
            while stored.read_bytes < SIZE:
                turns.append(stored.read_bytes)
                await asyncio.sleep(0)
            assert turns == list(range(TURN_BYTES, SIZE, TURN_BYTES))
            assert sent == [SIZE]
            assert not stored.sent_bytes, "past a transport that has something to send"
            transport._transport = real  # type: ignore[attr-defined]  # of the real one

    run(scenario, loop_factory)


def test_connection_that_is_aborted_between_its_turns(
    loop_factory: LoopFactory, tls: MakeTls, make_stored: MakeStored
) -> None:
    async def scenario() -> None:
        async with ends(tls) as each:
            stored, sent = make_stored(0, SIZE), []
            transport = each.sender.transport
            real, transport._transport = transport._transport, Everything()  # type: ignore[attr-defined]  # of the real one
            transport.write_parts([stored])
            transport.call_when_sent(lambda: sent.append("sent"))
            transport.abort()
            await asyncio.sleep(0)
            assert (stored.read_bytes, sent) == (TURN_BYTES, [])
            transport._transport = real  # type: ignore[attr-defined]  # of the real one

    run(scenario, loop_factory)


class Everything:
    """A transport of the loop that accepts everything at once, and has always something to send first."""

    def get_write_buffer_size(self) -> int:
        return 1

    def set_write_buffer_limits(self, high: int | None = None) -> None: ...

    def write(self, data: bytes) -> None: ...

    def abort(self) -> None: ...
