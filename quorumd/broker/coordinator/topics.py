"""The topics that the coordinators of groups know, as a protocol."""

from __future__ import annotations

from typing import Protocol

from quorumd.ids import KafkaUuid


class Topics(Protocol):
    """The topics in the metadata of the broker."""

    @property
    def offset(self) -> int:
        """The offset of the metadata, which increases with every change."""

    def partitions(self, name: str) -> tuple[KafkaUuid, int] | None:
        """Return the id and the number of partitions of a topic, None if it does not exist."""

    def name(self, topic_id: KafkaUuid) -> str | None:
        """Return the name of a topic, None if it does not exist."""

    @property
    def created_offset(self) -> int:
        """The offset of the metadata at which a topic was last created."""

    def hash(self, name: str) -> int | None:
        """Return the `metadata_hash.topic_hash` of a topic, None if it does not exist."""
