"""The cluster id follows the voter records in the log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from quorumd.ids import KafkaUuid, OffsetAndEpoch
from quorumd.log.meta_properties import MetaProperties
from quorumd.node.consensus.voter_log import VoterLog
from quorumd.node.consensus.voter_records import VoterRecord
from quorumd.node.identity.cluster_identity import ClusterIdentity
from quorumd.raft.voters import VoterAssignment, VoterSet

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
        engine: Any = self.engine
        discovery: Any = SimpleNamespace(learn_voters=lambda *args: None, log_truncated=lambda *args: None)
        state_machine: Any = SimpleNamespace(load=lambda *args: None)
        lifecycle: Any = SimpleNamespace(
            fail=self.errors.append, call_soon=lambda call: None, file_written=None
        )
        disk: Any = SimpleNamespace(submit=lambda *args: None)
        meta = MetaProperties(1, KafkaUuid(b"some directory.."), None)
        self.log = VoterLog(
            engine, self.identity, discovery, state_machine, disk, disk, "/data", meta, lifecycle
        )

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
    assert (records.identity.cluster_id, records.errors) == ("first", [])


def test_committed_record_of_another_cluster_stops_the_node() -> None:
    records = Records()
    records.log.fetched([VoterRecord(3, VOTERS, "first"), VoterRecord(5, VOTERS, "second")])
    records.commit(6)
    (error,) = records.errors
    assert "the log is of cluster second, this folder of cluster first" in str(error)


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
