"""Registration of brokers: the replication description, section 2.2, and races R16 and R22."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.partition import NO_LEADER, Partition
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.messages.broker_registration_request import Feature, Listener
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from tests.support.controller.broker_harness import EVERYTHING, BrokerHarness, directory, incarnation
from tests.support.controller.partition_harness import broker_epoch

SESSION_MS = 9000.0


@pytest.fixture
def cluster() -> BrokerHarness:
    """Brokers 1 to 3 are there, in one partition that 1 leads; 4 is not known."""
    cluster = BrokerHarness([1, 2, 3])
    cluster.begin(Partition((1, 2, 3), (1, 2, 3), 1))
    return cluster


def test_a_new_broker_begins_fenced_with_the_offset_of_its_record_for_an_epoch(
    cluster: BrokerHarness,
) -> None:
    offset = cluster.next_offset
    answer = cluster.register(4, rack="r")
    assert (answer.error_code, answer.broker_epoch) == (0, offset)
    broker = cluster.broker(4)
    assert (broker.epoch, broker.is_fenced, broker.in_controlled_shutdown) == (offset, True, False)
    assert (broker.incarnation_id, broker.rack) == (incarnation(4, 0), "r")
    assert [tuple(endpoint) for endpoint in broker.endpoints] == [("PLAINTEXT", "broker-4", 9092, 0)]
    assert [tuple(feature) for feature in broker.features] == list(EVERYTHING)
    assert broker.directories == (directory(4),)


def test_the_epoch_counts_the_records_before_it_in_its_batch(cluster: BrokerHarness) -> None:
    cluster.now_ms = SESSION_MS
    offset = cluster.next_offset
    answer = cluster.register(1, start=1)
    assert cluster.kinds() == ["PartitionChangeRecord", "RegisterBrokerRecord"]
    assert answer.broker_epoch == cluster.broker(1).epoch == offset + 1


def test_epochs_grow_from_start_to_start(cluster: BrokerHarness) -> None:
    epochs = [cluster.register(4, start=start).broker_epoch for start in range(3)]
    assert epochs == sorted(set(epochs))


# R22: the same start asks again


def test_a_retry_keeps_epoch_and_flags_and_its_place_in_the_isr(cluster: BrokerHarness) -> None:
    before = cluster.partition
    answer = cluster.register(1, start=0)
    assert answer.broker_epoch == broker_epoch(1)
    assert not cluster.broker(1).is_fenced
    assert cluster.partition == before
    cluster.heartbeat(1, want_shut_down=True)
    assert cluster.broker(1).in_controlled_shutdown
    cluster.register(1, start=0)
    assert cluster.broker(1).in_controlled_shutdown
    assert not cluster.broker(1).is_fenced


def test_a_retry_of_who_is_still_fenced_stays_so(cluster: BrokerHarness) -> None:
    epoch = cluster.register(4).broker_epoch
    assert cluster.register(4).broker_epoch == epoch
    assert cluster.broker(4).is_fenced


def test_registration_retry_renews_session(cluster: BrokerHarness) -> None:
    cluster.now_ms = SESSION_MS - 1
    cluster.register(1, start=0)
    assert cluster.controller.sessions.is_alive(1, SESSION_MS + 1000)


def test_a_retry_may_say_that_it_is_reached_elsewhere(cluster: BrokerHarness) -> None:
    cluster.register(1, listeners=[Listener("PLAINTEXT", "elsewhere", 1, 0)])
    assert cluster.broker(1).endpoints[0].host == "elsewhere"
    assert cluster.broker(1).epoch == broker_epoch(1)


# Another start while the one before may live


def test_another_start_waits_for_the_session_of_the_one_before(cluster: BrokerHarness) -> None:
    cluster.now_ms = SESSION_MS - 0.1
    answer = cluster.register(1, start=1)
    assert (answer.error_code, answer.broker_epoch) == (ErrorCode.DUPLICATE_BROKER_REGISTRATION, -1)
    assert cluster.last.records == ()
    cluster.now_ms = SESSION_MS
    assert cluster.register(1, start=1).error_code == 0


def test_who_is_refused_does_not_keep_the_other_alive(cluster: BrokerHarness) -> None:
    cluster.now_ms = SESSION_MS - 1
    assert cluster.register(1, start=1).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms = SESSION_MS
    assert cluster.register(1, start=1).error_code == 0


def test_a_fenced_or_draining_broker_may_start_anew_at_once(cluster: BrokerHarness) -> None:
    cluster.fall_silent(2)
    cluster.heartbeat(2, want_fence=True)
    assert cluster.register(2, start=1).error_code == 0
    cluster.heartbeat(1, want_shut_down=True)
    assert cluster.register(1, start=1).error_code == 0
    assert not cluster.broker(1).in_controlled_shutdown


# R16: a restart inside the session, and what it leaves of the broker in partitions


def test_a_start_that_may_have_lost_all_leaves_every_isr_before_it_registers(cluster: BrokerHarness) -> None:
    """Its session is over, and nobody has seen that yet: R16."""
    cluster.now_ms = SESSION_MS
    cluster.register(1, start=1)
    partition = cluster.partition
    assert (partition.isr, partition.elr, partition.leader) == ((2, 3), (), 2)
    assert (partition.leader_epoch, partition.partition_epoch) == (1, 1)
    assert cluster.kinds() == ["PartitionChangeRecord", "RegisterBrokerRecord"]


@pytest.mark.parametrize("is_clean", [True, False])
def test_only_a_clean_start_stays_eligible(cluster: BrokerHarness, is_clean: bool) -> None:
    cluster.now_ms = SESSION_MS
    cluster.fall_silent(2)
    assert (cluster.partition.isr, cluster.partition.elr) == ((1, 3), ())
    cluster.fall_silent(3)
    assert (cluster.partition.isr, cluster.partition.elr) == ((1,), (3,))
    cluster.register(3, start=1, previous_broker_epoch=broker_epoch(3) - (not is_clean))
    assert cluster.partition.elr == ((3,) if is_clean else ())
    assert cluster.partition.leader_epoch == 0
    cluster.register(1, start=1, previous_broker_epoch=broker_epoch(1) if is_clean else -1)
    partition = cluster.partition
    assert (partition.isr, partition.leader) == ((), NO_LEADER)
    assert sorted(partition.elr) == ([1, 3] if is_clean else [])


def test_a_broker_that_was_unregistered_starts_uncleanly(cluster: BrokerHarness) -> None:
    cluster.fall_silent(2)
    cluster.fall_silent(3)
    assert cluster.partition.elr == (3,)
    cluster.unregister(3)
    assert cluster.partition.elr == (3,)
    cluster.register(3, start=1, previous_broker_epoch=broker_epoch(3))
    assert cluster.partition.elr == ()


# What is refused


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [ZERO_UUID]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [KafkaUuid(bytes(15) + b"\x63")]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(4), directory(4)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(4), directory(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [Listener("A", "h", 1, 0), Listener("A", "h", 2, 0)]}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [Listener("A", "", 1, 0)]}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [Listener("A", "h", 0, 0)]}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [Listener("A", "h" * 256, 1, 0)]}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [Listener("", "h", 1, 0)]}, ErrorCode.INVALID_REGISTRATION),
        ({"rack": "r" * 256}, ErrorCode.INVALID_REGISTRATION),
        ({"is_migrating_zk_broker": True}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [Feature("metadata.version", 1, 24)]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [Feature("metadata.version", 26, 30)]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [Feature("metadata.version", 1, 30)]}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    cluster: BrokerHarness, fields: dict[str, Any], error: ErrorCode
) -> None:
    answer = cluster.register(4, **fields)
    assert (answer.error_code, answer.broker_epoch) == (error, -1)
    assert cluster.last.records == ()
    assert 4 not in cluster.controller.image.brokers


def test_an_impossible_id_is_refused(cluster: BrokerHarness) -> None:
    assert cluster.register(-1, log_dirs=[directory(9)]).error_code == ErrorCode.INVALID_REGISTRATION


def test_a_directory_stays_with_its_broker(cluster: BrokerHarness) -> None:
    cluster.now_ms = SESSION_MS
    assert cluster.register(1, start=1, log_dirs=[directory(1), directory(9)]).error_code == 0
    assert cluster.broker(1).directories == (directory(1), directory(9))


# Unregistering


def test_an_unregistered_broker_is_in_no_isr_and_not_known(cluster: BrokerHarness) -> None:
    answer = cluster.unregister(1)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert cluster.kinds() == ["PartitionChangeRecord", "UnregisterBrokerRecord"]
    assert (cluster.partition.isr, cluster.partition.leader) == ((2, 3), 2)
    assert 1 not in cluster.controller.image.brokers
    assert cluster.heartbeat(1, broker_epoch=broker_epoch(1)).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_unregistering_twice_is_an_error(cluster: BrokerHarness) -> None:
    answer = cluster.unregister(7)
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert "7" in answer.error_message
    assert cluster.last.records == ()


def test_partition_changes_come_before_the_registration(cluster: BrokerHarness) -> None:
    cluster.now_ms = SESSION_MS
    cluster.register(1, start=1)
    first, _ = cluster.last.records
    assert isinstance(first, PartitionChangeRecord)
    assert first.isr == [2, 3]
