"""Both ends of one connection, without I/O: received bytes become requests or responses, which become bytes to send.

A frame is a header and a message. Request header: API key, API version, correlation id, client id, and tagged
fields if that API version is flexible. Response header: correlation id, and tagged fields if flexible; never for
ApiVersions, whose response a client reads before it knows the server's versions.

    server = ServerConnection(max_request_bytes, supported)
    for request in server.receive(data):            on MalformedMessage, log it and close the connection; likewise
                                                    if `server.fault` is set, once these requests have responses
        while not request.is_whole:                 a large request is decoded in steps
            server.continue_decoding(request, steps)
        ...                                         now or later, in any order:
        server.respond(request, response)
    transport.write_parts(server.take_parts())      once per tick: the responses, in the order of the requests

    client = ClientConnection(client_id)            see `handshake` for the version
    correlation_id, data = client.request(message, version)
    for correlation_id, response in client.receive(data): ...
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping
from struct import Struct, error
from typing import Any, Generic, TypeVar

from quorumd.errors import ErrorCode, MalformedMessage, MessageTooLarge, UnsupportedVersion
from quorumd.protocol.apis import ApiKey, request_class, unsupported_version
from quorumd.protocol.codec import (
    decode,
    decode_in_steps,
    decode_prefix,
    encode,
    encode_in_steps,
    encode_into,
)
from quorumd.protocol.framing import SIZE, FrameReader
from quorumd.protocol.message_routes import request_route, response_route
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from quorumd.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from quorumd.protocol.output_buffer import OutputBuffer, Part
from quorumd.protocol.primitives import skip_tagged_fields
from quorumd.protocol.response_errors import refusal
from quorumd.protocol.wire import Message

M_co = TypeVar("M_co", bound=Message, covariant=True)

VersionRanges = Mapping[int, tuple[int, int]]
"""API key -> (lowest, highest) supported version."""

CLIENT_SOFTWARE_NAME = "quorumd"
"""Software name of quorumd's nodes and clients (KIP-511). Only peers with this name are sent the private APIs."""

_REQUEST_HEAD = Struct(">hhih")
"""API key, API version, correlation id, length of the client id."""
_REQUEST_START = Struct(">ihhih")
"""Frame size, then the fields of _REQUEST_HEAD."""
_RESPONSE_START = Struct(">ii")
"""Frame size, correlation id."""
_FLEXIBLE_RESPONSE_START = Struct(">iix")
"""The same, and no tagged fields."""
_UNSUPPORTED_VERSION = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2)
_MAX_CORRELATION_ID = 0x7FFF_FFFF
LARGE_REQUEST = 4 * 1024
"""Frame size in bytes above which a node decodes requests in steps: in one step they could take milliseconds."""
DECODED_BYTES = 1024
"""Estimated memory of a small request besides its frame, in bytes."""
UNLIMITED = 1 << 31


class Request(Generic[M_co]):
    """One received request.

    `frame`: header and message as received, without the size prefix. `body_offset`: the position of the message in
    it. `connection`: None for a request from inside an Envelope. `response_parts`: the encoded response while it
    waits for earlier ones. `message`: has default values until the request is whole (`continue_decoding`).
    `decoded_bytes`: estimated memory of the array elements whose counts are decoded.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "body_offset",
        "client_id",
        "connection",
        "correlation_id",
        "decoded_bytes",
        "decoding",
        "frame",
        "message",
        "response_parts",
    )

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        message: M_co,
        frame: bytes,
        body_offset: int,
        decoded_bytes: int = 0,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.message = message
        self.frame = frame
        self.body_offset = body_offset
        self.decoded_bytes = decoded_bytes
        self.connection: ServerConnection | None = None
        self.response_parts: list[Part] | None = None
        self.decoding: Generator[int, None, tuple[Any, int, int]] | None = None

    def release_frame(self) -> None:
        """Release the received bytes before the response is sent; they no longer count as pending."""
        if self.connection is not None:
            self.connection.pending_bytes -= len(self.frame)
        self.frame = b""

    @property
    def is_whole(self) -> bool:
        """Whether `message` is decoded completely."""
        return self.decoding is None

    def continue_decoding(self, steps: int) -> int:
        """Decode up to `steps` more array elements of a request that is not whole; return the number decoded.

        Raises MalformedMessage or MessageTooLarge.
        """
        decoding = self.decoding
        assert decoding is not None
        for taken in range(steps):
            try:
                self.decoded_bytes = next(decoding)
            except StopIteration as end:
                self.message, _, self.decoded_bytes = end.value
                self.decoding = None
                return taken + 1
        return steps

    def __repr__(self) -> str:
        return f"<request {self.correlation_id}: {self.message.NAME} v{self.api_version} from {self.client_id!r}>"


def read_request(
    frame: bytes, supported: VersionRanges, max_whole_bytes: int = UNLIMITED
) -> Request[Message]:
    """Read the request in a frame, or in the `request_data` of an Envelope.

    If the frame has more than `max_whole_bytes`, the request may not be whole. Raises UnsupportedVersion for an API
    or version that is not in `supported`, MalformedMessage for bytes that are not a request, MessageTooLarge.
    """
    try:
        api_key, version, correlation_id, client_id_size = _REQUEST_HEAD.unpack_from(frame)
    except error:
        raise MalformedMessage(f"a frame of {len(frame)} bytes is too short for a request") from None
    versions = supported.get(api_key)
    if versions is None or not versions[0] <= version <= versions[1]:
        raise unsupported_version(api_key, version, versions)
    message_class, is_flexible = request_route(api_key, version)
    position = _REQUEST_HEAD.size
    client_id = None
    try:
        if client_id_size >= 0:
            client_id = frame[position : position + client_id_size].decode()
            position += client_id_size
        if is_flexible:
            position = position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
        if position > len(frame) or client_id_size < -1:
            raise MalformedMessage("the client id ends beyond the frame")
    except (IndexError, UnicodeDecodeError, MalformedMessage) as cause:
        raise MalformedMessage(f"the header of a {message_class.NAME} is malformed: {cause}") from None
    # Like Kafka, ignore bytes after the message: librdkafka sends three extra bytes when it requests all topics
    # (librdkafka issue 5049).
    if len(frame) > max_whole_bytes and version in message_class.DECODE_IN_STEPS:
        request = Request(api_key, version, correlation_id, client_id, message_class(), frame, position)
        request.decoding = decode_in_steps(message_class, version, frame, position)
        return request
    message, _, decoded_bytes = decode_prefix(message_class, version, frame, position)
    return Request(api_key, version, correlation_id, client_id, message, frame, position, decoded_bytes)


def encode_response(request: Request[Message], response: Message) -> bytes:
    """Encode response header and message without the size prefix: the `response_data` of an Envelope.

    Raises the errors of `codec.encode`.
    """
    out = OutputBuffer()
    _write_response(request, response, out)
    return out.take()[SIZE.size :]


def encode_response_in_steps(request: Request[Message], response: Message) -> Generator[None, None, bytes]:
    """Encode as `encode_response` does, one step per array element, a response with ENCODE_IN_STEPS."""
    out = bytearray(SIZE.pack(request.correlation_id))
    if response_route(request.api_key, request.api_version)[1]:
        out.append(0)
    yield from encode_in_steps(response, request.api_version, out)
    return bytes(out)


def _write_response(request: Request[Message], response: Message, out: OutputBuffer) -> None:
    """Append a response frame to `out`, which is unchanged after an error."""
    start, large_before = len(out), out.large_bytes
    is_flexible = response_route(request.api_key, request.api_version)[1]
    out += (_FLEXIBLE_RESPONSE_START if is_flexible else _RESPONSE_START).pack(0, request.correlation_id)
    try:
        encode_into(response, request.api_version, out)
    except BaseException:
        out.cut(start)
        raise
    SIZE.pack_into(out, start, len(out) - start - SIZE.size + out.large_bytes - large_before)


def _take_parts(output: OutputBuffer) -> list[Part]:
    """Remove and return everything, like `OutputBuffer.take_parts`, which is not compiled and rarely needed."""
    if output.large_bytes:
        return output.take_parts()
    encoded = bytes(output)
    output.clear()
    return [encoded] if encoded else []


class ServerConnection:
    """The server's end of a connection. Responses are sent in the order of the requests, whatever that of `respond`.

    `supported`: the APIs served; all connections may share it. `max_whole_bytes`: see `read_request`.
    """

    def __init__(
        self, max_request_bytes: int, supported: VersionRanges, max_whole_bytes: int = UNLIMITED
    ) -> None:
        self._frames = FrameReader(max_request_bytes)
        self._max_whole_bytes = max_whole_bytes
        self._supported = supported
        self._pending: deque[Request[Message]] = deque()
        self.pending_bytes = 0
        """Size of the requests that `pending` counts; below it the memory of their array elements."""
        self._decoded_bytes = 0
        self._waiting_bytes = 0
        """Size of the responses that wait for earlier ones."""
        self._output = OutputBuffer()
        self.has_more = False
        """Whether the received bytes may contain requests that `receive` has not returned."""
        self.fault: MalformedMessage | None = None
        """Why no request can be read after those already returned, None if one can."""
        self.reads_plain_tokens = False
        """Whether frames are SASL tokens without a header; each counts as a SaslAuthenticate request."""

    def serve(self, max_request_bytes: int, supported: VersionRanges) -> None:
        """Accept these APIs and frames of up to `max_request_bytes` from now on."""
        self._frames.max_bytes = max_request_bytes
        self._supported = supported

    @property
    def has_output(self) -> bool:
        """Whether a response can be sent now."""
        return len(self._output) > 0

    @property
    def pending(self) -> int:
        """Number of requests that wait for their response, or for that of an earlier request; for backpressure."""
        return len(self._pending)

    @property
    def gathered_bytes(self) -> int:
        """Memory in bytes of incomplete requests, of those without a response, and of responses that wait."""
        request_bytes = self.pending_bytes + self._decoded_bytes + len(self._pending) * DECODED_BYTES
        return self._frames.buffered_bytes + request_bytes + self._waiting_bytes

    def close(self) -> None:
        """Drop the requests. They refer to the connection: a cycle that only the garbage collector would free."""
        for request in self._pending:
            request.connection = None
        self._pending.clear()

    def receive(self, data: bytes, max_requests: int = UNLIMITED) -> list[Request[Message]]:
        """Return the requests that `data` completes, at most `max_requests`; see `has_more`.

        Raises MalformedMessage, after which the connection must be closed, for bytes that are not a request, and for
        an unsupported API or version, as Kafka does. If requests precede it in `data`, those are returned and `fault`
        is set, which the next call raises. Two kinds of requests get an error response here: a message that is too
        large, and an unknown version of ApiVersions, whose response has version 0 and the known ones (KIP-511).
        """
        if self.fault is not None:
            raise self.fault
        requests: list[Request[Message]] = []
        try:
            frames = self._frames.feed(data, max_requests)
            self.has_more = self._frames.has_more
            for frame in frames:
                request = self._read(frame)
                if request is not None:
                    requests.append(request)
            self.fault = self._frames.fault
        except MalformedMessage as fault:
            if not requests:
                raise
            self.fault = fault
        return requests

    def _read(self, frame: bytes) -> Request[Message] | None:
        """Return the request in a frame, None if it already has its response."""
        try:
            if self.reads_plain_tokens:
                token = SaslAuthenticateRequest(frame)
                request: Request[Message] = Request(ApiKey.SASL_AUTHENTICATE, 0, 0, None, token, frame, 0)
            else:
                request = read_request(frame, self._supported, self._max_whole_bytes)
        except UnsupportedVersion as unsupported:
            self._respond_unknown_api_versions(frame, unsupported)
            return None
        except MessageTooLarge as too_large:
            self._refuse(frame, too_large)
            return None
        self._admit(request)
        return request

    def _admit(self, request: Request[Message]) -> None:
        request.connection = self
        self._pending.append(request)
        self.pending_bytes += len(request.frame)
        self._decoded_bytes += request.decoded_bytes

    def _release(self, request: Request[Message]) -> None:
        self.pending_bytes -= len(request.frame)
        self._decoded_bytes -= request.decoded_bytes

    def continue_decoding(self, request: Request[Message], steps: int) -> int:
        """Continue as `Request.continue_decoding` does.

        A malformed request sets `fault`; it and later ones get no response. One that is too large is rejected here.
        """
        counted = request.decoded_bytes
        try:
            try:
                return request.continue_decoding(steps)
            except MessageTooLarge as too_large:
                self.respond(request, refusal(request.api_key, too_large))
        except MalformedMessage as fault:
            self.fault = fault
            dropped = None
            while dropped is not request:
                dropped = self._pending.pop()
                self._release(dropped)
        finally:
            self._decoded_bytes += request.decoded_bytes - counted
        request.decoding = None
        return steps

    def awaits_response(self, request: Request[Message]) -> bool:
        """Whether the request was received here and has no response yet."""
        return request in self._pending and request.response_parts is None

    def respond(self, request: Request[Message], response: Message) -> None:
        """Queue the response to a request of this connection.

        Raises the errors of `codec.encode`, with nothing queued, and ValueError if the request has a response.
        """
        if self._is_next(request):
            _write_response(request, response, self._output)
            self._advance()
        else:
            late = OutputBuffer()
            _write_response(request, response, late)
            self._queue(request, _take_parts(late))

    def respond_encoded(self, request: Request[Message], response: bytes) -> None:
        """Queue a response whose header and message are encoded, with the correlation id of the request."""
        self._queue(request, [SIZE.pack(len(response)) + response])

    def respond_nothing(self, request: Request[Message]) -> None:
        """Complete a request that gets no response. Raises ValueError if it already has one."""
        self._queue(request, [])

    def take_parts(self) -> list[Part]:
        """Return the bytes that can be sent now, in parts: large values are neither copied nor, if stored, read."""
        return _take_parts(self._output)

    def take_output(self) -> bytes:
        """Return the bytes that can be sent now in one piece; b"" if there are none. Raises StorageError."""
        return self._output.take()

    def _is_next(self, request: Request[Message]) -> bool:
        if self._pending and self._pending[0] is request:
            return True
        if request.response_parts is not None or request not in self._pending:
            raise ValueError(f"{request!r} already has a response, or belongs to another connection")
        return False

    def _queue(self, request: Request[Message], response: list[Part]) -> None:
        if self._is_next(request):
            self._output.add_parts(response)
            self._advance()
        else:
            request.response_parts = response
            self._waiting_bytes += sum(map(len, response))

    def _advance(self) -> None:
        """Drop the first request, which now has its response, and release the responses that waited for it."""
        pending = self._pending
        self._release(pending.popleft())
        while pending:
            response = pending[0].response_parts
            if response is None:
                break
            self._output.add_parts(response)
            self._waiting_bytes -= sum(map(len, response))
            self._release(pending.popleft())

    def _refuse(self, frame: bytes, too_large: MessageTooLarge) -> None:
        api_key, version, correlation_id, _ = _REQUEST_HEAD.unpack_from(frame)
        response = refusal(api_key, too_large)
        request = Request(api_key, version, correlation_id, None, request_class(api_key)(), frame, len(frame))
        self._admit(request)
        self.respond(request, response)

    def _respond_unknown_api_versions(self, frame: bytes, unsupported: UnsupportedVersion) -> None:
        api_key, _, correlation_id, _ = _REQUEST_HEAD.unpack_from(frame)
        if api_key != ApiKey.API_VERSIONS or api_key not in self._supported:
            raise MalformedMessage(str(unsupported)) from None
        request = Request(api_key, 0, correlation_id, None, ApiVersionsRequest(), frame, len(frame))
        self._admit(request)
        versions = [ApiVersion(api_key, *self._supported[api_key])]
        self.respond(request, ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, versions))


class ClientConnection:
    """The client's end of a connection: any number of requests in flight, whose responses arrive in order."""

    def __init__(self, client_id: str, max_response_bytes: int = 100 << 20) -> None:
        self._client_id = client_id.encode()
        self._frames = FrameReader(max_response_bytes, "the response size limit")
        self._next_correlation_id = 0
        self._in_flight: deque[tuple[int, int, int]] = deque()
        """Correlation id, API key and version of each request without a response."""

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def request(self, message: Message, api_version: int) -> tuple[int, bytes]:
        """Encode a request; return its correlation id and bytes. Raises the errors of `codec.encode`."""
        assert message.API_KEY is not None, f"{message.NAME} is not a request"
        return self.request_encoded(message.API_KEY, api_version, encode(message, api_version))

    def request_encoded(self, api_key: int, api_version: int, message: bytes) -> tuple[int, bytes]:
        """Frame a request whose message is already encoded; return its correlation id and bytes."""
        correlation_id = self._next_correlation_id
        client_id = self._client_id
        tags = b"\x00" if request_route(api_key, api_version)[1] else b""
        size = _REQUEST_HEAD.size + len(client_id) + len(tags) + len(message)
        start = _REQUEST_START.pack(size, api_key, api_version, correlation_id, len(client_id))
        self._next_correlation_id = (correlation_id + 1) & _MAX_CORRELATION_ID
        self._in_flight.append((correlation_id, api_key, api_version))
        return correlation_id, b"".join((start, client_id, tags, message))

    def receive(self, data: bytes) -> list[tuple[int, Message]]:
        """Return the responses that `data` completes, each with the correlation id of its request.

        Raises MalformedMessage, after which the connection must be closed, for bytes that are not a response or
        that do not belong to the oldest request in flight.
        """
        return [self._read_response(frame) for frame in self._frames.feed(data)]

    def _read_response(self, frame: bytes) -> tuple[int, Message]:
        if len(frame) < SIZE.size:
            raise MalformedMessage(f"a frame of {len(frame)} bytes is too short for a response")
        (correlation_id,) = SIZE.unpack_from(frame)
        if not self._in_flight:
            raise MalformedMessage(f"received response {correlation_id}, but no request is in flight")
        expected, api_key, version = self._in_flight.popleft()
        if correlation_id != expected:
            raise MalformedMessage(f"received response {correlation_id}, expected {expected}")
        message_class, is_flexible = response_route(api_key, version)
        position = SIZE.size
        if is_flexible:
            try:
                position = position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
            except IndexError:
                raise MalformedMessage(
                    f"the header of {message_class.NAME} v{version} is truncated"
                ) from None
        elif api_key == ApiKey.API_VERSIONS and frame.startswith(_UNSUPPORTED_VERSION, position):
            version = 0  # The server does not support the requested version.
        return correlation_id, decode(message_class, version, frame, position)
