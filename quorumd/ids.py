"""Identifiers and small value types shared by all packages.

The terms are Kafka's: a *node id* is `broker.id` / `node.id` in a properties file, a *directory id* identifies one
formatted data directory (KIP-853), an *epoch* is a Raft term (KIP-595), an *offset* counts records.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from typing import NamedTuple

METADATA_TOPIC = "__cluster_metadata"
METADATA_PARTITION = 0

NO_NODE = -1
"""The node id for "none": no known leader, no vote, or an admin client."""


class KafkaUuid(bytes):
    """A Uuid of 16 bytes, printed as in Kafka: 22 characters of URL-safe base64 without padding."""

    __slots__ = ()

    def __str__(self) -> str:
        return b2a_base64(self, newline=False)[:22].decode("ascii").replace("+", "-").replace("/", "_")

    def __repr__(self) -> str:
        return f"KafkaUuid({str(self)!r})"

    @classmethod
    def parse(cls, text: str) -> KafkaUuid:
        """Parse a Uuid. Raises ValueError unless `text` is the canonical form of one."""
        if len(text) == 22:
            try:
                raw = a2b_base64(text.replace("-", "+").replace("_", "/") + "==")
            except ValueError:
                raw = b""
            if len(raw) == 16 and str(cls(raw)) == text:
                return cls(raw)
        raise ValueError(f"{text!r} is not a Kafka Uuid: expected 22 characters of url-safe base64")


ZERO_UUID = KafkaUuid(bytes(16))
"""The Uuid for "unknown" or "none" where a directory id or topic id is optional."""

METADATA_TOPIC_ID = KafkaUuid(bytes(15) + b"\x01")


def id_or_hex(value: bytes) -> str:
    """Format bytes of unknown meaning: 16 bytes as a Uuid, others in hexadecimal."""
    return str(KafkaUuid(value)) if len(value) == len(ZERO_UUID) else value.hex()


class ReplicaKey(NamedTuple):
    """One replica of the log: a node id and a directory id (KIP-853).

    `directory_id` is ZERO_UUID if unknown; such a key matches every directory of that node.
    """

    id: int
    directory_id: KafkaUuid = ZERO_UUID

    def matches(self, other: ReplicaKey) -> bool:
        """Whether both keys may identify the same replica."""
        if self.id != other.id:
            return False
        return (
            self.directory_id == other.directory_id
            or self.directory_id == ZERO_UUID
            or other.directory_id == ZERO_UUID
        )


class OffsetAndEpoch(NamedTuple):
    """A position in a log: an exclusive end offset and the epoch of the record before it.

    Positions of different logs are compared by `(epoch, offset)`: see `is_at_least`.
    """

    offset: int
    epoch: int

    def is_at_least(self, other: OffsetAndEpoch) -> bool:
        """Whether a log that ends here is at least as up-to-date as one that ends at `other` (Raft paper, 5.4.1)."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


class Endpoint(NamedTuple):
    """The address of a node's listener. `name` is the listener name in upper case."""

    name: str
    host: str
    port: int
