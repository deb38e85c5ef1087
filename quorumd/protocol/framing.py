"""Length-prefixed frames: every request and response is an int32 size and that many bytes.

The size is checked against a ceiling before anything is kept, and nothing is reserved for bytes only
announced. Bytes of a foreign protocol end with a message that says so.
"""

from __future__ import annotations

from struct import Struct

from quorumd.errors import MalformedMessage

SIZE = Struct(">i")
"""The prefix of a frame."""

REQUEST_LIMIT = "socket.request.max.bytes"

_HTTP_BEGINNINGS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"HTTP", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI ")
_TLS_HANDSHAKE = b"\x16\x03"


class FrameReader:
    """Cuts a stream that arrives in pieces into frames, without the size before them.

    `limit_name` is the setting that `max_bytes` came from: the error for a larger frame tells it.
    """

    __slots__ = ("_buffer", "_limit_name", "_max_bytes", "_needed", "fault")

    def __init__(self, max_bytes: int, limit_name: str = REQUEST_LIMIT) -> None:
        self._max_bytes = max_bytes
        self._limit_name = limit_name
        self._buffer = bytearray()
        self._needed = SIZE.size
        self.fault: MalformedMessage | None = None
        """Why the stream cannot be read on."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes kept of a frame that is not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes, in order.

        Raises MalformedMessage for a size that is negative or above the ceiling. Frames before it in `data` are
        returned first; then `fault` is set, and the next call raises it.
        """
        if self.fault is not None:
            raise self.fault
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return []
            data = bytes(self._buffer)
            self._buffer.clear()
        frames: list[bytes] = []
        position = 0
        end = len(data)
        while True:
            start = position + 4
            if start > end:
                self._needed = 4
                break
            (size,) = SIZE.unpack_from(data, position)
            if not 0 <= size <= self._max_bytes:
                self.fault = MalformedMessage(self._refusal(size, data[position:start]))
                if not frames:
                    raise self.fault
                return frames
            stop = start + size
            if stop > end:
                self._needed = 4 + size
                break
            frames.append(data[start:stop])
            position = stop
        if position < end:
            self._buffer += data[position:]
        return frames

    def _refusal(self, size: int, beginning: bytes) -> str:
        if beginning in _HTTP_BEGINNINGS:
            return f"the bytes begin like HTTP ({beginning!r}); Kafka's protocol is spoken here"
        if beginning.startswith(_TLS_HANDSHAKE):
            return "the bytes begin like a TLS handshake; this listener speaks plaintext"
        return f"a frame of {size} bytes was announced, {self._limit_name} allows 0 to {self._max_bytes}"
