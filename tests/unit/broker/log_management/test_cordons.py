"""Cordoned log directories (KIP-1066): which they are, and that they get no new replicas."""

from __future__ import annotations

import pytest

from quorumd.broker.log_management.topic_settings import cordoned_paths
from quorumd.controller.broker import UNASSIGNED
from quorumd.controller.cluster_image import METADATA_VERSION, ClusterImage
from quorumd.controller.record_versions import CORDONED_SINCE
from quorumd.errors import ErrorCode
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from tests.support.broker.api_clients import Client
from tests.support.broker.moves import FIRST, SECOND, TOPIC, alter, cluster_of, hosted, other
from tests.support.broker.simulated_brokers import SimulatedBrokers


def config(value: str | None, broker: str = "1") -> ConfigRecord:
    return ConfigRecord(int(ConfigResourceType.BROKER), broker, "cordoned.log.dirs", value)


def with_cordons(*cordoned: str, **settings: object) -> SimulatedBrokers:
    cluster = SimulatedBrokers(log_directories=(FIRST, SECOND), cordoned_directories=cordoned, **settings)
    cluster.start()
    return cluster


def recorded(cluster: SimulatedBrokers) -> set[str]:
    """The paths of the directories that the controller has recorded as cordoned."""
    known = cluster.controller.image.brokers[1].cordoned or ()
    return {each.path for each in cluster.brokers[1].broker.directories.all if each.id in known}


def used(cluster: SimulatedBrokers, topic: str = TOPIC, partitions: int = 4) -> set[str]:
    """Create a topic; returns the directories of its logs."""
    cluster.create_topic(topic, *[(1,)] * partitions)
    paths = set()
    for number in range(partitions):
        cluster.await_leader(topic, number)
        found = cluster.hosted(1, topic, number)
        assert found is not None
        paths.add(found.directory.path)
    return paths


@pytest.mark.parametrize(
    ("records", "paths"),
    [
        ([], ["/default"]),
        ([config("/a, /b,", "")], ["/a", "/b"]),
        ([config("/a", ""), config("*")], ["*"]),
        ([config("/a", ""), config("")], []),
        ([config("/a", "2")], ["/default"]),
        ([config("/a"), config(None)], ["/default"]),
    ],
)
def test_value_of_the_broker_precedes_that_of_all_and_its_file(
    records: list[ConfigRecord], paths: list[str]
) -> None:
    image = ClusterImage()
    for record in records:
        image.apply(record, [])
    assert list(cordoned_paths(image, 1, ("/default",))) == paths


def test_cordoned_directory_of_the_file_is_reported_and_gets_no_new_logs() -> None:
    cluster = with_cordons(FIRST)
    cluster.run_for(100.0)
    assert recorded(cluster) == {FIRST}
    assert used(cluster) == {SECOND}


def test_config_cordons_and_uncordons_a_running_broker_at_once() -> None:
    cluster = with_cordons()
    cluster.controller.append([config(SECOND)])
    cluster.run_for(100.0)
    assert recorded(cluster) == {SECOND}
    assert used(cluster) == {FIRST}
    cluster.controller.append([config(None)])
    cluster.run_for(100.0)
    assert recorded(cluster) == set()
    assert used(cluster, "later", 8) == {FIRST, SECOND}


def test_replica_of_a_broker_whose_directories_are_all_cordoned_goes_to_the_first() -> None:
    """It was assigned before that."""
    directories = with_cordons("*").brokers[1].broker.directories
    assert directories.choose(UNASSIGNED, {FIRST: 9}) is directories.all[0]


def test_assigned_directory_is_used_though_it_is_cordoned() -> None:
    cluster = with_cordons(SECOND)
    directories = cluster.brokers[1].broker.directories
    second = directories.find(SECOND)
    assert second is not None
    assert directories.choose(second.id, {}) is second


def test_heartbeats_have_no_cordons_before_the_broker_has_caught_up() -> None:
    """An older config would lift the cordons that the controller has recorded."""
    cluster = with_cordons(FIRST)
    broker = cluster.brokers[1]
    broker.stop()
    before = len(cluster.controller.requests)
    broker.start()
    cluster.run_until(lambda: broker.is_unfenced)
    reports = [
        each.cordoned_log_dirs
        for each in cluster.controller.requests[before:]
        if isinstance(each, BrokerHeartbeatRequest)
    ]
    (directory, _) = broker.broker.directories.all
    assert reports[0] is None
    assert reports[-1] == [directory.id]
    assert [] not in reports


def test_cordons_wait_for_the_metadata_version_that_has_them() -> None:
    cluster = SimulatedBrokers(log_directories=(FIRST, SECOND), cordoned_directories=(FIRST,))
    cluster.controller.append([FeatureLevelRecord(METADATA_VERSION, CORDONED_SINCE - 1)])
    cluster.start()
    cluster.run_for(5_000.0)
    (first, _) = Client(cluster).call(DescribeLogDirsRequest(None)).results
    assert not first.is_cordoned
    heartbeats = [each for each in cluster.controller.requests if isinstance(each, BrokerHeartbeatRequest)]
    assert {each.cordoned_log_dirs for each in heartbeats} == {None}
    cluster.controller.append([FeatureLevelRecord(METADATA_VERSION, CORDONED_SINCE)])
    cluster.run_for(5_000.0)
    assert recorded(cluster) == {FIRST}


def test_no_replica_moves_to_a_cordoned_directory() -> None:
    cluster = cluster_of(1)
    origin, target = hosted(cluster).directory.path, other(cluster)
    cluster.controller.append([config("*")])
    cluster.run_for(100.0)
    assert alter(cluster, target) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert hosted(cluster).future is None
    cluster.controller.append([config(origin)])
    cluster.run_for(100.0)
    assert alter(cluster, target) is ErrorCode.NONE


@pytest.mark.parametrize("version", [4, 5])
def test_cordoned_directories_are_described(version: int) -> None:
    results = Client(with_cordons(SECOND)).call(DescribeLogDirsRequest(None), version).results
    assert [each.is_cordoned for each in results] == [False, version >= 5]


def test_directory_of_unknown_id_is_not_reported() -> None:
    cluster = SimulatedBrokers(log_directories=(FIRST, SECOND), cordoned_directories=("*",))
    disk = cluster.brokers[1].disk
    disk.rename(f"{FIRST}/meta.properties", f"{FIRST}/away")
    cluster.start()
    cluster.run_for(100.0)
    assert recorded(cluster) == {SECOND}
    assert len(cluster.controller.image.brokers[1].cordoned) == 1
