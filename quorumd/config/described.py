"""The settings of a node as DescribeConfigs returns them: with Kafka's keys, and numbers in the units of the keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quorumd.config.setting import INTERNAL
from quorumd.config.settings import BROKER_ONLY_FIELDS, Settings, keys_of
from quorumd.controller.config_table import BROKER_CONFIGS


def given_configs(
    settings: Settings, field_of_key: Mapping[str, str], given: Iterable[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    """Keys of the properties file with their values, which are `given` as text."""
    return tuple((key, _number(getattr(settings, field_of_key[key])) or text) for key, text in given)


def default_configs(settings: Settings) -> tuple[tuple[str, str | None], ...]:
    """The keys of all other settings that the roles of the node use, and their defaults; None for no value."""
    unused = frozenset() if settings.is_broker else BROKER_ONLY_FIELDS
    found: list[tuple[str, str | None]] = []
    for field in Settings.model_fields.keys() - settings.model_fields_set - unused:
        keys = keys_of(field)
        if keys and not keys[0].startswith(INTERNAL):
            key = next((each for each in keys if each in BROKER_CONFIGS), keys[0])
            found.append((key, _default(key, getattr(settings, field))))
    return tuple(sorted(found))


def _default(key: str, value: object) -> str | None:
    """A default. An empty one stands for Kafka's, in the settings of topics, or for none."""
    if isinstance(value, int):
        return _number(value)
    if isinstance(value, str) and value:
        return value
    if isinstance(value, tuple) and value:
        return ",".join(value)
    definition = BROKER_CONFIGS.get(key)
    return definition.default if definition is not None else None


def _number(value: object) -> str:
    """A number or truth value in Kafka's form; "" for another value."""
    return str(value).lower() if isinstance(value, int) else ""
