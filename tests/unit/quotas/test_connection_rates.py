"""The rate of new connections of a node and of its listeners (KIP-612)."""

from __future__ import annotations

import pytest

from quorumd.quotas.connection_rates import ConnectionRateLimits, ConnectionRates

BURST = 10
"""Connections that a rate of one per second allows at once: it is measured over ten windows and the present one."""


def waits(rates: ConnectionRates, *listeners: str) -> list[int]:
    return [rates.connected(listener, 1000.0) for listener in listeners]


def test_listeners_wait_beyond_the_rate_of_the_node() -> None:
    rates = ConnectionRates(ConnectionRateLimits(1))
    assert waits(rates, *"ab" * (BURST // 2)) == [0] * BURST
    assert waits(rates, "a", "b") == [1000, 2000]
    assert rates.connected("a", 1000.0 + 11_000) == 0


def test_listeners_of_nodes_do_not_wait_for_others() -> None:
    rates = ConnectionRates(ConnectionRateLimits(1, protected=frozenset({"CONTROLLER"})))
    waits(rates, *["PLAINTEXT"] * BURST)
    assert waits(rates, "CONTROLLER", "PLAINTEXT") == [0, 2000]


@pytest.mark.parametrize("protected", [frozenset(), frozenset({"a"})])
def test_listener_waits_beyond_its_own_rate(protected: frozenset[str]) -> None:
    rates = ConnectionRates(ConnectionRateLimits(listeners={"a": 1}, protected=protected))
    assert waits(rates, *["a"] * (BURST + 1)) == [0] * BURST + [1000]
    assert waits(rates, *["b"] * (2 * BURST)) == [0] * (2 * BURST)
