"""Validation of topic configs: each value, and their combination.

The controller itself uses two of them, min.insync.replicas and unclean.leader.election.enable; the others are for the
brokers. A stock broker does not load a topic whose configs it cannot parse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorumd.controller.config_table import TOPIC_CONFIGS
from quorumd.controller.config_values import Value, default_value, parse_value, quoted
from quorumd.errors import invalid_config

REMOTE_STORAGE: Final = "remote.storage.enable"
REMOTE_STORAGE_SYSTEM: Final = "remote.log.storage.system.enable"
SAME_AS_RETENTION: Final = -2
UNLIMITED: Final = -1
_DEFAULTS: Final[dict[str, Value]] = {
    name: default_value(definition) for name, definition in TOPIC_CONFIGS.items()
}


def validate_topic_configs(
    configs: Mapping[str, str], previous: Mapping[str, str], has_remote_storage: bool
) -> None:
    """Check the new configs of a topic, given the previous ones. Raises RequestError."""
    values: dict[str, Value] = {}
    for name, text in configs.items():
        definition = TOPIC_CONFIGS.get(name)
        if definition is None:
            raise invalid_config(
                f"Unknown topic config {quoted(name)}; delete it, or use a name from Kafka's documentation."
            )
        values[name] = parse_value(name, definition, text)
    _check_at_most(values, "min.compaction.lag.ms", "max.compaction.lag.ms")
    if values.get(REMOTE_STORAGE):
        _check_remote_storage(values, has_remote_storage)
    elif previous.get(REMOTE_STORAGE, "").lower() == "true" and not values.get(
        "remote.log.delete.on.disable"
    ):
        raise invalid_config(
            f"{REMOTE_STORAGE} cannot be turned off while there is remote data: to delete it, set "
            f"remote.log.delete.on.disable=true; to keep it, set {REMOTE_STORAGE}=true and "
            "remote.log.copy.disable=true."
        )


def _check_remote_storage(values: dict[str, Value], has_remote_storage: bool) -> None:
    if not has_remote_storage:
        raise invalid_config(
            f"{REMOTE_STORAGE} cannot be true: first set {REMOTE_STORAGE_SYSTEM}=true in the properties of every "
            "controller and broker."
        )
    policy = values.get("cleanup.policy", _DEFAULTS["cleanup.policy"])
    if isinstance(policy, list) and policy and set(policy) != {"delete"}:
        raise invalid_config(f"{REMOTE_STORAGE} requires cleanup.policy=delete, it is {','.join(policy)}.")
    for unit in ("bytes", "ms"):
        _check_retention(values, unit)
    if values.get("remote.log.copy.disable"):
        for unit in ("bytes", "ms"):
            retention, local = (
                _int_value(values, f"retention.{unit}"),
                _int_value(values, f"local.retention.{unit}"),
            )
            if local not in (SAME_AS_RETENTION, retention):
                raise invalid_config(
                    f"local.retention.{unit} is {local} and retention.{unit} is {retention}: with "
                    "remote.log.copy.disable=true they must be equal."
                )


def _check_retention(values: dict[str, Value], unit: str) -> None:
    """Check local retention and copy lag against the total retention. Raises RequestError."""
    name, local_name, lag_name = f"retention.{unit}", f"local.retention.{unit}", f"remote.copy.lag.{unit}"
    retention, local, lag = (_int_value(values, each) for each in (name, local_name, lag_name))
    is_limited = retention > UNLIMITED if unit == "bytes" else retention != UNLIMITED
    if is_limited and local != SAME_AS_RETENTION and (local == UNLIMITED or local > retention):
        raise invalid_config(f"{local_name} is {local}: it must be at most {name}, which is {retention}.")
    effective = retention if local == SAME_AS_RETENTION else local
    if 0 <= effective < lag:
        raise invalid_config(
            f"{lag_name} is {lag}: it must be at most the effective {local_name}, which is {effective}."
        )


def _check_at_most(values: dict[str, Value], lesser: str, greater: str) -> None:
    low, high = _int_value(values, lesser), _int_value(values, greater)
    if low > high:
        raise invalid_config(f"{lesser} is {low}: it must be at most {greater}, which is {high}.")


def _int_value(values: dict[str, Value], name: str) -> int:
    value = values.get(name, _DEFAULTS[name])
    assert isinstance(value, int)
    return value
