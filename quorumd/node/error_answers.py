"""How a request that could not be carried out is told so: each API has its own place for an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quorumd.errors import ErrorCode
from quorumd.node import voter_wire
from quorumd.node.quorum_wire import refused_slots
from quorumd.node.statistics import NodeStatistics
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import (
    alter_configs_response,
    describe_configs_response,
    describe_quorum_response,
    incremental_alter_configs_response,
)
from quorumd.protocol.wire import Message

TEXTS = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "This node is not the leader of the quorum, or is not any longer: try again.",
    ErrorCode.NOT_CONTROLLER: "This node is not the leader of the quorum, or is not any longer: try again.",
    ErrorCode.REQUEST_TIMED_OUT: "The leader did not answer in time; the change may or may not have been made.",
    ErrorCode.KAFKA_STORAGE_ERROR: "The leader has no room on its disk.",
}


def error_answer(request: Request, error: ErrorCode) -> Message:
    """The answer that says `error` in every place where this request's API has one."""
    return _ANSWERS[request.api_key](request, error)


def counting(statistics: NodeStatistics) -> Callable[[Request, ErrorCode], Message]:
    """`error_answer` that counts what it makes."""

    def counted(request: Request, error: ErrorCode) -> Message:
        statistics.count_error(request.api_key, int(error))
        return error_answer(request, error)

    return counted


def text_of(error: ErrorCode) -> str:
    """A sentence for people."""
    return TEXTS.get(error, ErrorCode.describe(error))


def _describe_quorum(request: Request, error: ErrorCode) -> Message:
    message: Any = request.message
    wire = describe_quorum_response
    return wire.DescribeQuorumResponse(int(error), None, refused_slots(wire, message.topics, error))


def _describe_configs(request: Request, error: ErrorCode) -> Message:
    message: Any = request.message
    wire = describe_configs_response
    return wire.DescribeConfigsResponse(
        0,
        [
            wire.DescribeConfigsResult(int(error), text_of(error), r.resource_type, r.resource_name)
            for r in message.resources
        ],
    )


def _incremental_alter_configs(request: Request, error: ErrorCode) -> Message:
    wire = incremental_alter_configs_response
    return wire.IncrementalAlterConfigsResponse(
        0, _resources(request, error, wire.AlterConfigsResourceResponse)
    )


def _alter_configs(request: Request, error: ErrorCode) -> Message:
    wire = alter_configs_response
    return wire.AlterConfigsResponse(0, _resources(request, error, wire.AlterConfigsResourceResponse))


def _alter_quorum(request: Request, error: ErrorCode) -> Message:
    message: Any = request.message
    return voter_wire.alter_quorum_answer(message, error, text_of(error))


def _add_raft_voter(request: Request, error: ErrorCode) -> Message:
    del request
    return voter_wire.add_voter_answer(error, text_of(error))


def _remove_raft_voter(request: Request, error: ErrorCode) -> Message:
    del request
    return voter_wire.remove_voter_answer(error, text_of(error))


def _resources(request: Request, error: ErrorCode, response: Callable[..., Any]) -> list[Any]:
    message: Any = request.message
    return [response(int(error), text_of(error), r.resource_type, r.resource_name) for r in message.resources]


_ANSWERS: dict[int, Callable[[Request, ErrorCode], Message]] = {
    ApiKey.DESCRIBE_QUORUM: _describe_quorum,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.ALTER_QUORUM: _alter_quorum,
    ApiKey.ADD_RAFT_VOTER: _add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: _remove_raft_voter,
}

MAY_BE_FORWARDED = frozenset(_ANSWERS)
"""API keys of requests that a leader takes out of an Envelope. DescribeConfigs is one between quorumd nodes."""
