"""Messages that stock Kafka 4.4.0 encoded, with its own JSON of them: those that neither kio nor kafka-python has."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorumd.ids import KafkaUuid
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages import COORDINATOR_RECORDS
from quorumd.protocol.wire import MessageStruct
from tests.support.protocol.message_strategies import message_class, versions_of

FILE = Path(__file__).parents[2] / "support" / "data" / "kafka_4.4.0_messages.jsonl"
MESSAGES: list[tuple[str, int, str, dict[str, Any]]] = [
    tuple(json.loads(line)) for line in FILE.read_text().splitlines()
]


@pytest.mark.parametrize(("name", "version", "encoded", "stock"), MESSAGES)
def test_stock_bytes_have_the_same_fields(
    name: str, version: int, encoded: str, stock: dict[str, Any]
) -> None:
    message = decode(message_class(name), version, bytes.fromhex(encoded))
    assert list(_differences(message, stock)) == []
    assert encode(message, version).hex() == encoded


def test_records_of_coordinators_are_covered_in_every_version() -> None:
    names = [name for records in COORDINATOR_RECORDS.values() for name in records.values()]
    expected = {
        (f"{name}{part}", version)
        for name in names
        for part in ("Key", "Value")
        for version in versions_of(f"{name}{part}")
    }
    assert len(expected) == 31
    assert expected <= {(name, version) for name, version, *_ in MESSAGES}


def _differences(ours: Any, stock: Any) -> Iterator[str]:
    """Yield the attributes that differ; an attribute that stock leaves out must have its default."""
    if isinstance(ours, MessageStruct):
        defaults = type(ours)()
        for slot in ours.FIELDS:
            first, *others = slot.split("_")
            key = first + "".join(part.capitalize() for part in others)
            value = getattr(ours, slot)
            if key in stock:
                yield from (f"{slot}.{found}" for found in _differences(value, stock[key]))
            elif value != getattr(defaults, slot):
                yield slot
        if not {key.lower() for key in stock} <= {slot.replace("_", "") for slot in ours.FIELDS}:
            yield "a key of stock Kafka"
    elif isinstance(ours, list) and isinstance(stock, list) and len(ours) == len(stock):
        for our, their in zip(ours, stock, strict=True):
            yield from _differences(our, their)
    elif _as_json(ours) != stock:
        yield f"{ours!r}, not {stock!r}"


def _as_json(value: Any) -> Any:
    if isinstance(value, KafkaUuid):
        return str(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
