"""Length-prefixed frames: every request and response is an int32 size followed by that many bytes.

The size is checked against a limit before the frame is buffered, and no memory is reserved for bytes that have not
arrived. If the bytes are those of HTTP or TLS, the error names that protocol.
"""

from __future__ import annotations

from struct import Struct

from quorumd.errors import MalformedMessage

SIZE = Struct(">i")
"""The size prefix of a frame."""

REQUEST_LIMIT = "socket.request.max.bytes"

_HTTP_PREFIXES = (b"GET ", b"POST", b"PUT ", b"HEAD", b"HTTP", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI ")
_TLS_HANDSHAKE = b"\x16\x03"


class FrameReader:
    """Splits a stream that arrives in chunks into frames, without their size prefix.

    `limit_name`: the setting of which `max_bytes` is the value, for the error for a larger frame.
    """

    __slots__ = ("_buffer", "_limit_name", "_needed", "buffered_bytes", "fault", "has_more", "max_bytes")

    def __init__(self, max_bytes: int, limit_name: str = REQUEST_LIMIT) -> None:
        self.max_bytes = max_bytes
        self._limit_name = limit_name
        self._buffer = bytearray()
        self._needed = SIZE.size
        self.buffered_bytes = 0
        """Number of buffered bytes, of an incomplete frame or of frames that `feed` has not returned."""
        self.has_more = False
        """Whether the buffer may contain frames that `feed` has not returned."""
        self.fault: MalformedMessage | None = None
        """Why reading cannot continue, None if it can."""

    def feed(self, data: bytes, max_frames: int = 1 << 31) -> list[bytes]:
        """Return the frames that `data` completes, in order, at most `max_frames`; the next call returns the others.

        Raises MalformedMessage for a size that is negative or above the limit. If frames precede it in `data`, those
        are returned and `fault` is set, which the next call raises.
        """
        if self.fault is not None:
            raise self.fault
        frames: list[bytes] = []
        if not max_frames:
            self._keep(data)
            return frames
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                self.buffered_bytes = len(self._buffer)
                return frames
            if self._needed > SIZE.size:
                frames.append(self._take_first())
            data = bytes(self._buffer)
            self._buffer.clear()
        position = 0
        end = len(data)
        self.buffered_bytes, self.has_more = 0, False
        while True:
            if len(frames) >= max_frames and position < end:
                self._needed, self.has_more = 0, True
                break
            start = position + 4
            if start > end:
                self._needed = 4
                break
            (size,) = SIZE.unpack_from(data, position)
            if not 0 <= size <= self.max_bytes:
                self.fault = MalformedMessage(self._size_error(size, data[position:start]))
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
            self.buffered_bytes = end - position
        return frames

    def _take_first(self) -> bytes:
        """Take the frame that was incomplete, which may be large, with a single copy."""
        with memoryview(self._buffer) as view:
            frame = bytes(view[SIZE.size : self._needed])
        del self._buffer[: self._needed]
        return frame

    def _keep(self, data: bytes) -> None:
        """Only append: to split a buffer with a large frame would copy it twice."""
        self._buffer += data
        self.buffered_bytes = len(self._buffer)
        self.has_more = self.buffered_bytes >= self._needed

    def _size_error(self, size: int, prefix: bytes) -> str:
        if prefix in _HTTP_PREFIXES:
            return f"received an HTTP message ({prefix!r}) on a listener for Kafka's protocol"
        if prefix.startswith(_TLS_HANDSHAKE):
            return "received a TLS handshake on a PLAINTEXT listener"
        return f"frame size {size} is not between 0 and {self.max_bytes} ({self._limit_name})"
