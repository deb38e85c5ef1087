"""The time limits of a controlled shutdown."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import pytest

from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.ids import NO_NODE
from quorumd.node.broker.controlled_shutdown import (
    LEADERLESS_SHUTDOWN_MS,
    POLL_MS,
    SHUTDOWN_TIMEOUT_MS,
    ControlledShutdown,
)
from tests.support.node.parts import NodeParts


class ShutdownHarness(NodeParts):
    """A broker that waits for the controller. `done` counts the calls at the end of its shutdown."""

    def __init__(self) -> None:
        super().__init__()
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        self.on_complete: Callable[[], None] = lambda: None
        self.granted = self.done = 0

    def shut_down(self, on_complete: Callable[[], None]) -> None:
        self.on_complete = on_complete

    def on_shutdown_granted(self) -> None:
        self.granted += 1

    def finish(self) -> None:
        self.done += 1

    @cached_property
    def shutdown(self) -> ControlledShutdown:
        parts: Any = (self, self.time.clock, self.engine, self.lifecycle)
        return ControlledShutdown(*parts)


@pytest.fixture
def harness() -> ShutdownHarness:
    harness = ShutdownHarness()
    harness.time.pass_ms(123.0)
    harness.shutdown.begin(harness.finish)
    return harness


def test_controller_has_half_a_minute(harness: ShutdownHarness) -> None:
    harness.time.pass_ms(SHUTDOWN_TIMEOUT_MS - 1)
    assert harness.granted == 0
    harness.time.pass_ms(1)
    assert harness.granted == 1
    harness.time.pass_ms(SHUTDOWN_TIMEOUT_MS)
    assert harness.granted == 1


def test_wait_without_a_leader_is_short(harness: ShutdownHarness) -> None:
    harness.time.pass_ms(5000.0)
    harness.engine.leader_id = NO_NODE
    harness.time.pass_ms(LEADERLESS_SHUTDOWN_MS - POLL_MS)
    assert harness.granted == 0
    harness.time.pass_ms(POLL_MS)
    assert harness.granted == 1


def test_wait_begins_again_with_a_leader(harness: ShutdownHarness) -> None:
    for leader_id in (NO_NODE, 2, NO_NODE):
        harness.engine.leader_id = leader_id
        harness.time.pass_ms(LEADERLESS_SHUTDOWN_MS - 2 * POLL_MS)
    assert harness.granted == 0


@pytest.mark.parametrize("end", ["granted", "stopped"])
def test_nothing_follows_the_end(harness: ShutdownHarness, end: str) -> None:
    if end == "granted":
        harness.on_complete()
    else:
        harness.lifecycle.stop(0, "")
    harness.time.pass_ms(2 * SHUTDOWN_TIMEOUT_MS)
    assert (harness.granted, harness.done) == (0, int(end == "granted"))


def test_broker_that_closes_its_logs_is_not_hurried(harness: ShutdownHarness) -> None:
    harness.state = BrokerState.SHUTTING_DOWN
    harness.time.pass_ms(2 * SHUTDOWN_TIMEOUT_MS)
    assert harness.granted == 0
