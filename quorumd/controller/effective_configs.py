"""Effective configs of topics and other resources, and their sources."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from quorumd.controller.cluster_image import ALL_BROKERS, ClusterImage
from quorumd.controller.config_table import TOPIC_CONFIGS, ConfigDefinition, ConfigType


class ConfigSource(IntEnum):
    """DescribeConfigs' ConfigSource (KIP-226): where a value is set."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigValue(NamedTuple):
    """A value of a config in one source, with the config's name in that source."""

    source: ConfigSource
    name: str
    value: str | None
    """None for a config whose default is to have none."""


class EffectiveConfig(NamedTuple):
    """One config. The first of `values` takes effect; the others are its synonyms, by descending precedence."""

    name: str
    type: ConfigType
    values: list[ConfigValue]

    @property
    def is_sensitive(self) -> bool:
        """Whether its values are secret and must not be described."""
        return self.type is ConfigType.PASSWORD


def merge_layers(
    definitions: Mapping[str, ConfigDefinition], *layers: tuple[ConfigSource, Mapping[str, str | None]]
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
    """Return all configs, sorted by name, of a topic on which `own` is set. Those values take precedence over the
    cluster-wide ones, which take precedence over the defaults."""
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
            # The config is in the log but unknown to this version.
            effective.append(EffectiveConfig(name, ConfigType.UNKNOWN, values))
            continue
        broker_name = config.broker_name
        if broker_name is not None and broker_name in of_brokers:
            values.append(
                ConfigValue(ConfigSource.DYNAMIC_DEFAULT_BROKER, broker_name, of_brokers[broker_name])
            )
        if config.default is not None:
            values.append(ConfigValue(ConfigSource.DEFAULT, broker_name or name, config.default))
        effective.append(EffectiveConfig(name, config.type, values))
    return effective
