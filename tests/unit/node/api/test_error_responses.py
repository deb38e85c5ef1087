from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.node.api.error_responses import FORWARDABLE, SUPPORTED, error_response, message_of
from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.connection import encode_response
from tests.support.node.recording_session import request_of
from tests.support.node.sample_requests import full_request

VERSIONS = [
    (key, version)
    for key in sorted(SUPPORTED)
    for version in range(APIS[key].min_version, APIS[key].max_version + 1)
]


WITHOUT_TEXT = frozenset(
    {
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ALTER_PARTITION,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    }
)
"""APIs that have no place for words."""
ERRORS_IN_ITEMS = {
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
"""How many items the full request of an API names, each of which has an error of its own in the answer."""


def places(answer: Any) -> list[tuple[str, Any]]:
    """Every error code and message in an answer and all that it holds, with the name of its field."""
    found: list[tuple[str, Any]] = []
    for name in answer.__slots__:
        value = getattr(answer, name)
        if name in ("error_code", "error_message"):
            found.append((name, value))
        elif isinstance(value, list):
            found += [place for item in value if hasattr(item, "__slots__") for place in places(item)]
    return found


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT])
@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=str)
def test_the_error_stands_where_clients_of_that_api_look(key: int, version: int, error: ErrorCode) -> None:
    request = request_of(full_request(key, version), version)
    answer: Any = error_response(request, error)
    assert encode_response(request, answer)
    told = places(answer)
    codes = [value for name, value in told if name == "error_code"]
    items = ERRORS_IN_ITEMS.get(ApiKey(key), 0)
    at_the_top = int(hasattr(answer, "error_code"))
    assert len(codes) == items + at_the_top
    if (key, version) == (ApiKey.ELECT_LEADERS, 0):
        assert answer.error_code == 0, "version 0 has no such field"
        codes.remove(0)
    assert set(codes) == {error}
    if key not in WITHOUT_TEXT:
        assert all(value for name, value in told if name == "error_message")


def test_what_brokers_ask_of_the_controller_is_not_forwarded() -> None:
    for_brokers = {
        ApiKey.ALTER_PARTITION,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    }
    assert not for_brokers & FORWARDABLE
    assert for_brokers < SUPPORTED


@pytest.mark.parametrize("error", list(ErrorCode))
def test_every_error_has_words(error: ErrorCode) -> None:
    assert message_of(error)
