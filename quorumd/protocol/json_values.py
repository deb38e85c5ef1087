"""Messages as JSON values, for people who read a record or a response."""

from __future__ import annotations

from typing import Any

from quorumd.ids import KafkaUuid
from quorumd.protocol.wire import MessageStruct


def plain(value: Any) -> Any:
    """Convert a message or a part of one to JSON-ready values: Kafka's field names, Uuids as Kafka prints them."""
    if isinstance(value, MessageStruct):
        return {_camel_case(name): plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, KafkaUuid):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return value


def _camel_case(name: str) -> str:
    first, *others = name.replace("kraft", "k_raft").split("_")
    return first + "".join(part.capitalize() for part in others)
