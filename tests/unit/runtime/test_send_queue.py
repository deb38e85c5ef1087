"""Parts for a socket are taken in order, stored bytes in pieces, and counted."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from quorumd.errors import StorageError
from quorumd.ports import File
from quorumd.runtime.disk import OsFile
from quorumd.runtime.send_queue import SendQueue

LIMIT = 1_000_000


class Stored:
    """Stored bytes: zeros."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def read(self, position: int, length: int) -> bytes:
        assert position + length <= self._size
        return bytes(length)

    def locate(self, position: int) -> tuple[File, int]:
        return cast(File, self), position


class Sockets:
    """A connection, of which the first end does not block and has a small buffer."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)

    def receive(self, size: int) -> bytes:
        return self.far.recv(size, socket.MSG_WAITALL)


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    made = Sockets()
    with made.near, made.far:
        yield made


class InFile:
    """All bytes of a file from the third on."""

    def __init__(self, file: OsFile) -> None:
        self.file = file
        self.is_removed = False
        self._size = file.size() - 3

    def __len__(self) -> int:
        return self._size

    def read(self, position: int, length: int) -> bytes:
        return self.file.read_at(3 + position, length)

    def locate(self, position: int) -> tuple[File, int]:
        if self.is_removed:
            raise StorageError("removed")
        return self.file, 3 + position


@pytest.fixture
def in_file(tmp_path: Path) -> Iterator[InFile]:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 1024)
    file = OsFile(os.open(path, os.O_RDWR))
    yield InFile(file)
    file.close()


def test_parts_are_taken_in_order_and_counted() -> None:
    queue = SendQueue()
    assert not queue
    stored, tail = Stored(LIMIT + 3), b"tail"
    queue.add(stored)
    queue.add(tail)
    assert (queue.unsent_bytes, queue.held_bytes) == (len(stored) + len(tail), len(tail))
    assert len(queue.take(LIMIT)) == LIMIT
    assert (queue.unsent_bytes, queue.held_bytes) == (3 + len(tail), len(tail))
    assert queue.take(LIMIT) == bytes(3)
    assert [queue.take(3), queue.take(3)] == [b"tai", b"l"]
    assert (bool(queue), queue.unsent_bytes, queue.held_bytes) == (False, 0, 0)


def test_cleared_queue_starts_with_the_first_byte_of_the_next_part() -> None:
    queue = SendQueue()
    queue.add(Stored(2 * LIMIT))
    queue.take(LIMIT)
    queue.clear()
    assert (bool(queue), queue.unsent_bytes, queue.held_bytes) == (False, 0, 0)
    queue.add(Stored(2 * LIMIT))
    assert [len(queue.take(LIMIT)), len(queue.take(LIMIT))] == [LIMIT, LIMIT]
    assert not queue


def test_parts_are_sent_in_order_as_the_socket_accepts_them(sockets: Sockets, in_file: InFile) -> None:
    queue = SendQueue()
    parts: list[bytes | InFile] = [b"head", in_file, bytes(50_000), b"tail"]
    for part in parts:
        queue.add(part)
    expected = b"".join(part if isinstance(part, bytes) else part.read(0, len(part)) for part in parts)
    received = b""
    while queue:
        sent = queue.send(sockets.near.fileno(), len(expected))
        received += sockets.receive(sent)
        assert queue.unsent_bytes == len(expected) - len(received)
    assert received == expected
    assert queue.held_bytes == 0


def test_a_full_socket_accepts_nothing(sockets: Sockets, in_file: InFile) -> None:
    queue = SendQueue()
    queue.add(in_file)
    while queue.send(sockets.near.fileno(), len(in_file)):
        pass
    unsent = queue.unsent_bytes
    assert 0 < unsent < len(in_file)
    assert queue.take(LIMIT) == in_file.read(len(in_file) - unsent, unsent)


def test_no_more_than_the_limit_is_sent(sockets: Sockets, in_file: InFile) -> None:
    queue = SendQueue()
    for part in (in_file, b"tail"):
        queue.add(part)
    assert queue.send(sockets.near.fileno(), 5) == 5
    assert queue.take(LIMIT) == in_file.read(5, len(in_file) - 5)
    assert queue.send(sockets.near.fileno(), 3) == 3
    assert (queue.unsent_bytes, queue.held_bytes) == (1, 1)
    assert queue.take(LIMIT) == b"l"


def test_what_cannot_be_sent_is_left_to_be_taken(sockets: Sockets, in_file: InFile) -> None:
    queue, socket = SendQueue(), sockets.near.fileno()
    queue.add(Stored(7))
    assert queue.send(socket, 7) == 0, "it is in no file"
    assert queue.take(LIMIT) == bytes(7)
    queue.add(in_file)
    in_file.file.truncate(2)
    assert queue.send(socket, 7) == 0, "the file is too short"
    queue.clear()
    sockets.far.close()
    queue.add(b"head")
    assert queue.send(socket, 7) == 0, "the connection has failed"
    assert queue.take(LIMIT) == b"head"


def test_removed_bytes_are_not_sent(sockets: Sockets, in_file: InFile) -> None:
    queue = SendQueue()
    queue.add(in_file)
    in_file.is_removed = True
    with pytest.raises(StorageError):
        queue.send(sockets.near.fileno(), 7)
