"""Log lines about voters and followers."""

from __future__ import annotations

import logging
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from quorumd.ids import Endpoint, KafkaUuid, ReplicaKey
from quorumd.node.basics import NodeBasics
from quorumd.node.health.quorum_monitor import (
    CHECK_INTERVAL_MS,
    QuorumMonitor,
)
from quorumd.node.settings import NodeSettings
from quorumd.raft.description import QuorumDescription, ReplicaDescription
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet
from tests.support.node.parts import NodeParts
from tests.support.node.virtual_time import VirtualTime
from tests.support.text import shows


def key(node_id: int, disk: int = 1) -> ReplicaKey:
    return ReplicaKey(node_id, KafkaUuid(bytes(14) + bytes([node_id, disk])))


def assignment(*keys: ReplicaKey) -> VoterAssignment:
    return VoterAssignment(VoterSet(tuple(Voter(each, ()) for each in keys)))


class Watched:
    """Node 1, leader of epoch 5 or follower, and its log lines."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self.caplog = caplog
        self.time = VirtualTime()
        self.ages = {2: 0.0, 3: 0.0}
        self.records = [(3, assignment(key(1), key(2)))]
        self.engine = SimpleNamespace(
            is_leader=True,
            role_name="leader",
            epoch=5,
            leader_id=1,
            high_watermark=10,
            leader_high_watermark=10,
            contact_limit_ms=2000,
            is_voter=True,
            contact_ms=lambda now: 0.0,
            describe=self._describe,
            voters_before=lambda offset: self._below(offset)[1],
            voters_offset_before=lambda offset: self._below(offset)[0],
        )
        self.engine.voters = self.records[-1][1]
        endpoint = Endpoint("CONTROLLER", "localhost", 9092)
        idle: Any = SimpleNamespace(
            obstacle=lambda now: None,
            applied_offset=10,
            loading=None,
            is_replaying=False,
            contacts=SimpleNamespace(silent=lambda among, now: ()),
            is_stopping=False,
        )
        self.election_latencies: list[float] = []
        latency = SimpleNamespace(observe=self.election_latencies.append)
        statistics: Any = SimpleNamespace(election_latency_ms=latency)
        self.monitor = QuorumMonitor(
            NodeBasics(NodeSettings(1, "/data", endpoint, endpoint), self.time.clock, statistics),
            NodeParts().quorum(self.engine),
            founding=idle,
            state_machine=idle,
            peers=idle,
            lifecycle=idle,
            broker_state=lambda: None,
        )
        self.monitor.leadership_changed()
        self.monitor.start()
        self.lines()

    def lines(self) -> list[tuple[str, str]]:
        """Lines logged since the last call."""
        found = [(record.levelname, record.getMessage()) for record in self.caplog.records]
        self.caplog.clear()
        return found

    def commit_voters(self, offset: int, *keys: ReplicaKey) -> None:
        self.records.append((offset, assignment(*keys)))
        self.engine.voters = self.records[-1][1]
        self.monitor.committed()
        assert self.lines() == [], "not committed yet"
        self.engine.high_watermark = offset + 1
        self.monitor.committed()

    def _below(self, offset: int) -> tuple[int, VoterAssignment]:
        return [record for record in self.records if record[0] < offset][-1]

    def _describe(self, now: float) -> QuorumDescription:
        others = tuple(ReplicaDescription(key(n), 7, age, 0.0) for n, age in self.ages.items())
        return QuorumDescription(1, 5, 10, (ReplicaDescription(key(1), 10, 0.0, 0.0), *others), ())


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Watched:
    return Watched(caplog)


def test_voter_changes_are_logged_once_they_are_committed(watched: Watched) -> None:
    watched.commit_voters(20, key(1), key(2), key(3))
    watched.monitor.committed()
    added = (
        f"voters are 1, 2, 3: node 3 (directory id {key(3).directory_id}) added by the record at offset 20"
    )
    assert watched.lines() == [("INFO", added)]
    watched.commit_voters(30, key(1), key(3))
    removed = (
        f"voters are 1, 3: node 2 (directory id {key(2).directory_id}) removed by the record at offset 30"
    )
    assert watched.lines() == [("INFO", removed)]


def test_lost_and_returned_followers_are_logged_once_each(watched: Watched) -> None:
    watched.time.pass_ms(5 * CHECK_INTERVAL_MS)
    assert watched.lines() == []
    watched.ages[3] = 2600.0
    watched.time.pass_ms(CHECK_INTERVAL_MS)
    ((level, lost),) = watched.lines()
    assert level == "WARNING"
    assert shows(lost, "follower 3", "2.6 s", "3 records")
    watched.time.pass_ms(3 * CHECK_INTERVAL_MS)
    assert watched.lines() == []
    watched.ages[3] = 100.0
    watched.time.pass_ms(CHECK_INTERVAL_MS)
    ((level, returned),) = watched.lines()
    assert level == "INFO"
    assert shows(returned, "follower 3", "again", "6.6 s")


def test_latency_of_an_election_lasts_from_the_first_candidate_to_the_leader(watched: Watched) -> None:
    def becomes(role: str, epoch: int, leader_id: int) -> None:
        watched.engine.is_leader = role == "leader"
        watched.engine.role_name, watched.engine.epoch, watched.engine.leader_id = role, epoch, leader_id
        watched.monitor.leadership_changed()

    watched.time.pass_ms(1000)
    becomes("prospective", 5, -1)
    watched.time.pass_ms(30)
    becomes("candidate", 6, -1)
    watched.time.pass_ms(12)
    assert watched.election_latencies == []
    becomes("follower", 6, 2)
    becomes("follower", 7, 3)
    assert watched.election_latencies == [42.0]


def test_new_leader_reports_missing_followers_only_after_a_timeout(watched: Watched) -> None:
    watched.ages[3] = inf
    watched.time.pass_ms(2 * CHECK_INTERVAL_MS)
    assert watched.lines() == []
    watched.time.pass_ms(CHECK_INTERVAL_MS)
    assert [level for level, _ in watched.lines()] == ["WARNING"]
