"""Registration of brokers: the replication description, section 2.2, and races R16 and R22."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.controller import ControllerSettings
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, partition_record
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.messages.broker_registration_request import Feature, Listener
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from tests.support.controller.broker_harness import EVERYTHING, BrokerHarness, directory, incarnation
from tests.support.controller.partition_harness import TOPIC_ID, broker_epoch

SESSION_MS = 9000.0


@pytest.fixture
def cluster() -> BrokerHarness:
    """Brokers 1 to 3 are registered, in one partition that 1 leads; 4 is not."""
    cluster = BrokerHarness([1, 2, 3])
    cluster.begin(Partition((1, 2, 3), (1, 2, 3), 1))
    return cluster


def test_new_broker_is_fenced_and_its_epoch_is_its_record_offset(
    cluster: BrokerHarness,
) -> None:
    offset = cluster.next_offset
    response = cluster.register(4, rack="r")
    assert (response.error_code, response.broker_epoch) == (0, offset)
    broker = cluster.broker(4)
    assert (broker.epoch, broker.is_fenced, broker.in_controlled_shutdown) == (offset, True, False)
    assert (broker.incarnation_id, broker.rack) == (incarnation(4, 0), "r")
    assert [tuple(endpoint) for endpoint in broker.endpoints] == [("PLAINTEXT", "broker-4", 9092, 0)]
    assert [tuple(feature) for feature in broker.features] == list(EVERYTHING)
    assert broker.directories == (directory(4),)


def test_broker_epoch_counts_preceding_records_of_the_batch(cluster: BrokerHarness) -> None:
    cluster.now_ms = SESSION_MS
    offset = cluster.next_offset
    response = cluster.register(1, start=1)
    assert cluster.kinds() == ["PartitionChangeRecord", "RegisterBrokerRecord"]
    assert response.broker_epoch == cluster.broker(1).epoch == offset + 1


def test_broker_epoch_grows_with_each_incarnation(cluster: BrokerHarness) -> None:
    epochs = [cluster.register(4, start=start).broker_epoch for start in range(3)]
    assert epochs == sorted(set(epochs))


# R22: the same incarnation registers again


def test_retry_keeps_epoch_flags_and_isr_membership(cluster: BrokerHarness) -> None:
    before = cluster.partition
    response = cluster.register(1, start=0)
    assert response.broker_epoch == broker_epoch(1)
    assert not cluster.broker(1).is_fenced
    assert cluster.partition == before
    cluster.heartbeat(1, want_shut_down=True)
    assert cluster.broker(1).in_controlled_shutdown
    cluster.register(1, start=0)
    assert cluster.broker(1).in_controlled_shutdown
    assert not cluster.broker(1).is_fenced


def test_retry_of_fenced_broker_stays_fenced(cluster: BrokerHarness) -> None:
    epoch = cluster.register(4).broker_epoch
    assert cluster.register(4).broker_epoch == epoch
    assert cluster.broker(4).is_fenced


def test_registration_retry_renews_session(cluster: BrokerHarness) -> None:
    cluster.now_ms = SESSION_MS - 1
    cluster.register(1, start=0)
    assert cluster.controller.sessions.is_alive(1, SESSION_MS + 1000)


def test_retry_may_change_endpoints(cluster: BrokerHarness) -> None:
    cluster.register(1, listeners=[Listener("PLAINTEXT", "elsewhere", 1, 0)])
    assert cluster.broker(1).endpoints[0].host == "elsewhere"
    assert cluster.broker(1).epoch == broker_epoch(1)


@pytest.mark.parametrize(
    "fields",
    [
        {"listeners": [Listener("A", "h", 65_535, 0)]},
        {"listeners": [Listener("A" * 255, "h" * 255, 1, 0)]},
        {"rack": "r" * 255},
        {"rack": None},
        {"rack": ""},
    ],
    ids=["port", "names", "rack", "no rack", "empty rack"],
)
def test_longest_names_and_highest_port_are_accepted(cluster: BrokerHarness, fields: dict[str, Any]) -> None:
    assert cluster.register(4, **fields).error_code == ErrorCode.NONE


# A new incarnation while the previous one may be alive


def test_new_incarnation_waits_for_the_previous_session(cluster: BrokerHarness) -> None:
    cluster.now_ms = SESSION_MS - 0.1
    response = cluster.register(1, start=1)
    assert (response.error_code, response.broker_epoch) == (ErrorCode.DUPLICATE_BROKER_REGISTRATION, -1)
    assert cluster.last.records == ()
    cluster.now_ms = SESSION_MS
    assert cluster.register(1, start=1).error_code == 0


def test_rejected_registration_does_not_renew_the_other_session(cluster: BrokerHarness) -> None:
    cluster.now_ms = SESSION_MS - 1
    assert cluster.register(1, start=1).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms = SESSION_MS
    assert cluster.register(1, start=1).error_code == 0


def test_fenced_or_stopping_broker_registers_again_immediately(cluster: BrokerHarness) -> None:
    cluster.now_ms = SESSION_MS
    cluster.fall_silent(2)
    assert cluster.register(2, start=1).error_code == 0
    cluster.heartbeat(1, want_shut_down=True)
    assert cluster.register(1, start=1).error_code == 0
    assert not cluster.broker(1).in_controlled_shutdown


def test_broker_that_stopped_without_leaderships_registers_again_immediately(cluster: BrokerHarness) -> None:
    assert cluster.heartbeat(3, want_shut_down=True).should_shut_down
    assert not cluster.broker(3).in_controlled_shutdown
    assert cluster.register(3, start=1).error_code == 0


# R27: a registration that was sent before the present incarnation started arrives late


def test_race_27_delayed_registration_does_not_replace_a_starting_broker(cluster: BrokerHarness) -> None:
    epoch = cluster.register(4, start=2).broker_epoch
    cluster.heartbeat(4, epoch - 1, want_fence=True)
    assert cluster.register(4, start=1).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert cluster.heartbeat(4, epoch, want_fence=False).error_code == 0
    assert not cluster.broker(4).is_fenced


def test_incarnation_that_ended_while_it_started_is_replaced_after_its_session(
    cluster: BrokerHarness,
) -> None:
    cluster.heartbeat(4, cluster.register(4).broker_epoch, want_fence=True)
    assert cluster.register(4, start=1).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms = SESSION_MS
    assert cluster.register(4, start=1).error_code == 0


# R16: a restart within the session


def test_unclean_incarnation_leaves_every_isr_before_it_registers(cluster: BrokerHarness) -> None:
    """Its session has expired but is not fenced yet: R16."""
    cluster.now_ms = SESSION_MS
    cluster.register(1, start=1)
    partition = cluster.partition
    assert (partition.isr, partition.elr, partition.leader) == ((2, 3), (), 2)
    assert (partition.leader_epoch, partition.partition_epoch) == (1, 1)
    assert cluster.kinds() == ["PartitionChangeRecord", "RegisterBrokerRecord"]


@pytest.mark.parametrize(("partitions", "error"), [(3, 0), (4, ErrorCode.DUPLICATE_BROKER_REGISTRATION)])
def test_incarnation_with_more_partitions_than_a_step_is_fenced_before_it_is_replaced(
    cluster: BrokerHarness, partitions: int, error: int
) -> None:
    cluster.controller.settings = ControllerSettings(max_partitions_per_step=3)
    for number in range(1, partitions):
        cluster.apply(partition_record(PartitionId(TOPIC_ID, number), Partition((1,), (1,), 1)))
    cluster.now_ms = SESSION_MS
    assert cluster.register(1, start=1).error_code == error


@pytest.mark.parametrize("is_clean", [True, False])
def test_only_clean_shutdown_keeps_eligibility(cluster: BrokerHarness, is_clean: bool) -> None:
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


def test_unregistered_broker_is_unclean_when_it_registers_again(cluster: BrokerHarness) -> None:
    cluster.fall_silent(2)
    cluster.fall_silent(3)
    assert cluster.partition.elr == (3,)
    cluster.unregister(3)
    assert cluster.partition.elr == (3,)
    cluster.register(3, start=1, previous_broker_epoch=broker_epoch(3))
    assert cluster.partition.elr == ()


# Rejected requests


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
        ({"rack": "r\x1b[2J"}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [Listener("A", "h\n", 1, 0)]}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [Listener("A\x9b", "h", 1, 0)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": [Feature("f\u202e", 0, 1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"is_migrating_zk_broker": True}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [Feature("metadata.version", 1, 24)]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [Feature("metadata.version", 26, 30)]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [Feature("metadata.version", 1, 30)]}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_invalid_registration_is_rejected_without_changes(
    cluster: BrokerHarness, fields: dict[str, Any], error: ErrorCode
) -> None:
    response = cluster.register(4, **fields)
    assert (response.error_code, response.broker_epoch) == (error, -1)
    assert cluster.last.records == ()
    assert 4 not in cluster.controller.image.brokers


def test_rack_of_255_characters_is_accepted(cluster: BrokerHarness) -> None:
    assert cluster.register(4, rack="r" * 255).error_code == 0


def test_first_directory_id_that_is_not_reserved_is_accepted(cluster: BrokerHarness) -> None:
    lowest = KafkaUuid(bytes(15) + b"\x64")
    assert cluster.register(4, log_dirs=[lowest]).error_code == 0
    assert cluster.broker(4).directories == (lowest,)


def test_invalid_broker_id_is_rejected(cluster: BrokerHarness) -> None:
    assert cluster.register(-1, log_dirs=[directory(9)]).error_code == ErrorCode.INVALID_REGISTRATION


def test_new_incarnation_keeps_its_directory_and_adds_one(cluster: BrokerHarness) -> None:
    cluster.now_ms = SESSION_MS
    assert cluster.register(1, start=1, log_dirs=[directory(1), directory(9)]).error_code == 0
    assert cluster.broker(1).directories == (directory(1), directory(9))


# Unregistration


def test_unregistered_broker_leaves_every_isr_and_the_image(cluster: BrokerHarness) -> None:
    response = cluster.unregister(1)
    assert (response.error_code, response.error_message) == (0, None)
    assert cluster.kinds() == ["PartitionChangeRecord", "UnregisterBrokerRecord"]
    assert (cluster.partition.isr, cluster.partition.leader) == ((2, 3), 2)
    assert 1 not in cluster.controller.image.brokers
    assert cluster.heartbeat(1, broker_epoch=broker_epoch(1)).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_unregistering_twice_is_an_error(cluster: BrokerHarness) -> None:
    response = cluster.unregister(7)
    assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert "7" in response.error_message
    assert cluster.last.records == ()


def test_partition_changes_come_before_the_registration(cluster: BrokerHarness) -> None:
    cluster.now_ms = SESSION_MS
    cluster.register(1, start=1)
    first, _ = cluster.last.records
    assert isinstance(first, PartitionChangeRecord)
    assert first.isr == [2, 3]
