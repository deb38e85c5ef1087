"""Identifiers and small value types that every package shares.

The words are Kafka's: a *node id* is the `broker.id` / `node.id` of a properties file, a *directory id*
names one formatted data folder (KIP-853), an *epoch* is a Raft term (KIP-595), an *offset* counts records.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from typing import NamedTuple

METADATA_TOPIC = "__cluster_metadata"
METADATA_PARTITION = 0

NO_NODE = -1
"""The node id that means "nobody": no leader known, no vote given, an admin client."""


class KafkaUuid(bytes):
    """16 bytes that print as Kafka prints a Uuid: url-safe base64 without padding, 22 characters."""

    __slots__ = ()

    def __str__(self) -> str:
        return b2a_base64(self, newline=False)[:22].decode("ascii").replace("+", "-").replace("/", "_")

    def __repr__(self) -> str:
        return f"KafkaUuid({str(self)!r})"

    @classmethod
    def parse(cls, text: str) -> KafkaUuid:
        """The Uuid that prints as `text`. Raises ValueError when no Uuid prints so."""
        if len(text) == 22:
            try:
                raw = a2b_base64(text.replace("-", "+").replace("_", "/") + "==")
            except ValueError:
                raw = b""
            if len(raw) == 16 and str(cls(raw)) == text:
                return cls(raw)
        raise ValueError(f"{text!r} is not a Kafka Uuid: expected 22 characters of url-safe base64")


ZERO_UUID = KafkaUuid(bytes(16))


def id_or_hex(value: bytes) -> str:
    """Bytes of which nothing is known but how many: 16 are an id as Kafka writes it, others hex."""
    return str(KafkaUuid(value)) if len(value) == len(ZERO_UUID) else value.hex()


"""The Uuid that means "not known" wherever a directory id or topic id is optional."""

METADATA_TOPIC_ID = KafkaUuid(bytes(15) + b"\x01")


class ReplicaKey(NamedTuple):
    """One replica of the log: a node and the data folder it runs on (KIP-853).

    `directory_id` is ZERO_UUID where it is not known; such a key matches every folder of that node.
    """

    id: int
    directory_id: KafkaUuid = ZERO_UUID

    def matches(self, other: ReplicaKey) -> bool:
        """Whether both keys can name the same replica."""
        if self.id != other.id:
            return False
        return (
            self.directory_id == other.directory_id
            or self.directory_id == ZERO_UUID
            or other.directory_id == ZERO_UUID
        )


class OffsetAndEpoch(NamedTuple):
    """A position in a log: `offset` is exclusive (an end offset), `epoch` that of the record before it.

    Positions of different logs compare by `(epoch, offset)`, see `is_at_least`.
    """

    offset: int
    epoch: int

    def is_at_least(self, other: OffsetAndEpoch) -> bool:
        """Raft paper 5.4.1: this log is as up to date as `other` or more."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


class Endpoint(NamedTuple):
    """Where a listener of a node is reached. `name` is the listener's, upper case."""

    name: str
    host: str
    port: int
