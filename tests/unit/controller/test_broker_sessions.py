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


def test_new_leader_resets_sessions(sessions: BrokerSessions) -> None:
    assert sessions.is_alive(1, 99.9)
    assert not sessions.is_alive(1, 100.0)
    assert not sessions.is_alive(3, 0.0)


def test_expired_brokers_are_ordered_by_last_contact(sessions: BrokerSessions) -> None:
    sessions.touch(1, 10, 5, 30.0)
    sessions.touch(3, 30, 5, 20.0)
    assert sessions.expired(99.9) == []
    assert sessions.expired(100.0) == [2]
    assert sessions.expired(119.9) == [2]
    assert sessions.expired(200.0) == [2, 3, 1]


def test_new_incarnation_has_no_session_history(sessions: BrokerSessions) -> None:
    first = sessions.touch(1, 10, 500, 10.0)
    first.controlled_shutdown_offset = 400
    assert sessions.touch(1, 10, 300, 20.0) is first
    assert (first.metadata_offset, first.contact_ms) == (500, 20.0)
    second = sessions.touch(1, 11, 7, 30.0)
    assert (second.metadata_offset, second.controlled_shutdown_offset) == (7, -1)


def test_next_leader_keeps_no_earlier_sessions(sessions: BrokerSessions) -> None:
    sessions.touch(3, 30, 5, 20.0)
    sessions.begin([broker(2, 20)], 1000.0)
    assert sessions.get(1) is sessions.get(3) is None
    assert sessions.is_alive(2, 1099.0)


def test_paused_leader_extends_all_sessions(sessions: BrokerSessions) -> None:
    sessions.extend_all(5000.0)
    assert sessions.is_alive(1, 5099.0)
    assert not sessions.is_alive(1, 5100.0)


def test_sessions_with_unchecked_elections_are_listed(sessions: BrokerSessions) -> None:
    assert sorted(broker_id for broker_id, _ in sessions.with_unchecked_elections()) == [1, 2]
    for broker_id, session in sessions.with_unchecked_elections():
        session.elections_checked = broker_id == 1
    assert [broker_id for broker_id, _ in sessions.with_unchecked_elections()] == [2]
