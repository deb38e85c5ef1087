"""The properties that are defaults of topic configs, such as `log.retention.ms` for `retention.ms`.

Their values are those of Kafka's broker configs, so that units such as `10m` are not accepted. An empty value means
Kafka's default.
"""

from __future__ import annotations

from typing import Annotated, Final

from quorumd.config.node_fields import NodeFields
from quorumd.config.setting import setting
from quorumd.config.values import Kind, integer, or_empty
from quorumd.controller.config_table import TOPIC_CONFIGS
from quorumd.controller.config_values import parse_value
from quorumd.errors import RequestError

MS_PER_MINUTE: Final = 60_000
MS_PER_HOUR: Final = 3_600_000


def topic_config(name: str) -> Kind[str]:
    """The values of a topic config, which remain text, or an empty text."""
    definition = TOPIC_CONFIGS[name]

    def read(text: str) -> str:
        if text:
            try:
                parse_value(name, definition, text)
            except RequestError as error:
                raise ValueError(error.message.rstrip(".")) from None
        return text

    return Kind(definition.type.name.lower(), f"the values of the topic config {name}, or empty", read)


class TopicDefaultFields(NodeFields):
    """Defaults of topic configs on a broker."""

    log_cleanup_policy: Annotated[str, topic_config("cleanup.policy")] = setting(
        "log.cleanup.policy", default="", about="Default of the topic config cleanup.policy."
    )
    compression_type: Annotated[str, topic_config("compression.type")] = setting(
        "compression.type", default="", about="Default of the topic config compression.type."
    )
    compression_gzip_level: Annotated[str, topic_config("compression.gzip.level")] = setting(
        "compression.gzip.level", default="", about="Default of the topic config compression.gzip.level."
    )
    compression_lz4_level: Annotated[str, topic_config("compression.lz4.level")] = setting(
        "compression.lz4.level", default="", about="Default of the topic config compression.lz4.level."
    )
    compression_zstd_level: Annotated[str, topic_config("compression.zstd.level")] = setting(
        "compression.zstd.level", default="", about="Default of the topic config compression.zstd.level."
    )
    log_cleaner_delete_retention_ms: Annotated[str, topic_config("delete.retention.ms")] = setting(
        "log.cleaner.delete.retention.ms",
        default="",
        about="Default of the topic config delete.retention.ms.",
    )
    log_segment_delete_delay_ms: Annotated[str, topic_config("file.delete.delay.ms")] = setting(
        "log.segment.delete.delay.ms", default="", about="Default of the topic config file.delete.delay.ms."
    )
    log_flush_interval_messages: Annotated[str, topic_config("flush.messages")] = setting(
        "log.flush.interval.messages", default="", about="Default of the topic config flush.messages."
    )
    log_flush_interval_ms: Annotated[str, topic_config("flush.ms")] = setting(
        "log.flush.interval.ms", default="", about="Default of the topic config flush.ms."
    )
    log_index_interval_bytes: Annotated[str, topic_config("index.interval.bytes")] = setting(
        "log.index.interval.bytes", default="", about="Default of the topic config index.interval.bytes."
    )
    log_cleaner_max_compaction_lag_ms: Annotated[str, topic_config("max.compaction.lag.ms")] = setting(
        "log.cleaner.max.compaction.lag.ms",
        default="",
        about="Default of the topic config max.compaction.lag.ms.",
    )
    message_max_bytes: Annotated[str, topic_config("max.message.bytes")] = setting(
        "message.max.bytes", default="", about="Default of the topic config max.message.bytes."
    )
    log_message_timestamp_after_max_ms: Annotated[str, topic_config("message.timestamp.after.max.ms")] = (
        setting(
            "log.message.timestamp.after.max.ms",
            default="",
            about="Default of the topic config message.timestamp.after.max.ms.",
        )
    )
    log_message_timestamp_before_max_ms: Annotated[str, topic_config("message.timestamp.before.max.ms")] = (
        setting(
            "log.message.timestamp.before.max.ms",
            default="",
            about="Default of the topic config message.timestamp.before.max.ms.",
        )
    )
    log_message_timestamp_type: Annotated[str, topic_config("message.timestamp.type")] = setting(
        "log.message.timestamp.type", default="", about="Default of the topic config message.timestamp.type."
    )
    log_cleaner_min_cleanable_ratio: Annotated[str, topic_config("min.cleanable.dirty.ratio")] = setting(
        "log.cleaner.min.cleanable.ratio",
        default="",
        about="Default of the topic config min.cleanable.dirty.ratio.",
    )
    log_cleaner_min_compaction_lag_ms: Annotated[str, topic_config("min.compaction.lag.ms")] = setting(
        "log.cleaner.min.compaction.lag.ms",
        default="",
        about="Default of the topic config min.compaction.lag.ms.",
    )
    log_preallocate: Annotated[str, topic_config("preallocate")] = setting(
        "log.preallocate", default="", about="Default of the topic config preallocate."
    )
    log_retention_bytes: Annotated[str, topic_config("retention.bytes")] = setting(
        "log.retention.bytes", default="", about="Default of the topic config retention.bytes."
    )
    log_retention_ms: Annotated[str, topic_config("retention.ms")] = setting(
        "log.retention.ms", default="", about="Default of the topic config retention.ms."
    )
    log_segment_bytes: Annotated[str, topic_config("segment.bytes")] = setting(
        "log.segment.bytes", default="", about="Default of the topic config segment.bytes."
    )
    log_index_size_max_bytes: Annotated[str, topic_config("segment.index.bytes")] = setting(
        "log.index.size.max.bytes", default="", about="Default of the topic config segment.index.bytes."
    )
    log_roll_jitter_ms: Annotated[str, topic_config("segment.jitter.ms")] = setting(
        "log.roll.jitter.ms", default="", about="Default of the topic config segment.jitter.ms."
    )
    log_roll_ms: Annotated[str, topic_config("segment.ms")] = setting(
        "log.roll.ms", default="", about="Default of the topic config segment.ms."
    )
    log_retention_minutes: Annotated[int | None, or_empty(integer(-1, 2**31 - 1))] = setting(
        "log.retention.minutes", default="", about="log.retention.ms in minutes; ignored if that is set."
    )
    log_retention_hours: Annotated[int | None, or_empty(integer(-1, 2**31 - 1))] = setting(
        "log.retention.hours",
        default="",
        about="log.retention.ms in hours; ignored if that is set in ms or minutes.",
    )
    log_roll_hours: Annotated[int | None, or_empty(integer(1, 2**31 - 1))] = setting(
        "log.roll.hours", default="", about="log.roll.ms in hours; ignored if that is set."
    )
    log_roll_jitter_hours: Annotated[int | None, or_empty(integer(0, 2**31 - 1))] = setting(
        "log.roll.jitter.hours", default="", about="log.roll.jitter.ms in hours; ignored if that is set."
    )

    def topic_defaults(self) -> dict[str, str]:
        """The defaults that are set, by the name of the topic config."""
        retention_ms = self.log_retention_ms or (
            _milliseconds(self.log_retention_minutes, MS_PER_MINUTE)
            or _milliseconds(self.log_retention_hours, MS_PER_HOUR)
        )
        given = {
            "cleanup.policy": self.log_cleanup_policy,
            "compression.type": self.compression_type,
            "compression.gzip.level": self.compression_gzip_level,
            "compression.lz4.level": self.compression_lz4_level,
            "compression.zstd.level": self.compression_zstd_level,
            "delete.retention.ms": self.log_cleaner_delete_retention_ms,
            "file.delete.delay.ms": self.log_segment_delete_delay_ms,
            "flush.messages": self.log_flush_interval_messages,
            "flush.ms": self.log_flush_interval_ms,
            "index.interval.bytes": self.log_index_interval_bytes,
            "max.compaction.lag.ms": self.log_cleaner_max_compaction_lag_ms,
            "max.message.bytes": self.message_max_bytes,
            "message.timestamp.after.max.ms": self.log_message_timestamp_after_max_ms,
            "message.timestamp.before.max.ms": self.log_message_timestamp_before_max_ms,
            "message.timestamp.type": self.log_message_timestamp_type,
            "min.cleanable.dirty.ratio": self.log_cleaner_min_cleanable_ratio,
            "min.compaction.lag.ms": self.log_cleaner_min_compaction_lag_ms,
            "preallocate": self.log_preallocate,
            "retention.bytes": self.log_retention_bytes,
            "retention.ms": retention_ms,
            "segment.bytes": self.log_segment_bytes,
            "segment.index.bytes": self.log_index_size_max_bytes,
            "segment.jitter.ms": self.log_roll_jitter_ms
            or _milliseconds(self.log_roll_jitter_hours, MS_PER_HOUR),
            "segment.ms": self.log_roll_ms or _milliseconds(self.log_roll_hours, MS_PER_HOUR),
        }
        return {name: value for name, value in given.items() if value}


def _milliseconds(quantity: int | None, unit_ms: int) -> str:
    """Convert a quantity to milliseconds; "" if it is None, and -1, for no limit, if it is negative."""
    if quantity is None:
        return ""
    return "-1" if quantity < 0 else str(quantity * unit_ms)
