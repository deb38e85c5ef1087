"""The steps of a graceful shutdown and their time limits."""

from __future__ import annotations

from functools import cached_property
from types import SimpleNamespace
from typing import Any

import pytest

from quorumd.errors import DiskFull, ExitCode, FlushFailed
from quorumd.node.graceful_shutdown import DRAIN_TIMEOUT_MS, HANDOVER_TIMEOUT_MS, POLL_MS, GracefulShutdown
from quorumd.raft.events import ShutdownRequested
from tests.support.node.parts import NodeParts


class ShutdownHarness(NodeParts):
    """A leader with proposals, whose parts wait for nothing else. `saved` has the saved high watermarks."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = SimpleNamespace(step=self.events.append, is_flushing=False, is_saving=False)
        self.pending = SimpleNamespace(is_empty=False)
        self.engine.is_leader = True
        self.saved: list[int] = []
        self.failure: Exception | None = None

    def save_blocking(self, high_watermark: int) -> None:
        self.saved.append(high_watermark)
        if self.failure is not None:
            raise self.failure

    @cached_property
    def shutdown(self) -> GracefulShutdown:
        parts: Any = (self.runner, self.pending, self)
        return GracefulShutdown(self.time.clock, self.quorum(), *parts, self.lifecycle, None)


@pytest.fixture
def harness() -> ShutdownHarness:
    harness = ShutdownHarness()
    harness.shutdown.begin()
    return harness


def test_leader_hands_over_once_its_proposals_are_finished(harness: ShutdownHarness) -> None:
    harness.time.pass_ms(3 * POLL_MS)
    assert harness.events == []
    harness.pending.is_empty = True
    harness.time.pass_ms(POLL_MS)
    assert harness.events == [ShutdownRequested()]


def test_proposals_have_a_time_limit(harness: ShutdownHarness) -> None:
    harness.time.pass_ms(DRAIN_TIMEOUT_MS - 1)
    assert harness.events == []
    harness.time.pass_ms(1)
    assert harness.events == [ShutdownRequested()]


def test_follower_waits_for_no_proposals() -> None:
    harness = ShutdownHarness()
    harness.engine.is_leader = False
    harness.shutdown.begin()
    assert harness.events == [ShutdownRequested()]


def test_node_stops_once_the_leadership_is_handed_over(harness: ShutdownHarness) -> None:
    harness.pending.is_empty = True
    harness.time.pass_ms(10 * POLL_MS)
    assert harness.exits == []
    harness.engine.handover_complete = True
    harness.time.pass_ms(POLL_MS)
    assert harness.exits == [(ExitCode.DONE, "")]


def test_handover_has_a_time_limit_that_includes_the_proposals(harness: ShutdownHarness) -> None:
    harness.time.pass_ms(HANDOVER_TIMEOUT_MS - 1)
    assert harness.exits == []
    harness.time.pass_ms(1)
    assert harness.exits == [(ExitCode.DONE, "")]


@pytest.mark.parametrize("work", ["is_flushing", "is_saving"])
def test_log_is_closed_after_the_disk_is_idle_however_late(harness: ShutdownHarness, work: str) -> None:
    harness.engine.handover_complete = True
    setattr(harness.runner, work, True)
    harness.time.pass_ms(2 * HANDOVER_TIMEOUT_MS)
    assert (harness.saved, harness.exits) == ([], [])
    setattr(harness.runner, work, False)
    harness.time.pass_ms(POLL_MS)
    assert harness.exits == [(ExitCode.DONE, "")]


@pytest.mark.parametrize("pass_ms", [0, DRAIN_TIMEOUT_MS + POLL_MS], ids=["proposals", "handover"])
def test_node_that_fails_meanwhile_does_nothing_more(harness: ShutdownHarness, pass_ms: float) -> None:
    harness.time.pass_ms(pass_ms)
    events = list(harness.events)
    harness.lifecycle.fail("two leaders")
    harness.time.pass_ms(2 * HANDOVER_TIMEOUT_MS)
    assert (harness.events, harness.saved) == (events, [])
    assert harness.exits == [(ExitCode.INVARIANT_VIOLATED, "two leaders")]


@pytest.mark.parametrize(
    ("failure", "exit_code"),
    [(DiskFull("no room"), ExitCode.DONE), (FlushFailed("fsync"), ExitCode.FLUSH_FAILED)],
)
def test_high_watermark_that_cannot_be_saved(
    harness: ShutdownHarness, failure: Exception, exit_code: ExitCode
) -> None:
    harness.engine.handover_complete = True
    harness.failure = failure
    harness.time.pass_ms(DRAIN_TIMEOUT_MS + POLL_MS)
    assert [code for code, _ in harness.exits] == [exit_code]


@pytest.mark.parametrize(("high_watermark", "saved"), [(0, 0), (7, 2)])
def test_saved_high_watermark_is_within_the_log(
    harness: ShutdownHarness, high_watermark: int, saved: int
) -> None:
    harness.append(("a", "1"), ("b", "2"))
    harness.engine.high_watermark = high_watermark
    harness.engine.handover_complete = True
    harness.time.pass_ms(DRAIN_TIMEOUT_MS + POLL_MS)
    assert harness.saved == [saved]
