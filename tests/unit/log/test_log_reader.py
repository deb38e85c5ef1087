"""Reading a log during writes: exactly the committed batches, without changes, and checked."""

from __future__ import annotations

import pytest

from quorumd.errors import CorruptLog, StorageError
from quorumd.log import LogSettings
from quorumd.log.log_reader import read_log
from quorumd.protocol.record_batch import encode_batch
from quorumd.simulator.environment.disk import SimulatedDisk
from tests.support.log.small_logs import BATCH_SIZE, batch, fill, fresh_disk, open_log

END = 30


@pytest.fixture
def disk() -> SimulatedDisk:
    """Thirty batches of one record in three segments, the last with blocks allocated ahead."""
    disk = fresh_disk(1)
    log = open_log(disk, "log")
    fill(log, 20)
    fill(log, 10, epoch=2)
    assert len(log.segments()) == 3
    return disk


def offsets(disk: SimulatedDisk, start: int, end: int) -> list[int]:
    found = []
    for data, header in read_log(disk, "log", start, end):
        whole = data[header.position : header.position + header.size]
        assert whole == batch(header.base_offset, header.epoch)
        found.append(header.base_offset)
    return found


@pytest.mark.parametrize("start", range(30))
def test_hint_skips_earlier_batches_without_changing_the_result(start: int) -> None:
    disk = fresh_disk(1)
    log = open_log(disk, "log")
    fill(log, 30)
    base, position = log.seek_hint(start)
    assert base <= start
    assert position <= (start - base) * BATCH_SIZE < position + 150 + 2 * BATCH_SIZE
    end = disk.open(f"log/{base:020}.log").size()
    for seek_hint in ((base, position), (base, 10 * BATCH_SIZE), (base, end), (base, 1 << 40), (base + 1, 5)):
        found = [header.base_offset for _, header in read_log(disk, "log", start, 30, seek_hint)]
        assert found == list(range(start, 30))


@pytest.mark.parametrize("start", [0, 1, 10, 11, 12, 25, 29])
@pytest.mark.parametrize("end", [1, 11, 12, 22, 30])
def test_batches_between_two_offsets(disk: SimulatedDisk, start: int, end: int) -> None:
    before = disk.changes
    assert offsets(disk, start, end) == list(range(start, end))
    assert disk.changes == before


def test_batch_crossing_the_end_is_omitted() -> None:
    disk = fresh_disk(1)
    log = open_log(disk, "log")
    log.append(batch(0, count=3), 3)
    log.append(batch(3, count=3), 6)
    assert [header.end_offset for _, header in read_log(disk, "log", 0, 5)] == [3]


def test_batch_larger_than_the_read_size() -> None:
    disk = fresh_disk(1)
    log = open_log(disk, "log", LogSettings())
    large = [encode_batch(n, 1, 0, [bytes([n]) * 3_000_000]) for n in range(3)]
    for n, data in enumerate(large):
        log.append(data, n + 1)
    assert [data[h.position : h.position + h.size] for data, h in read_log(disk, "log", 1, 3)] == large[1:]


def test_torn_batch_above_the_end_is_ignored(disk: SimulatedDisk) -> None:
    file = disk.open("log/00000000000000000022.log")
    file.write_at(8 * BATCH_SIZE, batch(30, epoch=2)[:50])
    assert offsets(disk, 0, 30) == list(range(30))


def test_damage_below_the_end_is_reported(disk: SimulatedDisk) -> None:
    disk.corrupt("log/00000000000000000011.log", 3 * BATCH_SIZE + 70, 1)
    with pytest.raises(CorruptLog, match=r"00000011\.log, position 264 \(offset 14\)"):
        offsets(disk, 0, 30)
    assert offsets(disk, 0, 11) == list(range(11))


def test_log_that_is_too_short_is_reported(disk: SimulatedDisk) -> None:
    with pytest.raises(StorageError, match=r"offset 30\b.*\b31\b"):
        offsets(disk, 0, 31)
    disk.remove("log/00000000000000000011.log")
    with pytest.raises(StorageError, match=r"\boffset 11\b"):
        offsets(disk, 0, 30)
    disk.remove("log/00000000000000000000.log")
    with pytest.raises(StorageError, match=r"offset 22\b"):
        offsets(disk, 0, 30)
    assert offsets(disk, 22, 30) == list(range(22, 30))


def test_overlapping_batch_is_damage() -> None:
    disk = fresh_disk(1)
    log = open_log(disk, "log")
    log.append(batch(0, count=3), 3)
    with pytest.raises(CorruptLog, match="no batch starts there"):
        offsets(disk, 1, 3)


def test_nothing_to_read(disk: SimulatedDisk) -> None:
    assert offsets(disk, 30, 30) == []
