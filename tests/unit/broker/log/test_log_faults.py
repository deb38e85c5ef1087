"""Faults of the disk and of records below a data log: the caller gets the expected error, and a failure stays."""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO

import pytest

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log.records import encode_record
from quorumd.broker.log.timestamps import TimestampOffset
from quorumd.broker.log.transaction_marker import read_marker
from quorumd.errors import (
    CorruptLog,
    DiskFull,
    FlushFailed,
    MalformedMessage,
    StorageError,
)
from quorumd.ports import Disk
from quorumd.protocol.batch_header import CONTROL_BIT, HEADER_SIZE, BatchHeader, encode_header, read_header
from quorumd.simulator.environment.disk import PowerLost, SimulatedDisk
from tests.support.log.data_batches import produced
from tests.support.protocol.steps import run_steps

GZIP, ZSTD = 1, 4
SMALL = PartitionLogSettings(segment_bytes=2 * len(produced()))


def opened(
    disk: Disk, directory: str, settings: PartitionLogSettings = SMALL, is_clean: bool = False
) -> PartitionLog:
    return PartitionLog.open(disk, f"{directory}/t-0", settings, is_clean=is_clean)[0]


def append(log: PartitionLog, count: int = 1, data: bytes | None = None) -> None:
    for _ in range(count):
        log.append_as_leader(produced() if data is None else data, 0, 0.0, 1000)


def batch_of(payload: bytes, attributes: int = 0, max_timestamp_ms: int = 1000, count: int = 1) -> bytes:
    """A batch at offset 0 with this content, valid or not."""
    batch = BatchHeader(
        position=0,
        size=HEADER_SIZE + len(payload),
        base_offset=0,
        end_offset=count,
        epoch=0,
        crc=0,
        attributes=attributes,
        timestamp_ms=1000,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )
    return encode_header(batch, payload)


# The disk


def fail_read() -> None:
    raise OSError(EIO, "a bad block")


def test_log_that_cannot_be_read_is_not_opened(
    memory_disk: SimulatedDisk, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(opened(memory_disk, directory))
    monkeypatch.setattr(memory_disk, "before_read", fail_read)
    with pytest.raises(StorageError, match="cannot be opened"):
        opened(memory_disk, directory)


def test_full_disk_is_named_when_a_log_is_created(memory_disk: SimulatedDisk, directory: str) -> None:
    append(opened(memory_disk, directory), 3)
    memory_disk.capacity = 0
    with pytest.raises(DiskFull):
        opened(memory_disk, directory)


READS: dict[str, Callable[[PartitionLog], object]] = {
    "records": lambda log: log.read(0, 1 << 20, log.end_offset),
    "offset of a timestamp": lambda log: run_steps(log.offset_of_timestamp(1, log.end_offset))[1],
    "largest timestamp": lambda log: run_steps(log.max_timestamp())[1],
}


@pytest.mark.parametrize("name", READS)
def test_failed_read_is_a_storage_error(
    memory_disk: SimulatedDisk, directory: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(memory_disk, directory)
    append(log, 3)
    monkeypatch.setattr(memory_disk, "before_read", fail_read)
    with pytest.raises(StorageError, match="cannot be read"):
        READS[name](log)
    monkeypatch.undo()
    READS[name](log)


CHANGES: dict[str, Callable[[PartitionLog], object]] = {
    "truncate": lambda log: log.truncate(1),
    "reset": lambda log: log.reset(9),
    "delete": lambda log: log.delete_before(4),
    "close": lambda log: log.close(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_failed_sync_of_the_directory_fails_every_later_flush(
    memory_disk: SimulatedDisk, directory: str, name: str
) -> None:
    log = opened(memory_disk, directory)
    append(log, 5)
    log.begin_flush()()
    append(log)
    memory_disk.fail_directory_sync()
    with pytest.raises(FlushFailed):
        CHANGES[name](log)
    memory_disk.repair()
    with pytest.raises(FlushFailed):
        log.begin_flush()()


def test_failed_flush_fails_the_next_one(memory_disk: SimulatedDisk, directory: str) -> None:
    log = opened(memory_disk, directory)
    append(log)
    memory_disk.fail_sync()
    with pytest.raises(FlushFailed):
        log.begin_flush()()
    memory_disk.repair()
    append(log)
    flush = log.begin_flush()
    with pytest.raises(FlushFailed):
        flush()
    assert not flush.is_done
    assert log.recovery_point == 0
    log.close()


def test_unexpected_fault_of_a_flush_counts_as_failed(memory_disk: SimulatedDisk, directory: str) -> None:
    log = opened(memory_disk, directory)
    append(log)
    flush = log.begin_flush()
    with pytest.raises(RuntimeError, match="already running"):
        log.begin_flush()
    flush._files = [("x", None)]  # type: ignore[list-item]  # a fault that no disk has
    with pytest.raises(FlushFailed, match="AttributeError"):
        flush()
    assert log.recovery_point == 0


def test_interrupted_flush_does_not_count_as_done(memory_disk: SimulatedDisk, directory: str) -> None:
    log = opened(memory_disk, directory)
    append(log)
    flush = log.begin_flush()
    memory_disk.lose_power_at_sync(1)
    with pytest.raises(PowerLost):
        flush()
    assert not flush.is_done
    assert log.recovery_point == 0


class FailingFile:
    """A file of a segment whose writes fail."""

    def __init__(self, file: object) -> None:
        self._file = file

    def write_at(self, position: int, data: bytes) -> None:
        raise OSError(EIO, "a bad block")

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def test_failed_write_is_not_a_full_disk(memory_disk: SimulatedDisk, directory: str) -> None:
    log = opened(memory_disk, directory)
    append(log)
    segment = log.segments()[-1]
    segment.file = FailingFile(segment.file)  # type: ignore[assignment]  # all that an append uses
    with pytest.raises(FlushFailed, match="bad block"):
        append(log)
    assert log.end_offset == 1
    with pytest.raises(FlushFailed):
        log.begin_flush()()


def test_truncation_below_the_first_segment_empties_the_log(
    memory_disk: SimulatedDisk, directory: str
) -> None:
    log = opened(memory_disk, directory)
    append(log, 5)
    log.delete_before(4)
    log.truncate(1)
    assert (log.start_offset, log.end_offset, log.recovery_point) == (1, 1, 0)
    append(log)
    assert read_header(log.read(1, 1 << 20, 2)).base_offset == 1


def test_deletion_above_the_end_is_refused(memory_disk: SimulatedDisk, directory: str) -> None:
    log = opened(memory_disk, directory)
    append(log)
    with pytest.raises(ValueError, match="above the log end"):
        log.delete_before(2)
    assert log.start_offset == 0


# Indexes of sealed segments


@pytest.mark.parametrize("damage", ["none", "missing", "empty"])
def test_largest_timestamp_of_a_sealed_segment_needs_no_index_in_memory(
    memory_disk: SimulatedDisk, directory: str, damage: str
) -> None:
    log = opened(memory_disk, directory)
    for timestamp in (1000, 9000, 3000, 4000, 5000):
        append(log, data=produced(timestamps=[timestamp]))
    log.close()
    log = opened(memory_disk, directory, is_clean=True)
    path = f"{directory}/t-0/{0:020}.timeindex"
    if damage == "missing":
        memory_disk.remove(path)
    elif damage == "empty":
        memory_disk.open(path).truncate(0)
    assert log.segments()[0].largest_timestamp_ms == 9000
    assert run_steps(log.max_timestamp())[1] == TimestampOffset(9000, 1, 0)


# Timestamps of records


def test_batch_that_cannot_be_decoded_counts_as_one_record(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings())
    append(log, data=produced([(b"k", b"v")] * 2, codec=ZSTD, timestamps=[5, 9]))
    assert (
        run_steps(log.offset_of_timestamp(7, 2))[1]
        == run_steps(log.max_timestamp())[1]
        == TimestampOffset(9, 0, 0)
    )


def test_batch_with_an_exaggerated_timestamp(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings())
    log.append_as_follower(batch_of(encode_record(0, 0, None, b""), max_timestamp_ms=9000))
    assert run_steps(log.max_timestamp())[1] == TimestampOffset(9000, 0, 0)
    assert run_steps(log.offset_of_timestamp(5000, 1))[1] is None


def test_malformed_records_count_as_one(disk: Disk, directory: str) -> None:
    """A client wrote them: they do not show that the disk is damaged."""
    log = opened(disk, directory, PartitionLogSettings())
    batch = batch_of(b"no gzip stream", GZIP)
    log.append_as_follower(batch)
    latest_ms = read_header(batch).max_timestamp_ms
    found = run_steps(log.offset_of_timestamp(latest_ms, 1))[1]
    assert found == TimestampOffset(latest_ms, 0, read_header(batch).epoch)


def test_read_obeys_the_maximum_offset_inside_of_a_batch(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings())
    append(log, data=produced([(b"k", b"v")] * 3))
    assert log.read(0, 1, 2) == b""


def test_read_of_a_file_that_was_cut_off_ends(memory_disk: SimulatedDisk, directory: str) -> None:
    # A failed sync may drop what was appended.
    log = opened(memory_disk, directory, PartitionLogSettings())
    append(log, 2)
    memory_disk.open(f"{log.directory}/{0:020}.log").truncate(0)
    with pytest.raises(StorageError, match="the file ends at byte 0"):
        log.read(1, 1000, 2)


# Markers


def test_control_batch_that_is_not_a_marker(disk: Disk, directory: str) -> None:
    other = batch_of(encode_record(0, 0, b"\0\0\0\7", bytes(6)), CONTROL_BIT)
    assert read_marker(other, read_header(other)) is None
    short = batch_of(encode_record(0, 0, b"\0", b"\0"), CONTROL_BIT)
    with pytest.raises(MalformedMessage, match="not a marker"):
        read_marker(short, read_header(short))
    log = opened(disk, directory, PartitionLogSettings())
    with pytest.raises(CorruptLog, match="not a marker"):
        log.append_as_follower(short)
    assert log.end_offset == 0
