"""Log lines about refused votes."""

from __future__ import annotations

import logging
from typing import cast

import pytest

from quorumd.log_limit import INTERVAL_MS
from quorumd.node.health.refusal_log import MAX_LOGGED_REFUSALS, RefusalLog
from quorumd.raft.effects import RequestRefused
from quorumd.raft.engine import RaftEngine
from tests.support.node.parts import NodeParts
from tests.support.node.scripted_engine import ScriptedEngine


class RefusalLogHarness(NodeParts):
    """The refusals of a node in epoch 5."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        super().__init__()
        self.caplog = caplog
        self.engine = ScriptedEngine(epoch=5)
        self.refusals = RefusalLog(self.time.clock, cast(RaftEngine, self.engine))

    def lines(self) -> list[tuple[str, str]]:
        """Lines logged since the last call."""
        found = [(record.levelname, record.getMessage()) for record in self.caplog.records]
        self.caplog.clear()
        return found


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> RefusalLogHarness:
    return RefusalLogHarness(caplog)


def test_refused_votes_are_logged_with_candidate_and_epochs_at_intervals(logged: RefusalLogHarness) -> None:
    logged.caplog.set_level(logging.DEBUG)
    refused = RequestRefused("vote", 3, "10.0.0.3:9", 4, "its epoch is over")
    for _ in range(3):
        logged.refusals.refused(refused)
    text = "refused the vote of node 3 at 10.0.0.3:9 in epoch 4, own epoch 5: its epoch is over"
    assert logged.lines() == [("WARNING", text), ("DEBUG", text), ("DEBUG", text)]
    logged.caplog.set_level(logging.INFO)
    logged.refusals.refused(RequestRefused("pre-vote", 2, "10.0.0.2:9", 5, "leads this epoch"))
    line = (
        "WARNING",
        "refused the pre-vote of node 2 at 10.0.0.2:9 in epoch 5, own epoch 5: leads this epoch",
    )
    assert logged.lines() == [line]
    logged.time.pass_ms(INTERVAL_MS)
    logged.lines()
    logged.refusals.refused(refused)
    assert len(logged.lines()) == 1


def test_refusals_of_many_ids_are_logged_in_part(logged: RefusalLogHarness) -> None:
    for node_id in range(3 * MAX_LOGGED_REFUSALS):
        logged.refusals.refused(
            RequestRefused("vote", node_id, "10.0.0.9:1", 4, "it is not a recorded voter")
        )
    assert len(logged.lines()) == MAX_LOGGED_REFUSALS
    logged.time.pass_ms(INTERVAL_MS)
    logged.lines()
    logged.refusals.refused(RequestRefused("vote", 1, "10.0.0.9:1", 4, "it is not a recorded voter"))
    assert len(logged.lines()) == 1
