"""Cordoned log directories (KIP-1066): what brokers say of them, and where new replicas go."""

from __future__ import annotations

import pytest

from quorumd.controller.cluster_image import METADATA_VERSION
from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from tests.support.controller.broker_harness import BrokerWorld, directory
from tests.support.controller.topic_harness import TopicWorld, a_broker, directory_of, wanted

ONE, OTHER = directory(8), directory(9)


@pytest.fixture
def world() -> BrokerWorld:
    world = BrokerWorld([1, 2, 3])
    world.controller.image.apply(FeatureLevelRecord(METADATA_VERSION, 30), [])
    world.fall_silent(1)
    world.register(1, start=1, log_dirs=[ONE, OTHER])
    return world


def topic_world(*cordoned: int) -> TopicWorld:
    """Three brokers, of which these are cordoned."""
    brokers = [a_broker(broker_id) for broker_id in (1, 2, 3)]
    return TopicWorld(tuple(b._replace(cordoned=b.directories) if b.id in cordoned else b for b in brokers))


def test_the_image_knows_what_a_broker_says(world: BrokerWorld) -> None:
    assert world.broker(1).cordoned is None
    world.heartbeat(1)
    assert world.broker(1).cordoned is None
    world.heartbeat(1, cordoned_log_dirs=[])
    assert world.broker(1).cordoned == ()
    world.heartbeat(1, cordoned_log_dirs=[ONE])
    assert (world.broker(1).cordoned, world.broker(1).is_cordoned) == ((ONE,), False)
    world.heartbeat(1, cordoned_log_dirs=[OTHER, ONE])
    assert world.broker(1).is_cordoned
    world.heartbeat(1, cordoned_log_dirs=[])
    assert not world.broker(1).is_cordoned


def test_a_heartbeat_that_says_the_same_in_another_order_is_not_written(world: BrokerWorld) -> None:
    world.heartbeat(1, cordoned_log_dirs=[ONE, OTHER])
    world.heartbeat(1, cordoned_log_dirs=[OTHER, ONE])
    assert not world.last.records


def test_cordons_come_before_what_else_a_heartbeat_changes(world: BrokerWorld) -> None:
    world.heartbeat(1, cordoned_log_dirs=[ONE])
    assert world.kinds() == ["BrokerRegistrationChangeRecord"] * 2
    assert (world.broker(1).cordoned, world.broker(1).is_fenced) == ((ONE,), False)
    world.heartbeat(1, cordoned_log_dirs=[OTHER], want_fence=True)
    assert (world.broker(1).cordoned, world.broker(1).is_fenced) == ((OTHER,), True)


def test_older_metadata_versions_have_no_cordons(world: BrokerWorld) -> None:
    world.heartbeat(1)
    world.controller.image.apply(FeatureLevelRecord(METADATA_VERSION, 29), [])
    world.heartbeat(1, cordoned_log_dirs=[ONE])
    assert not world.last.records


def test_a_registration_asked_for_again_keeps_them_and_a_new_start_forgets_them(world: BrokerWorld) -> None:
    world.heartbeat(1, cordoned_log_dirs=[ONE])
    world.register(1, start=1, log_dirs=[ONE, OTHER])
    assert world.broker(1).cordoned == (ONE,)
    world.fall_silent(1)
    world.register(1, start=2, log_dirs=[ONE, OTHER])
    assert world.broker(1).cordoned is None


def test_replicas_avoid_cordoned_brokers() -> None:
    world = topic_world(2)
    assert [result.error_code for result in world.create(wanted("topic", 20, 2))] == [0]
    assert world.grow(("topic", 40)) == [("topic", 0, None)]
    assert {broker_id for replicas in world.replicas("topic") for broker_id in replicas} == {1, 3}


def test_who_wants_more_replicas_than_there_is_room_for_is_told_why() -> None:
    error, text = topic_world(2).refusal(wanted("topic", 1, 3))
    assert error == ErrorCode.INVALID_REPLICATION_FACTOR
    assert text.endswith("All log directories of brokers [2] are cordoned.")
    error, text = topic_world(1, 2, 3).refusal(wanted("topic", 1, 1))
    assert error == ErrorCode.INVALID_REPLICATION_FACTOR
    assert text.endswith("All log directories of brokers [1, 2, 3] are cordoned.")


def test_a_broker_with_another_directory_takes_replicas() -> None:
    brokers = (a_broker(1, folders=2)._replace(cordoned=(directory_of(1),)),)
    assert [result.error_code for result in TopicWorld(brokers).create(wanted("topic", 1, 1))] == [0]


def test_assignments_to_a_cordoned_broker_are_refused() -> None:
    world = topic_world(2)
    error, text = world.refusal(wanted("topic", -1, -1, (0, [1, 2])))
    assert error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "broker 2, whose log directories are all cordoned" in text
    world.create(wanted("topic", 1, 2))
    ((_, error, text),) = world.grow(("topic", 2, [[3, 2]]))
    assert error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "broker 2, whose log directories are all cordoned" in text


def test_reassignments_to_a_cordoned_broker_are_refused_and_away_from_it_accepted(world: BrokerWorld) -> None:
    world.heartbeat(1, cordoned_log_dirs=[ONE, OTHER])
    world.begin(Partition((2, 3), (2, 3), 2))
    assert world.reassign([2, 1]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    world.begin(Partition((1, 2), (1, 2), 1))
    assert world.reassign([1, 3]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT, "as Kafka: leave it out"
    assert world.reassign([3, 2]) == 0
    assert world.reassign(None) == 0, "the way back is open"
