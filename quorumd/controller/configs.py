"""Changes of configs: what a request may ask, and the records that it needs (KIP-339, KIP-412)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from quorumd.controller.cluster_image import (
    MIN_INSYNC_REPLICAS,
    UNCLEAN_ELECTION,
    ClusterImage,
    Resource,
    ResourceType,
)
from quorumd.controller.topic_configs import TOPIC_CONFIGS, ConfigType, problem_with
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.config_record import ConfigRecord

MAX_TEXT_BYTES = 32_767
"""What a non-flexible string can carry (int16), so that every client can read back what it set."""
LARGEST_NODE_ID = 2**31 - 1
_SHOWN_CHARACTERS = 64
_TOPIC, _BROKER = int(ResourceType.TOPIC), int(ResourceType.BROKER)


class ConfigOperation(IntEnum):
    """IncrementalAlterConfigs' ConfigOperation."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(slots=True)
class Refused:
    """Why a resource of a request was not changed."""

    error: ErrorCode
    message: str


def check_resource(image: ClusterImage, resource: Resource) -> Refused | None:
    """Whether configs of this resource can be described and changed here."""
    kind, name = resource
    if kind == ResourceType.BROKER:
        if name == "" or _is_node_id(name):
            return None
        return Refused(
            ErrorCode.INVALID_REQUEST, f"Broker name {_shown(name)} is neither a node id nor empty (all)."
        )
    if kind == ResourceType.TOPIC:
        if name in image.topic_ids:
            return None
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {_shown(name)} does not exist.")
    if kind in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        if name and not _is_too_long(name):
            return None
        return Refused(
            ErrorCode.INVALID_REQUEST,
            f"The name of a group or of client metrics must have 1 to {MAX_TEXT_BYTES} bytes.",
        )
    return Refused(ErrorCode.INVALID_REQUEST, f"Configs of resource type {kind} cannot be changed here.")


def plan_incremental(
    image: ClusterImage, resource: Resource, operations: Sequence[tuple[str, int, str | None]]
) -> list[ConfigRecord] | Refused:
    """The records that (name, ConfigOperation, value) triples of one resource need, all or none.

    APPEND and SUBTRACT treat the value as a comma separated list and are no change where nothing changes.
    """
    refused = check_resource(image, resource)
    if refused is not None:
        return refused
    if resource[0] == _BROKER and resource[1] != "" and image.elr_enabled:
        refused = _check_one_broker(operations)
        if refused is not None:
            return refused
    return plan_operations(image.config(resource), resource, operations)


def plan_operations(
    current: dict[str, str], resource: Resource, operations: Sequence[tuple[str, int, str | None]]
) -> list[ConfigRecord] | Refused:
    """As `plan_incremental`, for a resource that has these configs and may not be there yet."""
    if len(operations) > 1 and len({name for name, _, _ in operations}) != len(operations):
        return Refused(ErrorCode.INVALID_CONFIG, "The same config is named twice for one resource.")
    records: list[ConfigRecord] = []
    for name, operation, value in operations:
        planned = _plan_operation(current, resource, name, operation, value)
        if isinstance(planned, Refused):
            return planned
        if planned is not None:
            records.append(planned)
    return records


def plan_replacement(
    image: ClusterImage, resource: Resource, values: Sequence[tuple[str, str | None]]
) -> list[ConfigRecord] | Refused:
    """The records that make `values` the only configs of the resource (AlterConfigs)."""
    named = {name for name, _ in values}
    surplus = [(name, ConfigOperation.DELETE, None) for name in image.config(resource) if name not in named]
    return plan_incremental(
        image, resource, surplus + [(name, ConfigOperation.SET, value) for name, value in values]
    )


def _plan_operation(
    current: dict[str, str], resource: Resource, name: str, operation: int, value: str | None
) -> ConfigRecord | Refused | None:
    """The record of one operation, None where it changes nothing."""
    if not name or _is_too_long(name):
        return Refused(
            ErrorCode.INVALID_CONFIG, f"The name of a config must have 1 to {MAX_TEXT_BYTES} bytes."
        )
    if operation == ConfigOperation.DELETE:
        return ConfigRecord(*resource, name, None)
    if value is None:
        return Refused(ErrorCode.INVALID_CONFIG, f"Null value not supported for {_shown(name)}: use DELETE.")
    if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        known = TOPIC_CONFIGS.get(name) if resource[0] == _TOPIC else None
        if known is not None and known.type is not ConfigType.LIST:
            return Refused(ErrorCode.INVALID_CONFIG, f"{_shown(name)} is no list: use SET.")
        changed = _changed_list(
            current.get(name, known.default if known is not None else ""), operation, value
        )
        if changed is None:
            return None
        value = changed
    elif operation != ConfigOperation.SET:
        return Refused(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation} for {_shown(name)}.")
    if _is_too_long(value):
        return Refused(
            ErrorCode.INVALID_CONFIG, f"The value of {_shown(name)} is longer than {MAX_TEXT_BYTES} bytes."
        )
    problem = _problem_with(resource, name, value)
    if problem is not None:
        return Refused(ErrorCode.INVALID_CONFIG, f"{_shown(name)}, set to {_shown(value)}, {problem}.")
    return ConfigRecord(*resource, name, value)


def _check_one_broker(operations: Sequence[tuple[str, int, str | None]]) -> Refused | None:
    if all(name != MIN_INSYNC_REPLICAS or value is None for name, _, value in operations):
        return None
    return Refused(
        ErrorCode.INVALID_CONFIG,
        f"With {MIN_INSYNC_REPLICAS} of its own a leader would not wait for replicas that the controller takes for "
        "complete: set it for all brokers, or for topics.",
    )


def _problem_with(resource: Resource, name: str, value: str) -> str | None:
    """Why this value cannot be. What holds for topics by default must be right for topics."""
    kind = resource[0]
    if kind == _TOPIC or (kind == _BROKER and name in (MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION)):
        return problem_with(name, value)
    return None


def _changed_list(current: str, operation: int, value: str) -> str | None:
    """The comma separated list after the operation, None where nothing changes."""
    present = _items(current)
    asked = dict.fromkeys(_items(value))
    if operation == ConfigOperation.APPEND:
        known = frozenset(present)
        changed = present + [item for item in asked if item not in known]
    else:
        changed = [item for item in present if item not in asked]
    return None if changed == present else ",".join(changed)


def _items(value: str) -> list[str]:
    return [item for part in value.split(",") if (item := part.strip())]


def _is_node_id(name: str) -> bool:
    """Whether the name is a node id as it is written: one name a node, so no leading zeros."""
    if len(name) > 10 or not (name.isascii() and name.isdigit()):
        return False
    return int(name) <= LARGEST_NODE_ID and str(int(name)) == name


def _is_too_long(text: str) -> bool:
    return len(text) > MAX_TEXT_BYTES or (not text.isascii() and len(text.encode()) > MAX_TEXT_BYTES)


def _shown(name: str) -> str:
    """A name for an error message, which must itself fit a string of the wire."""
    return repr(name if len(name) <= _SHOWN_CHARACTERS else name[:_SHOWN_CHARACTERS] + "...")
