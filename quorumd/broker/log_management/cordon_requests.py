"""Requests to change `cordoned.log.dirs`, which only the broker with the log directories can check."""

from __future__ import annotations

from quorumd.broker.log_management.directories import LogDirectories
from quorumd.broker.settings.broker_settings import ALL_DIRECTORIES
from quorumd.controller.configs import CORDONED_LOG_DIRS, ConfigOperation
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.alter_configs_request import AlterConfigsRequest
from quorumd.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from quorumd.protocol.wire import Message


def has_known_cordons(message: Message, broker_id: int, directories: LogDirectories) -> bool:
    """Whether a request adds to `cordoned.log.dirs`, and adds only log directories of this broker.

    The request may name this broker or all brokers, as in Kafka. Removals need no check.
    """
    added = [
        (broker, value, replaces)
        for broker, value, replaces in _additions(message)
        if value and value.strip()
    ]
    return bool(added) and all(
        broker in ("", str(broker_id)) and _are_known(value, directories, replaces)
        for broker, value, replaces in added
    )


def _additions(message: Message) -> list[tuple[str, str | None, bool]]:
    """Return (broker, value, whether it replaces the current value) for each addition to the config."""
    broker = ConfigResourceType.BROKER
    if isinstance(message, AlterConfigsRequest):
        return [
            (resource.resource_name, config.value, True)
            for resource in message.resources
            for config in resource.configs
            if resource.resource_type == broker and config.name == CORDONED_LOG_DIRS
        ]
    assert isinstance(message, IncrementalAlterConfigsRequest)
    return [
        (resource.resource_name, config.value, config.config_operation == ConfigOperation.SET)
        for resource in message.resources
        for config in resource.configs
        if resource.resource_type == broker
        and config.name == CORDONED_LOG_DIRS
        and config.config_operation in (ConfigOperation.SET, ConfigOperation.APPEND)
    ]


def _are_known(value: str, directories: LogDirectories, replaces: bool) -> bool:
    paths = [path.strip() for path in value.split(",")]
    if paths == [ALL_DIRECTORIES]:
        # `*` cannot be combined with other entries.
        return replaces
    return all(directories.find(path) is not None for path in paths)
