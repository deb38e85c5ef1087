"""The configs that a topic can have: Kafka's names, types, defaults, and what each may be set to.

quorumd itself goes by two of them, min.insync.replicas and unclean.leader.election.enable; the others are for the
brokers, which refuse to load a topic whose configs they cannot read.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final, NamedTuple

LARGEST_INT = 2**31 - 1
LEAST_LONG, LARGEST_LONG = -(2**63), 2**63 - 1
_DAY_MS = 24 * 60 * 60 * 1000

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_THROTTLED = re.compile(r"[0-9]+:[0-9]+")
ALL_REPLICAS = "*"


class ConfigType(IntEnum):
    """DescribeConfigs' types of values."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class TopicConfig(NamedTuple):
    """One config of topics.

    `broker_name`: the config of brokers whose value holds for topics without their own, None if there is none.
    Numbers are `least` to `most`; a text, or each item of a list, is one of `choices` where there are any.
    """

    type: ConfigType
    default: str
    broker_name: str | None
    least: int = 0
    most: int = 0
    choices: tuple[str, ...] = ()


def _int(default: int, broker_name: str, least: int = 0, most: int = LARGEST_INT) -> TopicConfig:
    return TopicConfig(ConfigType.INT, str(default), broker_name, least, most)


def _long(default: int, broker_name: str, least: int = 0) -> TopicConfig:
    return TopicConfig(ConfigType.LONG, str(default), broker_name, least, LARGEST_LONG)


def _boolean(broker_name: str | None) -> TopicConfig:
    return TopicConfig(ConfigType.BOOLEAN, "false", broker_name)


def _text(default: str, broker_name: str, *choices: str) -> TopicConfig:
    return TopicConfig(ConfigType.STRING, default, broker_name, choices=choices)


TOPIC_CONFIGS: Final[dict[str, TopicConfig]] = {
    "cleanup.policy": TopicConfig(
        ConfigType.LIST, "delete", "log.cleanup.policy", choices=("compact", "delete")
    ),
    "compression.gzip.level": _int(-1, "compression.gzip.level", -1, 9),
    "compression.lz4.level": _int(9, "compression.lz4.level", 1, 17),
    "compression.type": _text(
        "producer", "compression.type", "uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"
    ),
    "compression.zstd.level": _int(3, "compression.zstd.level", -131_072, 22),
    "delete.retention.ms": _long(_DAY_MS, "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _long(60_000, "log.segment.delete.delay.ms"),
    "flush.messages": _long(LARGEST_LONG, "log.flush.interval.messages", 1),
    "flush.ms": _long(LARGEST_LONG, "log.flush.interval.ms"),
    "follower.replication.throttled.replicas": TopicConfig(ConfigType.LIST, "", None),
    "index.interval.bytes": _int(4096, "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": TopicConfig(ConfigType.LIST, "", None),
    "local.retention.bytes": _long(-2, "log.local.retention.bytes", -2),
    "local.retention.ms": _long(-2, "log.local.retention.ms", -2),
    "max.compaction.lag.ms": _long(LARGEST_LONG, "log.cleaner.max.compaction.lag.ms", 1),
    "max.message.bytes": _int(1_048_588, "message.max.bytes"),
    "message.timestamp.after.max.ms": _long(60 * 60 * 1000, "log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": _long(LARGEST_LONG, "log.message.timestamp.before.max.ms"),
    "message.timestamp.type": _text(
        "CreateTime", "log.message.timestamp.type", "CreateTime", "LogAppendTime"
    ),
    "min.cleanable.dirty.ratio": TopicConfig(
        ConfigType.DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio", 0, 1
    ),
    "min.compaction.lag.ms": _long(0, "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _int(1, "min.insync.replicas", 1),
    "preallocate": _boolean("log.preallocate"),
    "remote.log.copy.disable": _boolean(None),
    "remote.log.delete.on.disable": _boolean(None),
    "remote.storage.enable": _boolean(None),
    "retention.bytes": _long(-1, "log.retention.bytes", LEAST_LONG),
    "retention.ms": _long(7 * _DAY_MS, "log.retention.ms", -1),
    "segment.bytes": _int(2**30, "log.segment.bytes", 2**20),
    "segment.index.bytes": _int(10 * 2**20, "log.index.size.max.bytes", 4),
    "segment.jitter.ms": _long(0, "log.roll.jitter.ms"),
    "segment.ms": _long(7 * _DAY_MS, "log.roll.ms", 1),
    "unclean.leader.election.enable": _boolean("unclean.leader.election.enable"),
}


def problem_with(name: str, value: str) -> str | None:
    """Why a topic cannot have this value of this config, None if it can."""
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        return "is no config of topics"
    return _problem(config, value.strip())


def _problem(config: TopicConfig, value: str) -> str | None:
    if config.type is ConfigType.BOOLEAN:
        return None if value.lower() in ("true", "false") else "must be true or false"
    if config.type in (ConfigType.INT, ConfigType.LONG):
        if _WHOLE_NUMBER.fullmatch(value) and config.least <= int(value) <= config.most:
            return None
        return f"must be a whole number from {config.least} to {config.most}"
    if config.type is ConfigType.DOUBLE:
        if _NUMBER.fullmatch(value) and config.least <= float(value) <= config.most:
            return None
        return f"must be a number from {config.least} to {config.most}"
    if config.type is ConfigType.LIST:
        return _problem_of_list(config, value)
    return None if value in config.choices else f"must be one of {', '.join(config.choices)}"


def _problem_of_list(config: TopicConfig, value: str) -> str | None:
    items = [item.strip() for item in value.split(",")] if value else []
    if len(set(items)) != len(items):
        return "must not name anything twice"
    if config.choices:
        is_valid = all(item in config.choices for item in items)
        return None if is_valid else f"must be a list of {', '.join(config.choices)}"
    if value == ALL_REPLICAS or all(_THROTTLED.fullmatch(item) for item in items):
        return None
    return "must be a list of partition:broker, or * for all"
