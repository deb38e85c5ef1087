"""Configs as registers: SET replaces the value, DescribeConfigs reads it."""

from __future__ import annotations

from quorumd.errors import ErrorCode, MalformedMessage
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from quorumd.protocol.messages.describe_configs_response import DescribeConfigsResponse
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.linearizability import Operation

CLIENT_METRICS = int(ConfigResourceType.CLIENT_METRICS)
RESOURCE_PREFIX = "s."
REGISTER = "metrics"
"""A list config without constraints on its items, which a stock controller accepts as a register, too."""
ALTER_VERSION = 1
DESCRIBE_VERSION = 4
SET = 0
PADDING = "."
"""Padding after a value."""


def write_request(key: str, value: str, padding: int) -> IncrementalAlterConfigsRequest:
    return alter_request(key, SET, value + PADDING * padding)


def alter_request(key: str, operation: int, value: str) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(REGISTER, operation, value)
    return IncrementalAlterConfigsRequest(
        [AlterConfigsResource(CLIENT_METRICS, RESOURCE_PREFIX + key, [config])]
    )


def read_request(key: str) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        [DescribeConfigsResource(CLIENT_METRICS, RESOURCE_PREFIX + key, [REGISTER])]
    )


def resolve(operation: Operation, message: Message) -> bool:
    """Return whether the operation succeeded; set the value of a read from the response. Raises MalformedMessage for
    the response to another API."""
    if isinstance(message, IncrementalAlterConfigsResponse):
        return all(response.error_code == ErrorCode.NONE for response in message.responses)
    if not isinstance(message, DescribeConfigsResponse):
        raise MalformedMessage(f"{message!r} is not a response to {operation}")
    (result,) = message.results
    if result.error_code != ErrorCode.NONE:
        return False
    found = [config.value for config in result.configs if config.name == REGISTER]
    operation.value = found[0].rstrip(PADDING) if found and found[0] is not None else None
    return True
