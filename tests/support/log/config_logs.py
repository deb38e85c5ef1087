"""Data directories with a log of voters and configs, from which snapshots are built."""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.log import LogSettings
from quorumd.log.high_watermark_checkpoint import HighWatermarkCheckpoint
from quorumd.log.meta_properties import partition_directory
from quorumd.log.segmented_log import SegmentedLog
from quorumd.ports import Disk
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from quorumd.protocol.wire import Message
from tests.support.log.snapshots import voters_record

DATA_DIRECTORY = "data"
SMALL_SEGMENTS = LogSettings(segment_bytes=4096, allocate_bytes=1024, index_interval_bytes=200)


class ConfigLog:
    """A log that is written batch by batch, with increasing timestamps. It starts with voters and a feature."""

    def __init__(
        self, disk: Disk, directory: str = DATA_DIRECTORY, settings: LogSettings = SMALL_SEGMENTS
    ) -> None:
        self._disk = disk
        self._directory = directory
        disk.make_directory(partition_directory(directory))
        self.log, _ = SegmentedLog.open(disk, partition_directory(directory), settings)
        self.epoch = 1
        self.batches = 0
        if self.log.end_offset == 0:
            self.append_voters(1, 2, 3)
            self.append(FeatureLevelRecord("metadata.version", 25))

    def append_voters(self, *ids: int) -> None:
        data = encode_control_batch(
            self.log.end_offset, self.epoch, self._timestamp(), [encode_control(voters_record(*ids))]
        )
        self.log.append(data, self.log.end_offset + 1)

    def append(self, *messages: Message) -> None:
        self.append_values(*(encode_record(message, 0) for message in messages))

    def append_values(self, *values: bytes) -> None:
        data = encode_batch(self.log.end_offset, self.epoch, self._timestamp(), values)
        self.log.append(data, self.log.end_offset + len(values))

    def set_configs(self, first: int, count: int, value: str = "v", batch: int = 10) -> None:
        """Set configs `first` to `first + count - 1`, `batch` per batch."""
        for start in range(first, first + count, batch):
            numbers = range(start, min(start + batch, first + count))
            self.append(*(ConfigRecord(32, f"g{n % 7}", f"c{n}", value) for n in numbers))

    def commit(self) -> int:
        """Flush the log and record it as committed; return its end offset."""
        self.log.begin_flush()()
        HighWatermarkCheckpoint(self._disk, self._directory).save(self.log.end_offset)
        return self.log.end_offset

    def _timestamp(self) -> int:
        self.batches += 1
        return 1_700_000_000_000 + self.batches


def config_values(configs: dict[tuple[int, str], dict[str, str]]) -> Sequence[tuple[str, str]]:
    """Return all configs of an image, sorted."""
    return sorted(pair for values in configs.values() for pair in values.items())
