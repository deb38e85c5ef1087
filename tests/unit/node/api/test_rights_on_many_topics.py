"""Metadata of many topics for clients that may not describe them: their rights are checked in slices."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.node.api.cluster import ClusterApis
from quorumd.node.api.forwarding import decode_response
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.security.acls import Operation, ResourceType
from quorumd.security.authorizer import Authorizer, AuthorizerSettings
from tests.support.call_counter import CallCounter
from tests.support.node.recording_session import request_of
from tests.support.node.topic_api_harness import TopicApiHarness
from tests.support.security.index import index_of
from tests.support.security.rights import allow, authorizer_of

TOPIC = ResourceType.TOPIC
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Requests:
    """Requests for the metadata of `count` topics to a node that has them. Turns are counted."""

    def __init__(self, authorizer: Authorizer, count: int) -> None:
        self.calls = CallCounter()
        self.names = [f"{number:05}" for number in range(count)]
        self._harness = harness = TopicApiHarness(authorizer)
        for name in self.names:
            harness.add(name, 1)
        self.session = harness.session
        self.commits = harness.commits
        routes = harness.context.gates.authorization.guard(ClusterApis(harness.context).routes())
        (self._route,) = (route for route in routes if route.api_key == ApiKey.METADATA)

    def begin(self, is_named: bool, version: int = 12) -> Request:
        topics = [MetadataRequestTopic(name=name) for name in self.names] if is_named else None
        request = request_of(MetadataRequest(topics, False), version)
        with self.calls.counted():
            self._route.handler(self.session, request)
        return request

    def finish(self) -> None:
        harness = self._harness
        while harness.turns or harness.commits.waiting:
            outcomes, harness.commits.waiting[:] = list(harness.commits.waiting), []
            turns, harness.turns[:] = list(harness.turns), []
            for turn in (*(partial(outcome, True) for outcome in outcomes), *turns):
                with self.calls.counted():
                    turn()

    def call(self, is_named: bool, version: int = 12) -> Any:
        request = self.begin(is_named, version)
        self.finish()
        response = self.session.responses.pop()
        return decode_response(request, response) if isinstance(response, bytes) else response


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "all"])
def test_turns_are_bounded(is_named: bool) -> None:
    longest = []
    for count in (1000, 4000):
        requests = Requests(authorizer_of(), count)
        assert len(requests.call(is_named).topics) == (count if is_named else 0)
        assert requests.session.held, "later requests wait"
        longest.append(requests.calls.longest)
    assert longest[1] <= 1.2 * longest[0]


@pytest.mark.parametrize("version", [1, 12])
@pytest.mark.parametrize("count", [3, 300])
def test_named_topics_are_described_or_refused(version: int, count: int) -> None:
    requests = Requests(authorizer_of([allow(Operation.DESCRIBE, TOPIC, "00001")]), count)
    topics = requests.call(True, version).topics
    assert {topic.name: topic.error_code for topic in topics} == {
        name: 0 if name == "00001" else DENIED for name in requests.names
    }
    assert [topic.name for topic in topics if topic.partitions] == ["00001"]


def test_connection_that_is_closed_ends_the_check() -> None:
    authorizer = authorizer_of()
    requests = Requests(authorizer, 1000)
    requests.begin(True)
    (on_unblocked,) = requests.session.on_unblocked
    on_unblocked()
    requests.finish()
    assert authorizer.counters.denied_total < 1000
    assert not requests.session.responses


def test_client_gets_an_error_if_the_acls_are_not_loaded() -> None:
    authorizer = Authorizer(AuthorizerSettings(), lambda: index_of([]), lambda: False, lambda: 0.0)
    response = Requests(authorizer, 1).call(True, 13)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
