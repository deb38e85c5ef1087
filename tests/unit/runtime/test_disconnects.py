"""Connections that clients have ended are closed a few per iteration."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.runtime.disconnects import CLOSED_PER_ITERATION, Disconnects


def test_a_few_connections_are_closed_per_iteration() -> None:
    soon: list[Callable[[], None]] = []
    closed: list[int] = []
    disconnects = Disconnects(soon.append)

    def run_iteration() -> None:
        (callback,) = soon
        soon.clear()
        callback()

    for number in range(2 * CLOSED_PER_ITERATION + 1):
        disconnects.close(lambda number=number: closed.append(number))
    assert closed == list(range(CLOSED_PER_ITERATION))
    run_iteration()
    assert closed == list(range(2 * CLOSED_PER_ITERATION))
    run_iteration()
    assert closed == list(range(2 * CLOSED_PER_ITERATION + 1))
    assert soon == []
    assert disconnects.defers(lambda: None) is False


def test_iteration_that_closes_waiting_connections_closes_no_others() -> None:
    soon: list[Callable[[], None]] = []
    disconnects = Disconnects(soon.append)
    for _ in range(2 * CLOSED_PER_ITERATION):
        disconnects.close(lambda: None)
    soon.pop()()
    assert disconnects.defers(lambda: None) is True
