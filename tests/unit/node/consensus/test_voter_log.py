"""The cluster id follows the voter records in the log."""

from __future__ import annotations

from typing import cast

from quorumd.ids import OffsetAndEpoch
from quorumd.node.consensus.voter_log import VoterLog
from quorumd.node.peers.discovery import Discovery
from quorumd.node.wire.voter_records import VoterRecord
from quorumd.raft.effects import ControlBatch
from tests.support.node.parts import NodeParts
from tests.support.node.scripted_discovery import ScriptedDiscovery
from tests.support.node.scripted_engine import ScriptedEngine, voters_of
from tests.support.text import shows

VOTERS = voters_of(1)


class VoterLogHarness(NodeParts):
    """A voter log of a node without a cluster id."""

    def __init__(self) -> None:
        super().__init__(cluster_id=None)
        self.engine = ScriptedEngine(high_watermark=-1, voters=VOTERS)
        self.discovery = ScriptedDiscovery()
        self.loaded: list[OffsetAndEpoch] = []
        self.adopted: list[str] = []
        self.voter_log = VoterLog(
            self.time.clock,
            self.quorum(),
            cast(Discovery, self.discovery),
            self.lifecycle,
            load=self.loaded.append,
            on_adopted=self.adopted.append,
        )

    def commit(self, high_watermark: int) -> None:
        self.engine.high_watermark = high_watermark
        self.voter_log.committed(high_watermark)


def test_first_committed_record_gives_the_cluster_its_id() -> None:
    harness = VoterLogHarness()
    harness.voter_log.fetched([VoterRecord(3, VOTERS, "first")])
    assert harness.identity.cluster_id is None
    harness.commit(4)
    harness.voter_log.fetched([VoterRecord(5, VOTERS, "first")])
    harness.commit(6)
    assert (harness.identity.cluster_id, harness.adopted, harness.exits) == ("first", ["first"], [])


def test_committed_record_of_another_cluster_stops_the_node() -> None:
    harness = VoterLogHarness()
    harness.voter_log.fetched([VoterRecord(3, VOTERS, "first"), VoterRecord(5, VOTERS, "second")])
    harness.commit(6)
    ((_, reason),) = harness.exits
    assert shows(reason, "cluster second", "cluster first")


def test_truncated_records_do_not_count() -> None:
    harness = VoterLogHarness()
    harness.voter_log.fetched([VoterRecord(3, VOTERS, "first")])
    harness.voter_log.truncated(3)
    harness.voter_log.fetched([VoterRecord(3, VOTERS, "second")])
    harness.commit(9)
    assert (harness.identity.cluster_id, harness.exits) == ("second", [])


def test_records_of_a_log_that_a_snapshot_replaced_do_not_count() -> None:
    harness = VoterLogHarness()
    harness.voter_log.fetched([VoterRecord(3, VOTERS, "first")])
    harness.voter_log.restarted(OffsetAndEpoch(100, 2), VoterRecord(50, VOTERS, "second"))
    harness.commit(101)
    assert (harness.identity.cluster_id, harness.exits) == ("second", [])


def test_addresses_of_truncated_records_are_forgotten() -> None:
    harness = VoterLogHarness()
    harness.voter_log.truncated(3)
    harness.voter_log.restarted(OffsetAndEpoch(100, 2), None)
    assert harness.discovery.truncations == [3, 0]


def test_voters_of_the_leaders_own_record_are_learned_after_the_step() -> None:
    harness = VoterLogHarness()
    harness.voter_log.encode_control(ControlBatch((VOTERS,)), 3, 1)
    assert harness.discovery.learned_voters == []
    harness.time.end_turn()
    assert harness.discovery.learned_voters == [VOTERS.current.voters]


def test_voters_after_a_truncation_are_learned_after_the_step() -> None:
    harness = VoterLogHarness()
    harness.voter_log.truncated(3)
    assert harness.discovery.learned_voters == []
    harness.time.end_turn()
    assert harness.discovery.learned_voters == [VOTERS.current.voters]
