"""Requests to the leader, one at a time: exactly one callback each, and a deadline."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.node.peers.connection import Failure
from quorumd.node.peers.leader_request import LeaderRequest
from quorumd.protocol.apis import ApiKey
from tests.support.node.parts import NodeParts

TIMEOUT_MS = 500.0


class LeaderRequestHarness(NodeParts):
    """A request, and what its callbacks were called with."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[Any] = []
        self.request = LeaderRequest(self.time.clock, self.call_leader, TIMEOUT_MS)

    def send(self) -> bool:
        return self.request.send(
            ApiKey.METADATA, lambda version: version, self.outcomes.append, self.outcomes.append
        )


@pytest.fixture
def harness() -> LeaderRequestHarness:
    return LeaderRequestHarness()


def test_request_is_pending_until_its_response(harness: LeaderRequestHarness) -> None:
    now_ms = harness.time.clock.now_ms()
    assert harness.send()
    assert harness.request.is_pending
    (call,) = harness.leader_calls
    assert (call.api_key, call.deadline_ms) == (ApiKey.METADATA, now_ms + TIMEOUT_MS)
    call.on_response("response")
    assert harness.outcomes == ["response"]
    assert not harness.request.is_pending


def test_failure_ends_the_request(harness: LeaderRequestHarness) -> None:
    harness.send()
    failure = Failure("no response in time")
    harness.leader_calls[0].on_failure(failure)
    assert harness.outcomes == [failure]
    assert not harness.request.is_pending


def test_nothing_is_pending_without_a_leader(harness: LeaderRequestHarness) -> None:
    harness.has_leader = False
    assert not harness.send()
    assert not harness.request.is_pending
    assert harness.outcomes == []
