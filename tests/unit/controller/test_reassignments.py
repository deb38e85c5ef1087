"""Reassignments step by step: growth, completion, cancellation, replacement, and rejected requests."""

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
from tests.support.text import shows


def cluster_with(
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
    """Cancel; returns the error code and its text."""
    request = AlterPartitionReassignmentsRequest(
        60_000, True, [ReassignableTopic(TOPIC, [ReassignablePartition(0, None)])]
    )
    plan = plan_alter_partition_reassignments(cluster.controller, request, 1)
    cluster.apply(*plan.records)
    reply: Any = plan.response
    partition = reply.responses[0].partitions[0]
    return partition.error_code, partition.error_message


def moving(cluster: PartitionHarness) -> tuple[Replicas, Replicas, Replicas]:
    return cluster.partition.adding, cluster.partition.removing, cluster.partition.original


class TestProgress:
    def test_isr_may_change_before_completion(self) -> None:
        cluster = cluster_with((1, 2, 3))
        cluster.reassign([1, 4, 5])
        assert as_tuple(cluster) == ((1, 4, 5, 2, 3), (1, 2, 3), 1, 1, 3)
        cluster.alter([1, 2, 3, 4])
        cluster.alter([1, 4])
        assert cluster.partition.elr == ()
        cluster.alter([1, 4, 5])
        assert as_tuple(cluster) == ((1, 4, 5), (1, 4, 5), 1, 2, 6)
        assert moving(cluster) == ((), (), ())

    def test_new_reassignment_keeps_eligible_replicas(self) -> None:
        cluster = cluster_with((3,), min_isr=1)
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

    def test_cancel_moves_leadership_off_added_replica(self) -> None:
        cluster = cluster_with((1, 2, 3))
        cluster.reassign([4, 5, 6])
        cluster.alter([1, 2, 3, 4])
        cluster.elect(Election.PREFERRED)
        assert (cluster.partition.leader, cluster.partition.leader_epoch) == (4, 2)
        assert cluster.reassign(None) == 0
        assert as_tuple(cluster) == ((1, 2, 3), (1, 2, 3), 1, 3, 6)
        assert cluster.reassign(None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    @pytest.mark.parametrize("in_sync", [[1, 4, 5], [4, 5]])
    def test_rejected_cancel_names_a_reassignment_that_works(self, in_sync: list[int]) -> None:
        """An added replica is in sync but too few originals are, so they may lack committed records."""
        cluster = cluster_with((1, 2, 3))
        cluster.reassign([4, 5, 6])
        cluster.alter([1, 2, 3, 4, 5])
        cluster.elect(Election.PREFERRED)
        cluster.alter([4, 5, *in_sync[:-2]])
        before = as_tuple(cluster)
        error, text = cancelled(cluster)
        assert error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert shows(text, "[4, 5]", "[1, 2, 3]")
        assert as_tuple(cluster) == before
        assert cluster.reassign([1, 2, 3]) == 0
        assert moving(cluster) == ((), (4, 5), (1, 2, 3))
        cluster.alter([1, 2, 4, 5])
        assert (cluster.partition.replicas, sorted(cluster.partition.isr)) == ((1, 2, 3), [1, 2])
        assert not cluster.partition.is_reassigning

    def test_cancel_that_drops_no_in_sync_replica_succeeds(self) -> None:
        """However few are in sync: continuing the reassignment would not add any."""
        cluster = cluster_with((1, 2, 3))
        cluster.reassign([4, 5, 6])
        cluster.fence(2)
        cluster.fence(3)
        assert cluster.partition.isr == (1,)
        assert cancelled(cluster) == (0, None)
        assert (cluster.partition.replicas, cluster.partition.isr) == ((1, 2, 3), (1,))
        assert cluster.partition.elr == (3,)

    def test_cancel_that_drops_an_eligible_replica_is_rejected(self) -> None:
        cluster = cluster_with((1, 2, 3), min_isr=3)
        cluster.reassign([4, 5, 6])
        cluster.alter([1, 2, 3, 4])
        cluster.fence(2)
        cluster.fence(3)
        cluster.fence(4)
        assert 4 in cluster.partition.elr
        assert cancelled(cluster)[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    def test_added_replica_fails_and_returns(self) -> None:
        cluster = cluster_with((1, 2, 3))
        cluster.reassign([1, 4, 5])
        cluster.alter([1, 2, 3, 4])
        cluster.fence(4)
        assert (as_tuple(cluster)[1], cluster.partition.is_reassigning) == ((1, 2, 3), True)
        cluster.alter([1, 2, 3, 5])
        assert cluster.partition.is_reassigning
        cluster.unfence(4)
        cluster.alter([1, 2, 3, 4, 5])
        assert as_tuple(cluster) == ((1, 4, 5), (1, 4, 5), 1, 2, 7)

    def test_all_in_sync_replicas_fail_during_reassignment(self) -> None:
        cluster = cluster_with((1, 2, 3))
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

    def test_stale_isr_proposal_at_the_start_is_rejected(self) -> None:
        cluster = cluster_with((1, 2, 3), isr=(1, 2))
        cluster.reassign([1, 2, 4])
        assert cluster.alter([1, 2, 3], partition_epoch=2) == ErrorCode.INVALID_UPDATE_VERSION
        assert cluster.alter([1, 2, 3]) == 0
        assert cluster.alter([1, 2, 3, 4], leader_epoch=2) == ErrorCode.NOT_CONTROLLER
        assert cluster.alter([1, 2, 3, 4]) == 0
        assert as_tuple(cluster) == ((1, 2, 4), (1, 2, 4), 1, 2, 5)

    def test_completion_requires_min_isr(self) -> None:
        cluster = cluster_with((1, 2, 3, 4), isr=(1, 4))
        cluster.reassign([1, 2, 3])
        assert (as_tuple(cluster)[0], moving(cluster)[1]) == ((1, 2, 3, 4), (4,))
        cluster.alter([1, 2, 4])
        assert as_tuple(cluster) == ((1, 2, 3), (1, 2), 1, 2, 4)

    def test_lower_min_isr_completes_a_waiting_reassignment(self) -> None:
        cluster = cluster_with((1, 2, 3, 4), isr=(1, 4))
        cluster.reassign([1, 2, 3])
        cluster.configure("min.insync.replicas", "1")
        cluster.change(PartitionChange())
        assert as_tuple(cluster) == ((1, 2, 3), (1,), 1, 2, 4)

    def test_reassignment_waits_for_an_in_sync_target(self) -> None:
        cluster = cluster_with((1, 2, 3), isr=(3,))
        cluster.fence(3)
        cluster.reassign([1, 2])
        assert (cluster.partition.leader, moving(cluster)[1]) == (NO_LEADER, (3,))
        cluster.unfence(3)
        cluster.alter([1, 2, 3])
        assert as_tuple(cluster)[:2] == ((1, 2), (1, 2))

    def test_directories_follow_their_replicas(self) -> None:
        cluster = cluster_with((1, 2))
        one, two, three = (cluster.controller.directory_of(broker) for broker in (1, 2, 3))
        cluster.begin(Partition((1, 2), (1, 2), 1, directories=(one, two)))
        cluster.reassign([3, 2])
        assert cluster.partition.directories == (three, two, one)
        cluster.alter([1, 2, 3])
        assert cluster.partition.directories == (three, two)


class TestReplacement:
    def test_originals_are_kept_and_restored_in_order(self) -> None:
        cluster = cluster_with((3, 1, 2), leader=3)
        cluster.reassign([1, 4])
        cluster.reassign([5, 6])
        assert moving(cluster) == ((5, 6), (1, 2, 3), (3, 1, 2))
        assert cluster.reassign(None) == 0
        assert cluster.partition.replicas == (3, 1, 2)

    def test_lagging_replica_of_the_replaced_target_is_dropped_immediately(self) -> None:
        cluster = cluster_with((0, 1), min_isr=1)
        cluster.reassign([2, 3])
        cluster.alter([0, 1, 2])
        epoch = cluster.partition.leader_epoch
        cluster.reassign([4, 5])
        assert (cluster.partition.replicas, moving(cluster)) == (
            (4, 5, 0, 1, 2),
            ((4, 5), (0, 1, 2), (0, 1)),
        )
        assert cluster.partition.leader_epoch == epoch + 1, "3 is dropped: what it fetched counts no longer"
        assert 2 in cluster.partition.isr, "no in-sync replica is dropped before completion"
        cluster.alter([0, 1, 2, 4, 5])
        assert (cluster.partition.replicas, cluster.partition.leader) == ((4, 5), 4)

    def test_replica_in_both_targets_is_still_added(self) -> None:
        cluster = cluster_with((1, 2, 3))
        cluster.reassign([1, 2, 4])
        cluster.reassign([1, 4, 5])
        assert moving(cluster)[0] == (4, 5)
        cluster.alter([1, 2, 3, 5])
        assert cluster.partition.is_reassigning, "4 never joined"
        cluster.alter([1, 2, 3, 4, 5])
        assert cluster.partition.replicas == (1, 4, 5)

    def test_reassignment_to_the_originals_completes_immediately(self) -> None:
        cluster = cluster_with((1, 2, 3))
        cluster.reassign([1, 2, 4])
        cluster.reassign([1, 2, 3])
        assert (as_tuple(cluster), moving(cluster)) == (((1, 2, 3), (1, 2, 3), 1, 2, 4), ((), (), ()))

    def test_reassignment_to_the_originals_removes_in_sync_replica_on_completion(self) -> None:
        cluster = cluster_with((1, 2, 3))
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
    def test_invalid_target_is_refused(self, target: list[int] | None, error: ErrorCode) -> None:
        cluster = cluster_with((1, 2, 3))
        before = cluster.partition
        assert cluster.reassign(target) == error
        assert cluster.partition is before

    def test_fenced_broker_may_be_a_target(self) -> None:
        cluster = cluster_with((1, 2, 3))
        cluster.fence(4)
        assert cluster.reassign([1, 2, 4]) == 0

    def test_replication_factor_change_is_rejected_if_not_allowed(self) -> None:
        cluster = cluster_with((1, 2, 3))
        assert (
            cluster.reassign([1, 2, 3, 4], allow_replication_factor_change=False)
            == ErrorCode.INVALID_REPLICATION_FACTOR
        )
        assert cluster.reassign([1, 2, 4], allow_replication_factor_change=False) == 0
        assert cluster.reassign([5, 6, 4], allow_replication_factor_change=False) == 0, (
            "the replication factor of the originals counts"
        )

    def test_unknown_and_duplicate_partitions_do_not_affect_others(self) -> None:
        cluster = cluster_with((1, 2, 3))
        requested = [
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
            cluster.controller, AlterPartitionReassignmentsRequest(1000, True, requested), 1
        )
        reply: Any = plan.response
        reported = [(p.error_code, p.error_message) for topic in reply.responses for p in topic.partitions]
        assert [code for code, _ in reported] == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            0,
            ErrorCode.INVALID_REQUEST,
        ]
        assert [bool(text) for _, text in reported] == [True, True, False, True]
        assert len(plan.records) == 1

    def test_only_ongoing_reassignments_are_listed(self) -> None:
        cluster = cluster_with((1, 2, 3))

        def listed(topics: list[ListPartitionReassignmentsTopics] | None) -> list[Any]:
            request = ListPartitionReassignmentsRequest(1000, topics)
            reply: Any = plan_list_partition_reassignments(cluster.controller, request, 0).response
            return [
                (topic.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
                for topic in reply.topics
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
    def test_cancel_requires_min_isr_of_the_originals(self) -> None:
        cluster = cluster_with((1, 2, 3))
        cluster.reassign([4, 5, 6])
        cluster.alter([1, 2, 3, 4, 5])
        cluster.alter([1, 4, 5])
        assert cluster.reassign(None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert cluster.partition.is_reassigning

    def test_cancel_without_in_sync_originals_needs_unclean_election(self) -> None:
        cluster = cluster_with((1, 2, 3), unclean=True)
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

    def test_cancel_of_reassignment_without_recorded_originals(self) -> None:
        cluster = PartitionHarness(list(range(10)))
        cluster.begin(Partition((1, 4, 2, 3), (1, 2, 3), 1, 1, 2, adding=(4,), removing=(2, 3)))
        assert cluster.reassign(None) == 0
        assert cluster.partition.replicas == (1, 2, 3)
