"""A leader and a follower whose logs are those on disk."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.replication.replica import FetchResult, Replica, Transition
from quorumd.broker.replication.replica_fetch import FetchedPartition
from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from quorumd.ports import Disk
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process
from tests.support.broker.replicas import PARTITION, Context
from tests.support.log.data_batches import produced

LEADER_OF_EPOCH = {1: 1, 2: 2, 3: 1}
MAX_BYTES = 1 << 20


class Brokers:
    """Brokers 1 and 2 with one partition, in the ISR both."""

    def __init__(self, disk: Disk) -> None:
        self.context = Context()
        self.replicas = {
            broker_id: Replica(PARTITION, broker_id, self.open(disk, broker_id), self.context)
            for broker_id in (1, 2)
        }
        self.elect(1)

    def open(self, disk: Disk, broker_id: int) -> PartitionLog:
        return PartitionLog.open(disk, f"/broker-{broker_id}/t-0", PartitionLogSettings())[0]

    def elect(self, leader_epoch: int) -> None:
        """Begin an epoch, with the leader of LEADER_OF_EPOCH."""
        leader = LEADER_OF_EPOCH[leader_epoch]
        for replica in self.replicas.values():
            transition = replica.apply(Partition((1, 2), (1, 2), leader, leader_epoch, leader_epoch), 0.0)
            is_leader = replica.broker_id == leader
            assert transition is (Transition.LEADS if is_leader else Transition.FOLLOWS)

    def append(self, broker_id: int, count: int) -> None:
        """Append a batch of `count` records."""
        replica = self.replicas[broker_id]
        replica.log.append_as_leader(produced([(b"k", b"v")] * count), replica.leader_epoch, 0.0, 1000)
        replica.handle_append(0.0)

    def fetch(self) -> FetchResult:
        """Fetch once."""
        leader, follower = sorted(self.replicas.values(), key=lambda replica: replica.leadership is None)
        request = follower.next_fetch(10 * follower.broker_id)
        decision = leader.serve_fetch(request, 0.0)
        records = b""
        if decision.has_records:
            records = leader.log.read(request.offset, MAX_BYTES, decision.end_offset)
        response = FetchedPartition(
            decision.error, decision.high_watermark, decision.start_offset, records, decision.diverging
        )
        result = follower.handle_fetched(request, response, 0.0)
        if result is FetchResult.OUT_OF_RANGE:
            return follower.handle_leader_offsets(request, leader.log.start_offset, leader.log.end_offset)
        return result

    def ends(self) -> tuple[int, ...]:
        return tuple(replica.log.end_offset for replica in self.replicas.values())

    def high_watermarks(self) -> tuple[int, ...]:
        return tuple(replica.high_watermark for replica in self.replicas.values())


@pytest.fixture
def brokers() -> Brokers:
    disk = SimulatedDisk(EventHeap(), Random(1))
    disk.mount(Process("test"))
    for broker_id in (1, 2):
        disk.make_directory(f"/broker-{broker_id}")
    return Brokers(disk)


def test_batches_are_replicated_and_committed(brokers: Brokers) -> None:
    outcomes: list[ErrorCode] = []
    brokers.append(1, 3)
    brokers.replicas[1].await_replication(3, 100.0, outcomes.append)
    brokers.append(1, 2)
    assert brokers.fetch() is FetchResult.APPENDED
    assert (brokers.ends(), brokers.high_watermarks(), outcomes) == ((5, 5), (0, 0), [])
    brokers.fetch()
    assert (brokers.high_watermarks(), outcomes) == ((5, 0), [ErrorCode.NONE])
    brokers.fetch()
    assert brokers.high_watermarks() == (5, 5)


def test_previous_leader_truncates_to_the_batches_of_the_next(brokers: Brokers) -> None:
    brokers.append(1, 2)
    brokers.fetch()
    brokers.append(1, 3)
    brokers.elect(2)
    brokers.append(2, 1)
    assert brokers.fetch() is FetchResult.TRUNCATED
    assert brokers.ends() == (2, 3)
    assert brokers.fetch() is FetchResult.APPENDED
    brokers.fetch()
    assert (brokers.ends(), brokers.high_watermarks()) == ((3, 3), (2, 3))
    logs = [replica.log.read(0, MAX_BYTES, 3) for replica in brokers.replicas.values()]
    assert logs[0] == logs[1]


def test_epoch_without_records_is_not_a_divergence(brokers: Brokers) -> None:
    brokers.append(1, 2)
    brokers.fetch()
    brokers.elect(2)
    brokers.elect(3)
    assert brokers.replicas[2].next_fetch(20).last_epoch == 2, "it led in that epoch"
    while brokers.fetch() is not FetchResult.APPENDED:
        assert brokers.ends() == (2, 2)
    assert brokers.replicas[2].next_fetch(20).last_epoch == 1
    brokers.append(1, 1)
    brokers.fetch()
    brokers.fetch()
    assert (brokers.ends(), brokers.high_watermarks()[0]) == ((3, 3), 3)


def test_follower_starts_where_the_log_of_its_leader_starts(brokers: Brokers) -> None:
    for _ in range(3):
        brokers.append(1, 2)
    leader, follower = brokers.replicas.values()
    while brokers.high_watermarks() != (6, 6):
        brokers.fetch()
    assert leader.delete_records(4) is ErrorCode.NONE
    brokers.fetch()
    assert (leader.log.start_offset, follower.log.start_offset) == (4, 4)
    follower.log.reset(0)
    assert brokers.fetch() is FetchResult.TRUNCATED
    assert (follower.log.start_offset, follower.log.end_offset) == (4, 4)
    brokers.fetch()
    assert (follower.log.start_offset, follower.log.end_offset) == (4, 6)
