"""Reassignments step by step: growth, completion, cancel, one over another; and what requests are refused."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.partition import NO_LEADER, Partition, Replicas
from quorumd.controller.partition_change import Election, PartitionChange
from quorumd.controller.reassignments import (
    plan_alter_partition_reassignments,
    plan_list_partition_reassignments,
)
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from quorumd.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.support.controller.partition_harness import TOPIC, PartitionHarness


def world_with(
    replicas: Replicas, isr: Replicas | None = None, leader: int | None = None, **options: Any
) -> PartitionHarness:
    cluster = PartitionHarness(list(range(10)), **options)
    isr = replicas if isr is None else isr
    cluster.begin(
        Partition(replicas, isr, isr[0] if leader is None else leader, leader_epoch=1, partition_epoch=2)
    )
    return cluster


def as_tuple(cluster: PartitionHarness) -> tuple[Any, ...]:
    """Replicas, ISR, leader, leader epoch, partition epoch."""
    p = cluster.partition
    return p.replicas, tuple(sorted(p.isr)), p.leader, p.leader_epoch, p.partition_epoch


def cancelled(cluster: PartitionHarness) -> tuple[int, str | None]:
    """The error of a cancel, and its text."""
    request = AlterPartitionReassignmentsRequest(
        60_000, True, [ReassignableTopic(TOPIC, [ReassignablePartition(0, None)])]
    )
    plan = plan_alter_partition_reassignments(cluster.controller, request, 1)
    cluster.apply(*plan.records)
    answer: Any = plan.response
    partition = answer.responses[0].partitions[0]
    return partition.error_code, partition.error_message


def moving(cluster: PartitionHarness) -> tuple[Replicas, Replicas, Replicas]:
    return cluster.partition.adding, cluster.partition.removing, cluster.partition.original


class TestTheWay:
    def test_members_may_come_and_go_before_the_end(self) -> None:
        cluster = world_with((1, 2, 3))
        cluster.reassign([1, 4, 5])
        assert as_tuple(cluster) == ((1, 4, 5, 2, 3), (1, 2, 3), 1, 1, 3)
        cluster.alter([1, 2, 3, 4])
        cluster.alter([1, 4])
        assert cluster.partition.elr == ()
        cluster.alter([1, 4, 5])
        assert as_tuple(cluster) == ((1, 4, 5), (1, 4, 5), 1, 2, 6)
        assert moving(cluster) == ((), (), ())

    def test_who_is_eligible_is_kept_by_another_reassignment(self) -> None:
        cluster = world_with((3,), min_isr=1)
        cluster.reassign([1, 2])
        cluster.alter([3, 2])
        cluster.fence(3)
        cluster.fence(2)
        assert (cluster.partition.isr, cluster.partition.elr) == ((), (2,))
        cluster.reassign([1])
        assert as_tuple(cluster)[0] == (1, 3, 2)
        assert cluster.partition.elr == (2,)
        cluster.unfence(2)
        assert (cluster.partition.leader, cluster.partition.isr) == (2, (2,))

    def test_an_added_replica_that_leads_steps_down_at_a_cancel(self) -> None:
        cluster = world_with((1, 2, 3))
        cluster.reassign([4, 5, 6])
        cluster.alter([1, 2, 3, 4])
        cluster.elect(Election.PREFERRED)
        assert (cluster.partition.leader, cluster.partition.leader_epoch) == (4, 2)
        assert cluster.reassign(None) == 0
        assert as_tuple(cluster) == ((1, 2, 3), (1, 2, 3), 1, 3, 6)
        assert cluster.reassign(None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    @pytest.mark.parametrize("in_sync", [[1, 4, 5], [4, 5]])
    def test_a_refused_cancel_names_a_way_back_that_works(self, in_sync: list[int]) -> None:
        """Who was added is in sync, and too few of the originals: these may lack what the others have."""
        cluster = world_with((1, 2, 3))
        cluster.reassign([4, 5, 6])
        cluster.alter([1, 2, 3, 4, 5])
        cluster.elect(Election.PREFERRED)
        cluster.alter([4, 5, *in_sync[:-2]])
        before = as_tuple(cluster)
        error, text = cancelled(cluster)
        assert error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert "[4, 5] would be dropped. Reassign the partition to [1, 2, 3] instead" in text
        assert as_tuple(cluster) == before
        assert cluster.reassign([1, 2, 3]) == 0
        assert moving(cluster) == ((), (4, 5), (1, 2, 3))
        cluster.alter([1, 2, 4, 5])
        assert (cluster.partition.replicas, sorted(cluster.partition.isr)) == ((1, 2, 3), [1, 2])
        assert not cluster.partition.is_reassigning

    def test_a_cancel_that_drops_nobody_with_records_succeeds(self) -> None:
        """However few are in sync: going on with the reassignment would not make them more."""
        cluster = world_with((1, 2, 3))
        cluster.reassign([4, 5, 6])
        cluster.fence(2)
        cluster.fence(3)
        assert cluster.partition.isr == (1,)
        assert cancelled(cluster) == (0, None)
        assert (cluster.partition.replicas, cluster.partition.isr) == ((1, 2, 3), (1,))
        assert cluster.partition.elr == (3,)

    def test_a_cancel_that_drops_an_eligible_replica_is_refused(self) -> None:
        cluster = world_with((1, 2, 3), min_isr=3)
        cluster.reassign([4, 5, 6])
        cluster.alter([1, 2, 3, 4])
        cluster.fence(2)
        cluster.fence(3)
        cluster.fence(4)
        assert 4 in cluster.partition.elr
        assert cancelled(cluster)[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    def test_one_that_joined_dies_and_comes_back(self) -> None:
        cluster = world_with((1, 2, 3))
        cluster.reassign([1, 4, 5])
        cluster.alter([1, 2, 3, 4])
        cluster.fence(4)
        assert (as_tuple(cluster)[1], cluster.partition.is_reassigning) == ((1, 2, 3), True)
        cluster.alter([1, 2, 3, 5])
        assert cluster.partition.is_reassigning
        cluster.unfence(4)
        cluster.alter([1, 2, 3, 4, 5])
        assert as_tuple(cluster) == ((1, 4, 5), (1, 4, 5), 1, 2, 7)

    def test_all_in_sync_die_on_the_way(self) -> None:
        cluster = world_with((1, 2, 3))
        cluster.reassign([4, 5, 6])
        cluster.alter([1, 2, 3, 4])
        cluster.fence(1)
        assert as_tuple(cluster)[1:4] == ((2, 3, 4), 4, 2)
        cluster.fence(2)
        cluster.fence(3)
        assert (cluster.partition.isr, cluster.partition.elr) == ((4,), (3,))
        cluster.fence(4)
        assert (cluster.partition.isr, set(cluster.partition.elr), cluster.partition.leader) == (
            (),
            {3, 4},
            NO_LEADER,
        )
        cluster.unfence(2)
        assert (cluster.partition.leader, cluster.partition.partition_epoch) == (NO_LEADER, 8)
        cluster.unfence(4)
        assert (as_tuple(cluster)[1:], cluster.partition.elr) == (((4,), 4, 4, 9), (3,))
        for isr in ([2, 4], [2, 4, 5], [2, 4, 5, 6]):
            assert cluster.alter(isr) == 0
        assert as_tuple(cluster) == ((4, 5, 6), (4, 5, 6), 4, 5, 12)

    def test_an_old_proposal_crosses_the_start(self) -> None:
        cluster = world_with((1, 2, 3), isr=(1, 2))
        cluster.reassign([1, 2, 4])
        assert cluster.alter([1, 2, 3], partition_epoch=2) == ErrorCode.INVALID_UPDATE_VERSION
        assert cluster.alter([1, 2, 3]) == 0
        assert cluster.alter([1, 2, 3, 4], leader_epoch=2) == ErrorCode.NOT_CONTROLLER
        assert cluster.alter([1, 2, 3, 4]) == 0
        assert as_tuple(cluster) == ((1, 2, 4), (1, 2, 4), 1, 2, 5)

    def test_it_takes_min_isr_to_complete(self) -> None:
        cluster = world_with((1, 2, 3, 4), isr=(1, 4))
        cluster.reassign([1, 2, 3])
        assert (as_tuple(cluster)[0], moving(cluster)[1]) == ((1, 2, 3, 4), (4,))
        cluster.alter([1, 2, 4])
        assert as_tuple(cluster) == ((1, 2, 3), (1, 2), 1, 2, 4)

    def test_a_smaller_min_isr_completes_what_waited_for_it(self) -> None:
        cluster = world_with((1, 2, 3, 4), isr=(1, 4))
        cluster.reassign([1, 2, 3])
        cluster.configure("min.insync.replicas", "1")
        cluster.change(PartitionChange())
        assert as_tuple(cluster) == ((1, 2, 3), (1,), 1, 2, 4)

    def test_nobody_in_sync_that_stays_leaves_it_under_way(self) -> None:
        cluster = world_with((1, 2, 3), isr=(3,))
        cluster.fence(3)
        cluster.reassign([1, 2])
        assert (cluster.partition.leader, moving(cluster)[1]) == (NO_LEADER, (3,))
        cluster.unfence(3)
        cluster.alter([1, 2, 3])
        assert as_tuple(cluster)[:2] == ((1, 2), (1, 2))

    def test_directories_follow_their_replicas(self) -> None:
        cluster = world_with((1, 2))
        one, two, three = (cluster.controller.directory_of(broker) for broker in (1, 2, 3))
        cluster.begin(Partition((1, 2), (1, 2), 1, directories=(one, two)))
        cluster.reassign([3, 2])
        assert cluster.partition.directories == (three, two, one)
        cluster.alter([1, 2, 3])
        assert cluster.partition.directories == (three, two)


class TestOneOverAnother:
    def test_the_originals_are_kept_and_come_back_in_their_order(self) -> None:
        cluster = world_with((3, 1, 2), leader=3)
        cluster.reassign([1, 4])
        cluster.reassign([5, 6])
        assert moving(cluster) == ((5, 6), (1, 2, 3), (3, 1, 2))
        assert cluster.reassign(None) == 0
        assert cluster.partition.replicas == (3, 1, 2)

    def test_what_was_being_added_and_is_not_in_sync_is_dropped_at_once(self) -> None:
        cluster = world_with((0, 1), min_isr=1)
        cluster.reassign([2, 3])
        cluster.alter([0, 1, 2])
        epoch = cluster.partition.leader_epoch
        cluster.reassign([4, 5])
        assert (cluster.partition.replicas, moving(cluster)) == (
            (4, 5, 0, 1, 2),
            ((4, 5), (0, 1, 2), (0, 1)),
        )
        assert cluster.partition.leader_epoch == epoch + 1, "3 is dropped: what it fetched counts no longer"
        assert 2 in cluster.partition.isr, "nobody in sync is dropped before the end"
        cluster.alter([0, 1, 2, 4, 5])
        assert (cluster.partition.replicas, cluster.partition.leader) == ((4, 5), 4)

    def test_added_before_and_wanted_still_is_still_to_be_added(self) -> None:
        cluster = world_with((1, 2, 3))
        cluster.reassign([1, 2, 4])
        cluster.reassign([1, 4, 5])
        assert moving(cluster)[0] == (4, 5)
        cluster.alter([1, 2, 3, 5])
        assert cluster.partition.is_reassigning, "4 never joined"
        cluster.alter([1, 2, 3, 4, 5])
        assert cluster.partition.replicas == (1, 4, 5)

    def test_back_to_the_origin_is_the_end(self) -> None:
        cluster = world_with((1, 2, 3))
        cluster.reassign([1, 2, 4])
        cluster.reassign([1, 2, 3])
        assert (as_tuple(cluster), moving(cluster)) == (((1, 2, 3), (1, 2, 3), 1, 2, 4), ((), (), ()))

    def test_back_to_the_origin_with_one_in_sync_removes_that_in_order(self) -> None:
        cluster = world_with((1, 2, 3))
        cluster.reassign([4, 5, 3])
        cluster.alter([1, 2, 4])
        assert cluster.reassign([1, 2, 3]) == 0
        assert (cluster.partition.replicas, cluster.partition.isr) == ((1, 2, 3), (1, 2))


class TestRequests:
    @pytest.mark.parametrize(
        ("target", "error"),
        [
            ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([1, 2, 77], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([1, -1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ],
    )
    def test_what_cannot_be_is_refused(self, target: list[int] | None, error: ErrorCode) -> None:
        cluster = world_with((1, 2, 3))
        before = cluster.partition
        assert cluster.reassign(target) == error
        assert cluster.partition is before

    def test_a_fenced_broker_may_be_a_target(self) -> None:
        cluster = world_with((1, 2, 3))
        cluster.fence(4)
        assert cluster.reassign([1, 2, 4]) == 0

    def test_the_number_of_replicas_stays_where_the_request_says_so(self) -> None:
        cluster = world_with((1, 2, 3))
        assert (
            cluster.reassign([1, 2, 3, 4], allow_replication_factor_change=False)
            == ErrorCode.INVALID_REPLICATION_FACTOR
        )
        assert cluster.reassign([1, 2, 4], allow_replication_factor_change=False) == 0
        assert cluster.reassign([5, 6, 4], allow_replication_factor_change=False) == 0, (
            "it is that of the originals that counts"
        )

    def test_unknown_partitions_and_doubles_say_nothing_about_the_others(self) -> None:
        cluster = world_with((1, 2, 3))
        asked = [
            ReassignableTopic("nowhere", [ReassignablePartition(0, [1])]),
            ReassignableTopic(
                TOPIC,
                [
                    ReassignablePartition(7, [1]),
                    ReassignablePartition(0, [1, 2, 4]),
                    ReassignablePartition(0, [1, 2, 5]),
                ],
            ),
        ]
        plan = plan_alter_partition_reassignments(
            cluster.controller, AlterPartitionReassignmentsRequest(1000, True, asked), 1
        )
        answer: Any = plan.response
        told = [(p.error_code, p.error_message) for topic in answer.responses for p in topic.partitions]
        assert [code for code, _ in told] == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            0,
            ErrorCode.INVALID_REQUEST,
        ]
        assert [bool(text) for _, text in told] == [True, True, False, True]
        assert len(plan.records) == 1

    def test_only_what_is_under_way_is_listed(self) -> None:
        cluster = world_with((1, 2, 3))

        def listed(topics: list[ListPartitionReassignmentsTopics] | None) -> list[Any]:
            request = ListPartitionReassignmentsRequest(1000, topics)
            answer: Any = plan_list_partition_reassignments(cluster.controller, request, 0).response
            return [
                (topic.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
                for topic in answer.topics
                for p in topic.partitions
            ]

        named = [
            ListPartitionReassignmentsTopics(TOPIC, [0, 5]),
            ListPartitionReassignmentsTopics("nowhere", [0]),
        ]
        assert listed(None) == listed(named) == []
        cluster.reassign([1, 2, 4])
        under_way = [(TOPIC, 0, [1, 2, 4, 3], [4], [3])]
        assert listed(None) == listed(named) == under_way
        assert listed([]) == []


class TestCancel:
    def test_too_few_in_sync_of_the_originals_refuse_it(self) -> None:
        cluster = world_with((1, 2, 3))
        cluster.reassign([4, 5, 6])
        cluster.alter([1, 2, 3, 4, 5])
        cluster.alter([1, 4, 5])
        assert cluster.reassign(None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert cluster.partition.is_reassigning

    def test_none_of_them_is_an_unclean_election_where_that_is_allowed(self) -> None:
        cluster = world_with((1, 2, 3), unclean=True)
        cluster.reassign([4, 5, 6])
        cluster.alter([1, 2, 3, 4, 5])
        cluster.elect(Election.PREFERRED)
        cluster.alter([4, 5])
        assert cluster.reassign(None) == 0
        assert (cluster.partition.replicas, cluster.partition.isr, cluster.partition.recovery) == (
            (1, 2, 3),
            (1,),
            1,
        )

    def test_what_a_controller_without_originals_began_is_cancelled_as_it_would(self) -> None:
        cluster = PartitionHarness(list(range(10)))
        cluster.begin(Partition((1, 4, 2, 3), (1, 2, 3), 1, 1, 2, adding=(4,), removing=(2, 3)))
        assert cluster.reassign(None) == 0
        assert cluster.partition.replicas == (1, 2, 3)
