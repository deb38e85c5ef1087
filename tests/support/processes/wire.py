"""A blocking Kafka client built on kio, so that tests do not share quorumd's codec."""

from __future__ import annotations

import io
import socket
import ssl
import struct
from types import TracebackType
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer


class Wire:
    """Sends requests and reads their responses one by one. Every method may raise OSError."""

    def __init__(self, address: tuple[str, int], timeout: float = 120) -> None:
        self._socket = socket.create_connection(address, timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def request(self, request: Any) -> Any:
        """Send a kio request entity and return the decoded response. Fails if bytes follow the response."""
        self._correlation_id += 1
        kind = type(request)
        header = kind.__header_schema__(
            request_api_key=kind.__api_key__,
            request_api_version=kind.__version__,
            correlation_id=self._correlation_id,
            client_id="test",
        )
        self.send_frame(encode(header) + encode(request))
        frame = self.read_frame()
        response = load_response_schema(kind.__api_key__, kind.__version__)
        header, read = entity_reader(response.__header_schema__)(frame, 0)
        assert header.correlation_id == self._correlation_id
        decoded, size = entity_reader(response)(frame, read)
        assert read + size == len(frame), (
            f"{len(frame) - read - size} bytes follow the {kind.__name__} response"
        )
        return decoded

    def send_frame(self, payload: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(payload)) + payload)

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._read(4))
        return self._read(length)

    def is_closed_by_peer(self) -> bool:
        """Wait for the peer to close; return False if it sends data instead. Raises TimeoutError."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _read(self, length: int) -> bytes:
        chunks = []
        while length:
            chunk = self._socket.recv(length)
            if not chunk:
                raise ConnectionResetError("closed in the middle of a response")
            chunks.append(chunk)
            length -= len(chunk)
        return b"".join(chunks)


class TlsWire(Wire):
    """A Wire over TLS."""

    def __init__(self, address: tuple[str, int], timeout: float = 120, *, context: ssl.SSLContext) -> None:
        super().__init__(address, timeout)
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=address[0])
        except OSError:
            self.close()
            raise


def encode(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()
