"""Committed records have to be applied soon."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.inspection.apply_probe import MAX_GAP_MS, RECORD_COSTS, WITHIN_MS, ApplyProbe

EVERY_MS = 20.0


class ProbedNode:
    """A node that knows that 10 records are committed, and has applied 4 of them."""

    def __init__(self, record_ms: float = 0.0) -> None:
        options = SimpleNamespace(record_ms=record_ms, slowness=2.0)
        self.cluster: Any = SimpleNamespace(heap=SimpleNamespace(now_ms=0.0), options=options)
        self.state_machine = SimpleNamespace(applied_offset=4)
        self.engine = SimpleNamespace(high_watermark=10)
        self.machine: Any = SimpleNamespace(
            node_id=1,
            incarnation=1,
            starting=False,
            exiting=False,
            process=SimpleNamespace(callback_ms=0.0),
            node=SimpleNamespace(state_machine=self.state_machine, engine=self.engine),
        )
        self.probe = ApplyProbe(self.cluster)

    def run(self, duration_ms: float, every_ms: float = EVERY_MS) -> None:
        """Let the node handle events for a while."""
        for _ in range(int(duration_ms / every_ms)):
            self.probe.look(self.machine)
            self.cluster.heap.now_ms += every_ms


def test_backlog_that_stays_is_a_violation() -> None:
    node = ProbedNode()
    node.run(WITHIN_MS)
    with pytest.raises(InvariantViolation, match="below 4"):
        node.run(WITHIN_MS)


def test_expensive_records_may_take_longer() -> None:
    node = ProbedNode(record_ms=10.0)
    node.run(WITHIN_MS + RECORD_COSTS * 10 * 10.0 * 2.0)
    with pytest.raises(InvariantViolation):
        node.run(WITHIN_MS)


def test_backlog_may_be_followed_by_another() -> None:
    node = ProbedNode()
    for offset in range(10, 100, 10):
        node.run(WITHIN_MS)
        node.state_machine.applied_offset, node.engine.high_watermark = offset, offset + 10
    node.state_machine.applied_offset = node.engine.high_watermark
    node.run(10 * WITHIN_MS)


def test_time_without_events_and_slow_processes_do_not_count() -> None:
    node = ProbedNode()
    node.run(5 * WITHIN_MS, every_ms=WITHIN_MS)
    assert 5 * MAX_GAP_MS < WITHIN_MS
    node.machine.process.callback_ms = 1.0
    node.run(5 * WITHIN_MS)


def test_restarted_node_has_its_own_time() -> None:
    node = ProbedNode()
    for incarnation in range(5):
        node.machine.incarnation = incarnation
        node.run(0.9 * WITHIN_MS)
