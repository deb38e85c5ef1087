"""The beginning and the end of a leadership."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quorumd.controller.controller import ControllerSettings
from quorumd.node.controller.leadership import Leadership
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from tests.support.node.parts import GROUP, NodeParts

LEVEL = FeatureLevelRecord("metadata.version", 25)


class LeadershipHarness(NodeParts):
    """A leader whose log has two records. `calls` has the calls to its controller."""

    def __init__(self, high_watermark: int = -1, has_level: bool = True) -> None:
        super().__init__()
        self.calls: list[object] = []
        self.write(ConfigRecord(*GROUP, "a", "1"), LEVEL if has_level else ConfigRecord(*GROUP, "b", "2"))
        self.engine.high_watermark = high_watermark
        controller: Any = SimpleNamespace(
            lead=self.calls.append,
            activate=lambda: self.calls.append("activate"),
            on_leadership_lost=lambda: self.calls.append("lost"),
            controller=SimpleNamespace(settings=ControllerSettings()),
        )
        self.parts = self.quorum()
        self.leadership = Leadership(
            self.parts, self.machine, self.proposals, controller, [LEVEL], iter(range(7, 99)).__next__
        )

    def when_committed(self) -> list[bool]:
        """Read the image; returns the list that gets the outcome."""
        outcomes: list[bool] = []
        self.proposals.on_commit_deferred(outcomes.append)
        return outcomes


@pytest.mark.parametrize(("high_watermark", "waits"), [(-1, True), (1, True), (2, False)])
def test_reads_of_a_new_leader_wait_until_its_log_is_committed(high_watermark: int, waits: bool) -> None:
    harness = LeadershipHarness(high_watermark)
    harness.leadership.changed()
    outcomes = harness.when_committed()
    assert outcomes == ([] if waits else [True])
    harness.proposals.committed(1)
    assert outcomes == ([] if waits else [True])
    harness.proposals.committed(2)
    assert outcomes == [True]


def test_leadership_begins_and_ends_once() -> None:
    harness = LeadershipHarness()
    for _ in range(2):
        harness.leadership.changed()
    assert harness.calls == [7, "activate"]
    assert harness.parts.role.is_image_complete
    outcomes = harness.when_committed()
    harness.engine.is_leader = False
    for _ in range(2):
        harness.leadership.changed()
    assert harness.calls == [7, "activate", "lost"]
    assert (harness.parts.role.is_image_complete, outcomes) == (False, [False])
    harness.engine.is_leader = True
    harness.leadership.changed()
    assert harness.calls == [7, "activate", "lost", 8, "activate"]


def test_bootstrap_records_are_proposed_once_after_the_first_commit() -> None:
    harness = LeadershipHarness(has_level=False)
    harness.leadership.changed()
    assert harness.proposals.pending_records == 0
    harness.engine.high_watermark = 2
    harness.leadership.committed()
    proposed = harness.proposals.pending_records
    assert proposed > 0
    harness.leadership.committed()
    assert harness.proposals.pending_records == proposed
