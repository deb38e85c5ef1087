"""A node that does not lead refuses large requests in slices: the errors of 100,000 topics take 0.4 s."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.node.api.controller import ControllerApis
from quorumd.node.api.error_responses import counted_error_responses
from quorumd.node.sessions.error_pieces import ERRORS_AT_ONCE, pieces_of
from quorumd.node.sessions.request_splitting import SPLIT_RULES
from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.node.statistics import NodeStatistics
from quorumd.protocol.apis import APIS, ApiKey, response_class
from quorumd.protocol.codec import decode
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.alter_partition_request import AlterPartitionRequest, PartitionData, TopicData
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.support.node.api_harness import ApiHarness
from tests.support.node.merged import merge
from tests.support.node.recording_session import DecodingSession, RecordingSession, request_of
from tests.support.node.sample_requests import full_request

WITH_LISTS = sorted(key for key, rule in SPLIT_RULES.items() if rule.request_path)
MANY = MAX_PARTITIONS_PER_PART + 1


def error_of(message: Any, version: int) -> Any:
    request = Request(message.API_KEY, version, 1, "client", message, b"", 0)
    return counted_error_responses(NodeStatistics())(request, ErrorCode.NOT_CONTROLLER)


def large_request(key: int, version: int, count: int = MANY) -> Any:
    message, rule = copy(full_request(key, version)), SPLIT_RULES[key]
    for field in (rule.request_path[0], rule.also):
        items = getattr(message, field) if field else ()
        if items:
            repeated = [deepcopy(items[0]) for _ in range(count)]
            for number, each in enumerate(repeated):
                if hasattr(each, "name"):
                    each.name = f"{field}-{number}"
            setattr(message, field, repeated)
    return message


@pytest.mark.parametrize("key", WITH_LISTS, ids=lambda key: ApiKey(key).name)
def test_pieces_have_few_items_and_all_of_them(key: int) -> None:
    version, rule = APIS[key].max_version, SPLIT_RULES[key]
    message = large_request(key, version)
    pieces = list(pieces_of(message, rule) or ())
    fields = [each for each in (rule.request_path[0], rule.also) if each]
    found: dict[str, list[object]] = {field: [] for field in fields}
    for piece in pieces:
        assert sum(len(getattr(piece.message, field) or ()) for field in fields) <= ERRORS_AT_ONCE
        for field in fields:
            found[field] += getattr(piece.message, field) or ()
    if len(rule.request_path) == 1:
        assert found == {field: list(getattr(message, field) or ()) for field in fields}
    errors = [error_of(piece.message, version) for piece in pieces]
    whole = error_of(message, version)
    if getattr(whole, "error_code", 0):
        # The client looks no further.
        assert merge(rule, pieces, errors).error_code == whole.error_code
    else:
        assert merge(rule, pieces, errors) == whole


def test_small_request_is_not_divided() -> None:
    message = CreateTopicsRequest([CreatableTopic(str(number)) for number in range(MAX_PARTITIONS_PER_PART)])
    assert pieces_of(message, SPLIT_RULES[ApiKey.CREATE_TOPICS]) is None


def test_partitions_of_one_topic_are_divided() -> None:
    message = AlterPartitionRequest(topics=[TopicData(partitions=[PartitionData(n) for n in range(MANY)])])
    pieces = pieces_of(message, SPLIT_RULES[ApiKey.ALTER_PARTITION])
    assert pieces is not None
    sizes = [len(topic.partitions) for piece in pieces for topic in piece.message.topics]
    assert max(sizes) <= ERRORS_AT_ONCE
    assert sum(sizes) == MANY


@pytest.mark.parametrize("key", [ApiKey.CREATE_TOPICS, ApiKey.CREATE_ACLS, ApiKey.ALTER_CLIENT_QUOTAS])
def test_follower_refuses_a_large_request_in_slices(key: int) -> None:
    version = APIS[key].max_version
    harness, message, session = ApiHarness(), large_request(key, version, 10 * MANY), DecodingSession()
    harness.lose_leadership()
    session.origin.is_controller_client = True
    ControllerApis(harness.context).handle(session, request_of(message, version))
    slices = 0
    while not session.responses:
        harness.turns.pop(0)()
        slices += 1
    assert slices > 1
    (response,) = session.responses
    if isinstance(response, bytes):
        response = decode(response_class(key), version, response, 5)
    assert response == error_of(message, version)


def test_small_request_is_refused_at_once() -> None:
    harness, session = ApiHarness(), RecordingSession()
    harness.lose_leadership()
    session.origin.is_controller_client = True
    message = CreateTopicsRequest([CreatableTopic("one")])
    ControllerApis(harness.context).handle(session, request_of(message, 7))
    assert session.refusals == 1
