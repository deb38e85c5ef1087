"""The cluster id follows the voter records in the log."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from quorumd.ids import OffsetAndEpoch
from quorumd.node.consensus.voter_log import VoterLog
from quorumd.node.identity.cluster_identity import ClusterIdentity
from quorumd.node.wire.voter_records import VoterRecord
from quorumd.raft.effects import ControlBatch
from quorumd.raft.voters import VoterAssignment, VoterSet
from tests.support.text import shows

VOTERS = VoterAssignment(VoterSet(()))


class Records:
    """A voter log without a cluster id; `errors` has the failures that stop the node."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        entropy: Any = SimpleNamespace(uuid=lambda: "new")
        self.identity = ClusterIdentity(None, entropy)
        self.engine = SimpleNamespace(
            high_watermark=-1, voters=SimpleNamespace(current=SimpleNamespace(voters=())), voters_offset=0
        )
        self.forgotten: list[int] = []
        self.learned = 0
        self.turns: list[Callable[[], None]] = []
        discovery: Any = SimpleNamespace(learn_voters=self._learn, log_truncated=self.forgotten.append)
        lifecycle: Any = SimpleNamespace(fail=self.errors.append, call_soon=self.turns.append)
        clock: Any = SimpleNamespace(wall_ms=lambda: 0)
        quorum: Any = SimpleNamespace(engine=self.engine, identity=self.identity)
        self.loaded: list[OffsetAndEpoch] = []
        self.adopted: list[str] = []
        self.log = VoterLog(
            clock, quorum, discovery, lifecycle, load=self.loaded.append, on_adopted=self.adopted.append
        )

    def _learn(self, voters: object, offset: int) -> None:
        self.learned += 1

    def commit(self, high_watermark: int) -> None:
        self.engine.high_watermark = high_watermark
        self.log.committed(high_watermark)


def test_first_committed_record_gives_the_cluster_its_id() -> None:
    records = Records()
    records.log.fetched([VoterRecord(3, VOTERS, "first")])
    assert records.identity.cluster_id is None
    records.commit(4)
    records.log.fetched([VoterRecord(5, VOTERS, "first")])
    records.commit(6)
    assert (records.identity.cluster_id, records.adopted, records.errors) == ("first", ["first"], [])


def test_committed_record_of_another_cluster_stops_the_node() -> None:
    records = Records()
    records.log.fetched([VoterRecord(3, VOTERS, "first"), VoterRecord(5, VOTERS, "second")])
    records.commit(6)
    (error,) = records.errors
    assert shows(str(error), "cluster second", "cluster first")


def test_truncated_records_do_not_count() -> None:
    records = Records()
    records.log.fetched([VoterRecord(3, VOTERS, "first")])
    records.log.truncated(3)
    records.log.fetched([VoterRecord(3, VOTERS, "second")])
    records.commit(9)
    assert (records.identity.cluster_id, records.errors) == ("second", [])


def test_records_of_a_log_that_a_snapshot_replaced_do_not_count() -> None:
    records = Records()
    records.log.fetched([VoterRecord(3, VOTERS, "first")])
    records.log.restarted(OffsetAndEpoch(100, 2), VoterRecord(50, VOTERS, "second"))
    records.commit(101)
    assert (records.identity.cluster_id, records.errors) == ("second", [])


def test_addresses_of_truncated_records_are_forgotten() -> None:
    records = Records()
    records.log.truncated(3)
    records.log.restarted(OffsetAndEpoch(100, 2), None)
    assert records.forgotten == [3, 0]


def test_voters_of_the_leaders_own_record_are_learned_after_the_step() -> None:
    records = Records()
    records.log.encode_control(ControlBatch((VOTERS,)), 3, 1)
    assert records.learned == 0
    for turn in records.turns:
        turn()
    assert records.learned == 1
