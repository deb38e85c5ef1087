"""Checkers of replicas report violations and accept similar valid states."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quorumd.broker.replication.isr_proposal import IsrProposal
from quorumd.simulator.brokers.checkers import replicas
from quorumd.simulator.brokers.cluster_view import PartitionChange
from quorumd.simulator.brokers.data_log import DataLog, Record
from quorumd.simulator.brokers.partition_history import Outcome
from tests.support.simulator.broker_views import (
    WHERE,
    breaks,
    commit,
    host,
    row,
    step,
    view_with,
)


class LogWithEpochs(DataLog):
    """A log with these leader epochs."""

    epochs: Sequence[tuple[int, int]] = ()

    def __init__(self, epochs: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self.epochs = epochs


def test_leaders_and_candidates_have_what_is_committed() -> None:
    for checker, who in (
        (replicas.LeadersHaveCommittedRecords(), 1),
        (replicas.EligibleReplicasHaveCommittedRecords(), 1),
        (replicas.EligibleReplicasHaveCommittedRecords(), 2),
    ):
        view = view_with(row((1,), elr=(2,)))
        commit(view, 2)
        host(view, 1, 0, 1)
        host(view, 2, 0, 1)
        assert not breaks(checker.partition_observed, view, WHERE)
        for values in ((0,), (0, 7), ()):
            host(view, who, *values)
            assert breaks(checker.partition_observed, view, WHERE)
        view.brokers[who].replicas = {}
        assert breaks(checker.partition_observed, view, WHERE)
        view.history(WHERE).break_guarantee("all disks were lost")
        assert not breaks(checker.partition_observed, view, WHERE)


def test_stopped_brokers_are_ignored() -> None:
    view = view_with(row((1, 2)))
    commit(view, 1)
    host(view, 1, 0)
    for change in ("runs", "epoch"):
        host(view, 2)
        setattr(view.brokers[2], change, 0)
        assert not breaks(replicas.EligibleReplicasHaveCommittedRecords().partition_observed, view, WHERE)


def test_leaders_wait_for_all_candidates() -> None:
    checker, view = replicas.LeadersWaitForEligibleReplicas(), view_with(row((1, 2)))
    replica = host(view, 1, leads=True)
    assert not breaks(checker.partition_observed, view, WHERE)
    replica.metadata = row((1, 3))
    assert breaks(checker.partition_observed, view, WHERE)
    assert replica.leadership is not None
    replica.leadership.proposal = IsrProposal(WHERE, 0, 0, ((1, 10), (2, 20)))
    assert not breaks(checker.partition_observed, view, WHERE)
    replica.leadership.proposal = None
    replica.metadata = row((1,))
    assert not breaks(checker.partition_observed, view, WHERE)


def test_leaders_know_their_isr() -> None:
    checker, view = replicas.LeadersKnowTheirIsr(), view_with(row((1, 2), partition_epoch=6))
    for committed in (row((1, 2, 3), partition_epoch=5), row((1, 2), partition_epoch=6)):
        checker.partition_changed(view, PartitionChange(WHERE, None, committed, False, 2))

    def guarantee_lost(
        isr: tuple[int, ...], partition_epoch: int, proposal: IsrProposal | None = None
    ) -> bool:
        leader = host(view, 1, known=row(isr, partition_epoch=partition_epoch), leads=True)
        assert leader.leadership is not None
        leader.leadership.proposal = proposal
        return breaks(checker.partition_observed, view, WHERE)

    assert not guarantee_lost((1, 2), 6)
    assert not guarantee_lost((1, 2, 3), 5)
    assert guarantee_lost((1, 2), 5)
    assert guarantee_lost((1, 2, 3), 6)
    assert guarantee_lost((1, 2), 7)
    assert not guarantee_lost((1, 2), 5, IsrProposal(WHERE, 0, 5, ((1, 10), (2, 20))))


def test_committed_records_are_the_same() -> None:
    checker, view = replicas.CommittedRecordsAgree(), view_with(row())
    commit(view, 2)
    replica = host(view, 3, 0, 9)
    replica.high_watermark = 1
    assert not breaks(checker.partition_observed, view, WHERE)
    replica.high_watermark = 2
    assert breaks(checker.partition_observed, view, WHERE)


def test_applied_metadata() -> None:
    checker, view = replicas.AppliedMetadataIsCommitted(), view_with()
    assert not breaks(checker.metadata_applied, view, view.brokers[1], b"x", b"x")
    assert breaks(checker.metadata_applied, view, view.brokers[1], b"x", b"y")
    assert breaks(checker.metadata_applied, view, view.brokers[1], None, b"y")


def test_newest_leaders() -> None:
    checker, view = replicas.NewestLeadersAreConsistent(), view_with(row(leader_epoch=2))
    commit(view, 1)
    host(view, 3, known=row(leader=3, leader_epoch=1), leads=True)
    assert not breaks(checker.partition_observed, view, WHERE)
    host(view, 1, known=row(leader_epoch=2), leads=True)
    assert breaks(checker.partition_observed, view, WHERE)


def test_consumers() -> None:
    checker, view = replicas.ConsumersSeeOneLog(), view_with(row())
    checker.consumed(view, WHERE, 0, [Record(0, 1), Record(0, 2)])
    assert not breaks(checker.consumed, view, WHERE, 1, [Record(0, 2), Record(0, 3)])
    assert breaks(checker.consumed, view, WHERE, 2, [Record(0, 4)])


def test_acknowledged_records_survive() -> None:
    checker, view = replicas.AcknowledgedRecordsSurvive(), view_with(row())
    view.history(WHERE).acknowledged[7] = None
    view.brokers[3].logs = {WHERE: DataLog([Record(0, 7)])}
    assert not breaks(checker.lost, view, WHERE)
    view.brokers[3].logs = {}
    assert breaks(checker.lost, view, WHERE)


def test_replicas() -> None:
    checker, view = replicas.ReplicasAreValid(), view_with(row())
    replica = host(view, 1, 0, leads=True)
    assert not breaks(checker.partition_observed, view, WHERE)
    replica.log = LogWithEpochs([(0, 0), (0, 1)])
    assert breaks(checker.partition_observed, view, WHERE)
    host(view, 1, known=row(leader=2), leads=True)
    assert breaks(checker.partition_observed, view, WHERE)


def test_followers() -> None:
    checker, view = replicas.FollowersFetch(), view_with(row())
    host(view, 2)
    assert breaks(checker.partition_observed, view, WHERE)
    view.brokers[2].fetchers = {1: None}
    assert not breaks(checker.partition_observed, view, WHERE)


def test_one_leader_per_epoch() -> None:
    checker, view = replicas.OneLeaderPerEpoch(), view_with(row())
    replica = host(view, 1, leads=True)
    for _ in range(2):
        checker.leads(view, view.brokers[1], replica)
    assert breaks(checker.leads, view, view.brokers[2], replica)
    view.brokers[1].epoch = 11
    assert breaks(checker.leads, view, view.brokers[1], replica)


@pytest.mark.parametrize("older", [{"partition_epoch": 4}, {"leader_epoch": 1}])
def test_epochs_known_to_brokers_never_decrease(older: dict[str, int]) -> None:
    checker, view = replicas.KnownEpochsIncrease(), view_with(row())
    newer = {"partition_epoch": 5, "leader_epoch": 2}
    host(view, 2, known=row(**newer))
    checker.partition_observed(view, WHERE)
    host(view, 2, known=row(**(newer | older)))
    assert breaks(checker.partition_observed, view, WHERE)


def test_high_watermarks() -> None:
    checker, view = replicas.HighWatermarksAreValid(), view_with(row())
    replica = host(view, 1, 0, 1, leads=True)
    replica.high_watermark = 2
    assert not breaks(checker.partition_observed, view, WHERE)
    replica.high_watermark = 1
    assert breaks(checker.partition_observed, view, WHERE)
    replica.leadership = None
    assert not breaks(checker.partition_observed, view, WHERE)
    replica.high_watermark = 3
    assert breaks(checker.partition_observed, view, WHERE)


def test_commits_need_enough() -> None:
    checker, view = replicas.CommitsNeedMinIsr(), view_with(row())
    replica = host(view, 1, 0, leads=True)
    assert not breaks(checker.high_watermark_moved, view, view.brokers[1], replica, 0)
    replica.metadata = row((1,))
    assert breaks(checker.high_watermark_moved, view, view.brokers[1], replica, 0)


def test_isr_joiners_have_committed_records() -> None:
    def joins(proposed: int, values: tuple[int, ...], member: int = 2) -> bool:
        checker, view = replicas.IsrJoinersHaveCommittedRecords(), view_with(row((1, 2)))
        commit(view, 1)
        host(view, 2, *values)
        checker.proposed(view, view.brokers[1], IsrProposal(WHERE, 0, 0, ((1, 10), (member, proposed))))
        return step(checker, row((1,)), row((1, 2), partition_epoch=1), view=view)

    assert not joins(20, (0,))
    assert joins(19, (0,))
    assert joins(20, (0,), member=3)
    assert joins(20, ())


def test_removed_replicas() -> None:
    checker, view = replicas.RemovedReplicasHaveNoLog(), view_with(row())
    host(view, 3)
    assert not breaks(checker.partition_observed, view, WHERE)
    host(view, 3, known=row(replicas=(1, 2)))
    assert breaks(checker.partition_observed, view, WHERE)


def test_refused_records() -> None:
    checker, view = replicas.RejectedRecordsAreDropped(), view_with(row())
    replica = host(view, 1, 7, leads=True)
    replica.high_watermark = 1
    assert not breaks(checker.high_watermark_moved, view, view.brokers[1], replica, 0)
    view.history(WHERE).refused[7] = None
    assert breaks(checker.high_watermark_moved, view, view.brokers[1], replica, 0)
    assert not breaks(checker.settled, view, WHERE, 7, Outcome.REFUSED)
    view.history(WHERE).acknowledged[7] = None
    assert breaks(checker.settled, view, WHERE, 7, Outcome.ACKNOWLEDGED)
