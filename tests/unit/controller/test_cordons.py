"""Cordoned log directories (KIP-1066): their registration and the placement of new replicas."""

from __future__ import annotations

import pytest

from quorumd.controller.cluster_image import METADATA_VERSION
from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from tests.support.controller.broker_harness import BrokerHarness, directory
from tests.support.controller.topic_harness import TopicHarness, a_broker, directory_of, wanted
from tests.support.text import shows

ONE, OTHER = directory(8), directory(9)


@pytest.fixture
def cluster() -> BrokerHarness:
    cluster = BrokerHarness([1, 2, 3])
    cluster.controller.image.apply(FeatureLevelRecord(METADATA_VERSION, 30), [])
    cluster.fall_silent(1)
    cluster.register(1, start=1, log_dirs=[ONE, OTHER])
    return cluster


def topic_cluster(*cordoned: int) -> TopicHarness:
    """Three brokers; the log directories of `cordoned` are cordoned."""
    brokers = [a_broker(broker_id) for broker_id in (1, 2, 3)]
    return TopicHarness(tuple(b._replace(cordoned=b.directories) if b.id in cordoned else b for b in brokers))


def test_registered_cordons_are_in_the_image(cluster: BrokerHarness) -> None:
    assert cluster.broker(1).cordoned is None
    cluster.heartbeat(1)
    assert cluster.broker(1).cordoned is None
    cluster.heartbeat(1, cordoned_log_dirs=[])
    assert cluster.broker(1).cordoned == ()
    cluster.heartbeat(1, cordoned_log_dirs=[ONE])
    assert (cluster.broker(1).cordoned, cluster.broker(1).is_cordoned) == ((ONE,), False)
    cluster.heartbeat(1, cordoned_log_dirs=[OTHER, ONE])
    assert cluster.broker(1).is_cordoned
    cluster.heartbeat(1, cordoned_log_dirs=[])
    assert not cluster.broker(1).is_cordoned


def test_heartbeat_with_reordered_cordons_writes_no_record(cluster: BrokerHarness) -> None:
    cluster.heartbeat(1, cordoned_log_dirs=[ONE, OTHER])
    cluster.heartbeat(1, cordoned_log_dirs=[OTHER, ONE])
    assert not cluster.last.records


def test_cordon_record_precedes_other_heartbeat_records(cluster: BrokerHarness) -> None:
    cluster.heartbeat(1, cordoned_log_dirs=[ONE])
    assert cluster.kinds() == ["BrokerRegistrationChangeRecord"] * 2
    assert (cluster.broker(1).cordoned, cluster.broker(1).is_fenced) == ((ONE,), False)
    cluster.heartbeat(1, cordoned_log_dirs=[OTHER], want_fence=True)
    assert (cluster.broker(1).cordoned, cluster.broker(1).is_fenced) == ((OTHER,), True)


def test_older_metadata_versions_ignore_cordons(cluster: BrokerHarness) -> None:
    cluster.heartbeat(1)
    cluster.controller.image.apply(FeatureLevelRecord(METADATA_VERSION, 29), [])
    cluster.heartbeat(1, cordoned_log_dirs=[ONE])
    assert not cluster.last.records


def test_registration_retry_keeps_cordons_and_new_incarnation_drops_them(
    cluster: BrokerHarness,
) -> None:
    cluster.heartbeat(1, cordoned_log_dirs=[ONE])
    cluster.register(1, start=1, log_dirs=[ONE, OTHER])
    assert cluster.broker(1).cordoned == (ONE,)
    cluster.fall_silent(1)
    cluster.register(1, start=2, log_dirs=[ONE, OTHER])
    assert cluster.broker(1).cordoned is None


def test_replicas_avoid_cordoned_brokers() -> None:
    cluster = topic_cluster(2)
    assert [result.error_code for result in cluster.create(wanted("topic", 20, 2))] == [0]
    assert cluster.grow(("topic", 40)) == [("topic", 0, None)]
    assert {broker_id for replicas in cluster.replicas("topic") for broker_id in replicas} == {1, 3}


def test_error_names_cordoned_brokers_when_replicas_do_not_fit() -> None:
    error, text = topic_cluster(2).refusal(wanted("topic", 1, 3))
    assert error == ErrorCode.INVALID_REPLICATION_FACTOR
    assert shows(text, "[2]", "cordoned")
    error, text = topic_cluster(1, 2, 3).refusal(wanted("topic", 1, 1))
    assert error == ErrorCode.INVALID_REPLICATION_FACTOR
    assert shows(text, "[1, 2, 3]", "cordoned")


def test_broker_with_an_uncordoned_directory_accepts_replicas() -> None:
    brokers = (a_broker(1, directory_count=2)._replace(cordoned=(directory_of(1),)),)
    assert [result.error_code for result in TopicHarness(brokers).create(wanted("topic", 1, 1))] == [0]


def test_assignment_to_cordoned_broker_is_rejected() -> None:
    cluster = topic_cluster(2)
    error, text = cluster.refusal(wanted("topic", -1, -1, (0, [1, 2])))
    assert error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert shows(text, "broker 2", "cordoned")
    cluster.create(wanted("topic", 1, 2))
    ((_, error, text),) = cluster.grow(("topic", 2, [[3, 2]]))
    assert error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert shows(text, "broker 2", "cordoned")


def test_reassignments_to_a_cordoned_broker_are_refused_and_away_from_it_accepted(
    cluster: BrokerHarness,
) -> None:
    cluster.heartbeat(1, cordoned_log_dirs=[ONE, OTHER])
    cluster.begin(Partition((2, 3), (2, 3), 2))
    assert cluster.reassign([2, 1]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    cluster.begin(Partition((1, 2), (1, 2), 1))
    assert cluster.reassign([1, 3]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT, "as Kafka: leave it out"
    assert cluster.reassign([3, 2]) == 0
    assert cluster.reassign(None) == 0, "the way back is open"
