"""Every way in which a handler ends a request within the process has an outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quorumd.node.broker.local_session import LocalSession
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse

REQUEST: Request[Any] = Request(ApiKey.BROKER_HEARTBEAT, 1, 0, None, BrokerHeartbeatRequest(1, 2, 3), b"", 0)


class Outcomes:
    """Records the outcomes."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_response(self, request: Any, response: Any) -> None:
        self.seen.append((request, response))

    def on_refused(self, request: Any, reason: str) -> None:
        self.seen.append((request, "refused"))

    def on_closed(self, reason: str) -> None:
        self.seen.append("closed")


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes()


@pytest.fixture
def session(outcomes: Outcomes) -> LocalSession:
    return LocalSession(1, outcomes)


def test_responses_are_passed_on(session: LocalSession, outcomes: Outcomes) -> None:
    response = BrokerHeartbeatResponse(0, 0)
    session.respond(REQUEST, response)
    session.respond_immediately(REQUEST, response)
    assert outcomes.seen == [(REQUEST, response)] * 2


def test_request_without_a_usable_response_is_refused(session: LocalSession, outcomes: Outcomes) -> None:
    session.respond_nothing(REQUEST)
    session.respond_not_leader(REQUEST, BrokerHeartbeatResponse(0, 0))
    session.respond_encoded(REQUEST, b"")
    assert outcomes.seen == [(REQUEST, "refused")] * 3


def test_close_is_an_outcome(session: LocalSession, outcomes: Outcomes) -> None:
    session.close()
    assert outcomes.seen == ["closed"]


@pytest.mark.parametrize(
    "end",
    [
        lambda session: session.respond(REQUEST, BrokerHeartbeatResponse(0, 0)),
        lambda session: session.respond_nothing(REQUEST),
        lambda session: session.respond_encoded(REQUEST, b""),
        lambda session: session.close(),
    ],
)
def test_block_ends_once_with_the_outcome(session: LocalSession, end: Callable[[LocalSession], None]) -> None:
    """A request that is executed in parts is cancelled when its block ends."""
    unblocked: list[bool] = []
    session.block(REQUEST, lambda: unblocked.append(True))
    assert unblocked == []
    end(session)
    end(session)
    assert unblocked == [True]
