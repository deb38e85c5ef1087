"""Validation of config changes, and their records (KIP-339)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum

from quorumd.controller.client_metrics_configs import validate_client_metrics_configs
from quorumd.controller.cluster_image import (
    ELR_VERSION,
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_ELECTION,
    ClusterImage,
    Resource,
)
from quorumd.controller.config_table import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    ConfigType,
)
from quorumd.controller.config_values import parse_value, quoted, split_like_java
from quorumd.controller.group_configs import validate_group_configs
from quorumd.controller.record_versions import CORDONED_SINCE
from quorumd.controller.topic_configs import validate_topic_configs
from quorumd.controller.topic_names import invalid_name_reason
from quorumd.errors import ErrorCode, RequestError, invalid_config
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.text import is_name

MAX_TEXT_BYTES = 32_767
"""Maximum of a non-flexible string (int16): a longer value could not be described to clients of older versions."""
MAX_NODE_ID = 2**31 - 1
CORDONED_LOG_DIRS = "cordoned.log.dirs"
_COMMA = re.compile(r"\s*,\s*", re.ASCII)
_TOPIC, _BROKER = int(ConfigResourceType.TOPIC), int(ConfigResourceType.BROKER)
_DEFINITIONS = {
    _TOPIC: TOPIC_CONFIGS,
    _BROKER: BROKER_CONFIGS,
    int(ConfigResourceType.GROUP): GROUP_CONFIGS,
    int(ConfigResourceType.CLIENT_METRICS): CLIENT_METRICS_CONFIGS,
}


class ConfigOperation(IntEnum):
    """IncrementalAlterConfigs' ConfigOperation."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def check_resource(image: ClusterImage, resource: Resource) -> RequestError | None:
    """Return the error if configs of this resource cannot be described, None if they can."""
    error = _check_name(resource) or _check_existence(image, resource)
    if error is not None and error.error is ErrorCode.UNSUPPORTED_VERSION:
        return RequestError(ErrorCode.INVALID_REQUEST, error.message)
    return error


def _check_name(resource: Resource) -> RequestError | None:
    """Return the error if the resource type or name is invalid, None if it is valid."""
    kind, name = resource
    if kind == ConfigResourceType.BROKER:
        if name == "" or _is_node_id(name):
            return None
        return RequestError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid broker name {quoted(name)}: expected a node id, or an empty name for all brokers.",
        )
    if kind == ConfigResourceType.TOPIC:
        problem = invalid_name_reason(name)
        if problem is None:
            return None
        return RequestError(ErrorCode.INVALID_TOPIC if name else ErrorCode.INVALID_REQUEST, problem)
    if kind in (ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS):
        if name and not _is_too_long(name) and is_name(name):
            return None
        return RequestError(
            ErrorCode.INVALID_REQUEST,
            f"A group or client metrics name must have 1 to {MAX_TEXT_BYTES} bytes and no control characters.",
        )
    return RequestError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported config resource type {kind}.")


def _check_existence(image: ClusterImage, resource: Resource) -> RequestError | None:
    kind, name = resource
    if kind != _TOPIC or name in image.topic_ids:
        return None
    return RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {quoted(name)} does not exist.")


def plan_incremental(
    image: ClusterImage,
    resource: Resource,
    operations: Sequence[tuple[str, int, str | None]],
    has_remote_storage: bool = False,
    comes_from_broker: bool = False,
) -> list[ConfigRecord] | RequestError:
    """Plan the records of (name, ConfigOperation, value) triples of one resource, all or none.

    APPEND and SUBTRACT treat the value as a comma-separated list; if the list does not change, there is no record.
    `comes_from_broker`: whether a broker forwarded the request, after the checks that only brokers can make.
    """
    error = _check_name(resource)
    if error is None and resource[0] == _BROKER:
        error = _check_cordons_are_known(image, operations)
        if error is None and image.elr_enabled:
            error = _check_all_brokers(operations) if resource[1] == "" else _check_one_broker(operations)
    if error is not None:
        return error
    current = image.config(resource)
    records_or_error = plan_operations(current, resource, operations, has_remote_storage)
    if isinstance(records_or_error, RequestError):
        return records_or_error
    if resource[0] == _BROKER and not comes_from_broker:
        error = _check_cordons_are_fewer(current.get(CORDONED_LOG_DIRS), records_or_error)
    return error or _check_existence(image, resource) or records_or_error


def plan_operations(
    current: dict[str, str],
    resource: Resource,
    operations: Sequence[tuple[str, int, str | None]],
    has_remote_storage: bool,
) -> list[ConfigRecord] | RequestError:
    """Plan like `plan_incremental` for a resource with the configs `current`, which need not exist yet. The last of
    several operations on the same config wins."""
    if len(operations) > 1:
        operations = list({operation[0]: operation for operation in operations}.values())
    records: list[ConfigRecord] = []
    changed = dict(current)
    try:
        for name, operation, value in operations:
            record = _plan_operation(current, resource, name, operation, value)
            if record is None:
                continue
            records.append(record)
            if record.value is None:
                changed.pop(name, None)
            else:
                changed[name] = record.value
        _validate(resource[0], changed, current, has_remote_storage)
    except RequestError as invalid:
        return invalid.with_traceback(None)
    return records


def plan_replacement(
    image: ClusterImage,
    resource: Resource,
    values: Sequence[tuple[str, str | None]],
    has_remote_storage: bool = False,
    comes_from_broker: bool = False,
) -> list[ConfigRecord] | RequestError:
    """Plan the records that make `values` the only configs of the resource (AlterConfigs)."""
    named = {name for name, _ in values}
    operations: list[tuple[str, int, str | None]] = [
        (name, ConfigOperation.DELETE, None) for name in image.config(resource) if name not in named
    ]
    operations += [(name, ConfigOperation.SET, value) for name, value in values]
    return plan_incremental(image, resource, operations, has_remote_storage, comes_from_broker)


def _validate(
    kind: int, configs: Mapping[str, str], previous: Mapping[str, str], has_remote_storage: bool
) -> None:
    """Check configs as Kafka's controllers do; the forwarding broker checks those of brokers. Raises RequestError."""
    if kind == _TOPIC:
        validate_topic_configs(configs, previous, has_remote_storage)
    elif kind == ConfigResourceType.GROUP:
        validate_group_configs(configs)
    elif kind == ConfigResourceType.CLIENT_METRICS:
        validate_client_metrics_configs(configs)


def _plan_operation(
    current: dict[str, str], resource: Resource, name: str, operation: int, value: str | None
) -> ConfigRecord | None:
    """Plan the record of one operation, None if nothing changes. Raises RequestError."""
    if _is_too_long(name):
        raise invalid_config(f"A config name must have at most {MAX_TEXT_BYTES} bytes.")
    if _is_deletion(operation, value):
        return ConfigRecord(*resource, name, None)
    if value is None:
        raise invalid_config(f"Null cannot be appended to {quoted(name)} or subtracted from it.")
    if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        known = _DEFINITIONS[resource[0]].get(name)
        if known is None or known.type is not ConfigType.LIST:
            raise invalid_config(
                f"{quoted(name)} is not a list config; APPEND and SUBTRACT require one. Use SET."
            )
        current_value = current.get(name)
        value = _apply_list_operation(
            known.default or "" if current_value is None else current_value, operation, value
        )
        if value == current_value:
            return None
    elif operation != ConfigOperation.SET:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation} for {quoted(name)}.")
    if _is_too_long(value):
        raise invalid_config(f"The value of {quoted(name)} is longer than {MAX_TEXT_BYTES} bytes.")
    if resource[0] == _BROKER and name in (MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION):
        # These are the defaults of the topic configs of the same names, which the controller itself parses.
        parse_value(name, BROKER_CONFIGS[name], value)
    return ConfigRecord(*resource, name, value)


def _check_cordons_are_known(
    image: ClusterImage, operations: Sequence[tuple[str, int, str | None]]
) -> RequestError | None:
    """Return the error if directories are cordoned at a metadata version that does not support it (KIP-1066)."""
    if image.metadata_version >= CORDONED_SINCE or all(
        name != CORDONED_LOG_DIRS for name, _, _ in operations
    ):
        return None
    return RequestError(
        ErrorCode.INVALID_CONFIG,
        f"{CORDONED_LOG_DIRS} requires {METADATA_VERSION} {CORDONED_SINCE} (4.3-IV0) or higher, but the "
        f"cluster is at {image.metadata_version}; upgrade it first.",
    )


def _check_cordons_are_fewer(current: str | None, records: Sequence[ConfigRecord]) -> RequestError | None:
    """Return the error if an entry is added: controllers know the ids of log directories, not their paths, so without
    the broker's check they can only remove entries, as in Kafka."""
    for record in records:
        if record.name != CORDONED_LOG_DIRS or not (record.value or "").strip():
            continue
        added = set(_directories(record.value or "")) - set(
            _directories(current) if current is not None else ()
        )
        if added:
            return RequestError(
                ErrorCode.INVALID_CONFIG,
                f"Only a broker that has {quoted(sorted(added)[0])} in log.dirs can add it to {CORDONED_LOG_DIRS}, "
                "and the request was not sent to one; controllers can only remove entries.",
            )
    return None


def _directories(value: str) -> list[str]:
    return _COMMA.split(value.strip())


def _check_one_broker(operations: Sequence[tuple[str, int, str | None]]) -> RequestError | None:
    if all(name != MIN_INSYNC_REPLICAS or value is None for name, _, value in operations):
        return None
    return RequestError(
        ErrorCode.INVALID_CONFIG,
        f"{MIN_INSYNC_REPLICAS} cannot be set for a single broker while {ELR_VERSION} is enabled, since brokers and "
        "controllers must agree on it; set it for all brokers or for topics.",
    )


def _check_all_brokers(operations: Sequence[tuple[str, int, str | None]]) -> RequestError | None:
    """Return the error if the cluster-wide min.insync.replicas is deleted: each broker would fall back to its
    properties file."""
    if all(
        name != MIN_INSYNC_REPLICAS or not _is_deletion(operation, value)
        for name, operation, value in operations
    ):
        return None
    return RequestError(
        ErrorCode.INVALID_CONFIG,
        f"The cluster-wide {MIN_INSYNC_REPLICAS} cannot be removed while {ELR_VERSION} is enabled, since brokers and "
        "controllers must agree on it; set it to 1, the built-in default.",
    )


def _is_deletion(operation: int, value: str | None) -> bool:
    """Whether an operation deletes the config. As in Kafka, SET with null does."""
    return operation == ConfigOperation.DELETE or (operation == ConfigOperation.SET and value is None)


def _apply_list_operation(current: str, operation: int, value: str) -> str:
    """Return the comma-separated list after the operation."""
    items = [item for item in current.split(",") if item]
    for item in split_like_java(value, ","):
        if operation == ConfigOperation.SUBTRACT:
            if item in items:
                items.remove(item)
        elif item not in items:
            items.append(item)
    return ",".join(items)


def _is_node_id(name: str) -> bool:
    """Whether the name is a node id in canonical form, without leading zeros."""
    if len(name) > 10 or not (name.isascii() and name.isdigit()):
        return False
    return int(name) <= MAX_NODE_ID and str(int(name)) == name


def _is_too_long(text: str) -> bool:
    return len(text) > MAX_TEXT_BYTES or (not text.isascii() and len(text.encode()) > MAX_TEXT_BYTES)
