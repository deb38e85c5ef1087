from __future__ import annotations

import pytest

from quorumd.controller.broker import Broker
from quorumd.controller.broker_sessions import BrokerSessions
from quorumd.ids import ZERO_UUID

TIMEOUT_MS = 100.0


def broker(broker_id: int, epoch: int) -> Broker:
    return Broker(broker_id, epoch, ZERO_UUID, (), (), None, False, False, ())


@pytest.fixture
def sessions() -> BrokerSessions:
    sessions = BrokerSessions(TIMEOUT_MS)
    sessions.begin([broker(1, 10), broker(2, 20)], 0.0)
    return sessions


def test_a_new_leader_gives_everybody_a_whole_session(sessions: BrokerSessions) -> None:
    assert sessions.is_alive(1, 99.9)
    assert not sessions.is_alive(1, 100.0)
    assert not sessions.is_alive(3, 0.0)


def test_the_one_that_is_silent_for_longest_comes_first(sessions: BrokerSessions) -> None:
    sessions.heard(1, 10, 5, 30.0)
    sessions.heard(3, 30, 5, 20.0)
    assert sessions.expired(99.9) == []
    assert sessions.expired(119.9) == [2]
    assert sessions.expired(200.0) == [2, 3, 1]


def test_of_a_new_start_nothing_is_known(sessions: BrokerSessions) -> None:
    first = sessions.heard(1, 10, 500, 10.0)
    first.drained_at = 400
    assert sessions.heard(1, 10, 300, 20.0) is first
    assert (first.metadata_offset, first.contact_ms) == (500, 20.0)
    second = sessions.heard(1, 11, 7, 30.0)
    assert (second.metadata_offset, second.drained_at) == (7, -1)


def test_who_leads_next_knows_nothing_of_before(sessions: BrokerSessions) -> None:
    sessions.heard(3, 30, 5, 20.0)
    sessions.begin([broker(2, 20)], 1000.0)
    assert sessions.get(1) is sessions.get(3) is None
    assert sessions.is_alive(2, 1099.0)


def test_a_leader_that_stood_still_heard_nobody(sessions: BrokerSessions) -> None:
    sessions.stood_still(5000.0)
    assert sessions.is_alive(1, 5099.0)
    assert not sessions.is_alive(1, 5100.0)
