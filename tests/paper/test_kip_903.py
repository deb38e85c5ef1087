"""KIP-903 and KAFKA-14139, step by step: a stale request must not return a replica that lost its disk to the ISR.

The controller in the races that the description of data replication lists: only the order of its checks and its
epochs prevent the loss of acknowledged records.
"""

from __future__ import annotations

import pytest

from quorumd.controller.partition import NO_LEADER, Partition
from quorumd.controller.partition_change import PartitionChange
from quorumd.errors import ErrorCode
from tests.support.controller.partition_harness import PartitionHarness


def two_replicas(elr: bool = True) -> PartitionHarness:
    """Broker 1 leads alone; 2 is alive and about to rejoin."""
    cluster = PartitionHarness([1, 2, 3], min_isr=1, elr=elr)
    cluster.begin(Partition((1, 2), (1,), 1, leader_epoch=1, partition_epoch=5))
    return cluster


def three_replicas(isr: tuple[int, ...] = (1, 2, 3)) -> PartitionHarness:
    cluster = PartitionHarness([1, 2, 3, 4])
    cluster.begin(Partition((1, 2, 3), isr, 1, leader_epoch=1, partition_epoch=5))
    return cluster


class TestTheDelayedRequest:
    """Race 1: broker 2 catches up; before the leader's request arrives, 2 fails and restarts empty."""

    def request(self, cluster: PartitionHarness, epoch_then: int) -> int:
        return cluster.alter(
            [1, 2], partition_epoch=5, wrong_epoch_of=None if epoch_then == cluster.epoch_of(2) else 2
        )

    def test_accepted_before_the_crash_is_detected_and_undone_by_fencing(self) -> None:
        cluster = two_replicas()
        assert self.request(cluster, cluster.epoch_of(2)) == 0
        cluster.fence(2)
        assert cluster.partition.isr == (1,)

    def test_rejected_after_fencing(self) -> None:
        cluster = two_replicas()
        then = cluster.epoch_of(2)
        cluster.fence(2)
        assert cluster.partition.partition_epoch == 5, (
            "it was in no ISR: the partition did not change with the fencing"
        )
        assert self.request(cluster, then) == ErrorCode.INELIGIBLE_REPLICA

    def test_rejected_after_reregistration(self) -> None:
        cluster = two_replicas()
        then = cluster.epoch_of(2)
        cluster.fence(2)
        cluster.restart_uncleanly(2)
        assert self.request(cluster, then) == ErrorCode.INELIGIBLE_REPLICA

    @pytest.mark.parametrize("elr", [True, False])
    def test_after_unfencing_only_the_broker_epoch_rejects_it(self, elr: bool) -> None:
        cluster = two_replicas(elr)
        then = cluster.epoch_of(2)
        cluster.fence(2)
        cluster.restart_uncleanly(2)
        cluster.unfence(2)
        assert cluster.partition.partition_epoch == 5
        assert self.request(cluster, then) == ErrorCode.INELIGIBLE_REPLICA
        cluster.fence(1)
        assert (cluster.partition.leader, 2 in cluster.partition.isr) == (NO_LEADER, False), (
            "2 has no records"
        )
        cluster.unfence(1)
        assert cluster.partition.leader == 1

    def test_accepted_after_it_caught_up_again(self) -> None:
        cluster = two_replicas()
        cluster.fence(2)
        cluster.restart_uncleanly(2)
        cluster.unfence(2)
        assert cluster.alter([1, 2]) == 0


def test_race_4_last_in_sync_replica_loses_its_log() -> None:
    cluster = three_replicas()
    cluster.fence(2)
    cluster.fence(3)
    assert (cluster.partition.isr, cluster.partition.elr) == ((1,), (3,))
    cluster.fence(1)
    assert (cluster.partition.isr, set(cluster.partition.elr), cluster.partition.leader) == (
        (),
        {1, 3},
        NO_LEADER,
    )
    cluster.restart_uncleanly(1)
    assert cluster.partition.elr == (3,)
    cluster.unfence(1)
    assert cluster.partition.leader == NO_LEADER, "its log is gone"
    cluster.unfence(3)
    assert (cluster.partition.leader, cluster.partition.isr, cluster.partition.recovery) == (3, (3,), 0)


def test_race_5_controller_shrinks_the_isr_meanwhile() -> None:
    cluster = three_replicas()
    cluster.fence(2)
    assert cluster.alter([1, 2], partition_epoch=5) == ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.partition.isr == (1, 3)


def test_race_6_request_is_repeated_after_its_response_was_lost() -> None:
    cluster = three_replicas((1, 2))
    assert cluster.alter([1, 2, 3], partition_epoch=5) == 0
    assert cluster.alter([1, 2, 3], partition_epoch=5) == ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.partition.partition_epoch == 6


def test_race_8_leader_ahead_of_controller_retries_elsewhere() -> None:
    cluster = three_replicas()
    assert cluster.alter([1, 2], leader_epoch=2, partition_epoch=6) == ErrorCode.NOT_CONTROLLER
    assert cluster.alter([1, 2], partition_epoch=6) == ErrorCode.NOT_CONTROLLER


def test_race_11_dropped_replica_bumps_the_leader_epoch() -> None:
    """Earlier fetches must not count when it is added again."""
    cluster = three_replicas()
    cluster.reassign([1, 2])
    dropped = cluster.partition
    assert (dropped.replicas, dropped.leader, dropped.leader_epoch) == ((1, 2), 1, 2)
    cluster.reassign([1, 2, 3])
    assert (cluster.partition.adding, cluster.partition.leader_epoch) == ((3,), 2)
    assert cluster.alter([1, 2, 3], leader_epoch=1) == ErrorCode.FENCED_LEADER_EPOCH


def test_race_18_member_in_controlled_shutdown() -> None:
    cluster = three_replicas()
    brokers = cluster.controller.image.brokers
    brokers[3] = brokers[3]._replace(in_controlled_shutdown=True)
    cluster.change(PartitionChange(isr=(1, 2), ineligible={3}))
    assert cluster.alter([1, 2, 3], partition_epoch=5) == ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.alter([1, 2, 3]) == ErrorCode.INELIGIBLE_REPLICA


def test_race_26_stale_epoch_is_checked_before_members() -> None:
    """INELIGIBLE_REPLICA would make the leader return to an outdated ISR."""
    cluster = three_replicas((1, 2))
    assert cluster.alter([1, 2, 3], partition_epoch=5) == 0
    cluster.fence(2)
    assert cluster.alter([1, 2, 3], partition_epoch=5) == ErrorCode.INVALID_UPDATE_VERSION
