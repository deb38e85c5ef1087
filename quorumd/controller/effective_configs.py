"""Effective configs of topics and other resources, and their sources."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from quorumd.controller.cluster_image import ALL_BROKERS, ClusterImage
from quorumd.controller.config_table import TOPIC_CONFIGS, ConfigDefinition, ConfigType


class ConfigSource(IntEnum):
    """DescribeConfigs' sources of a value."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    PROPERTIES_FILE = 4
    BUILT_IN = 5
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigValue(NamedTuple):
    """A value in one source: `name` is its name there."""

    source: ConfigSource
    name: str
    value: str


class EffectiveConfig(NamedTuple):
    """One config. The first of `values` is effective; the others are its fallbacks, in order."""

    name: str
    type: ConfigType
    values: list[ConfigValue]

    @property
    def is_sensitive(self) -> bool:
        """Whether its values must not be shown."""
        return self.type is ConfigType.PASSWORD


def merge_layers(
    definitions: Mapping[str, ConfigDefinition], *layers: tuple[ConfigSource, dict[str, str]]
) -> list[EffectiveConfig]:
    """Merge layers whose configs have the same names; the first layer takes precedence."""
    effective: dict[str, EffectiveConfig] = {}
    for source, configs in layers:
        for name, value in sorted(configs.items()):
            config = effective.get(name)
            if config is None:
                definition = definitions.get(name)
                kind = definition.type if definition is not None else ConfigType.STRING
                config = effective[name] = EffectiveConfig(name, kind, [])
            config.values.append(ConfigValue(source, name, value))
    return list(effective.values())


def effective_topic_configs(image: ClusterImage, own: dict[str, str]) -> list[EffectiveConfig]:
    """Return all configs of a topic with these values of its own, by name; they take precedence over the cluster-wide
    values, and those over the defaults."""
    of_brokers = image.config(ALL_BROKERS)
    effective: list[EffectiveConfig] = []
    for name in sorted(TOPIC_CONFIGS.keys() | own.keys()):
        values: list[ConfigValue] = []
        if name in own:
            values.append(ConfigValue(ConfigSource.TOPIC, name, own[name]))
        config = TOPIC_CONFIGS.get(name)
        if config is not None and config.is_internal and not values:
            continue
        if config is None:
            # The log has a config that this version does not know.
            effective.append(EffectiveConfig(name, ConfigType.UNKNOWN, values))
            continue
        broker_name = config.broker_name
        if broker_name is not None and broker_name in of_brokers:
            values.append(ConfigValue(ConfigSource.ALL_BROKERS, broker_name, of_brokers[broker_name]))
        if config.default is not None:
            values.append(ConfigValue(ConfigSource.BUILT_IN, broker_name or name, config.default))
        effective.append(EffectiveConfig(name, config.type, values))
    return effective
