"""Changes of configs: what a request may ask, and the records that it needs (KIP-339, KIP-412)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from quorumd.controller.cluster_image import ClusterImage, Resource, ResourceType
from quorumd.errors import ErrorCode

MAX_NAME_LENGTH = 32_767
"""What a non-flexible string can carry (int16), so that every client can read back what it set."""


class ConfigOperation(IntEnum):
    """IncrementalAlterConfigs' ConfigOperation."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(slots=True)
class ConfigChange:
    """One config to set, or to delete with value None: what a ConfigRecord says."""

    resource: Resource
    name: str
    value: str | None


@dataclass(slots=True)
class Refused:
    """Why a resource of a request was not changed."""

    error: ErrorCode
    message: str


def check_resource(resource: Resource) -> Refused | None:
    """Whether configs of this resource can be described and changed here."""
    kind, name = resource
    if kind == ResourceType.BROKER:
        if name == "" or (name.isascii() and name.isdigit()):
            return None
        return Refused(
            ErrorCode.INVALID_REQUEST, f"Broker name {name!r} is neither a node id nor empty (all)."
        )
    if kind == ResourceType.TOPIC:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {name!r} does not exist.")
    if kind in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        if name:
            return None
        return Refused(
            ErrorCode.INVALID_REQUEST, "The name of a group or of client metrics must not be empty."
        )
    return Refused(ErrorCode.INVALID_REQUEST, f"Configs of resource type {kind} cannot be changed here.")


def plan_incremental(
    image: ClusterImage, resource: Resource, operations: Sequence[tuple[str, int, str | None]]
) -> list[ConfigChange] | Refused:
    """The changes that (name, ConfigOperation, value) triples of one resource ask for, all or none.

    APPEND and SUBTRACT treat the value as a comma separated list and are no change where nothing changes.
    """
    refused = check_resource(resource)
    if refused is not None:
        return refused
    if len(operations) > 1 and len({name for name, _, _ in operations}) != len(operations):
        return Refused(ErrorCode.INVALID_CONFIG, "The same config is named twice for one resource.")
    current = image.config(resource)
    changes: list[ConfigChange] = []
    for name, operation, value in operations:
        planned = _plan_operation(current, resource, name, operation, value)
        if isinstance(planned, Refused):
            return planned
        changes.extend(planned)
    return changes


def plan_replacement(
    image: ClusterImage, resource: Resource, values: Sequence[tuple[str, str | None]]
) -> list[ConfigChange] | Refused:
    """The changes that make `values` the only configs of the resource (AlterConfigs)."""
    named = {name for name, _ in values}
    surplus = [(name, ConfigOperation.DELETE, None) for name in image.config(resource) if name not in named]
    return plan_incremental(
        image, resource, surplus + [(name, ConfigOperation.SET, value) for name, value in values]
    )


def _plan_operation(
    current: dict[str, str], resource: Resource, name: str, operation: int, value: str | None
) -> Iterable[ConfigChange] | Refused:
    if not name or len(name) > MAX_NAME_LENGTH:
        return Refused(ErrorCode.INVALID_CONFIG, "The name of a config must have 1 to 32767 characters.")
    if operation == ConfigOperation.DELETE:
        return (ConfigChange(resource, name, None),)
    if value is None:
        return Refused(ErrorCode.INVALID_CONFIG, f"Null value not supported for {name}: use DELETE.")
    if len(value) > MAX_NAME_LENGTH:
        return Refused(ErrorCode.INVALID_CONFIG, f"The value of {name} is longer than 32767 characters.")
    if operation == ConfigOperation.SET:
        return (ConfigChange(resource, name, value),)
    if operation not in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        return Refused(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation} for {name}.")
    present = [item.strip() for item in current.get(name, "").split(",") if item.strip()]
    asked = [item.strip() for item in value.split(",")]
    if operation == ConfigOperation.APPEND:
        changed = present + [item for item in dict.fromkeys(asked) if item not in present]
    else:
        changed = [item for item in present if item not in asked]
    if changed == present:
        return ()
    return (ConfigChange(resource, name, ",".join(changed)),)
