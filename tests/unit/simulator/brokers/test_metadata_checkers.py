"""Checkers of the committed metadata report violations and accept similar valid changes."""

from __future__ import annotations

import pytest

from quorumd.controller.broker import Broker
from quorumd.controller.cluster_image import ALL_BROKERS
from quorumd.controller.partition import NO_LEADER, RECOVERING
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.simulator.brokers.checkers import all_checkers, metadata
from quorumd.simulator.brokers.cluster_view import Registration
from tests.support.simulator.broker_views import (
    NAME,
    WHERE,
    batch,
    breaks,
    broker,
    row,
    step,
    view_with,
)


def registration(before: Broker | None, after: Broker) -> Registration:
    """A registration at the offset that matches the epoch of a new incarnation."""
    return Registration(before, after, after.epoch)


def test_every_invariant_is_distinct_and_can_be_violated() -> None:
    checkers = all_checkers()
    assert (
        len({checker.invariant for checker in checkers})
        == len({type(checker) for checker in checkers})
        == len(checkers)
    )
    for checker in checkers:
        own = [name for name in vars(type(checker)) if not name.startswith("_") and name != "promise"]
        assert own, checker


def test_isr_and_elr() -> None:
    checker = metadata.IsrAndElrAreValid()
    assert not batch(checker, row((1,), elr=(2, 3)))
    assert batch(checker, row((1, 4)))
    assert batch(checker, row((1,), elr=(4,)))
    assert batch(checker, row((1,), elr=(1,)))
    assert batch(checker, row((1, 2), elr=(3,)))
    assert not batch(checker, row((1, 2), elr=(3,)), least="3")
    without_elr = view_with(row((1,), elr=(2, 3)))
    del without_elr.image.features["eligible.leader.replicas.version"]
    assert breaks(checker.batch_committed, without_elr, [WHERE])


def test_last_isr_member_may_stay_if_elr_was_enabled_later() -> None:
    """Only while the partition is leaderless with that ISR."""
    checker, alone = metadata.FencedBrokersAreNotInSync(), row((1,), leader=NO_LEADER)
    view = view_with(alone, broker(1, is_fenced=True), broker(2))
    assert breaks(checker.batch_committed, view, [WHERE])
    view.elr_enabled()
    assert not breaks(checker.batch_committed, view, [WHERE])
    view.changed(WHERE, row((1,), leader=NO_LEADER, partition_epoch=7))
    assert not breaks(checker.batch_committed, view, [WHERE])
    view.changed(WHERE, row((1,)))
    assert breaks(checker.batch_committed, view, [WHERE])


@pytest.mark.parametrize("as_tuple", [{"is_fenced": True}, {"in_controlled_shutdown": True}])
def test_fenced_brokers(as_tuple: dict[str, bool]) -> None:
    checker = metadata.FencedBrokersAreNotInSync()
    gone = broker(2, **as_tuple)
    assert batch(checker, row((1, 2)), broker(1), gone)
    assert not batch(checker, row((1,)), broker(1), gone)
    view = view_with(row((2,), NO_LEADER), broker(1), gone)
    view.image.features.clear()
    assert not breaks(checker.batch_committed, view, [WHERE])


def test_epochs_of_partitions() -> None:
    checker = metadata.PartitionEpochsIncrease()
    before = row(leader_epoch=3, partition_epoch=5)
    assert not step(checker, before, row(leader_epoch=3, partition_epoch=6))
    assert not step(checker, before, row(leader=2, leader_epoch=4, partition_epoch=6), names_leader=True)
    assert step(checker, before, row(leader_epoch=3, partition_epoch=5))
    assert step(checker, before, row(leader_epoch=4, partition_epoch=6))
    assert step(checker, before, row(leader_epoch=3, partition_epoch=6), names_leader=True)
    assert step(checker, before, row(leader=2, leader_epoch=3, partition_epoch=6))


def test_dropped_replicas() -> None:
    checker = metadata.DroppedReplicasBumpLeaderEpoch()
    before = row(leader_epoch=3)
    assert step(checker, before, row(replicas=(1, 2), leader_epoch=3))
    assert not step(checker, before, row(replicas=(1, 2), leader_epoch=4))
    assert not step(checker, before, row(replicas=(1, 2, 3, 4), leader_epoch=3))


def test_leaders() -> None:
    checker = metadata.LeadersAreInSync()
    assert batch(checker, row((2,), leader=1))
    assert batch(checker, row((1, 2)), broker(1, is_fenced=True), broker(2))
    assert batch(checker, row((2,), NO_LEADER))
    assert batch(checker, row((), NO_LEADER, elr=(2,)))
    assert not batch(checker, row((1,), NO_LEADER, elr=(2,)), broker(1, is_fenced=True), broker(2))
    elsewhere = (ZERO_UUID, KafkaUuid(b"\x05" * 16), ZERO_UUID)
    assert not batch(checker, row((), NO_LEADER, elr=(2,), directories=elsewhere))


def test_broker_that_is_unregistered_in_parts_leads_nothing_while_it_is_registered() -> None:
    checker, view = metadata.LeadersAreInSync(), view_with(row((2,), NO_LEADER))
    assert breaks(checker.batch_committed, view, [WHERE])
    view.unregisters_in_parts = True
    assert not breaks(checker.batch_committed, view, [WHERE])


def test_reassignments() -> None:
    checker = metadata.ReassignmentsAreValid()
    assert not batch(checker, row(adding=(1,), removing=(2,)))
    assert batch(checker, row(adding=(1,), removing=(1,)))
    assert batch(checker, row(adding=(4,)))
    assert batch(checker, row(replicas=(1, 1, 2)))
    assert batch(checker, row(replicas=()))


def test_reassignment_keeps_in_sync_replicas() -> None:
    checker = metadata.ReassignmentsKeepInSyncReplicas()
    before = row((1, 4), replicas=(4, 1, 2), adding=(4,), original=(1, 2))
    assert step(checker, before, row((1,), replicas=(5, 1, 2), adding=(5,), original=(1, 2)))
    assert step(checker, row((), NO_LEADER, elr=(3,)), row((), NO_LEADER, replicas=(1,), adding=(1,)))
    assert step(checker, before, row((1, 4), replicas=(5, 4, 1, 2), adding=(5,), original=(4, 1, 2)))
    assert not step(
        checker, before, row((1, 4), replicas=(5, 1, 2, 4), adding=(5,), removing=(4,), original=(1, 2))
    )


def test_end_of_a_reassignment() -> None:
    checker = metadata.ReassignmentsEndAtTargetOrOriginal()
    before = row((1,), replicas=(4, 1, 2), adding=(4,), removing=(1,), original=(2, 1))
    assert not step(checker, before, row((1,), replicas=(4, 2)))
    assert not step(checker, before, row((1,), replicas=(2, 1)))
    assert step(checker, before, row((1,), replicas=(1, 2)))
    target_requested = view_with(row((1,), replicas=(1, 2)))
    target_requested.requested_targets[WHERE] = {(1, 2): None}
    assert not step(checker, before, row((1,), replicas=(1, 2)), view=target_requested)


def test_only_leaders_add_members_to_the_isr() -> None:
    checker = metadata.OnlyLeadersExpandIsr()
    assert not step(checker, row((1,)), row((1, 2)))
    assert not step(checker, row((), NO_LEADER, elr=(2, 3)), row((2,), 2, elr=(3,)))
    assert not step(checker, row((), NO_LEADER), row((2,), 2, recovery=RECOVERING))
    assert step(checker, row((), NO_LEADER), row((2,), 2))
    assert step(checker, row((), NO_LEADER, elr=(2,)), row((2, 3), 2))
    assert step(checker, row((1,), NO_LEADER), row((1, 2), 1))
    assert not step(checker, row((1,), NO_LEADER, elr=(2,)), row((2,), 2))
    assert step(checker, row((1,), NO_LEADER, elr=(3,)), row((2,), 2))
    assert step(checker, row((1,), NO_LEADER, elr=(2,)), row((1, 2), 2))
    assert step(checker, row((1,)), row((1,), elr=(3,)))
    assert not step(checker, row((1, 3)), row((1,), elr=(3,)))


def test_brokers_after_an_unclean_shutdown() -> None:
    for partition, violation in (
        (row((1, 2)), True),
        (row((1,), elr=(2,)), True),
        (row((1,), leader=2), True),
        (row((1, 3)), False),
    ):
        checker, view = metadata.UncleanBrokersAreNotEligible(), view_with(partition)
        view.unclean[20] = None
        checker.registered(view, registration(None, broker(2)))
        assert breaks(checker.batch_committed, view, [WHERE]) == violation
        assert not breaks(checker.batch_committed, view, [WHERE])
    checker, view = metadata.UncleanBrokersAreNotEligible(), view_with(row((1, 2)))
    checker.registered(view, registration(None, broker(2)))
    assert not breaks(checker.batch_committed, view, [WHERE])
    view.unclean[20] = None
    checker.registered(view, registration(broker(2), broker(2)))
    assert not breaks(checker.batch_committed, view, [WHERE])


def test_new_incarnations() -> None:
    fenced = broker(2, epoch=99, incarnation=2, is_fenced=True)
    for before, after, partition, violation in (
        (broker(2), fenced, row((1, 2)), True),
        (broker(2), fenced, row((1,), leader=2), True),
        (broker(2), fenced, row((1,), elr=(2,)), False),
        (broker(2), broker(2), row((1, 2)), False),
    ):
        checker, view = metadata.NewIncarnationsLeadNothing(), view_with(partition)
        checker.registered(view, registration(before, after))
        assert breaks(checker.batch_committed, view, [WHERE]) == violation
    unfenced = registration(None, broker(2))
    assert breaks(metadata.NewIncarnationsLeadNothing().registered, view_with(), unfenced)


def test_added_replicas() -> None:
    checker = metadata.AddedReplicasAreInSync()
    before = row((1,), replicas=(4, 1, 2), adding=(4,), removing=(2,), original=(1, 2))
    assert step(checker, before, row((1,), replicas=(4, 1)))
    assert not step(checker, before, row((1, 4), replicas=(4, 1)))
    assert not step(checker, before, row((1,), replicas=(1, 2)))
    assert not step(checker, before, row((1,), replicas=(4, 1), recovery=RECOVERING))


def test_enough_replicas() -> None:
    checker = metadata.ReassignmentsKeepMinIsr()
    before = row((1, 2, 3))
    assert step(checker, before, row((1,), replicas=(1, 4)))
    assert not step(checker, before, row((1,), replicas=(1,)))
    assert not step(checker, before, row((1,), replicas=(1, 4), recovery=RECOVERING))
    assert not step(checker, before, row((1,)))
    allowed = view_with(row((1,), replicas=(1, 4)))
    allowed.image.set_config((2, NAME), "unclean.leader.election.enable", "true", [])
    assert not step(checker, before, row((1,), replicas=(1, 4)), view=allowed)
    back = row((1,), replicas=(4, 1, 2), adding=(4,), original=(1, 2))
    assert not step(checker, back, row((1,), replicas=(2, 1)))


def test_broker_epochs() -> None:
    view, checker = view_with(), metadata.BrokerEpochsIncrease()
    first, second = broker(2, epoch=5), broker(2, epoch=6, incarnation=2)
    for before, after in ((None, first), (first, first), (first, second)):
        checker.registered(view, registration(before, after))
    assert breaks(checker.registered, view, registration(second, broker(2, epoch=6, incarnation=3)))
    assert breaks(checker.registered, view, registration(second, broker(2, epoch=7, incarnation=2)))


def test_epochs_of_brokers_are_offsets() -> None:
    """A repeated registration has its own record, with the epoch of the first one."""
    view, checker = view_with(), metadata.BrokerEpochsAreOffsets()
    first, second = broker(2, epoch=5), broker(2, epoch=8, incarnation=2)
    for before, after, offset, violation in (
        (None, first, 5, False),
        (None, first, 6, True),
        (first, first, 7, False),
        (first, second, 8, False),
        (first, second, 9, True),
        (first, second, 7, True),
    ):
        assert breaks(checker.registered, view, Registration(before, after, offset)) == violation


def test_recovering_leaders() -> None:
    checker = metadata.RecoveringLeaderIsOnlyIsrMember()
    assert batch(checker, row((1, 2), recovery=RECOVERING))
    assert not batch(checker, row((1,), recovery=RECOVERING))
    lost, elected = row((), NO_LEADER, elr=(1,)), row((2,), 2, recovery=RECOVERING)
    assert not step(checker, lost, elected)
    assert step(checker, lost, row((2,), 2, recovery=RECOVERING, elr=(1,)))


def test_unclean_elections() -> None:
    checker = metadata.UncleanElectionsAreReported()
    lost = row((), NO_LEADER)
    assert step(checker, lost, row((2,), 2, recovery=RECOVERING))
    allowed = view_with(row())
    allowed.image.set_config((2, NAME), "unclean.leader.election.enable", "true", [])
    assert not step(checker, lost, row((2,), 2, recovery=RECOVERING), view=allowed)
    assert step(checker, lost, row((2,), 2), view=allowed)
    was_last = row((), NO_LEADER, last_known_elr=(2,))
    assert not step(checker, was_last, row((2,), 2, recovery=RECOVERING))
    assert not step(checker, row((1,), elr=(2,)), row((2,), 2, elr=(1,)))
    assert step(checker, row((1,), elr=(2,)), row((1,), 2))
    assert step(checker, row((1, 3)), row((1, 3), 2))


def test_last_known_leaders() -> None:
    checker = metadata.LastKnownLeaderIsRecorded()
    assert not batch(checker, row((), NO_LEADER)), "nobody ever led"
    step(checker, row((1, 2)), row((2,), 2, elr=(1,)))
    assert not batch(checker, row((), NO_LEADER, elr=(1,), last_known_elr=(2,)))
    assert not batch(checker, row((), NO_LEADER, last_known_elr=(2,)))
    assert batch(checker, row((), NO_LEADER))
    assert batch(checker, row((), NO_LEADER, last_known_elr=(1,)))
    assert not batch(checker, row((), NO_LEADER, replicas=(1, 3))), "it is no longer a replica"


def test_last_member_of_the_isr_is_recorded_if_the_leader_left_before_it() -> None:
    checker = metadata.LastKnownLeaderIsRecorded()
    step(checker, row((1,), 1), row((1, 2), 1))
    step(checker, row((1, 2), 1), row((2,), NO_LEADER, elr=(1,)))
    assert not batch(checker, row((), NO_LEADER, last_known_elr=(2,)))
    assert batch(checker, row((), NO_LEADER, last_known_elr=(1,)))


@pytest.mark.parametrize(
    ("fate", "is_broken"), [("fenced", True), ("unclean", False), ("unclean before", True), ("gone", False)]
)
def test_last_known_leader_is_elected_by_the_batch_that_loses_the_elr(fate: str, is_broken: bool) -> None:
    checker = metadata.LastKnownLeaderIsLastResort()
    before = row((), NO_LEADER, elr=(2,), last_known_elr=(1,))
    after = row((1,), 1, recovery=RECOVERING)
    view = view_with(after, broker(1), broker(2, is_fenced=True), broker(3))
    if fate.startswith("unclean"):
        view.unclean[20] = None
        checker.registered(view, Registration(None, view.image.brokers[2], 20))
    if fate == "unclean before":
        assert not breaks(checker.batch_committed, view, [])
    if fate == "gone":
        del view.image.brokers[2]
    assert not step(checker, before, after, view=view)
    assert breaks(checker.batch_committed, view, [WHERE]) is is_broken


def test_reassignments_that_can_be_completed() -> None:
    checker = metadata.ReassignmentsComplete()
    moving = {"replicas": (4, 2, 1), "adding": (4,), "removing": (1,), "original": (1, 2)}
    assert batch(checker, row((1, 2, 4), **moving))
    assert not batch(checker, row((1, 2), **moving))
    assert not batch(checker, row((1, 4), **moving))
    assert batch(checker, row((1, 4), **moving), least="1")
    assert not batch(checker, row((1, 2)))


def test_default_of_min_isr() -> None:
    checker, view = metadata.MinIsrDefaultIsSet(), view_with()
    assert breaks(checker.batch_committed, view, [])
    view.image.set_config(ALL_BROKERS, "min.insync.replicas", "1", [])
    assert not breaks(checker.batch_committed, view, [])


def test_enough_replicas_are_kept_by_a_cancel() -> None:
    checker = metadata.ReassignmentsKeepMinIsr()
    moving = {"replicas": (4, 1, 2, 3), "adding": (4,), "removing": (2, 3), "original": (1, 2, 3)}
    assert not step(checker, row((1,), **moving), row((1,)))
    assert step(checker, row((1, 4), **moving), row((1,)))
    assert step(checker, row((1,), elr=(4,), **moving), row((1,)))
