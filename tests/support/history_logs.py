"""Logs in which partitions, topics and brokers have a rich life."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.image_records import records_of
from quorumd.controller.record_versions import record_version
from quorumd.ids import KafkaUuid, OffsetAndEpoch
from quorumd.log.meta_properties import PARTITION_FOLDER
from quorumd.log.snapshot_file import SnapshotWriter
from quorumd.pipeline.log_files import read_folders
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import decode_record, encode_record
from quorumd.protocol.record_batch import headers, records
from quorumd.runtime.disk import OsDisk
from tests.support.history_rows import METADATA_LEVEL, log_bytes
from tests.support.naive_history import Logged
from tests.support.record_lots import NAMES, Lots
from tests.support.snapshots import voters_record

RECORDS = 400


class Happenings(Lots):
    """As others, but a topic has an id of its own, and min.insync.replicas changes."""

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
        resource = self._lots.choice([(2, self._lots.choice(NAMES)), (4, ""), (4, "1"), (32, "a")])
        value = self._lots.choice([None, "1", "2", "3", "-1", "none"])
        return ConfigRecord(*resource, "min.insync.replicas", value)


def history(seed: int, length: int = RECORDS) -> tuple[list[Logged], ClusterImage]:
    """A log, and the image at its end."""
    image, lots, log = ClusterImage(), Random(seed), []
    happenings = Happenings(seed, image)
    offset = lots.randint(0, 5)
    while len(log) < length:
        message = happenings.record()
        if message is not None:
            image.apply(message, [])
            log.append(Logged(offset, offset // 50, offset * 1000, message))
            offset += 1
    return log, image


def write_segment(folder: Path, log: list[Logged]) -> Path:
    """A data folder whose log begins where `log` does."""
    inside = folder / PARTITION_FOLDER
    inside.mkdir(parents=True, exist_ok=True)
    (inside / f"{log[0].offset:020d}.log").write_bytes(log_bytes(log))
    return folder


def write_snapshot_of(folder: Path, image: ClusterImage, end: Logged) -> None:
    """The snapshot that holds `image`; `end` is the last record that it contains."""
    values = [encode_record(record, record_version(record, METADATA_LEVEL)) for record in records_of(image)]
    snapshot = OffsetAndEpoch(end.offset + 1, end.epoch)
    disk = OsDisk(lambda call: call())
    inside, timestamp_ms = str(folder / PARTITION_FOLDER), end.ts_us // 1000
    writer = SnapshotWriter(disk, inside, snapshot, timestamp_ms, voters_record(1, 2, 3), "test")
    for start in range(0, len(values), 10):
        writer.write(values[start : start + 10])
    writer.finish()


def read_log(folder: Path) -> list[Logged]:
    """The metadata records of a data folder, by the node's own codec."""
    found = []
    for segment in read_folders({0: str(folder)})[0].segments:
        data = Path(segment.path).read_bytes()
        for header in headers(data):
            for record in [] if header.is_control else records(data, header):
                message = decode_record(record.value or b"")
                found.append(Logged(record.offset, header.epoch, record.timestamp_ms * 1000, message))
    return found
