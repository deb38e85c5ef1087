"""The queue of what a connection sends once its socket accepts more."""

from __future__ import annotations

import os
from collections import deque

from quorumd.ports import StoredBytes
from quorumd.runtime.disk import OsFile


class SendQueue:
    """Stored bytes that are not read yet, and what was written after them."""

    __slots__ = ("_parts", "_read_bytes", "held_bytes", "unsent_bytes")

    def __init__(self) -> None:
        self._parts: deque[bytes | StoredBytes] = deque()
        self._read_bytes = 0
        """Bytes of the first part that are taken or sent."""
        self.unsent_bytes = 0
        self.held_bytes = 0
        """The part of `unsent_bytes` that is in memory."""

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, part: bytes | StoredBytes) -> None:
        """Append a part that is not empty."""
        self._parts.append(part)
        self.unsent_bytes += len(part)
        if isinstance(part, bytes):
            self.held_bytes += len(part)

    def take(self, limit: int) -> bytes:
        """Remove and return the next bytes of one part, at most `limit`. Raises StorageError."""
        part, begin = self._parts[0], self._read_bytes
        if isinstance(part, bytes):
            chunk = part[begin : begin + limit]
        else:
            chunk = part.read(begin, min(limit, len(part) - begin))
        self._remove(len(chunk))
        return chunk

    def send(self, socket: int, limit: int) -> int:
        """Send the next bytes, at most `limit`, to a socket, and remove those that it accepts; return their number.

        Stored bytes are sent from their file, without a copy in this process. 0 also if that is not possible, because
        the file is too short or of another kind, or the connection has failed: what `take` returns shows the cause.
        Raises StorageError.
        """
        part, begin = self._parts[0], self._read_bytes
        try:
            if isinstance(part, bytes):
                sent = os.write(socket, memoryview(part)[begin : begin + limit])
            else:
                file, position = part.locate(begin)
                length = min(limit, len(part) - begin)
                sent = file.send(socket, position, length) if isinstance(file, OsFile) else 0
        except OSError:
            return 0
        self._remove(sent)
        return sent

    def _remove(self, count: int) -> None:
        """Remove bytes of the first part."""
        part = self._parts[0]
        self.unsent_bytes -= count
        if isinstance(part, bytes):
            self.held_bytes -= count
        self._read_bytes += count
        if self._read_bytes == len(part):
            self._parts.popleft()
            self._read_bytes = 0

    def clear(self) -> None:
        """Remove everything."""
        self._parts.clear()
        self.unsent_bytes = self.held_bytes = self._read_bytes = 0
