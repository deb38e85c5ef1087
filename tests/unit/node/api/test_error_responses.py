from __future__ import annotations

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
