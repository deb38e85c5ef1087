"""Batches that are found in a data log now and read later, when they are sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.data_segment import StoredBatches
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.errors import StorageError
from quorumd.ports import Disk
from quorumd.protocol.batch_scan import Ascending, scan
from quorumd.protocol.output_buffer import LARGE_VALUE
from tests.support.log.data_batches import produced
from tests.support.log.partition_logs import ABORT, append, of_producer, opened

VALUE = bytes(1000)
BATCHES = 200


@pytest.fixture
def log(disk: Disk, directory: str) -> PartitionLog:
    log = opened(disk, directory)
    for _ in range(BATCHES):
        append(log, produced([(b"k", VALUE)]))
    return log


def found(log: PartitionLog, offset: int = 0, limit: int = 1 << 20, end: int = BATCHES) -> StoredBatches:
    batches = log.find(offset, limit, end, True)
    assert isinstance(batches, StoredBatches)
    return batches


def test_many_batches_are_read_in_pieces(log: PartitionLog) -> None:
    size = len(produced([(b"k", VALUE)]))
    for offset, limit, end in ((0, 1 << 20, BATCHES), (3, 100 * size, 150), (7, 100 * size + 1, 120)):
        count = min(limit // size, end - offset)
        batches = found(log, offset, limit, end)
        content = batches.read(0, len(batches))
        assert len(batches) == count * size
        headers = scan(content, Ascending(offset)).headers
        assert (headers[0].base_offset, headers[-1].end_offset) == (offset, offset + count)
        assert batches.end_offset == offset + count
        assert b"".join(batches.read(at, 1) for at in (0, 17, len(batches) - 1)) == (
            content[:1] + content[17:18] + content[-1:]
        )
        assert log.read(offset, limit, end) == content


def test_few_batches_are_read_at_once(log: PartitionLog) -> None:
    size = len(produced([(b"k", VALUE)]))
    several = LARGE_VALUE // size
    assert len(log.find(0, several * size, BATCHES, True)) == several * size < LARGE_VALUE
    assert isinstance(log.find(0, several * size, BATCHES, True), bytes)
    assert len(found(log, 0, (several + 1) * size)) >= LARGE_VALUE


def test_end_offset_is_known_if_the_last_batch_ends_at_an_index_entry(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings(index_interval_bytes=1))
    batch = produced([(b"k", bytes(30_000))] * 2)
    for _ in range(5):
        append(log, batch)
    for limit in (3 * len(batch), 3 * len(batch) + 10, 4 * len(batch) - 1):
        assert (found(log, 0, limit, 10).end_offset, len(found(log, 0, limit, 10))) == (6, 3 * len(batch))


def test_truncated_batches_are_not_read(log: PartitionLog) -> None:
    """Batches of a later leader epoch, not committed yet, may have the same positions."""
    batches = found(log)
    log.truncate(BATCHES - 1)
    append(log, produced([(b"k", VALUE)]), epoch=1)
    with pytest.raises(StorageError, match="was truncated"):
        batches.read(0, 100)
    assert len(found(log)) == len(batches)


def test_appended_batches_do_not_matter(log: PartitionLog) -> None:
    batches = found(log)
    content = log.read(0, 1 << 20, BATCHES)
    append(log)
    assert batches.read(0, len(batches)) == content


def test_batches_of_a_removed_segment_are_read_until_it_is_closed(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings(segment_bytes=150_000))
    for _ in range(BATCHES):
        append(log, produced([(b"k", VALUE)]))
    batches = found(log)
    content = batches.read(0, len(batches))
    assert log.delete_before(BATCHES) > 0
    assert batches.read(0, len(batches)) == content
    log.begin_flush()()
    with pytest.raises(StorageError, match="was truncated or removed"):
        batches.read(0, len(batches))


def test_file_that_is_cut_off(log: PartitionLog) -> None:
    batches = found(log)
    log.segments()[0].file.truncate(1000)
    with pytest.raises(StorageError, match="ends at byte 1000"):
        batches.read(500, 1000)


def test_sealed_segments_without_indexes_in_memory_are_not_read_either(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings(segment_bytes=150_000))
    for _ in range(BATCHES):
        append(log, produced([(b"k", VALUE)]))
    log.begin_flush()()
    first = found(log, 0, LARGE_VALUE + 2000)
    log.enforce_retention(0, BATCHES)
    # The reader continues, so that the index is not needed to find the position.
    assert len(found(log, first.end_offset, LARGE_VALUE + 2000)) >= LARGE_VALUE


def test_aborted_transactions_of_batches_that_are_not_read(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    for number in range(4):
        append(log, of_producer(number, transactional=True))
        append(log, produced([(b"k", VALUE)] * 70))
        log.append_marker(7, 0, ABORT, 0, 0.0, 0)
    batches = found(log, 0, 80_000, log.end_offset)
    assert batches.end_offset == 73
    assert [each.first_offset for each in log.aborted_transactions(0, batches.end_offset)] == [0, 72]


def test_failed_read_names_the_segment() -> None:
    def read_at(position: int, length: int) -> bytes:
        raise OSError(5, f"reading {length} bytes at {position}")

    segment: Any = SimpleNamespace(path="0.log", invalidations=0, file=SimpleNamespace(read_at=read_at))
    with pytest.raises(
        StorageError, match=r"0\.log cannot be read: .*reading 10 bytes at 120; check the disk"
    ):
        StoredBatches(segment, 100, 1000, 7).read(20, 10)
