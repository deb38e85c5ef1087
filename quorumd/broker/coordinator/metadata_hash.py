"""The hash of the topics of a consumer group, as Kafka's coordinators compute it (KIP-1101).

The record of a group epoch contains it. A coordinator that computes another hash than the record has bumps the group
epoch, so a group keeps its epoch when its coordinator moves between brokers of Kafka and of quorumd.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import pack, unpack
from typing import Final

from xxhash import xxh3_64_intdigest

from quorumd.ids import KafkaUuid

NO_TOPICS: Final = 0
"""The hash of a group none of whose topics exist."""
_TOPIC_MAGIC: Final = b"\0"


def topic_hash(topic_id: KafkaUuid, name: str, racks: Sequence[Iterable[str]]) -> int:
    """Return the hash of a topic, a signed 64-bit integer. `racks` has the known racks of the replicas of each
    partition."""
    most, least = unpack(">qq", topic_id)
    parts = [_TOPIC_MAGIC, pack("<qq", most, least), _text(name), pack("<i", len(racks))]
    for number, names in enumerate(racks):
        parts.append(pack("<i", number))
        for rack in sorted(names, key=_utf_16_order):
            parts += [pack("<i", _length(rack)), _text(rack)]
    return _signed(b"".join(parts))


def group_hash(topics: Mapping[str, int]) -> int:
    """Return the hash of a group from the hashes of its existing topics by name, a signed 64-bit integer."""
    if not topics:
        return NO_TOPICS
    return _signed(pack(f"<{len(topics)}q", *(topics[name] for name in sorted(topics))))


def _signed(data: bytes) -> int:
    (value,) = unpack("<q", pack("<Q", xxh3_64_intdigest(data)))
    return int(value)


def _text(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + pack("<i", _length(text))


def _length(text: str) -> int:
    return len(_utf_16_order(text)) // 2


def _utf_16_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")
