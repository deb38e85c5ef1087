"""Checkers of unregistered brokers and lost log directories report violations."""

from __future__ import annotations

from quorumd.controller.broker import UNASSIGNED
from quorumd.controller.partition import NO_LEADER, Partition
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from quorumd.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from quorumd.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from quorumd.simulator.brokers.checkers.registrations import (
    LeadersHaveTheirDirectories,
    LostDirectoriesAreRecorded,
    OnlyRequestedBrokersAreUnregistered,
)
from tests.support.simulator.broker_views import WHERE, breaks, broker, row, view_with

A, B, OTHER = (KafkaUuid(bytes([number]) * 16) for number in (1, 2, 3))


def test_brokers_are_unregistered_only_on_request() -> None:
    checker, view = OnlyRequestedBrokersAreUnregistered(), view_with(row())
    checker.admin_request_sent(view, UnregisterBrokerRequest(2))
    assert not breaks(checker.unregistered, view, UnregisterBrokerRecord(2, 20))
    assert breaks(checker.unregistered, view, UnregisterBrokerRecord(1, 10))


def test_unregistered_brokers_are_gone() -> None:
    for error in (ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED):
        for is_gone in (False, True):
            checker, view = OnlyRequestedBrokersAreUnregistered(), view_with(row())
            request = UnregisterBrokerRequest(2)
            checker.admin_request_sent(view, request)
            if is_gone:
                del view.image.brokers[2]
            response = UnregisterBrokerResponse(0, int(error))
            assert breaks(checker.admin_request_completed, view, request, response) is not is_gone


def in_directory(directory: KafkaUuid, isr: tuple[int, ...] = (1, 2), leader: int = 1) -> Partition:
    return row(isr, leader, directories=(directory, UNASSIGNED, UNASSIGNED))


def test_leaders_have_their_directories() -> None:
    brokers = (broker(1)._replace(directories=(A, B)), broker(2), broker(3))
    for directory, is_violated in ((A, False), (UNASSIGNED, False), (OTHER, True)):
        view = view_with(in_directory(directory), *brokers)
        assert breaks(LeadersHaveTheirDirectories().batch_committed, view, [WHERE]) is is_violated


def test_replicas_in_a_lost_directory_leave_the_isr() -> None:
    for isr, is_violated in (((1, 2), True), ((2,), False)):
        partition = in_directory(A, isr, 2)
        view = view_with(partition, broker(1)._replace(directories=(A, B)), broker(2), broker(3))
        checker = LeadersHaveTheirDirectories()
        checker.batch_committed(view, [])
        view.image.brokers[1] = broker(1)._replace(directories=(B,))
        assert breaks(checker.batch_committed, view, [WHERE]) is is_violated


def test_without_elr_the_last_member_stays() -> None:
    view = view_with(in_directory(A, (1,), NO_LEADER), broker(1)._replace(directories=(A, B)))
    view.image.features["eligible.leader.replicas.version"] = 0
    checker = LeadersHaveTheirDirectories()
    checker.batch_committed(view, [])
    view.image.brokers[1] = broker(1)._replace(directories=(B,))
    assert not breaks(checker.batch_committed, view, [WHERE])


def test_lost_directories_are_recorded_before_the_response() -> None:
    for known, is_violated in (((A, B), True), ((B,), False), ((A,), False)):
        view = view_with(row(), broker(1)._replace(directories=known), broker(2))
        view.brokers[1].reported_offline = [A]
        look = LostDirectoriesAreRecorded().heartbeat_completed
        assert breaks(look, view, view.brokers[1], BrokerHeartbeatResponse()) is is_violated
