"""The configs that Kafka defines: their types, defaults and rules, and the broker configs that are their defaults."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from quorumd.controller.config_definitions import DEFINITIONS


class ConfigType(IntEnum):
    """DescribeConfigs' ConfigType (KIP-569)."""

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


class ConfigDefinition(NamedTuple):
    """The definition of one config."""

    type: ConfigType
    default: str | None
    """None if there is none."""
    rule: str
    """The constraint on values beyond their type, in the syntax that scripts/generate_configs.py explains."""
    broker_name: str | None
    """The broker config that supplies the default; None if there is none."""
    is_internal: bool
    """Whether the config is described only if it is set."""


def parse_definitions(kind: str, definitions: str = DEFINITIONS) -> dict[str, ConfigDefinition]:
    """Return the configs of a kind of resource, by name, in the format of scripts/generate_configs.py."""
    found: dict[str, ConfigDefinition] = {}
    for line in definitions.splitlines():
        resource, name, type_name, default, rule, synonym, internal = line.split(" ")
        if resource == kind:
            found[name] = ConfigDefinition(
                ConfigType[type_name],
                default[1:] if default.startswith("=") else None,
                "" if rule == "-" else rule,
                None if synonym == "-" else synonym,
                internal == "internal",
            )
    return found


TOPIC_CONFIGS: Final = parse_definitions("TOPIC")
GROUP_CONFIGS: Final = parse_definitions("GROUP")
CLIENT_METRICS_CONFIGS: Final = parse_definitions("CLIENT_METRICS")
BROKER_CONFIGS: Final = parse_definitions("BROKER")
