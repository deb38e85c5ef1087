"""Random logs with many changes of partitions, topics and brokers."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.image_records import snapshot_records
from quorumd.controller.record_versions import encode_for_version
from quorumd.ids import KafkaUuid, OffsetAndEpoch
from quorumd.log.meta_properties import PARTITION_DIRECTORY
from quorumd.log.snapshot_file import SnapshotWriter
from quorumd.pipeline.copies.log_files import read_directories
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import records
from quorumd.runtime.disk import OsDisk
from tests.support.history.reference import Logged
from tests.support.history.rows import log_bytes
from tests.support.log.snapshots import voters_record
from tests.support.protocol.random_records import NAMES, RandomRecords

RECORDS = 400

METADATA_LEVEL = 25


class RandomHistory(RandomRecords):
    """Draws records with recreated topics that have new ids, and with changes of min.insync.replicas."""

    def __init__(self, seed: int, ahead: ClusterImage) -> None:
        super().__init__(seed, ahead)
        self._kinds[self._min_isr] = 2
        self._topics = 0

    def _topic(self) -> Any:
        record = super()._topic()
        if record is None:
            return None
        self._topics += 1
        return TopicRecord(record.name, KafkaUuid(bytes(8) + self._topics.to_bytes(8, "big")))

    def _min_isr(self) -> Any:
        resource = self._random.choice([(2, self._random.choice(NAMES)), (4, ""), (4, "1"), (32, "a")])
        value = self._random.choice([None, "1", "2", "3", "-1", "none"])
        return ConfigRecord(*resource, "min.insync.replicas", value)


def history(seed: int, length: int = RECORDS) -> tuple[list[Logged], ClusterImage]:
    """Return a log and the image at its end."""
    image, random, log = ClusterImage(), Random(seed), []
    records = RandomHistory(seed, image)
    offset = random.randint(0, 5)
    while len(log) < length:
        message = records.record()
        if message is not None:
            image.apply(message, [])
            log.append(Logged(offset, offset // 50, offset * 1000, message))
            offset += 1
    return log, image


def reassigned() -> list[Logged]:
    """Return a log with a reassignment of each of the partitions 0 to 4 of topic `t` and of partition 0 of `u`."""
    topic_ids = {name: KafkaUuid(bytes(15) + name.encode()) for name in "tu"}
    begin = {"replicas": [4, 2, 3, 1], "adding": [4], "removing": [1]}
    done = {"replicas": [4, 2, 3], "adding": [], "removing": []}
    back = {"replicas": [1, 2, 3], "adding": [], "removing": []}
    # Replicas that were added before are in sync, and stay until the other reassignment is complete.
    another = {"replicas": [1, 2, 5, 3, 4], "adding": [5], "removing": [3, 4]}
    changes_by_partition: dict[tuple[str, int], list[dict[str, Any]]] = {
        ("t", 0): [begin, {"isr": [1, 2]}, done],
        ("t", 1): [begin, {"isr": [1, 2]}, back],
        ("t", 2): [begin, another, back],
        ("t", 3): [begin, back | {"isr": [2], "leader": 2, "recovering": 1}],
        ("t", 4): [begin, {"isr": [1, 2]}],
        ("u", 0): [begin],
    }
    messages: list[Any] = [TopicRecord(name, topic_id) for name, topic_id in topic_ids.items()]
    for (topic, number), changes in changes_by_partition.items():
        topic_id = topic_ids[topic]
        messages.append(PartitionRecord(number, topic_id, [1, 2, 3], [1, 2, 3], [], [], 1, 0, 0, 0, []))
        for change in changes:
            record = PartitionChangeRecord(number, topic_id, change.get("isr"))
            record.leader = change.get("leader", -2)
            record.leader_recovery_state = change.get("recovering", -1)
            record.replicas = change.get("replicas")
            record.adding_replicas, record.removing_replicas = change.get("adding"), change.get("removing")
            messages.append(record)
    messages.append(RemoveTopicRecord(topic_ids["u"]))
    return [Logged(offset, 1, offset * 1_000_000, message) for offset, message in enumerate(messages)]


def write_segment(directory: Path, log: list[Logged]) -> Path:
    """Write a data directory with this log."""
    inside = directory / PARTITION_DIRECTORY
    inside.mkdir(parents=True, exist_ok=True)
    (inside / f"{log[0].offset:020d}.log").write_bytes(log_bytes(log))
    return directory


def damage_middle(directory: Path, ending: str = ".log") -> None:
    """Flip a bit in the middle of the file of a data directory with this suffix."""
    (file,) = (directory / PARTITION_DIRECTORY).glob(f"*{ending}")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def write_snapshot_of(directory: Path, image: ClusterImage, end: Logged) -> None:
    """Write the snapshot of `image`; `end` is its last record."""
    values = [encode_for_version(record, METADATA_LEVEL) for record in snapshot_records(image)]
    snapshot = OffsetAndEpoch(end.offset + 1, end.epoch)
    disk = OsDisk(lambda call: call())
    inside, timestamp_ms = str(directory / PARTITION_DIRECTORY), end.ts_us // 1000
    writer = SnapshotWriter(disk, inside, snapshot, timestamp_ms, voters_record(1, 2, 3), "test")
    for start in range(0, len(values), 10):
        writer.write(values[start : start + 10])
    writer.finish()


def read_log(directory: Path) -> list[Logged]:
    """Read the metadata records of a data directory with the node's own codec."""
    found = []
    for segment in read_directories({0: str(directory)})[0].segments:
        data = Path(segment.path).read_bytes()
        for header in headers(data):
            for record in [] if header.is_control else records(data, header):
                message = decode_record(record.value or b"")
                found.append(Logged(record.offset, header.epoch, record.timestamp_ms * 1000, message))
    return found
