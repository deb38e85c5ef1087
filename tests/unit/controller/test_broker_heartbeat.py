"""What brokers become by their heartbeats: the replication description, sections 2.4 and 2.5, and race R18."""

from __future__ import annotations

import pytest

from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, partition_record
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.controller.broker_harness import BrokerWorld, directory
from tests.support.controller.partition_harness import broker_epoch

OTHER = KafkaUuid(b"of another topic")


@pytest.fixture
def world() -> BrokerWorld:
    world = BrokerWorld([1, 2, 3])
    world.begin(Partition((1, 2, 3), (1, 2, 3), 1))
    return world


def become(answer: object) -> tuple[bool, bool, bool]:
    """(is caught up, is fenced, should shut down)."""
    return answer.is_caught_up, answer.is_fenced, answer.should_shut_down  # type: ignore[attr-defined]  # generated


def test_heartbeat_without_state_change_writes_no_record(world: BrokerWorld) -> None:
    assert become(world.heartbeat(1)) == (True, False, False)
    assert world.last.records == ()


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, broker_epoch(1) - 1), (1, broker_epoch(1) + 1), (9, 5)])
def test_heartbeat_with_stale_broker_epoch_is_rejected(
    world: BrokerWorld, broker_id: int, epoch: int
) -> None:
    world.now_ms = 5000.0
    answer = world.heartbeat(broker_id, broker_epoch=epoch, want_fence=True)
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert world.last.records == ()
    assert not world.controller.sessions.is_alive(broker_id, 9000.0)


def test_a_broker_is_unfenced_once_it_has_its_registration_and_wants_to_be(world: BrokerWorld) -> None:
    epoch = world.register(4).broker_epoch
    assert become(world.heartbeat(4, epoch - 1, want_fence=False)) == (False, True, False)
    assert become(world.heartbeat(4, epoch, want_fence=True)) == (True, True, False)
    assert world.last.records == ()
    assert become(world.heartbeat(4, epoch, want_fence=False)) == (True, False, False)
    assert world.kinds() == ["BrokerRegistrationChangeRecord"]
    assert not world.broker(4).is_fenced


def test_broker_is_fenced_on_request(world: BrokerWorld) -> None:
    assert become(world.heartbeat(1, want_fence=True)) == (True, True, False)
    assert world.kinds() == ["PartitionChangeRecord", "BrokerRegistrationChangeRecord"]
    assert (world.partition.isr, world.partition.leader) == ((2, 3), 2)
    assert world.broker(1).is_fenced


def test_fencing_broker_outside_isr_keeps_partition_epoch(world: BrokerWorld) -> None:
    """KIP-903 is needed because of that."""
    world.fall_silent(3)
    world.heartbeat(3)
    before = world.partition
    world.heartbeat(3, want_fence=True)
    assert world.kinds() == ["BrokerRegistrationChangeRecord"]
    assert world.partition == before


def test_unfenced_broker_leads_leaderless_partitions_and_joins_no_isr(world: BrokerWorld) -> None:
    for broker_id in (3, 2, 1):
        world.fall_silent(broker_id)
    assert (world.partition.isr, sorted(world.partition.elr), world.partition.leader) == (
        (),
        [1, 2],
        NO_LEADER,
    )
    world.heartbeat(3)
    assert world.kinds() == ["BrokerRegistrationChangeRecord"], "3 may lack committed records"
    world.heartbeat(2)
    assert world.kinds() == ["BrokerRegistrationChangeRecord", "PartitionChangeRecord"]
    assert (world.partition.isr, world.partition.leader) == ((2,), 2)
    epoch = world.partition.partition_epoch
    world.heartbeat(1)
    assert world.partition.partition_epoch == epoch


# Drains


def test_broker_without_leadership_shuts_down_immediately(world: BrokerWorld) -> None:
    assert become(world.heartbeat(2, want_shut_down=True)) == (True, True, True)
    assert world.kinds() == ["PartitionChangeRecord", "BrokerRegistrationChangeRecord"]
    assert world.partition.isr == (1, 3)
    assert become(world.heartbeat(2, want_shut_down=True)) == (True, True, True)
    assert world.last.records == ()


def test_leader_enters_controlled_shutdown(world: BrokerWorld) -> None:
    assert become(world.heartbeat(1, want_shut_down=True)) == (True, False, False)
    assert world.kinds() == ["BrokerRegistrationChangeRecord", "PartitionChangeRecord"]
    first = world.last.records[0]
    assert isinstance(first, BrokerRegistrationChangeRecord)
    assert (first.fenced, first.in_controlled_shutdown) == (0, 1)
    assert (world.partition.isr, world.partition.leader) == ((2, 3), 2)
    assert world.broker(1).in_controlled_shutdown
    assert not world.broker(1).is_fenced


def test_controlled_shutdown_completes_when_all_brokers_caught_up(world: BrokerWorld) -> None:
    world.heartbeat(1, want_shut_down=True)
    drained = world.next_offset - 1
    assert become(world.heartbeat(1, want_shut_down=True)) == (True, False, False)
    world.heartbeat(2, drained)
    world.heartbeat(3, drained - 1)
    assert become(world.heartbeat(1, want_shut_down=True)) == (True, False, False)
    world.apply(TopicRecord("later", OTHER))
    world.heartbeat(3, drained)
    assert become(world.heartbeat(1, want_shut_down=True)) == (True, True, True)
    assert world.kinds() == ["BrokerRegistrationChangeRecord"]
    assert world.broker(1).is_fenced


def test_controlled_shutdown_ignores_fenced_brokers(world: BrokerWorld) -> None:
    world.fall_silent(3)
    world.heartbeat(1, want_shut_down=True)
    world.heartbeat(1, want_shut_down=True)
    world.heartbeat(2)
    assert become(world.heartbeat(1, want_shut_down=True)) == (True, True, True)


def test_a_drain_that_a_leader_did_not_finish_is_finished_by_the_next(world: BrokerWorld) -> None:
    """The log ends between the change of the broker and those of its partitions."""
    world.apply(BrokerRegistrationChangeRecord(1, broker_epoch(1), 0, 1))
    for broker_id in (2, 3):
        world.heartbeat(broker_id)
    assert become(world.heartbeat(1, want_shut_down=True)) == (True, False, False)
    assert world.kinds() == ["PartitionChangeRecord"]
    assert (world.partition.isr, world.partition.leader) == ((2, 3), 2)
    assert become(world.heartbeat(1, want_shut_down=True)) == (True, False, False), "2 and 3 do not know"
    for broker_id in (2, 3):
        world.heartbeat(broker_id)
    assert become(world.heartbeat(1, want_shut_down=True)) == (True, True, True)


def test_a_new_leader_lets_a_drained_broker_stop(world: BrokerWorld) -> None:
    world.heartbeat(1, want_shut_down=True)
    world.heartbeat(1, want_shut_down=True)
    world.controller.sessions.begin(world.controller.image.brokers.values(), world.now_ms)
    world.heartbeat(1, want_shut_down=True)
    for broker_id in (2, 3):
        world.heartbeat(broker_id)
    assert become(world.heartbeat(1, want_shut_down=True)) == (True, True, True)


def test_broker_in_controlled_shutdown_joins_no_isr(world: BrokerWorld) -> None:
    """R18."""
    world.begin(Partition((1, 2, 3), (1, 2, 3), 1))
    world.apply(
        partition_record(PartitionId(world.controller.image.topic_ids["moved"], 1), Partition((3,), (3,), 3))
    )
    world.heartbeat(3, want_shut_down=True)
    assert world.broker(3).in_controlled_shutdown
    assert world.partition.isr == (1, 2)
    assert world.alter([1, 2, 3], partition_epoch=0) == ErrorCode.INVALID_UPDATE_VERSION
    assert world.alter([1, 2, 3]) == ErrorCode.INELIGIBLE_REPLICA
    world.register(3, start=1, previous_broker_epoch=broker_epoch(3))
    assert world.alter([1, 2, 3]) == ErrorCode.INELIGIBLE_REPLICA
    world.heartbeat(3)
    assert world.alter([1, 2, 3]) == 0


def test_fence_and_shutdown_requested_together(world: BrokerWorld) -> None:
    assert become(world.heartbeat(1, want_fence=True, want_shut_down=True)) == (True, True, True)
    assert world.partition.leader == 2


def test_fenced_broker_may_shut_down(world: BrokerWorld) -> None:
    world.fall_silent(1)
    assert become(world.heartbeat(1, want_shut_down=True)) == (True, True, True)
    assert world.last.records == ()


# Directories that were lost (KIP-858)


def test_replicas_in_offline_directory_leave_isr() -> None:
    world = BrokerWorld([1, 2, 3])
    bad, good = directory(8), directory(9)
    world.fall_silent(1)
    world.register(1, start=1, log_dirs=[bad, good])
    world.heartbeat(1)
    world.begin(Partition((1, 2, 3), (1, 2, 3), 1, directories=(bad, directory(2), directory(3))))
    topic_id = world.controller.image.topic_ids["moved"]
    other = PartitionId(topic_id, 1)
    world.apply(
        partition_record(other, Partition((1, 2), (1, 2), 1, directories=(good, directory(2)))),
    )
    assert become(world.heartbeat(1, offline_log_dirs=[bad])) == (True, False, False)
    assert world.kinds() == ["PartitionChangeRecord", "BrokerRegistrationChangeRecord"]
    assert (world.partition.isr, world.partition.leader) == ((2, 3), 2)
    assert world.controller.image.topics[topic_id].partitions[1].leader == 1
    assert world.broker(1).directories == (good,)
    world.heartbeat(1, offline_log_dirs=[bad])
    assert world.last.records == ()


def test_a_broker_without_any_directory_keeps_its_registration(world: BrokerWorld) -> None:
    """It stops by itself; a registration cannot be without directories."""
    world.begin(Partition((1, 2), (1, 2), 1, directories=(directory(1), directory(2))))
    world.heartbeat(1, offline_log_dirs=[directory(1)])
    assert world.kinds() == ["PartitionChangeRecord"]
    assert world.partition.leader == 2
    world.heartbeat(1, offline_log_dirs=[directory(1)])
    assert world.last.records == []


def test_a_directory_that_was_lost_before_the_broker_was_unfenced_elects_nobody() -> None:
    world = BrokerWorld([1])
    bad, good = directory(8), directory(9)
    world.fall_silent(1)
    world.register(1, start=1, log_dirs=[bad, good])
    partition = Partition((1,), (), NO_LEADER, elr=(1,), directories=(bad,))
    world.begin(partition)
    assert become(world.heartbeat(1, offline_log_dirs=[bad])) == (True, True, False)
    assert become(world.heartbeat(1, offline_log_dirs=[bad])) == (True, False, False)
    assert world.partition.leader == NO_LEADER
