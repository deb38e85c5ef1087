"""Log lines about voters and followers."""

from __future__ import annotations

import logging
from functools import cached_property
from math import inf
from typing import cast

import pytest

from quorumd.ids import KafkaUuid, ReplicaKey
from quorumd.node.health.quorum_monitor import (
    CHECK_INTERVAL_MS,
    QuorumMonitor,
)
from quorumd.node.peers.client import PeerClient
from quorumd.node.peers.connections import PeerConnections
from quorumd.node.peers.discovery import Discovery
from quorumd.raft.description import QuorumDescription, ReplicaDescription
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet
from tests.support.node.parts import OWN, NodeParts
from tests.support.node.recording_connections import RecordingConnections
from tests.support.node.scripted_discovery import ScriptedDiscovery
from tests.support.node.scripted_engine import ScriptedEngine
from tests.support.text import shows

LOG_END = 10


def key(node_id: int) -> ReplicaKey:
    return OWN if node_id == OWN.id else ReplicaKey(node_id, KafkaUuid(bytes(15) + bytes([node_id])))


def assignment(*keys: ReplicaKey) -> VoterAssignment:
    return VoterAssignment(VoterSet(tuple(Voter(each, ()) for each in keys)))


class WatchedEngine(ScriptedEngine):
    """Leads epoch 5. `ages`: milliseconds since the last fetch of each follower; `records`: the voter records."""

    def __init__(self) -> None:
        super().__init__(
            epoch=5,
            high_watermark=LOG_END,
            leader_high_watermark=LOG_END,
            voters=assignment(key(1), key(2)),
        )
        self.ages = {2: 0.0, 3: 0.0}
        self.records = [(3, self.voters)]

    def describe(self, now: float) -> QuorumDescription:
        del now
        others = tuple(ReplicaDescription(key(n), 7, age, 0.0) for n, age in self.ages.items())
        own = ReplicaDescription(key(1), LOG_END, 0.0, 0.0)
        return QuorumDescription(1, 5, LOG_END, (own, *others), ())

    def voters_before(self, offset: int) -> VoterAssignment:
        return self._below(offset)[1]

    def voters_offset_before(self, offset: int) -> int:
        return self._below(offset)[0]

    def _below(self, offset: int) -> tuple[int, VoterAssignment]:
        return [record for record in self.records if record[0] < offset][-1]


class MonitorHarness(NodeParts):
    """Node 1, leader of epoch 5 or follower, and its log lines."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        super().__init__()
        caplog.set_level(logging.INFO)
        self.caplog = caplog
        self.append(*((f"key {number}", "value") for number in range(LOG_END)))
        self.lead()
        quorum = self.quorum()
        peers = PeerClient(
            self.basics,
            quorum,
            cast(PeerConnections, RecordingConnections()),
            cast(Discovery, ScriptedDiscovery()),
            on_voter_records=lambda records: None,
            own_endpoints=(),
        )
        self.monitor = QuorumMonitor(
            self.basics,
            quorum,
            self.founding(),
            self.machine,
            peers,
            self.lifecycle,
            broker_state=lambda: None,
        )
        self.monitor.leadership_changed()
        self.monitor.start()
        self.lines()

    @cached_property
    def engine(self) -> WatchedEngine:
        return WatchedEngine()

    def lines(self) -> list[tuple[str, str]]:
        """Lines logged since the last call."""
        found = [(record.levelname, record.getMessage()) for record in self.caplog.records]
        self.caplog.clear()
        return found

    def commit_voters(self, offset: int, *keys: ReplicaKey) -> None:
        self.engine.records.append((offset, assignment(*keys)))
        self.engine.voters = self.engine.records[-1][1]
        self.monitor.committed()
        assert self.lines() == [], "not committed yet"
        self.engine.high_watermark = offset + 1
        self.monitor.committed()


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> MonitorHarness:
    return MonitorHarness(caplog)


def test_voter_changes_are_logged_once_they_are_committed(watched: MonitorHarness) -> None:
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


def test_lost_and_returned_followers_are_logged_once_each(watched: MonitorHarness) -> None:
    watched.time.pass_ms(5 * CHECK_INTERVAL_MS)
    assert watched.lines() == []
    watched.engine.ages[3] = 2600.0
    watched.time.pass_ms(CHECK_INTERVAL_MS)
    ((level, lost),) = watched.lines()
    assert level == "WARNING"
    assert shows(lost, "follower 3", "2.6 s", "3 records")
    watched.time.pass_ms(3 * CHECK_INTERVAL_MS)
    assert watched.lines() == []
    watched.engine.ages[3] = 100.0
    watched.time.pass_ms(CHECK_INTERVAL_MS)
    ((level, returned),) = watched.lines()
    assert level == "INFO"
    assert shows(returned, "follower 3", "again", "6.6 s")


def test_latency_of_an_election_lasts_from_the_first_candidate_to_the_leader(watched: MonitorHarness) -> None:
    def becomes(role: str, epoch: int, leader_id: int) -> None:
        watched.engine.is_leader = role == "leader"
        watched.engine.role_name, watched.engine.epoch, watched.engine.leader_id = role, epoch, leader_id
        watched.monitor.leadership_changed()

    watched.time.pass_ms(1000)
    becomes("prospective", 5, -1)
    watched.time.pass_ms(30)
    becomes("candidate", 6, -1)
    watched.time.pass_ms(12)
    latency = watched.statistics.election_latency_ms
    assert sum(latency.counts) == 0
    becomes("follower", 6, 2)
    becomes("follower", 7, 3)
    assert (sum(latency.counts), latency.total) == (1, 42.0)


def test_new_leader_reports_missing_followers_only_after_a_timeout(watched: MonitorHarness) -> None:
    watched.engine.ages[3] = inf
    watched.time.pass_ms(2 * CHECK_INTERVAL_MS)
    assert watched.lines() == []
    watched.time.pass_ms(CHECK_INTERVAL_MS)
    assert [level for level, _ in watched.lines()] == ["WARNING"]


def test_missing_leader_is_logged(watched: MonitorHarness) -> None:
    watched.engine.role_name, watched.engine.leader_id, watched.engine.is_leader = "prospective", -1, False
    watched.monitor.leadership_changed()
    watched.lines()
    watched.time.pass_ms(20_000.0)
    assert any(shows(text, "no leader", "prospective", "epoch 5") for _, text in watched.lines())


@pytest.mark.parametrize("leader_id", [0, 2])
def test_latency_of_an_election_ends_with_a_leader(watched: MonitorHarness, leader_id: int) -> None:
    watched.engine.role_name, watched.engine.leader_id = "candidate", -1
    watched.monitor.leadership_changed()
    watched.time.pass_ms(100.0)
    watched.engine.role_name, watched.engine.leader_id = "follower", leader_id
    watched.monitor.leadership_changed()
    assert watched.monitor._electing_since is None
    assert watched.monitor._election_latency_ms.total == 100.0
