from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.node.api.error_responses import (
    APIS_WITH_ERROR_RESPONSE,
    ENVELOPE_APIS,
    error_message,
    error_response,
)
from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.connection import encode_response
from quorumd.protocol.messages import alter_quorum_request, describe_quorum_request
from quorumd.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from tests.support.node.recording_session import request_of
from tests.support.node.sample_requests import full_request

VERSIONS = [
    (key, version)
    for key in sorted(APIS_WITH_ERROR_RESPONSE)
    for version in range(APIS[key].min_version, APIS[key].max_version + 1)
]


WITHOUT_MESSAGE = frozenset(
    {
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ALTER_PARTITION,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    }
)
"""APIs without a field for an error message."""
ERRORS_IN_ITEMS = {
    ApiKey.CREATE_ACLS: 2,
    ApiKey.DELETE_ACLS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 2,
    ApiKey.DESCRIBE_QUORUM: 1,
    ApiKey.DESCRIBE_CONFIGS: 6,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 3,
    ApiKey.ALTER_CONFIGS: 3,
    ApiKey.ALTER_QUORUM: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 2,
    ApiKey.CREATE_PARTITIONS: 2,
    ApiKey.ELECT_LEADERS: 3,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 3,
    ApiKey.UPDATE_FEATURES: 1,
}
"""Number of items in the full request of an API that have their own error code in the response."""


def error_fields(response: Any) -> list[tuple[str, Any]]:
    """Return (field name, value) of every error code and message in a response and its nested structures."""
    found: list[tuple[str, Any]] = []
    for name in response.FIELDS:
        value = getattr(response, name)
        if name in ("error_code", "error_message"):
            found.append((name, value))
        elif isinstance(value, list):
            found += [field for item in value if hasattr(item, "FIELDS") for field in error_fields(item)]
    return found


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT])
@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=str)
def test_error_is_in_every_error_field_of_the_api(key: int, version: int, error: ErrorCode) -> None:
    request = request_of(full_request(key, version), version)
    response: Any = error_response(request, error)
    assert encode_response(request, response)
    fields = error_fields(response)
    codes = [value for name, value in fields if name == "error_code"]
    items = ERRORS_IN_ITEMS.get(ApiKey(key), 0)
    top_level = int(hasattr(response, "error_code"))
    assert len(codes) == items + top_level
    if (key, version) == (ApiKey.ELECT_LEADERS, 0):
        assert response.error_code == 0, "version 0 has no top-level error code"
        codes.remove(0)
    assert set(codes) == {error}
    if key not in WITHOUT_MESSAGE:
        assert all(value for name, value in fields if name == "error_message")


@pytest.mark.parametrize(
    "message",
    [
        lambda count: describe_quorum_request.DescribeQuorumRequest(
            [describe_quorum_request.TopicData("t", [describe_quorum_request.PartitionData(0)] * count)]
        ),
        lambda count: alter_quorum_request.AlterQuorumRequest(
            topics=[alter_quorum_request.TopicData("t", [alter_quorum_request.PartitionData(0)] * count)]
        ),
        lambda count: UpdateFeaturesRequest(0, [FeatureUpdateKey("f", 1)] * count),
    ],
    ids=["DescribeQuorum", "AlterQuorum", "UpdateFeatures"],
)
def test_request_with_too_many_items_gets_one_error(message: Callable[[int], Message]) -> None:
    """50,000 errors for a client without rights took 88 ms in one turn."""
    counts = []
    for count in (90, 50_000):
        response = error_response(request_of(message(count), 0), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        found = [error for error, _ in errors_in(response)]
        assert set(found) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
        counts.append(len(found))
    assert counts[0] >= 90
    assert counts[1] == 1


def test_controller_apis_of_brokers_are_not_forwardable() -> None:
    for_brokers = {
        ApiKey.ALTER_PARTITION,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    }
    assert not for_brokers & ENVELOPE_APIS
    assert for_brokers < APIS_WITH_ERROR_RESPONSE


@pytest.mark.parametrize("error", list(ErrorCode))
def test_every_error_has_a_message(error: ErrorCode) -> None:
    assert error_message(error)
