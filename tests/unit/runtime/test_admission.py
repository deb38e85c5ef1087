"""Limits on accepted connections, and one log line for a flood of refusals."""

import logging

import pytest

from quorumd.runtime.admission import REFUSAL_LINE_INTERVAL_S, Admission, NetworkLimits


class Refusals:
    def __init__(self) -> None:
        self.count = 0
        self.now_s = 0.0

    def admission(self, limits: NetworkLimits) -> Admission:
        return Admission(limits, self._refused, lambda: self.now_s)

    def _refused(self) -> None:
        self.count += 1


def test_the_total_is_limited_and_a_released_place_is_free_again() -> None:
    refusals = Refusals()
    admission = refusals.admission(NetworkLimits(max_connections=2))
    assert [admission.admits(host) for host in ("a", "b", "c")] == [True, True, False]
    admission.released("a")
    assert admission.admits("c")
    assert refusals.count == 1


def test_one_host_is_limited_and_others_are_not() -> None:
    refusals = Refusals()
    admission = refusals.admission(NetworkLimits(max_connections_per_host=1))
    assert [admission.admits(host) for host in ("a", "a", "b")] == [True, False, True]
    admission.released("a")
    assert admission.admits("a")
    assert refusals.count == 1


def test_a_flood_of_refusals_is_one_line_with_their_number(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    admission = refusals.admission(NetworkLimits(max_connections_per_host=1))
    admission.admits("192.0.2.1")
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            admission.admits("192.0.2.1")
        refusals.now_s = REFUSAL_LINE_INTERVAL_S
        admission.admits("192.0.2.1")
    assert [record.getMessage() for record in caplog.records] == [
        "refused a connection from 192.0.2.1: max.connections.per.ip=1 is reached (1 refused)",
        "refused a connection from 192.0.2.1: max.connections.per.ip=1 is reached (100 refused)",
    ]
    assert refusals.count == 101
