"""What the metadata records so far add up to.

The image is nothing but dictionaries, and every change is an assignment to one key of one of them. So a change
is undone by assigning what was there before: that is all the undo journal of a leader needs (Raft: a leader
applies its own records at append and must take them back when it loses leadership before they are committed).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any

from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.no_op_record import NoOpRecord

ABSENT = object()

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"


class ResourceType(IntEnum):
    """What a config belongs to (Kafka's ConfigResource types)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


Resource = tuple[int, str]
"""(ResourceType, name); the name "" of a broker means the default of all brokers."""

WITHOUT_STATE = frozenset({NoOpRecord, BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord})
"""Records that say nothing about the cluster: an image without them has lost nothing."""

Change = tuple[dict[Any, Any], Any, Any]
"""One assignment that was made: the dictionary, the key, and what stood there before, ABSENT for nothing."""


def undo(changes: Iterable[Change]) -> None:
    """Take back changes; they must come newest first."""
    for mapping, key, previous in changes:
        if previous is ABSENT:
            mapping.pop(key, None)
        else:
            mapping[key] = previous


class ClusterImage:
    """The state of the cluster at one offset of the log."""

    __slots__ = ("_appliers", "configs", "features")

    def __init__(self) -> None:
        self.configs: dict[Resource, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self._appliers: dict[type, Callable[[Any], Change]] = {
            ConfigRecord: self.apply_config,
            FeatureLevelRecord: self._apply_feature_level,
        }

    def apply(self, record: object) -> Change | None:
        """Apply one metadata record; the change to take back, or None for records the image does not hold."""
        applier = self._appliers.get(type(record))
        return applier(record) if applier is not None else None

    def loses(self, record: object) -> bool:
        """Whether a snapshot of the image would lose what this record says: the image does not hold it."""
        return type(record) not in self._appliers and type(record) not in WITHOUT_STATE

    def set_config(self, resource: Resource, key: str, value: str | None) -> Change:
        """Set one config, or delete it with None."""
        configs = self.configs.get(resource)
        if configs is None:
            configs = self.configs[resource] = {}
        previous = configs.get(key, ABSENT)
        if value is None:
            configs.pop(key, None)
        else:
            configs[key] = value
        return configs, key, previous

    def config(self, resource: Resource) -> dict[str, str]:
        """The configs of a resource; empty where none is set. Not to be changed."""
        return self.configs.get(resource, {})

    def fingerprint(self) -> tuple[object, ...]:
        """Equal for equal images, however they came about: what nodes compare."""
        configs = tuple(
            (resource, tuple(sorted(values.items())))
            for resource, values in sorted(self.configs.items())
            if values
        )
        return configs, tuple(sorted(self.features.items()))

    def apply_config(self, record: ConfigRecord) -> Change:
        """As `apply`, for those who know what they have."""
        return self.set_config((record.resource_type, record.resource_name), record.name, record.value)

    def _apply_feature_level(self, record: FeatureLevelRecord) -> Change:
        previous = self.features.get(record.name, ABSENT)
        self.features[record.name] = record.feature_level
        return self.features, record.name, previous
