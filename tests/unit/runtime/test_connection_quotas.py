"""Limits on accepted connections, and one log line for a flood of refusals."""

import logging

import pytest

from quorumd.runtime.connection_quotas import REJECTION_LOG_INTERVAL_S, ConnectionQuotas, NetworkLimits
from tests.support.text import shows


class Refusals:
    def __init__(self) -> None:
        self.count = 0
        self.now_s = 0.0

    def quotas(self, limits: NetworkLimits) -> ConnectionQuotas:
        return ConnectionQuotas(limits, self._refused, lambda: self.now_s)

    def _refused(self) -> None:
        self.count += 1


def test_total_is_limited_and_released_slots_are_reused() -> None:
    refusals = Refusals()
    quotas = refusals.quotas(NetworkLimits(max_connections=2))
    assert [quotas.admit(host) for host in ("a", "b", "c")] == [True, True, False]
    quotas.release("a")
    assert quotas.admit("c")
    assert refusals.count == 1


def test_limit_per_host() -> None:
    refusals = Refusals()
    quotas = refusals.quotas(NetworkLimits(max_connections_per_host=1))
    assert [quotas.admit(host) for host in ("a", "a", "b")] == [True, False, True]
    quotas.release("a")
    assert quotas.admit("a")
    assert refusals.count == 1


def test_limit_per_host_holds_for_nodes_of_the_quorum() -> None:
    quotas = Refusals().quotas(NetworkLimits(max_connections_per_host=1))
    quotas.reserve_for("a")
    assert [quotas.admit("a"), quotas.admit("a")] == [True, False]


def test_many_rejections_are_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    quotas = refusals.quotas(NetworkLimits(max_connections_per_host=1))
    quotas.admit("192.0.2.1")
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            quotas.admit("192.0.2.1")
        refusals.now_s = REJECTION_LOG_INTERVAL_S
        quotas.admit("192.0.2.1")
    first, summary = caplog.messages
    assert shows(first, "192.0.2.1", "max.connections.per.ip=1", "(1 refused)")
    assert shows(summary, "192.0.2.1", "max.connections.per.ip=1", "(100 refused)")
    assert refusals.count == 101
