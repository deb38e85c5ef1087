from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.node.error_answers import MAY_BE_FORWARDED, error_answer, text_of
from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.connection import encode_answer
from tests.support.full_requests import full_request
from tests.support.recording_session import request_of

VERSIONS = [
    (key, version)
    for key in sorted(MAY_BE_FORWARDED)
    for version in range(APIS[key].min_version, APIS[key].max_version + 1)
]


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT])
@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=str)
def test_the_error_stands_where_clients_of_that_api_look(key: int, version: int, error: ErrorCode) -> None:
    request = request_of(full_request(key, version), version)
    answer: Any = error_answer(request, error)
    assert encode_answer(request, answer)
    if key == ApiKey.DESCRIBE_QUORUM:
        assert answer.error_code == error
        assert answer.topics[0].partitions[0].error_code == error
        return
    if key == ApiKey.ALTER_QUORUM:
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, bool(partition.error_message)) == (error, True)
        return
    if key in (ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER):
        assert (answer.error_code, bool(answer.error_message)) == (error, True)
        return
    message: Any = request.message
    results = answer.results if key == ApiKey.DESCRIBE_CONFIGS else answer.responses
    asked = [(r.resource_type, r.resource_name) for r in message.resources]
    assert [(r.resource_type, r.resource_name) for r in results] == asked
    assert {r.error_code for r in results} == {error}
    assert all(r.error_message for r in results)


@pytest.mark.parametrize("error", list(ErrorCode))
def test_every_error_has_words(error: ErrorCode) -> None:
    assert text_of(error)
