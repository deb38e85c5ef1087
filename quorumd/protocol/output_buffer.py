"""Encoded messages that wait to be sent, with large values in parts of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quorumd.ports import StoredBytes

LARGE_VALUE: Final = 64 * 1024
"""A value of at least this many bytes becomes a part of its own, so that it is sent from where it is, not copied."""

Part = bytes | StoredBytes


def whole(part: Part) -> bytes:
    """Return a part, read if it is stored. Raises StorageError."""
    return part if isinstance(part, bytes) else part.read(0, len(part))


class OutputBuffer(bytearray):
    """Encoded bytes, except for the large values at some positions in them. mypyc cannot compile this class."""

    def __init__(self) -> None:
        super().__init__()
        self.large_bytes = 0
        """The total size of the large values."""
        self._large: list[tuple[int, Part]] = []
        """The large values, each with its position in the encoded bytes, in order."""

    def add_large(self, value: Part) -> None:
        """Append a large value."""
        self._large.append((len(self), value))
        self.large_bytes += len(value)

    def add_parts(self, parts: Iterable[Part]) -> None:
        """Append the parts of another buffer."""
        for part in parts:
            if isinstance(part, bytes) and len(part) < LARGE_VALUE:
                self += part
            else:
                self.add_large(part)

    def cut(self, length: int) -> None:
        """Remove everything after the first `length` encoded bytes and the large values among them."""
        del self[length:]
        while self._large and self._large[-1][0] > length:
            self.large_bytes -= len(self._large.pop()[1])

    def take_parts(self) -> list[Part]:
        """Remove and return everything, in parts of which none is empty."""
        parts: list[Part] = []
        begin = 0
        with memoryview(self) as encoded:
            for position, value in self._large:
                parts += [bytes(encoded[begin:position]), value]
                begin = position
            parts.append(bytes(encoded[begin:]))
        self.clear()
        self._large.clear()
        self.large_bytes = 0
        return [part for part in parts if len(part)]

    def take(self) -> bytes:
        """Remove and return everything in one piece. Raises StorageError."""
        return b"".join(map(whole, self.take_parts()))
