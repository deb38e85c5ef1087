"""What must hold of replicas is broken by what breaks it, and by nothing that looks like it."""

from __future__ import annotations

import pytest

from quorumd.simulator.brokers.checkers import replicas
from quorumd.simulator.brokers.data_log import DataLog, Record
from quorumd.simulator.brokers.replica import Outcome, Proposal
from quorumd.simulator.brokers.scene import RowChange
from tests.support.broker_scenes import (
    WHERE,
    breaks,
    commit,
    host,
    row,
    scene_with,
    step,
)


def test_leaders_and_candidates_have_what_is_committed() -> None:
    for checker, who in (
        (replicas.LeadersHaveWhatIsCommitted(), 1),
        (replicas.CandidatesHaveWhatIsCommitted(), 1),
        (replicas.CandidatesHaveWhatIsCommitted(), 2),
    ):
        scene = scene_with(row((1,), elr=(2,)))
        commit(scene, 2)
        host(scene, 1, 0, 1)
        host(scene, 2, 0, 1)
        assert not breaks(checker.looked, scene, WHERE)
        for values in ((0,), (0, 7), ()):
            host(scene, who, *values)
            assert breaks(checker.looked, scene, WHERE)
        scene.brokers[who].replicas = {}
        assert breaks(checker.looked, scene, WHERE)
        scene.ledger(WHERE).break_guarantee("all disks were lost")
        assert not breaks(checker.looked, scene, WHERE)


def test_who_is_not_up_is_not_looked_at() -> None:
    scene = scene_with(row((1, 2)))
    commit(scene, 1)
    host(scene, 1, 0)
    for change in ("runs", "epoch"):
        host(scene, 2)
        setattr(scene.brokers[2], change, 0)
        assert not breaks(replicas.CandidatesHaveWhatIsCommitted().looked, scene, WHERE)


def test_leaders_wait_for_all_candidates() -> None:
    checker, scene = replicas.LeadersWaitForAllCandidates(), scene_with(row((1, 2)))
    replica = host(scene, 1, leads=True)
    assert not breaks(checker.looked, scene, WHERE)
    replica.known = row((1, 3))
    assert breaks(checker.looked, scene, WHERE)
    assert replica.leadership is not None
    replica.leadership.proposal = Proposal(WHERE, 0, 0, ((1, 10), (2, 20)))
    assert not breaks(checker.looked, scene, WHERE)
    replica.leadership.proposal = None
    replica.known = row((1,))
    assert not breaks(checker.looked, scene, WHERE)


def test_leaders_know_their_isr() -> None:
    checker, scene = replicas.LeadersKnowTheirIsr(), scene_with(row((1, 2), partition_epoch=6))
    for committed in (row((1, 2, 3), partition_epoch=5), row((1, 2), partition_epoch=6)):
        checker.row_changed(scene, RowChange(WHERE, None, committed, False, 2))

    def broken_by(isr: tuple[int, ...], partition_epoch: int, proposal: Proposal | None = None) -> bool:
        leader = host(scene, 1, known=row(isr, partition_epoch=partition_epoch), leads=True)
        assert leader.leadership is not None
        leader.leadership.proposal = proposal
        return breaks(checker.looked, scene, WHERE)

    assert not broken_by((1, 2), 6)
    assert not broken_by((1, 2, 3), 5)
    assert broken_by((1, 2), 5)
    assert broken_by((1, 2, 3), 6)
    assert broken_by((1, 2), 7)
    assert not broken_by((1, 2), 5, Proposal(WHERE, 0, 5, ((1, 10), (2, 20))))


def test_committed_records_are_the_same() -> None:
    checker, scene = replicas.CommittedRecordsAreTheSame(), scene_with(row())
    commit(scene, 2)
    replica = host(scene, 3, 0, 9)
    replica.high_watermark = 1
    assert not breaks(checker.looked, scene, WHERE)
    replica.high_watermark = 2
    assert breaks(checker.looked, scene, WHERE)


def test_applied_metadata() -> None:
    checker, scene = replicas.AppliedMetadataIsCommitted(), scene_with()
    assert not breaks(checker.metadata_applied, scene, scene.brokers[1], b"x", b"x")
    assert breaks(checker.metadata_applied, scene, scene.brokers[1], b"x", b"y")
    assert breaks(checker.metadata_applied, scene, scene.brokers[1], None, b"y")


def test_newest_leaders() -> None:
    checker, scene = replicas.NewestLeadersAreConsistent(), scene_with(row(leader_epoch=2))
    commit(scene, 1)
    host(scene, 3, known=row(leader=3, leader_epoch=1), leads=True)
    assert not breaks(checker.looked, scene, WHERE)
    host(scene, 1, known=row(leader_epoch=2), leads=True)
    assert breaks(checker.looked, scene, WHERE)


def test_consumers() -> None:
    checker, scene = replicas.ConsumersSeeOneLog(), scene_with(row())
    checker.consumed(scene, WHERE, 0, [Record(0, 1), Record(0, 2)])
    assert not breaks(checker.consumed, scene, WHERE, 1, [Record(0, 2), Record(0, 3)])
    assert breaks(checker.consumed, scene, WHERE, 2, [Record(0, 4)])


def test_nothing_acknowledged_is_lost() -> None:
    checker, scene = replicas.NothingAcknowledgedIsLost(), scene_with(row())
    scene.ledger(WHERE).acknowledged[7] = None
    scene.brokers[3].logs = {WHERE: DataLog([Record(0, 7)])}
    assert not breaks(checker.lost, scene, WHERE)
    scene.brokers[3].logs = {}
    assert breaks(checker.lost, scene, WHERE)


def test_replicas() -> None:
    checker, scene = replicas.ReplicasAreValid(), scene_with(row())
    replica = host(scene, 1, 0, leads=True)
    assert not breaks(checker.looked, scene, WHERE)
    replica.log.epochs.append((0, 1))
    assert breaks(checker.looked, scene, WHERE)
    host(scene, 1, known=row(leader=2), leads=True)
    assert breaks(checker.looked, scene, WHERE)


def test_followers() -> None:
    checker, scene = replicas.FollowersFetch(), scene_with(row())
    host(scene, 2)
    assert breaks(checker.looked, scene, WHERE)
    scene.brokers[2].fetchers = {1: None}
    assert not breaks(checker.looked, scene, WHERE)


def test_one_leader_an_epoch() -> None:
    checker, scene = replicas.OneLeaderPerEpoch(), scene_with(row())
    replica = host(scene, 1, leads=True)
    for _ in range(2):
        checker.leads(scene, scene.brokers[1], replica)
    assert breaks(checker.leads, scene, scene.brokers[2], replica)
    scene.brokers[1].epoch = 11
    assert breaks(checker.leads, scene, scene.brokers[1], replica)


@pytest.mark.parametrize("older", [{"partition_epoch": 4}, {"leader_epoch": 1}])
def test_what_brokers_know(older: dict[str, int]) -> None:
    checker, scene = replicas.WhatBrokersKnowGrows(), scene_with(row())
    newer = {"partition_epoch": 5, "leader_epoch": 2}
    host(scene, 2, known=row(**newer))
    checker.looked(scene, WHERE)
    host(scene, 2, known=row(**(newer | older)))
    assert breaks(checker.looked, scene, WHERE)


def test_high_watermarks() -> None:
    checker, scene = replicas.HighWatermarksAreValid(), scene_with(row())
    replica = host(scene, 1, 0, 1, leads=True)
    replica.high_watermark = 2
    assert not breaks(checker.looked, scene, WHERE)
    replica.high_watermark = 1
    assert breaks(checker.looked, scene, WHERE)
    replica.leadership = None
    assert not breaks(checker.looked, scene, WHERE)
    replica.high_watermark = 3
    assert breaks(checker.looked, scene, WHERE)


def test_commits_need_enough() -> None:
    checker, scene = replicas.CommitsNeedEnoughInSync(), scene_with(row())
    replica = host(scene, 1, 0, leads=True)
    assert not breaks(checker.high_watermark_moved, scene, scene.brokers[1], replica, 0)
    replica.known = row((1,))
    assert breaks(checker.high_watermark_moved, scene, scene.brokers[1], replica, 0)


def test_who_joins() -> None:
    def joins(proposed: int, values: tuple[int, ...], member: int = 2) -> bool:
        checker, scene = replicas.WhoJoinsHasWhatIsCommitted(), scene_with(row((1, 2)))
        commit(scene, 1)
        host(scene, 2, *values)
        checker.proposed(scene, scene.brokers[1], Proposal(WHERE, 0, 0, ((1, 10), (member, proposed))))
        return step(checker, row((1,)), row((1, 2), partition_epoch=1), scene=scene)

    assert not joins(20, (0,))
    assert joins(19, (0,))
    assert joins(20, (0,), member=3)
    assert joins(20, ())


def test_removed_replicas() -> None:
    checker, scene = replicas.RemovedReplicasHoldNothing(), scene_with(row())
    host(scene, 3)
    assert not breaks(checker.looked, scene, WHERE)
    host(scene, 3, known=row(replicas=(1, 2)))
    assert breaks(checker.looked, scene, WHERE)


def test_refused_records() -> None:
    checker, scene = replicas.RefusedRecordsAreNowhere(), scene_with(row())
    replica = host(scene, 1, 7, leads=True)
    replica.high_watermark = 1
    assert not breaks(checker.high_watermark_moved, scene, scene.brokers[1], replica, 0)
    scene.ledger(WHERE).refused[7] = None
    assert breaks(checker.high_watermark_moved, scene, scene.brokers[1], replica, 0)
    assert not breaks(checker.settled, scene, WHERE, 7, Outcome.REFUSED)
    scene.ledger(WHERE).acknowledged[7] = None
    assert breaks(checker.settled, scene, WHERE, 7, Outcome.ACKNOWLEDGED)
