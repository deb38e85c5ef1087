"""Validation of group configs: each value, and its bounds in the broker configs.

The bounds ensure that a session timeout is longer than the heartbeat interval of its protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorumd.controller.config_table import BROKER_CONFIGS, GROUP_CONFIGS
from quorumd.controller.config_values import (
    Value,
    default_value,
    parse_value,
    quoted,
    split_list,
)
from quorumd.errors import invalid_config

ASSIGNOR_NAME: Final = "streams.assignor.name"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
RACK_TAGS: Final = "streams.rack.aware.assignment.tags"
INTERNAL_PREFIX: Final = "__"


def _bound(name: str, side: str) -> int | None:
    """Return a bound of a group config, None if it has none: consumer.X is bounded by the broker configs
    group.consumer.min.X and group.consumer.max.X, whose names omit a leading `num.` of X."""
    protocol, _, rest = name.partition(".")
    definition = BROKER_CONFIGS.get(f"group.{protocol}.{side}.{rest.removeprefix('num.')}")
    value = default_value(definition) if definition is not None else None
    return value if isinstance(value, int) else None


_BOUNDS: Final = {name: (_bound(name, "min"), _bound(name, "max")) for name in GROUP_CONFIGS}
_ASSIGNORS: Final = split_list(BROKER_CONFIGS["group.streams.assignors"].default or "")


def validate_group_configs(configs: Mapping[str, str]) -> None:
    """Check the configs of a group. Raises RequestError."""
    values: dict[str, Value] = {}
    for name, text in configs.items():
        definition = GROUP_CONFIGS.get(name)
        if definition is None:
            raise invalid_config(
                f"Unknown group config {quoted(name)}; delete it, or use a name from Kafka's documentation."
            )
        value = values[name] = parse_value(name, definition, text)
        minimum, maximum = _BOUNDS[name]
        if isinstance(value, int) and (
            (minimum is not None and value < minimum) or (maximum is not None and value > maximum)
        ):
            raise invalid_config(f"{name} is {value}: it must be {_range(minimum, maximum)}.")
    assignor = values.get(ASSIGNOR_NAME)
    if assignor is not None and assignor not in _ASSIGNORS:
        raise invalid_config(
            f"{ASSIGNOR_NAME} is {quoted(str(assignor))}: it must be one of {', '.join(_ASSIGNORS)}."
        )
    if str(values.get(DEAD_LETTER_TOPIC, "")).startswith(INTERNAL_PREFIX):
        raise invalid_config(
            f"{DEAD_LETTER_TOPIC} must not begin with {INTERNAL_PREFIX}, as internal topics do."
        )
    tags = values.get(RACK_TAGS)
    if isinstance(tags, list) and len(set(tags)) != len(tags):
        raise invalid_config(f"{RACK_TAGS} must not contain duplicate tags.")


def _range(minimum: int | None, maximum: int | None) -> str:
    if maximum is None:
        return f"at least {minimum}"
    return f"at most {maximum}" if minimum is None else f"from {minimum} to {maximum}"
