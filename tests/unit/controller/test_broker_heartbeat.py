"""Broker states after heartbeats: the replication description, sections 2.4 and 2.5, and race R18."""

from __future__ import annotations

import pytest

from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, partition_record
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.controller.broker_harness import BrokerHarness, directory
from tests.support.controller.partition_harness import broker_epoch

OTHER = KafkaUuid(b"of another topic")


@pytest.fixture
def cluster() -> BrokerHarness:
    cluster = BrokerHarness([1, 2, 3])
    cluster.begin(Partition((1, 2, 3), (1, 2, 3), 1))
    return cluster


def become(response: object) -> tuple[bool, bool, bool]:
    """(is caught up, is fenced, should shut down)."""
    return response.is_caught_up, response.is_fenced, response.should_shut_down  # type: ignore[attr-defined]  # generated


def test_heartbeat_without_state_change_writes_no_record(cluster: BrokerHarness) -> None:
    assert become(cluster.heartbeat(1)) == (True, False, False)
    assert cluster.last.records == ()


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, broker_epoch(1) - 1), (1, broker_epoch(1) + 1), (9, 5)])
def test_heartbeat_with_stale_broker_epoch_is_rejected(
    cluster: BrokerHarness, broker_id: int, epoch: int
) -> None:
    cluster.now_ms = 5000.0
    response = cluster.heartbeat(broker_id, broker_epoch=epoch, want_fence=True)
    assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert cluster.last.records == ()
    assert not cluster.controller.sessions.is_alive(broker_id, 9000.0)


def test_caught_up_broker_is_unfenced_on_request(cluster: BrokerHarness) -> None:
    epoch = cluster.register(4).broker_epoch
    assert become(cluster.heartbeat(4, epoch - 1, want_fence=False)) == (False, True, False)
    assert become(cluster.heartbeat(4, epoch, want_fence=True)) == (True, True, False)
    assert cluster.last.records == ()
    assert become(cluster.heartbeat(4, epoch, want_fence=False)) == (True, False, False)
    assert cluster.kinds() == ["BrokerRegistrationChangeRecord"]
    assert not cluster.broker(4).is_fenced


def test_broker_is_fenced_on_request(cluster: BrokerHarness) -> None:
    assert become(cluster.heartbeat(1, want_fence=True)) == (True, True, False)
    assert cluster.kinds() == ["PartitionChangeRecord", "BrokerRegistrationChangeRecord"]
    assert (cluster.partition.isr, cluster.partition.leader) == ((2, 3), 2)
    assert cluster.broker(1).is_fenced


def test_fencing_broker_outside_isr_keeps_partition_epoch(cluster: BrokerHarness) -> None:
    """This is why KIP-903 is needed."""
    cluster.fall_silent(3)
    cluster.heartbeat(3)
    before = cluster.partition
    cluster.heartbeat(3, want_fence=True)
    assert cluster.kinds() == ["BrokerRegistrationChangeRecord"]
    assert cluster.partition == before


def test_unfenced_broker_leads_leaderless_partitions_and_joins_no_isr(cluster: BrokerHarness) -> None:
    for broker_id in (3, 2, 1):
        cluster.fall_silent(broker_id)
    assert (cluster.partition.isr, sorted(cluster.partition.elr), cluster.partition.leader) == (
        (),
        [1, 2],
        NO_LEADER,
    )
    cluster.heartbeat(3)
    assert cluster.kinds() == ["BrokerRegistrationChangeRecord"], "3 may lack committed records"
    cluster.heartbeat(2)
    assert cluster.kinds() == ["BrokerRegistrationChangeRecord", "PartitionChangeRecord"]
    assert (cluster.partition.isr, cluster.partition.leader) == ((2,), 2)
    epoch = cluster.partition.partition_epoch
    cluster.heartbeat(1)
    assert cluster.partition.partition_epoch == epoch


# Drains


def test_broker_without_leadership_shuts_down_immediately(cluster: BrokerHarness) -> None:
    assert become(cluster.heartbeat(2, want_shut_down=True)) == (True, True, True)
    assert cluster.kinds() == ["PartitionChangeRecord", "BrokerRegistrationChangeRecord"]
    assert cluster.partition.isr == (1, 3)
    assert become(cluster.heartbeat(2, want_shut_down=True)) == (True, True, True)
    assert cluster.last.records == ()


def test_leader_enters_controlled_shutdown(cluster: BrokerHarness) -> None:
    assert become(cluster.heartbeat(1, want_shut_down=True)) == (True, False, False)
    assert cluster.kinds() == ["BrokerRegistrationChangeRecord", "PartitionChangeRecord"]
    first = cluster.last.records[0]
    assert isinstance(first, BrokerRegistrationChangeRecord)
    assert (first.fenced, first.in_controlled_shutdown) == (0, 1)
    assert (cluster.partition.isr, cluster.partition.leader) == ((2, 3), 2)
    assert cluster.broker(1).in_controlled_shutdown
    assert not cluster.broker(1).is_fenced


def test_controlled_shutdown_completes_when_all_brokers_caught_up(cluster: BrokerHarness) -> None:
    cluster.heartbeat(1, want_shut_down=True)
    drained = cluster.next_offset - 1
    assert become(cluster.heartbeat(1, want_shut_down=True)) == (True, False, False)
    cluster.heartbeat(2, drained)
    cluster.heartbeat(3, drained - 1)
    assert become(cluster.heartbeat(1, want_shut_down=True)) == (True, False, False)
    cluster.apply(TopicRecord("later", OTHER))
    cluster.heartbeat(3, drained)
    assert become(cluster.heartbeat(1, want_shut_down=True)) == (True, True, True)
    assert cluster.kinds() == ["BrokerRegistrationChangeRecord"]
    assert cluster.broker(1).is_fenced


def test_controlled_shutdown_ignores_fenced_brokers(cluster: BrokerHarness) -> None:
    cluster.fall_silent(3)
    cluster.heartbeat(1, want_shut_down=True)
    cluster.heartbeat(1, want_shut_down=True)
    cluster.heartbeat(2)
    assert become(cluster.heartbeat(1, want_shut_down=True)) == (True, True, True)


def test_next_leader_finishes_an_interrupted_controlled_shutdown(cluster: BrokerHarness) -> None:
    """The log ends between the record of the broker and those of its partitions."""
    cluster.apply(BrokerRegistrationChangeRecord(1, broker_epoch(1), 0, 1))
    for broker_id in (2, 3):
        cluster.heartbeat(broker_id)
    assert become(cluster.heartbeat(1, want_shut_down=True)) == (True, False, False)
    assert cluster.kinds() == ["PartitionChangeRecord"]
    assert (cluster.partition.isr, cluster.partition.leader) == ((2, 3), 2)
    assert become(cluster.heartbeat(1, want_shut_down=True)) == (True, False, False), "2 and 3 do not know"
    for broker_id in (2, 3):
        cluster.heartbeat(broker_id)
    assert become(cluster.heartbeat(1, want_shut_down=True)) == (True, True, True)


def test_new_leader_completes_a_controlled_shutdown(cluster: BrokerHarness) -> None:
    cluster.heartbeat(1, want_shut_down=True)
    cluster.heartbeat(1, want_shut_down=True)
    cluster.controller.sessions.begin(cluster.controller.image.brokers.values(), cluster.now_ms)
    cluster.heartbeat(1, want_shut_down=True)
    for broker_id in (2, 3):
        cluster.heartbeat(broker_id)
    assert become(cluster.heartbeat(1, want_shut_down=True)) == (True, True, True)


def test_broker_in_controlled_shutdown_joins_no_isr(cluster: BrokerHarness) -> None:
    """R18."""
    cluster.begin(Partition((1, 2, 3), (1, 2, 3), 1))
    cluster.apply(
        partition_record(
            PartitionId(cluster.controller.image.topic_ids["moved"], 1), Partition((3,), (3,), 3)
        )
    )
    cluster.heartbeat(3, want_shut_down=True)
    assert cluster.broker(3).in_controlled_shutdown
    assert cluster.partition.isr == (1, 2)
    assert cluster.alter([1, 2, 3], partition_epoch=0) == ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.alter([1, 2, 3]) == ErrorCode.INELIGIBLE_REPLICA
    cluster.register(3, start=1, previous_broker_epoch=broker_epoch(3))
    assert cluster.alter([1, 2, 3]) == ErrorCode.INELIGIBLE_REPLICA
    cluster.heartbeat(3)
    assert cluster.alter([1, 2, 3]) == 0


def test_fence_and_shutdown_requested_together(cluster: BrokerHarness) -> None:
    assert become(cluster.heartbeat(1, want_fence=True, want_shut_down=True)) == (True, True, True)
    assert cluster.partition.leader == 2


def test_fenced_broker_may_shut_down(cluster: BrokerHarness) -> None:
    cluster.fall_silent(1)
    assert become(cluster.heartbeat(1, want_shut_down=True)) == (True, True, True)
    assert cluster.last.records == ()


# Offline log directories (KIP-858)


def test_replicas_in_offline_directory_leave_isr() -> None:
    cluster = BrokerHarness([1, 2, 3])
    bad, good = directory(8), directory(9)
    cluster.fall_silent(1)
    cluster.register(1, start=1, log_dirs=[bad, good])
    cluster.heartbeat(1)
    cluster.begin(Partition((1, 2, 3), (1, 2, 3), 1, directories=(bad, directory(2), directory(3))))
    topic_id = cluster.controller.image.topic_ids["moved"]
    other = PartitionId(topic_id, 1)
    cluster.apply(
        partition_record(other, Partition((1, 2), (1, 2), 1, directories=(good, directory(2)))),
    )
    assert become(cluster.heartbeat(1, offline_log_dirs=[bad])) == (True, False, False)
    assert cluster.kinds() == ["PartitionChangeRecord", "BrokerRegistrationChangeRecord"]
    assert (cluster.partition.isr, cluster.partition.leader) == ((2, 3), 2)
    assert cluster.controller.image.topics[topic_id].partitions[1].leader == 1
    assert cluster.broker(1).directories == (good,)
    cluster.heartbeat(1, offline_log_dirs=[bad])
    assert cluster.last.records == ()


def test_broker_without_online_directories_stays_registered(cluster: BrokerHarness) -> None:
    """It shuts down by itself; a registration needs a directory."""
    cluster.begin(Partition((1, 2), (1, 2), 1, directories=(directory(1), directory(2))))
    cluster.heartbeat(1, offline_log_dirs=[directory(1)])
    assert cluster.kinds() == ["PartitionChangeRecord"]
    assert cluster.partition.leader == 2
    cluster.heartbeat(1, offline_log_dirs=[directory(1)])
    assert cluster.last.records == []


def test_directory_lost_while_fenced_starts_no_election() -> None:
    cluster = BrokerHarness([1])
    bad, good = directory(8), directory(9)
    cluster.fall_silent(1)
    cluster.register(1, start=1, log_dirs=[bad, good])
    partition = Partition((1,), (), NO_LEADER, elr=(1,), directories=(bad,))
    cluster.begin(partition)
    assert become(cluster.heartbeat(1, offline_log_dirs=[bad])) == (True, True, False)
    assert become(cluster.heartbeat(1, offline_log_dirs=[bad])) == (True, False, False)
    assert cluster.partition.leader == NO_LEADER
