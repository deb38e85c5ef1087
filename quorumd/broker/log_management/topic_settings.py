"""The effective configs of a topic, and the settings of its logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Final

from quorumd.broker.log import PartitionLogSettings
from quorumd.controller.cluster_image import ALL_BROKERS, MIN_INSYNC_REPLICAS, ClusterImage
from quorumd.controller.config_table import TOPIC_CONFIGS
from quorumd.controller.configs import CORDONED_LOG_DIRS
from quorumd.controller.partition_configs import parse_min_isr
from quorumd.protocol.config_resource_type import ConfigResourceType

MOVE_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"


def topic_config(
    image: ClusterImage, broker_id: int, defaults: Mapping[str, str], topic: str, name: str
) -> str | None:
    """Return the value of a topic config set for the topic, this broker, all brokers, in `defaults`, or by Kafka."""
    own = image.config((int(ConfigResourceType.TOPIC), topic)).get(name)
    if own is not None:
        return own
    definition = TOPIC_CONFIGS.get(name)
    broker_name = definition.broker_name if definition is not None else None
    if broker_name is not None:
        for value in _broker_values(image, broker_id, broker_name):
            return value
    if name in defaults:
        return defaults[name]
    return definition.default if definition is not None else None


def move_rate(image: ClusterImage, broker_id: int) -> float:
    """Return the throttle of moves between log directories, in bytes per second; infinite if not set."""
    for value in _broker_values(image, broker_id, MOVE_RATE):
        if value.isdecimal() and int(value) > 0:
            return float(value)
    return inf


def cordoned_paths(image: ClusterImage, broker_id: int, default: Sequence[str]) -> Sequence[str]:
    """Return `cordoned.log.dirs` of a broker: its own value, the value for all brokers, or `default`."""
    for value in _broker_values(image, broker_id, CORDONED_LOG_DIRS):
        return [path.strip() for path in value.split(",") if path.strip()]
    return default


def _broker_values(image: ClusterImage, broker_id: int, name: str) -> Iterator[str]:
    """Yield the values that are set for a broker config, by precedence: for the broker, then for all brokers."""
    for resource in ((int(ConfigResourceType.BROKER), str(broker_id)), ALL_BROKERS):
        value = image.config(resource).get(name)
        if value is not None:
            yield value


class TopicSettings:
    """Reads the effective configs of topics. The controller validated the values when they were set."""

    def __init__(self, image: ClusterImage, broker_id: int, defaults: Mapping[str, str]) -> None:
        self._image = image
        self._broker_id = broker_id
        self._defaults = defaults

    def text(self, topic: str, name: str) -> str:
        """Return a config as text, "" if it is not set."""
        return topic_config(self._image, self._broker_id, self._defaults, topic, name) or ""

    def integer(self, topic: str, name: str, fallback: int) -> int:
        """Return a config as an integer, `fallback` if it is not one."""
        try:
            return int(self.text(topic, name))
        except ValueError:
            return fallback

    def decimal(self, topic: str, name: str, fallback: float) -> float:
        """Return a config as a decimal number, `fallback` if it is not one."""
        try:
            return float(self.text(topic, name))
        except ValueError:
            return fallback

    def min_isr(self, topic: str) -> int:
        """Return `min.insync.replicas`."""
        return parse_min_isr(self.text(topic, MIN_INSYNC_REPLICAS))

    def log_settings(self, topic: str) -> PartitionLogSettings:
        """Return the log settings of a topic."""
        base = PartitionLogSettings()

        def number(name: str, fallback: int) -> int:
            return self.integer(topic, name, fallback)

        policies = tuple(
            part.strip() for part in self.text(topic, "cleanup.policy").split(",") if part.strip()
        )
        return PartitionLogSettings(
            number("segment.bytes", base.segment_bytes),
            number("segment.ms", base.segment_ms),
            number("index.interval.bytes", base.index_interval_bytes),
            number("max.message.bytes", base.max_message_bytes),
            number("retention.bytes", base.retention_bytes),
            number("retention.ms", base.retention_ms),
            policies,
            self.text(topic, "message.timestamp.type") or base.message_timestamp_type,
            number("message.timestamp.before.max.ms", base.message_timestamp_before_max_ms),
            number("message.timestamp.after.max.ms", base.message_timestamp_after_max_ms),
            number("flush.messages", base.flush_messages),
            number("flush.ms", base.flush_ms),
            self.decimal(topic, "min.cleanable.dirty.ratio", base.min_cleanable_dirty_ratio),
            number("min.compaction.lag.ms", base.min_compaction_lag_ms),
            number("max.compaction.lag.ms", base.max_compaction_lag_ms),
            number("delete.retention.ms", base.delete_retention_ms),
            number("file.delete.delay.ms", base.file_delete_delay_ms),
            number("producer.id.expiration.ms", base.producer_id_expiration_ms),
        )
