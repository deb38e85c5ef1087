"""Commits, flushes and elections reach the parts of a node."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.node.commit_listeners import CommitListeners
from tests.support.log.small_logs import fill, fresh_disk, open_log
from tests.support.node.api_harness import ApiHarness
from tests.support.node.recording_listener import RecordingListener
from tests.support.node.scripted_engine import ScriptedEngine

SEALED = 11
"""Number of records in the sealed segment of the log."""


class CommitHarness(ApiHarness):
    """The listeners of a node with a sealed segment; `seen` names the parts that were notified, in order."""

    def __init__(self, leader_id: int = 2, *, has_broker: bool = True) -> None:
        self.seen: list[str] = []
        self.disk = fresh_disk(1)
        self.log = open_log(self.disk, "log")
        fill(self.log, SEALED + 1)
        super().__init__(
            engine=ScriptedEngine(leader_id=leader_id),
            state_machine=self.part("machine"),
            proposals=self.part("proposals"),
            discovery=self.part("discovery"),
            monitor=self.part("monitor"),
        )
        self.listeners = CommitListeners(
            self.context,
            self.part("voters"),
            self.part("checkpoint"),
            self.part("leadership"),
            self.part("broker") if has_broker else None,
        )

    def part(self, name: str) -> Any:
        return RecordingListener(name, self.seen)


def announced_to(leader_id: int) -> list[str]:
    harness = CommitHarness(leader_id, has_broker=False)
    harness.listeners.leadership_changed()
    return [line for line in harness.seen if line.startswith("discovery")]


@pytest.mark.parametrize("leader_id", [0, 2])
def test_node_announces_its_address_to_a_new_leader(leader_id: int) -> None:
    assert announced_to(leader_id) == [f"discovery {leader_id}"]


def test_node_announces_its_address_to_none_during_an_election() -> None:
    assert announced_to(-1) == []


def test_change_of_leadership_reaches_every_part() -> None:
    harness = CommitHarness()
    harness.listeners.leadership_changed()
    assert harness.seen == ["leadership", "discovery 2", "monitor", "broker"]


def test_flush_reaches_proposals_and_the_checkpoint() -> None:
    harness = CommitHarness()
    harness.listeners.on_flush_completed()
    assert harness.seen == ["proposals", f"checkpoint {SEALED}"]


def test_commit_reaches_every_part() -> None:
    harness = CommitHarness()
    harness.listeners.committed(9)
    assert harness.seen == [
        "monitor",
        "machine 9",
        "proposals 9",
        "voters 9",
        f"checkpoint {SEALED}",
        "leadership",
        "broker 9",
    ]
