"""Reads along what simulated processes say to each other, for people who want to know what happened.

Nothing here is used unless a run is explained, and nothing of the run depends on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from quorumd.errors import ErrorCode, MalformedMessage, QuorumdError
from quorumd.protocol.apis import APIS, response_class, response_header_version
from quorumd.protocol.codec import decode_prefix
from quorumd.protocol.connection import read_request
from quorumd.protocol.framing import FrameReader
from quorumd.protocol.record_batch import headers
from quorumd.protocol.wire import MessageStruct
from quorumd.simulator.stream import Side

LARGEST_FRAME = 1 << 30
SPOKEN = {key: (api.min_version, api.max_version) for key, api in APIS.items()}

FIELDS = {
    "error_code": "error", "leader_epoch": "epoch", "replica_epoch": "epoch", "candidate_epoch": "epoch",
    "current_leader_epoch": "epoch", "leader_id": "leader", "candidate_id": "candidate", "replica_id": "from",
    "pre_vote": "pre-vote", "vote_granted": "granted", "last_offset": "log end", "last_offset_epoch": "last epoch",
    "last_epoch": "last epoch", "last_epoch_end_offset": "log end", "fetch_offset": "offset",
    "fetch_epoch": "last epoch", "next_fetch_offset": "diverges at", "high_watermark": "high watermark",
    "read_round": "read round", "preferred_successors": "successors", "resource_name": "of", "name": "key",
    "value": "value", "records": "records",
}  # fmt: skip
"""What matters of all messages, and how it is called here."""
ROUTINE = ("Fetch", "ApiVersions", "DiscoverBrokers", "Metadata")
NEWS = ("records", "error", "diverges")
"""What makes one of the routine messages worth a line."""
SILENT: dict[str, object] = {"error": 0, "diverges at": -1, "read round": 0, "pre-vote": False}
"""Values that say nothing."""


@dataclass(slots=True)
class Message:
    """One request or answer, from the moment it was written."""

    written_ms: float
    sender: str
    receiver: str
    name: str
    facts: list[str]
    is_idle: bool
    """Routine with nothing new in it, one like the other: a fetch, a handshake, gossip."""
    arrived_ms: float | None = None
    """When the last byte of it was received; None for never."""


@dataclass(slots=True)
class _Direction:
    """What was written by one side of a connection."""

    frames: FrameReader = field(default_factory=lambda: FrameReader(LARGEST_FRAME))
    written: int = 0
    arrived: int = 0
    on_the_way: deque[tuple[int, Message]] = field(default_factory=deque)
    asked: deque[tuple[int, int]] = field(default_factory=deque)
    """API and version of what this side has asked and not been answered."""


class WireTap:
    """`on_message` is called with each message when it is whole; its arrival is noted in it later."""

    def __init__(self, now_ms: Callable[[], float], on_message: Callable[[Message], None]) -> None:
        self._now_ms = now_ms
        self._on_message = on_message
        self._directions: dict[Side, _Direction] = {}

    def written(self, side: Side, data: bytes, *, connected: bool) -> None:
        """`connected`: whether this side made the connection, and so asks."""
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

    def _of(self, side: Side) -> _Direction:
        return self._directions.setdefault(side, _Direction())

    def _read(self, side: Side, frame: bytes, connected: bool) -> Message:
        try:
            body: Any
            if connected:
                request = read_request(frame, SPOKEN)
                self._of(side).asked.append((request.api_key, request.api_version))
                body = request.message
            else:
                key, version = self._of(side.far).asked.popleft()
                body, _ = decode_prefix(
                    response_class(key), version, frame, 4 + response_header_version(key, version)
                )
        except (QuorumdError, IndexError) as error:
            return Message(self._now_ms(), side.host, side.far.host, "unreadable", [str(error)], False)
        facts = list(dict.fromkeys(_facts(body)))
        says_nothing = body.NAME.startswith(ROUTINE) and not any(fact.startswith(NEWS) for fact in facts)
        return Message(self._now_ms(), side.host, side.far.host, body.NAME, facts, says_nothing)


def _facts(message: Any) -> Iterator[str]:
    """The fields that matter, those of nested structures among them, in the order of the schema."""
    for name in message.__slots__:
        value = getattr(message, name)
        if isinstance(value, MessageStruct):
            yield from _facts(value)
        elif isinstance(value, list) and value and isinstance(value[0], MessageStruct):
            for each in value:
                yield from _facts(each)
        elif name in FIELDS and value is not None and value != SILENT.get(FIELDS[name], "never"):
            text = _in_words(FIELDS[name], value)
            if text:
                yield text


def _in_words(called: str, value: Any) -> str:
    if called == "error":
        return f"error {ErrorCode.describe(value)}"
    if called == "records":
        found = list(headers(value)) if value else []
        return f"records {found[0].base_offset}..{found[-1].end_offset - 1}" if found else ""
    if isinstance(value, bool):
        return called if value else f"not {called}"
    return f"{called} {value}"
