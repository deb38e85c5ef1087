"""Appends of leaders and followers, reads, truncation, retention and timestamps of a data log."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.broker.log import PartitionLogSettings, timestamps
from quorumd.broker.log.appended import Appended
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log.record_stream import RECORDS_PER_STEP
from quorumd.broker.log.timestamps import TimestampOffset
from quorumd.errors import CorruptLog, DiskFull, ErrorCode, FlushFailed, RequestError
from quorumd.ids import OffsetAndEpoch
from quorumd.log.atomic_file import read_whole
from quorumd.ports import Disk
from quorumd.protocol.batch_header import read_header
from quorumd.protocol.batch_scan import Ascending, scan
from quorumd.simulator.environment.disk import DEFAULT_CAPACITY_BYTES, SimulatedDisk
from tests.support.log.data_batches import produced
from tests.support.log.partition_logs import ABORT, COMMIT, append, of_producer, opened
from tests.support.protocol.steps import run_steps


def test_leader_assigns_offsets_and_epoch(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    assert append(log, produced([(b"k", b"v")] * 3), epoch=4) == Appended(0, 2)
    assert append(log, produced(codec=1), epoch=5) == Appended(3, 3)
    batches = scan(log.read(0, 1 << 20, 4), Ascending()).headers
    assert [(batch.base_offset, batch.end_offset, batch.epoch) for batch in batches] == [(0, 3, 4), (3, 4, 5)]
    assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 4, 5)
    assert log.end_of_epoch(4) == OffsetAndEpoch(3, 4)
    assert log.epoch_of(2) == 4


def test_empty_log_has_no_epoch(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    assert (log.end_offset, log.last_epoch, log.end_of_epoch(0)) == (0, -1, None)
    assert run_steps(log.max_timestamp())[1] is None
    assert log.read(0, 100, 100) == b""


def test_refused_batch_leaves_the_log_unchanged(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    append(log)
    before = log.read(0, 1 << 20, 1)
    with pytest.raises(RequestError) as caught:
        append(log, produced()[:-1])
    assert caught.value.error is ErrorCode.CORRUPT_MESSAGE
    assert log.read(0, 1 << 20, 1) == before
    assert log.end_offset == 1


def test_repeated_batch_is_appended_once(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    append(log)
    first = append(log, of_producer(0, count=3))
    append(log)
    assert append(log, of_producer(0, count=3)) == Appended(1, 3, is_duplicate=True)
    assert first == Appended(1, 3)
    assert log.end_offset == 5


def test_log_append_time(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings(message_timestamp_type="LogAppendTime"))
    assert append(log, of_producer(0), wall_ms=77) == Appended(0, 0, 77)
    assert append(log, of_producer(0), wall_ms=99) == Appended(0, 0, 77, is_duplicate=True)
    batch = read_header(log.read(0, 1 << 20, 1))
    assert (batch.has_log_append_time, batch.max_timestamp_ms) == (True, 77)
    assert run_steps(log.max_timestamp())[1] == TimestampOffset(77, 0, 0)


def test_follower_copies_batches_with_gaps(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    data = produced(base_offset=2, epoch=1) + produced([(b"k", b"v")] * 2, base_offset=5, epoch=3)
    assert log.append_as_follower(data) == 7
    assert log.read(0, 1 << 20, 7) == data
    assert log.read(3, 1 << 20, 7) == data[len(produced()) :]
    assert log.end_of_epoch(1) == OffsetAndEpoch(5, 1)
    with pytest.raises(ValueError, match="below the log end offset"):
        log.append_as_follower(produced(base_offset=6))
    with pytest.raises(CorruptLog, match="CRC"):
        log.append_as_follower(produced(base_offset=7)[:-1] + b"\7")
    assert log.append_as_follower(b"") == 7


def test_reads_obey_limit_and_maximum_offset(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    for _ in range(4):
        append(log)
    size = len(produced())
    assert len(log.read(0, 1, 4)) == size
    assert log.read(0, 1, 4, at_least_one=False) == b""
    assert len(log.read(0, 2 * size, 4)) == 2 * size
    assert len(log.read(0, 2 * size - 1, 4)) == size
    assert len(log.read(0, 1 << 20, 3)) == 3 * size
    assert log.read(3, 1 << 20, 3) == b""
    assert log.read(4, 1 << 20, 4) == b""
    log.delete_before(2)
    with pytest.raises(ValueError, match="log start offset"):
        log.read(1, 100, 4)


def test_reads_of_a_long_log_return_each_batch_once(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings(segment_bytes=20_000, index_interval_bytes=300))
    random = Random(1)
    expected: list[bytes] = []
    for _ in range(300):
        append(log, produced([(b"k", random.randbytes(random.randrange(300)))] * random.randint(1, 3)))
    for limit in (1, 1000, 7000, 1 << 20):
        offset, found = 0, []
        while data := log.read(offset, limit, log.end_offset):
            found += [data[b.position : b.position + b.size] for b in scan(data, Ascending(offset)).headers]
            offset = scan(data, Ascending(offset)).headers[-1].end_offset
        expected = expected or found
        assert len(found) == 300
        assert found == expected
    assert len(log.segments()) > 2
    for offset in range(0, log.end_offset, 7):
        batch = read_header(log.read(offset, 1, log.end_offset))
        assert batch.base_offset <= offset < batch.end_offset


def test_segments_roll_by_size_and_time(disk: Disk, directory: str) -> None:
    for name, settings, bases in (
        ("size", PartitionLogSettings(segment_bytes=200), [0, 2, 4]),
        ("time", PartitionLogSettings(segment_ms=50), [0, 3]),
    ):
        log = opened(disk, f"{directory}/{name}", settings)
        for timestamp in (0, 10, 50, 51, 60):
            append(log, produced(timestamps=[timestamp]))
        assert [segment.base_offset for segment in log.segments()] == bases


def test_truncation_removes_batches_segments_and_producers(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings(segment_bytes=200))
    for sequence in range(8):
        append(log, of_producer(sequence), epoch=sequence)
    log.truncate(3)
    assert (log.end_offset, log.last_epoch) == (3, 2)
    assert log.producers.entries[7].last_sequence == 2
    assert append(log, of_producer(3), epoch=9) == Appended(3, 3)
    log.truncate(0)
    assert (log.end_offset, log.last_epoch, log.producers.entries) == (0, -1, {})
    assert disk.list_directory(f"{directory}/t-0") == ["00000000000000000000.log"]


def test_truncation_in_a_batch_removes_all_of_it(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    append(log)
    append(log, produced([(b"k", b"v")] * 5))
    log.truncate(4)
    assert log.end_offset == 1


def test_truncation_above_the_end_removes_an_epoch_without_records(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    append(log, epoch=1)
    log.start_epoch(3)
    assert (log.last_epoch, log.end_of_epoch(1)) == (3, OffsetAndEpoch(1, 1))
    log.truncate(5)
    assert (log.last_epoch, log.end_offset) == (1, 1)


def test_reset_empties_the_log(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings(segment_bytes=200))
    for sequence in range(5):
        append(log, of_producer(sequence), epoch=3)
    log.reset(100)
    assert (log.start_offset, log.end_offset, log.last_epoch, log.size_bytes) == (100, 100, -1, 0)
    assert append(log, of_producer(0), epoch=4) == Appended(100, 100)
    log.close()
    log, report = PartitionLog.open(
        disk, f"{directory}/t-0", PartitionLogSettings(), recovery_point=101, start_offset=100, is_clean=True
    )
    assert (report.end_offset, log.start_offset, log.last_epoch) == (101, 100, 4)


def test_deletion_raises_the_start_and_removes_segments(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings(segment_bytes=200))
    for sequence in range(8):
        append(log, of_producer(sequence), epoch=sequence)
    size = len(of_producer(0))
    assert log.delete_before(5) == 4 * size
    assert (log.start_offset, log.segments()[0].base_offset) == (5, 4)
    assert log.end_of_epoch(2) == OffsetAndEpoch(5, 2)
    assert log.delete_before(3) == 0
    assert log.start_offset == 5
    with pytest.raises(ValueError, match="above the log end"):
        log.delete_before(9)


def test_retention_by_size_keeps_what_is_not_replicated(disk: Disk, directory: str) -> None:
    size = len(produced())
    log = opened(disk, directory, PartitionLogSettings(segment_bytes=2 * size, retention_bytes=4 * size))
    for _ in range(10):
        append(log)
    assert log.enforce_retention(1000, high_watermark=3) == 2 * size
    assert log.enforce_retention(1000, high_watermark=10) == 4 * size
    assert (log.start_offset, log.size_bytes) == (6, 4 * size)
    log.settings.cleanup_policy = ("compact",)
    log.settings.retention_bytes = 0
    assert log.enforce_retention(1000, high_watermark=10) == 0


def test_retention_by_time_rolls_the_active_segment(disk: Disk, directory: str) -> None:
    size = len(produced())
    settings = PartitionLogSettings(segment_bytes=2 * size, segment_ms=1 << 40, retention_ms=100)
    log = opened(disk, directory, settings)
    for timestamp in (10, 20, 500, 30, 600):
        append(log, produced(timestamps=[timestamp]))
    assert log.enforce_retention(120, 5) == 0
    assert log.enforce_retention(121, 5) == 2 * size
    assert log.enforce_retention(700, 4) == 2 * size
    assert log.enforce_retention(700, 5) == 0
    assert log.enforce_retention(701, 5) == size
    assert (log.start_offset, log.end_offset, log.size_bytes) == (5, 5, 0)
    assert append(log) == Appended(5, 5)


def test_idle_producers_expire(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings(producer_id_expiration_ms=500, retention_ms=-1))
    append(log, of_producer(0, producer_id=1))
    append(log, of_producer(0, producer_id=2, transactional=True))
    log.enforce_retention(1499, 2)
    assert sorted(log.producers.entries) == [1, 2]
    log.enforce_retention(1500, 2)
    assert sorted(log.producers.entries) == [2]


@pytest.mark.parametrize("codec", [0, 1])
def test_offset_of_a_timestamp_is_found_in_steps(disk: Disk, directory: str, codec: int) -> None:
    log = opened(disk, directory)
    count = 20 * RECORDS_PER_STEP
    append(log, produced([(None, b"")] * count, timestamps=range(count), codec=codec))
    steps, found = run_steps(log.offset_of_timestamp(count - 1, count))
    assert found == TimestampOffset(count - 1, count - 1, 0)
    assert steps >= 19


def test_batch_that_is_huge_when_decompressed_counts_as_its_first_record(
    disk: Disk, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte of gzip can become a gigabyte."""
    monkeypatch.setattr(timestamps, "MAX_BYTES", 100_000)
    log = opened(disk, directory)
    content = [(None, b""), (None, bytes(200_000)), (None, b"")]
    append(log, produced(content, timestamps=[5, 7, 9], codec=1))
    assert run_steps(log.offset_of_timestamp(7, 3))[1] == TimestampOffset(7, 1, 0)
    assert run_steps(log.offset_of_timestamp(9, 3))[1] == TimestampOffset(9, 0, 0)
    assert run_steps(log.max_timestamp())[1] == TimestampOffset(9, 0, 0)


def test_offsets_by_timestamp_are_those_of_records(disk: Disk, directory: str) -> None:
    for codec in (0, 1):
        log = opened(
            disk, f"{directory}/{codec}", PartitionLogSettings(segment_bytes=300, index_interval_bytes=0)
        )
        times = [(10, 30, 20), (15,), (40, 35), (40,), (5, 50)]
        for stamps in times:
            append(log, produced([(b"k", b"v" * 30)] * len(stamps), timestamps=stamps, codec=codec))
        flat = [stamp for stamps in times for stamp in stamps]
        for wanted in range(52):
            offset = next((index for index, stamp in enumerate(flat) if stamp >= wanted), None)
            found = run_steps(log.offset_of_timestamp(wanted, len(flat)))[1]
            assert found == (None if offset is None else TimestampOffset(flat[offset], offset, 0))
        assert run_steps(log.max_timestamp())[1] == TimestampOffset(50, 8, 0)
        assert run_steps(log.offset_of_timestamp(50, 8))[1] is None
        log.delete_before(2)
        assert run_steps(log.offset_of_timestamp(1, 9))[1] == TimestampOffset(20, 2, 0)
        log.truncate(7)
        assert run_steps(log.max_timestamp())[1] == TimestampOffset(40, 4, 0)


def test_transactions_hold_back_the_last_stable_offset(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    append(log)
    append(log, of_producer(0, 1, transactional=True))
    append(log, of_producer(0, 2, transactional=True))
    assert log.last_stable_offset(3) == 1
    log.append_marker(1, 0, ABORT, 0, 0.0, 1000)
    assert log.last_stable_offset(3) == 1  # The marker is not replicated.
    assert log.last_stable_offset(4) == 2
    append(log, of_producer(1, 2, transactional=True))
    log.append_marker(2, 0, COMMIT, 0, 0.0, 1000)
    assert log.last_stable_offset(log.end_offset) == log.end_offset == 6
    assert [entry[:4] for entry in log.aborted_transactions(0, 6)] == [(1, 1, 3, 2)]
    assert log.aborted_transactions(0, 1) == []
    assert log.aborted_transactions(4, 6) == []
    assert read_whole(disk, f"{directory}/t-0/{0:020d}.txnindex") is not None


def test_aborted_transactions_are_found_from_an_earlier_segment(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings(segment_bytes=200))
    for sequence in range(6):
        append(log, of_producer(sequence, 1, transactional=True))
    log.append_marker(1, 0, ABORT, 0, 0.0, 1000)
    append(log)
    assert [entry[:3] for entry in log.aborted_transactions(0, 2)] == [(1, 0, 6)]
    log.truncate(6)
    assert log.aborted_transactions(0, 8) == []
    assert log.last_stable_offset(6) == 0


def test_flush_moves_the_recovery_point(disk: Disk, directory: str) -> None:
    settings = PartitionLogSettings(segment_bytes=200, flush_messages=2, flush_ms=50)
    log = opened(disk, directory, settings)
    append(log)
    assert not log.needs_flush(49.0)
    assert log.needs_flush(50.0)
    append(log)
    assert log.needs_flush(0.0)
    flush = log.begin_flush()
    assert log.recovery_point == 0
    assert flush() == log.recovery_point == 2
    assert not log.needs_flush(1e9)
    settings.flush_messages = 100
    append(log)
    assert log.needs_flush(0.0)  # A segment was sealed.
    log.begin_flush()()
    assert disk.exists(f"{directory}/t-0/{0:020d}.index")
    log.truncate(1)
    assert log.recovery_point == 1


def test_full_disk_leaves_the_log_unchanged(memory_disk: SimulatedDisk, directory: str) -> None:
    log = opened(memory_disk, directory)
    append(log, of_producer(0))
    memory_disk.capacity = memory_disk.used_bytes() + 30
    with pytest.raises(DiskFull):
        append(log, of_producer(1))
    assert log.end_offset == 1
    memory_disk.capacity = DEFAULT_CAPACITY_BYTES
    assert append(log, of_producer(1)) == Appended(1, 1)
    assert len(scan(log.read(0, 1 << 20, 2), Ascending()).headers) == 2


def test_failed_flush_is_final(memory_disk: SimulatedDisk, directory: str) -> None:
    log = opened(memory_disk, directory)
    append(log)
    memory_disk.fail_sync()
    with pytest.raises(FlushFailed):
        log.begin_flush()()
    assert log.recovery_point == 0
    with pytest.raises(FlushFailed):
        log.begin_flush()()
    log.close()
