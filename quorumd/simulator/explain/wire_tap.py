"""Records the messages between simulated processes, to explain a run.

Used only when a run is explained; the run does not depend on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from quorumd.errors import ErrorCode, MalformedMessage, QuorumdError
from quorumd.protocol.apis import APIS, response_class, response_header_version
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.codec import decode_prefix
from quorumd.protocol.connection import Request, read_request
from quorumd.protocol.framing import FrameReader
from quorumd.protocol.messages.envelope_request import EnvelopeRequest
from quorumd.protocol.messages.envelope_response import EnvelopeResponse
from quorumd.protocol.wire import Message as WireMessage
from quorumd.protocol.wire import MessageStruct
from quorumd.simulator.environment.stream import Side

LARGEST_FRAME = 1 << 30
SUPPORTED_VERSIONS = {key: (api.min_version, api.max_version) for key, api in APIS.items()}

FIELDS = {
    "error_code": "error", "leader_epoch": "epoch", "replica_epoch": "epoch", "candidate_epoch": "epoch",
    "current_leader_epoch": "epoch", "leader_id": "leader", "candidate_id": "candidate", "replica_id": "from",
    "pre_vote": "pre-vote", "vote_granted": "granted", "last_offset": "log end", "last_offset_epoch": "last epoch",
    "last_epoch": "last epoch", "last_epoch_end_offset": "log end", "fetch_offset": "offset",
    "fetch_epoch": "last epoch", "next_fetch_offset": "diverges at", "high_watermark": "high watermark",
    "read_round": "read round", "preferred_successors": "successors", "resource_name": "of", "name": "key",
    "value": "value", "records": "records",
}  # fmt: skip
"""The fields of messages that are shown, with their labels."""
ROUTINE = ("Fetch", "ApiVersions", "DiscoverBrokers", "Metadata")
NEWS = ("records", "error", "diverges")
"""Fields that make a routine message worth showing."""
SILENT: dict[str, object] = {"error": 0, "diverges at": -1, "read round": 0, "pre-vote": False}
"""Values that are not shown."""


@dataclass(slots=True)
class Message:
    """One request or response, from the time it was written."""

    written_ms: float
    sender: str
    receiver: str
    name: str
    facts: list[str]
    is_idle: bool
    """Whether it is a routine message without news: a fetch, a handshake, gossip."""
    arrived_ms: float | None = None
    """When its last byte was received; None for never."""
    in_flight: bool = False
    """Whether it was still in flight when the run ended."""


_ApiVersion = tuple[int, int]
"""API and version of a request."""


@dataclass(slots=True)
class _Direction:
    """The bytes written by one side of a connection."""

    frames: FrameReader = field(default_factory=lambda: FrameReader(LARGEST_FRAME))
    written: int = 0
    arrived: int = 0
    on_the_way: deque[tuple[int, Message]] = field(default_factory=deque)
    pending: deque[tuple[_ApiVersion, _ApiVersion | None]] = field(default_factory=deque)
    """The requests of this side without a response, each with the request inside if it is an Envelope."""


class WireTap:
    """Observes the network. `on_message` is called with each complete message, whose arrival is set later."""

    def __init__(self, now_ms: Callable[[], float], on_message: Callable[[Message], None]) -> None:
        self._now_ms = now_ms
        self._on_message = on_message
        self._directions: dict[Side, _Direction] = {}

    def written(self, side: Side, data: bytes, *, connected: bool) -> None:
        """Record written data; `connected` is true if this side opened the connection and sends requests."""
        direction = self._of(side)
        direction.written += len(data)
        try:
            frames = direction.frames.feed(data)
        except MalformedMessage:
            return
        for frame in frames:
            message = self._read(side, frame, connected)
            direction.on_the_way.append((direction.written, message))
            self._on_message(message)

    def arrived(self, sender: Side, length: int) -> None:
        direction = self._of(sender)
        direction.arrived += length
        while direction.on_the_way and direction.on_the_way[0][0] <= direction.arrived:
            direction.on_the_way.popleft()[1].arrived_ms = self._now_ms()

    def ended(self) -> None:
        """Mark the messages in flight at the end of the run."""
        for side, direction in self._directions.items():
            reachable = direction.arrived + side.stream.bytes_in_flight if side.far.usable else 0
            for end, message in direction.on_the_way:
                message.in_flight = end <= reachable

    def _of(self, side: Side) -> _Direction:
        return self._directions.setdefault(side, _Direction())

    def _read(self, side: Side, frame: bytes, connected: bool) -> Message:
        try:
            body, content = (
                self._parse_request(side, frame) if connected else self._parse_response(side, frame)
            )
        except (QuorumdError, IndexError) as error:
            return Message(self._now_ms(), side.host, side.far.host, "unreadable", [str(error)], False)
        name = body.NAME
        facts = list(_details(body))
        if content is not None:
            name += f"({content.NAME.removesuffix('Request').removesuffix('Response')})"
            facts += _details(content)
        facts = list(dict.fromkeys(facts))
        is_routine = name.startswith(ROUTINE) and not any(fact.startswith(NEWS) for fact in facts)
        return Message(self._now_ms(), side.host, side.far.host, name, facts, is_routine)

    def _parse_request(self, side: Side, frame: bytes) -> tuple[WireMessage, WireMessage | None]:
        """Parse a request, and the request inside an Envelope."""
        request = read_request(frame, SUPPORTED_VERSIONS)
        body = request.message
        inside = None
        if isinstance(body, EnvelopeRequest):
            with suppress(QuorumdError):
                inside = read_request(body.request_data, SUPPORTED_VERSIONS)
        self._of(side).pending.append((_api(request), _api(inside) if inside is not None else None))
        return body, inside.message if inside is not None else None

    def _parse_response(self, side: Side, frame: bytes) -> tuple[WireMessage, WireMessage | None]:
        """Parse a response, and the response inside an Envelope's."""
        api, inside = self._of(side.far).pending.popleft()
        body = _response(api, frame)
        if isinstance(body, EnvelopeResponse) and inside is not None and body.response_data is not None:
            return body, _response(inside, body.response_data)
        return body, None


def _api(request: Request[WireMessage]) -> _ApiVersion:
    return request.api_key, request.api_version


def _response(api: _ApiVersion, data: bytes) -> WireMessage:
    """Parse a response with its header."""
    return decode_prefix(response_class(api[0]), api[1], data, 4 + response_header_version(*api))[0]


def _details(message: MessageStruct) -> Iterator[str]:
    """Format the shown fields, including fields of nested structures, in the order of the schema."""
    for name in message.FIELDS:
        value = getattr(message, name)
        if isinstance(value, MessageStruct):
            yield from _details(value)
        elif isinstance(value, list) and value and isinstance(value[0], MessageStruct):
            for each in value:
                yield from _details(each)
        elif name in FIELDS and value is not None and value != SILENT.get(FIELDS[name], "never"):
            text = _summary(FIELDS[name], value)
            if text:
                yield text


def _summary(label: str, value: object) -> str:
    if label == "error" and isinstance(value, int):
        return f"error {ErrorCode.describe(value)}"
    if label == "records" and isinstance(value, bytes):
        return _records_summary(value) if value else ""
    if isinstance(value, bool):
        return label if value else f"not {label}"
    return f"{label} {value}"


def _records_summary(data: bytes) -> str:
    try:
        found = list(headers(data))
    except MalformedMessage:
        # Fetches between simulated brokers have records of the model.
        return f"{len(data)} bytes of records"
    return f"records {found[0].base_offset}..{found[-1].end_offset - 1}" if found else ""
