"""Partition directories whose identity does not fit, and log directories that cannot be used."""

from __future__ import annotations

import logging

import pytest

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log_management.directories import LogDirectories, LogDirectory
from quorumd.broker.log_management.partition_directory import (
    OpenRequest,
    PartitionDirectory,
    list_partition_directories,
    open_log,
    remove_deleted,
    rename_for_deletion,
)
from quorumd.broker.log_management.topic_settings import TopicSettings
from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import DiskFull, ErrorCode, StorageError
from quorumd.ids import KafkaUuid
from quorumd.log.atomic_file import write_atomically
from quorumd.log.meta_properties import MetaProperties, save_meta_properties
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.simulator.environment.disk import SimulatedDisk
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.log.data_batches import produced

FIRST, SECOND = KafkaUuid(b"the first topic."), KafkaUuid(b"the second topic")
MARKER = KafkaUuid(b"a unique marker.")


def request(topic_id: KafkaUuid) -> OpenRequest:
    return OpenRequest("/data", "events-0", "events", 0, topic_id, PartitionLogSettings(), 1, 1, True, MARKER)


@pytest.fixture
def disk(memory_disk: SimulatedDisk) -> SimulatedDisk:
    """A directory with the log of the first topic, which has one record."""
    memory_disk.make_directory("/data")
    log = open_log(memory_disk, request(FIRST)._replace(recovery_point=0, start_offset=0, is_clean=False))
    log.append_as_leader(produced(), 0, 0.0, 1000)
    log.close()
    return memory_disk


def test_log_is_found_by_its_topic_id(disk: SimulatedDisk) -> None:
    assert list_partition_directories(disk, "/data") == [PartitionDirectory("events-0", "events", 0, FIRST)]
    assert open_log(disk, request(FIRST)).end_offset == 1


def test_log_of_an_earlier_topic_with_the_same_name_is_replaced(disk: SimulatedDisk) -> None:
    log = open_log(disk, request(SECOND))
    assert (log.start_offset, log.end_offset) == (0, 0)
    assert disk.list_directory("/data") == ["events-0"]
    assert list_partition_directories(disk, "/data") == [PartitionDirectory("events-0", "events", 0, SECOND)]


@pytest.mark.parametrize("content", [b"version: 0\ntopic_id: ?\n", None])
def test_log_without_a_topic_id_is_quarantined(
    disk: SimulatedDisk, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    disk.remove("/data/events-0/partition.metadata")
    if content is not None:
        write_atomically(disk, "/data/events-0/partition.metadata", content)
    assert list_partition_directories(disk, "/data") == [PartitionDirectory("events-0", "events", 0, None)]
    with caplog.at_level(logging.WARNING):
        assert open_log(disk, request(FIRST)).end_offset == 0
    (stray,) = [name for name in disk.list_directory("/data") if name != "events-0"]
    assert stray.endswith("-stray")
    assert stray in caplog.text
    assert any(name.endswith(".log") for name in disk.list_directory(f"/data/{stray}"))


def test_directory_without_a_topic_id_and_records_is_used(disk: SimulatedDisk) -> None:
    disk.make_directory("/data/others-0")
    log = open_log(disk, request(SECOND)._replace(name="others-0", topic="others"))
    assert log.end_offset == 0
    assert PartitionDirectory("others-0", "others", 0, SECOND) in list_partition_directories(disk, "/data")


def test_directories_that_were_renamed_for_deletion_are_removed(disk: SimulatedDisk) -> None:
    rename_for_deletion(disk, "/data/events-0", MARKER)
    assert list_partition_directories(disk, "/data") == []
    remove_deleted(disk, "/data")
    assert disk.list_directory("/data") == []


def test_directories_of_another_node_or_without_a_format_are_offline(memory_disk: SimulatedDisk) -> None:
    own = KafkaUuid(b"own directory...")
    for path, node_id in (("/own", 1), ("/another", 2)):
        memory_disk.make_directory(path)
        save_meta_properties(memory_disk, path, MetaProperties(node_id, own, "cluster"))
    memory_disk.make_directory("/blank")
    directories = LogDirectories.load(memory_disk, ("/own", "/another", "/blank"), 1)
    assert [each.path for each in directories.online] == ["/own"]
    assert directories.offline_ids == []
    assert directories.choose(KafkaUuid(b"an unknown disk."), {}) is None
    assert directories.choose(own, {}) is directories.all[0]


def test_replica_of_a_disk_that_was_replaced_gets_a_new_directory() -> None:
    """Unless its directory may be one of those that are offline."""
    directories = LogDirectories([LogDirectory("/a"), LogDirectory("/b")])
    first, second = directories.all
    for each, id in ((first, b"directory of a.."), (second, b"directory of b..")):
        each.id = KafkaUuid(id)
    replaced = KafkaUuid(b"a replaced disk.")
    assert directories.choose(replaced, {"/a": 1}) is second
    first.is_online = False
    assert directories.choose(replaced, {"/a": 1}) is None
    assert directories.choose(second.id, {}) is second


def test_topic_config_that_is_not_a_number_is_the_default() -> None:
    image = ClusterImage()
    for name in ("min.cleanable.dirty.ratio", "segment.bytes"):
        image.apply(ConfigRecord(2, "events", name, "no number"), [])
    settings, defaults = TopicSettings(image, 1, {}).log_settings("events"), PartitionLogSettings()
    assert settings.min_cleanable_dirty_ratio == defaults.min_cleanable_dirty_ratio
    assert settings.segment_bytes == defaults.segment_bytes


def test_configs_of_the_broker_and_of_all_are_those_of_topics_without_one() -> None:
    image = ClusterImage()
    image.apply(ConfigRecord(4, "", "log.segment.bytes", "3000000"), [])
    assert TopicSettings(image, 1, {}).log_settings("events").segment_bytes == 3_000_000
    image.apply(ConfigRecord(4, "1", "log.segment.bytes", "2000000"), [])
    assert TopicSettings(image, 1, {}).log_settings("events").segment_bytes == 2_000_000
    assert TopicSettings(image, 2, {}).log_settings("events").segment_bytes == 3_000_000


# With a broker


def restarted(cluster: SimulatedBrokers) -> None:
    cluster.brokers[1].start()
    cluster.run_until(lambda: cluster.brokers[1].is_unfenced)


def test_log_in_two_directories_is_kept_in_the_assigned_one() -> None:
    cluster = SimulatedBrokers(log_directories=("/first", "/second"))
    cluster.start()
    topic_id = cluster.create_topic("events", (1,))
    cluster.produce_and_wait("events")
    broker = cluster.brokers[1]
    hosted = cluster.hosted(1, "events")
    assert hosted is not None
    broker.stop()
    other = next(path for path in ("/first", "/second") if path != hosted.directory.path)
    open_log(broker.disk, request(topic_id)._replace(directory=other, recovery_point=0, start_offset=0))
    restarted(cluster)
    cluster.run_for(1_000)
    again = cluster.hosted(1, "events")
    assert again is not None
    assert again.directory.path == hosted.directory.path
    assert not broker.disk.exists(f"{other}/events-0")


def test_log_without_space_is_offline_and_opened_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimulatedBrokers()
    cluster.start()
    is_full = True

    def open_if_there_is_space(disk: SimulatedDisk, request: OpenRequest) -> PartitionLog:
        if is_full and request.number == 0:
            raise DiskFull("no space for another log")
        return open_log(disk, request)

    monkeypatch.setattr("quorumd.broker.log_management.log_manager.open_log", open_if_there_is_space)
    cluster.create_topic("events", (1,), (1,))
    cluster.await_leader("events", 1)
    assert cluster.hosted(1, "events") is None
    assert cluster.brokers[1].broker.directories.all[0].is_online
    is_full = False
    cluster.run_until(lambda: cluster.leader("events") is not None, 600_000)
    assert cluster.produce_and_wait("events").error is ErrorCode.NONE


def test_log_directory_whose_partitions_cannot_be_listed_is_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimulatedBrokers(log_directories=("/first", "/second"))
    disk = cluster.brokers[1].disk
    list_directory = disk.list_directory

    def failing(path: str) -> list[str]:
        if path == "/second":
            raise OSError("a bad block")
        return list_directory(path)

    monkeypatch.setattr(disk, "list_directory", failing)
    cluster.start()
    assert [each.is_online for each in cluster.brokers[1].broker.directories.all] == [True, False]
    cluster.create_topic("events", (1,))
    assert cluster.await_leader("events").failures == []


def test_broker_without_a_usable_directory_does_not_start() -> None:
    cluster = SimulatedBrokers()
    broker = cluster.brokers[1]
    broker.disk.remove("/data/meta.properties")
    with pytest.raises(StorageError, match="log directory"):
        broker.start()
