"""Compaction: the last record of each key, tombstones, transactions, sequences, and crashes while segments are
replaced (see also the state machine)."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pickle import dumps, loads

import pytest
from crc32c import crc32c

from quorumd.broker.log import PartitionLogSettings, compaction, records
from quorumd.broker.log.compaction import (
    CompactionJob,
    compact,
    dirty_ratio,
    install_compaction,
    plan_compaction,
)
from quorumd.broker.log.compaction_files import complete_compaction, remove_cleaned
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log.records import compressed, decompressed, encode_record, record_spans
from quorumd.errors import CorruptLog
from quorumd.ports import Disk
from quorumd.protocol.batch_header import BatchHeader, encode_header, read_header
from quorumd.protocol.batch_scan import Ascending, scan
from quorumd.runtime.disk import OsDisk
from tests.support.log.data_batches import Record, produced
from tests.support.log.partition_logs import ABORT, COMMIT
from tests.support.protocol.steps import run_steps

Kept = dict[int, Record]
NOW = 1_000_000
RETENTION_MS = 500


def opened(disk: Disk, directory: str, segment_bytes: int = 200) -> PartitionLog:
    settings = PartitionLogSettings(
        segment_bytes=segment_bytes,
        cleanup_policy=("compact",),
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=RETENTION_MS,
    )
    return PartitionLog.open(disk, f"{directory}/t-0", settings)[0]


def append(log: PartitionLog, *content: Record, codec: int = 0) -> None:
    log.append_as_leader(produced(content, codec=codec), 0, 0.0, NOW)


def transactional(log: PartitionLog, sequence: int, *content: Record, producer_id: int = 1) -> None:
    data = produced(content, producer_id=producer_id, producer_epoch=0, sequence=sequence, transactional=True)
    log.append_as_leader(data, 0, 0.0, NOW)


def seal(log: PartitionLog) -> None:
    """Fill the active segment, and flush."""
    log.append_as_leader(produced([(b"filler", b"x" * 110)]), 0, 0.0, NOW)
    log.append_as_leader(produced([(b"filler", b"x" * 110)]), 0, 0.0, NOW)
    log.begin_flush()()


def run(disk: Disk, log: PartitionLog, wall_ms: int = NOW) -> int | None:
    job = plan_compaction(log, wall_ms, log.end_offset)
    return None if job is None else install_compaction(disk, log, job, compact(disk, job))


def batches_of(log: PartitionLog) -> list[tuple[BatchHeader, bytes]]:
    found, offset = [], 0
    while data := log.read(offset, 1 << 20, log.end_offset):
        for batch in scan(data, Ascending()).headers:
            found.append((batch, data))
            offset = batch.end_offset
    return found


def kept(log: PartitionLog) -> Kept:
    """The records of data batches by offset, without fillers."""
    found: Kept = {}
    for batch, data in batches_of(log):
        payload = b"" if batch.is_control else decompressed(data, batch)
        assert payload is not None
        for span in record_spans(payload, 0 if batch.is_control else batch.count):
            key = payload[span.key_start : span.key_end]
            value = None if span.value_start < 0 else payload[span.value_start : span.value_end]
            if key != b"filler":
                found[batch.base_offset + span.offset_delta] = (key, value)
    return found


@pytest.mark.parametrize("codec", [0, 1])
def test_last_record_of_each_key_stays_at_its_offset(disk: Disk, directory: str, codec: int) -> None:
    log = opened(disk, directory)
    append(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), codec=codec)
    append(log, (b"b", b"2"), codec=codec)
    append(log, (b"c", b"1"), codec=codec)
    seal(log)
    freed = run(disk, log)
    assert freed is not None
    assert freed > 0
    assert kept(log) == {2: (b"a", b"2"), 3: (b"b", b"2"), 4: (b"c", b"1")}
    batch, data = batches_of(log)[0]
    assert (batch.base_offset, batch.end_offset, batch.count, batch.codec) == (0, 3, 1, codec)
    assert log.read(0, 1, log.end_offset)[:8] == bytes(8)
    assert (log.first_dirty_offset, dirty_ratio(log)) == (log.segments()[-1].base_offset, 0.0)
    assert run(disk, log) is None
    assert data


def test_active_segment_and_unflushed_segments_are_not_compacted(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, segment_bytes=1 << 20)
    append(log, (b"a", b"1"))
    append(log, (b"a", b"2"))
    log.begin_flush()()
    assert run(disk, log) is None
    log.settings.segment_bytes = 100
    append(log, (b"a", b"3"))
    assert run(disk, log) is None
    log.begin_flush()()
    assert run(disk, log) is not None
    assert kept(log) == {1: (b"a", b"2"), 2: (b"a", b"3")}


def test_lag_and_ratio_delay_compaction(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    append(log, (b"a", b"1"))
    append(log, (b"a", b"2"))
    seal(log)
    log.settings.min_compaction_lag_ms = NOW
    assert run(disk, log) is None
    log.settings.min_compaction_lag_ms = 0
    log.settings.min_cleanable_dirty_ratio = 1.0
    assert run(disk, log) is None
    log.settings.max_compaction_lag_ms = NOW - 1001
    assert run(disk, log) is not None
    log.settings.cleanup_policy = ("delete",)
    seal(log)
    assert run(disk, log) is None


def test_tombstones_are_removed_after_their_retention(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    append(log, (b"a", b"1"), (b"b", b"1"))
    append(log, (b"a", None), (b"d", b"1"))
    seal(log)
    run(disk, log)
    expected: Kept = {1: (b"b", b"1"), 2: (b"a", None), 3: (b"d", b"1")}
    assert kept(log) == expected
    horizons = [batch.delete_horizon_ms for batch, _ in batches_of(log)]
    assert horizons[:2] == [-1, NOW + RETENTION_MS]
    seal(log)
    run(disk, log, NOW + RETENTION_MS - 1)
    assert kept(log) == expected
    assert [batch.delete_horizon_ms for batch, _ in batches_of(log)][:2] == horizons[:2]
    seal(log)
    run(disk, log, NOW + RETENTION_MS)
    del expected[2]
    assert kept(log) == expected
    found = run_steps(log.offset_of_timestamp(0, log.end_offset))[1]
    assert found is not None
    assert found[:2] == (1000, 1)


def test_timestamps_survive_a_new_delete_horizon(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    data = produced([(b"a", None), (b"b", b"1"), (b"c", b"1")], timestamps=[70, 50, 90])
    log.append_as_leader(data, 0, 0.0, NOW)
    seal(log)
    run(disk, log)
    batch, content = batches_of(log)[0]
    payload = decompressed(content, batch)
    assert payload is not None
    times = [batch.timestamp_ms + span.timestamp_delta for span in record_spans(payload, 3)]
    assert (times, batch.max_timestamp_ms) == ([70, 50, 90], 90)


def test_aborted_transactions_are_removed_then_their_markers(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    append(log, (b"a", b"0"))
    transactional(log, 0, (b"a", b"aborted"))
    log.append_marker(1, 0, ABORT, 0, 0.0, NOW)
    transactional(log, 1, (b"b", b"committed"))
    log.append_marker(1, 0, COMMIT, 0, 0.0, NOW)
    transactional(log, 2, (b"z", b"last of the producer"))
    log.append_marker(1, 0, COMMIT, 0, 0.0, NOW)
    seal(log)
    run(disk, log)
    expected: Kept = {0: (b"a", b"0"), 3: (b"b", b"committed"), 5: (b"z", b"last of the producer")}
    assert kept(log) == expected
    assert [batch.base_offset for batch, _ in batches_of(log) if batch.is_control] == [2, 4, 6]
    assert [entry[:3] for entry in log.aborted_transactions(0, 7)] == [(1, 1, 2)]
    for wall_ms, markers in ((NOW, [2, 4, 6]), (NOW + RETENTION_MS, [4, 6])):
        seal(log)
        run(disk, log, wall_ms)
        assert [batch.base_offset for batch, _ in batches_of(log) if batch.is_control] == markers
        assert log.aborted_transactions(0, 7) == []
    assert kept(log) == expected


def test_open_transaction_is_not_compacted(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    transactional(log, 0, (b"a", b"1"))
    append(log, (b"a", b"2"))
    seal(log)
    assert run(disk, log) is None


def test_sequence_of_an_active_producer_survives_an_unclean_stop(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    for sequence in (0, 1):
        data = produced([(b"a", b"1")], producer_id=5, producer_epoch=2, sequence=sequence)
        log.append_as_leader(data, 0, 0.0, NOW)
    append(log, (b"a", b"2"))
    seal(log)
    run(disk, log)
    assert kept(log) == {2: (b"a", b"2")}
    empty = batches_of(log)[0][0]
    assert (empty.base_offset, empty.count, empty.base_sequence, empty.size) == (1, 0, 1, 61)
    for name in disk.list_directory(f"{directory}/t-0"):
        if name.endswith(".snapshot"):
            disk.remove(f"{directory}/t-0/{name}")
    again = PartitionLog.open(disk, f"{directory}/t-0", log.settings)[0]
    assert again.producers.entries[5].last_sequence == 1
    assert again.end_offset == log.end_offset


def test_opaque_batches_stay_whole(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    data = bytearray(produced([(b"a", b"1")]))
    data[22] = 4  # zstd, whose records are not decoded
    log.append_as_leader(with_crc(bytes(data)), 0, 0.0, NOW)
    append(log, (b"a", b"2"))
    seal(log)
    run(disk, log)
    assert [batch.base_offset for batch, _ in batches_of(log)][:2] == [0, 1]


def test_lz4_batch_is_rewritten_with_gzip(disk: Disk, directory: str) -> None:
    """Not without compression: a batch of a megabyte would get 16."""
    log = opened(disk, directory)
    plain = produced([(b"a", b"1"), (b"b", b"1")])
    block = plain[61:]
    frame = b"\x04\x22\x4d\x18\x60\x40\x00" + (len(block) | 1 << 31).to_bytes(4, "little") + block + bytes(4)
    data = plain[:8] + (49 + len(frame)).to_bytes(4, "big") + plain[12:22] + b"\x03" + plain[23:61] + frame
    log.append_as_leader(with_crc(data), 0, 0.0, NOW)
    append(log, (b"a", b"2"))
    seal(log)
    run(disk, log)
    assert kept(log) == {1: (b"b", b"1"), 2: (b"a", b"2")}
    assert batches_of(log)[0][0].codec == 1


def bases(log: PartitionLog) -> list[int]:
    return [batch.base_offset for batch, _ in batches_of(log)]


def test_batches_of_any_client_do_not_stop_compaction(
    disk: Disk, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may write malformed records with any codec whose keys are not checked. That stopped all compactions of
    the log, and a batch of 6 kB with 600,000 records took 128 MiB."""
    monkeypatch.setattr(records, "MAX_RECORDS", 3)
    log = opened(disk, directory, segment_bytes=400)
    header = read_header(produced([(b"a", b"0")]))
    for codec in (0, 1, 2, 3):
        header.attributes = codec
        log.append_as_leader(encode_header(header, b"garbage"), 0, 0.0, NOW)
    append(log, *[(b"a", b"0")] * 4)
    append(log, *[(b"a", b"1")] * 3)
    append(log, (b"a", b"2"))
    seal(log)
    job = plan_compaction(log, NOW, log.end_offset)
    assert job is not None
    result = compact(disk, job)
    assert result.unread == 5
    install_compaction(disk, log, job, result)
    assert bases(log)[:6] == [0, 1, 2, 3, 4, 11]


def test_large_batches_are_not_decompressed(
    disk: Disk, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(disk, directory, segment_bytes=40_000)
    for value in (bytes(4_000_000), b"1", b"2"):
        append(log, (b"a", value), codec=1)
    log.settings.segment_bytes = 200
    seal(log)
    monkeypatch.setattr(records, "MAX_DECOMPRESSED_BYTES", 1_000_000)
    job = plan_compaction(log, NOW, log.end_offset)
    assert job is not None
    tracemalloc.start()
    try:
        assert compact(disk, job).unread == 1
        assert tracemalloc.get_traced_memory()[1] < 2_500_000
    finally:
        tracemalloc.stop()


def test_tombstones_stay_while_an_earlier_batch_cannot_be_read(disk: Disk, directory: str) -> None:
    """It may have a value of the same key, which would reappear."""
    log = opened(disk, directory)
    append(log, (b"b", b"1"))
    append(log, (b"b", None))
    data = bytearray(produced([(b"a", b"1")]))
    data[22] = 4
    log.append_as_leader(with_crc(bytes(data)), 0, 0.0, NOW)
    append(log, (b"a", None))
    for wall_ms in (NOW, NOW + RETENTION_MS):
        seal(log)
        run(disk, log, wall_ms)
    assert bases(log)[:2] == [2, 3]


def test_offset_map_is_bounded_within_a_segment(
    disk: Disk, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment of a gigabyte may have a hundred million keys."""
    monkeypatch.setattr(compaction, "MAX_KEYS", 4)
    log = opened(disk, directory, segment_bytes=100_000)
    for value in (b"1", b"2"):
        for index in range(10):
            append(log, (b"key %d" % index, value), (b"key %d" % index, value + b"x"))
    append(log, (b"key 3", None))
    log.settings.segment_bytes = 200
    seal(log)
    ends, counts = [], []
    while (job := plan_compaction(log, NOW, log.end_offset)) is not None:
        result = compact(disk, job)
        assert len(_map(disk, job)) <= 5
        install_compaction(disk, log, job, result)
        ends.append(log.first_dirty_offset)
        counts.append(len(kept(log)))
    assert ends[:3] == [8, 16, 24]
    assert counts == sorted(counts, reverse=True)
    expected: Kept = {21 + 2 * index: (b"key %d" % index, b"2x") for index in range(10) if index != 3}
    assert kept(log) == {**expected, 40: (b"key 3", None)}


def _map(disk: Disk, job: CompactionJob) -> dict[bytes, int]:
    return compaction._build_offset_map(disk, job)[0]


def test_transaction_beyond_the_offset_map(
    disk: Disk, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batches stay until a later compaction gets there."""
    monkeypatch.setattr(compaction, "MAX_KEYS", 2)
    log = opened(disk, directory, segment_bytes=100_000)
    append(log, (b"a", b"0"), (b"b", b"0"))
    transactional(log, 0, (b"a", b"aborted"))
    log.append_marker(1, 0, ABORT, 0, 0.0, NOW)
    append(log, (b"a", b"1"))
    transactional(log, 1, (b"z", b"last of the producer"))
    log.append_marker(1, 0, COMMIT, 0, 0.0, NOW)
    log.settings.segment_bytes = 200
    seal(log)
    run(disk, log)
    assert log.first_dirty_offset == 2
    assert bases(log)[:4] == [0, 2, 3, 4]
    assert [entry[:3] for entry in log.aborted_transactions(0, 7)] == [(1, 2, 3)]
    while run(disk, log) is not None:
        pass
    assert kept(log) == {1: (b"b", b"0"), 4: (b"a", b"1"), 5: (b"z", b"last of the producer")}


def with_crc(data: bytes) -> bytes:
    return data[:17] + crc32c(data[21:]).to_bytes(4, "big") + data[21:]


def test_several_segments_become_one(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, segment_bytes=400)
    for index in range(40):
        append(log, (b"key %d" % (index % 3), b"%d" % index))
    log.begin_flush()()
    run(disk, log)
    assert len(log.segments()) > 5  # Groups are limited by the sizes of segments before.
    append(log, (b"key 0", b"40"))
    log.settings.segment_bytes = 200
    append(log, (b"key 1", b"x" * 100))
    log.begin_flush()()
    log.settings.segment_bytes = 2000
    run(disk, log)
    assert [segment.base_offset for segment in log.segments()] == [0, 41]
    for offset in range(42):
        assert read_header(log.read(offset, 1, 42)).end_offset > offset
    log.close()
    again, report = PartitionLog.open(
        disk, f"{directory}/t-0", log.settings, recovery_point=42, is_clean=True
    )
    assert (report.end_offset, report.verified_bytes) == (42, 0)
    expected = {
        37: (b"key 1", b"37"),
        38: (b"key 2", b"38"),
        40: (b"key 0", b"40"),
        41: (b"key 1", b"x" * 100),
    }
    assert kept(again) == expected
    again.truncate(0)
    assert (again.end_offset, again.size_bytes) == (0, 0)


def planned(disk: Disk, directory: str) -> tuple[PartitionLog, CompactionJob]:
    log = opened(disk, directory)
    append(log, (b"a", b"1"))
    append(log, (b"a", b"2"))
    seal(log)
    job = plan_compaction(log, NOW, log.end_offset)
    assert job is not None
    return log, job


def test_compaction_of_a_log_that_was_truncated_is_dropped(disk: Disk, directory: str) -> None:
    log, job = planned(disk, directory)
    result = compact(disk, job)
    log.truncate(1)
    assert install_compaction(disk, log, job, result) == 0
    assert kept(log) == {0: (b"a", b"1")}
    assert not [name for name in disk.list_directory(f"{directory}/t-0") if "cleaned" in name]


def test_damaged_batch_stops_compaction(disk: Disk, directory: str) -> None:
    log, job = planned(disk, directory)
    disk.open(log.segments()[0].path).write_at(70, b"\xff")
    with pytest.raises(CorruptLog, match="position"):
        compact(disk, job)
    remove_cleaned(disk, f"{directory}/t-0")
    assert not [name for name in disk.list_directory(f"{directory}/t-0") if "cleaned" in name]


def test_interrupted_replacement_is_completed(disk: Disk, directory: str) -> None:
    log, job = planned(disk, directory)
    compact(disk, job)
    stem = f"{directory}/t-0/{0:020d}"
    for suffix in (".index", ".timeindex", ".txnindex", ".log"):
        disk.rename(stem + suffix + ".cleaned", stem + suffix + ".swap")
    complete_compaction(disk, f"{directory}/t-0")
    again = PartitionLog.open(disk, f"{directory}/t-0", log.settings, recovery_point=log.recovery_point)[0]
    assert kept(again) == {1: (b"a", b"2")}
    assert not [
        name for name in disk.list_directory(f"{directory}/t-0") if name.endswith((".swap", ".cleaned"))
    ]


def test_long_keys_are_distinguished(disk: Disk, directory: str) -> None:
    keys: Sequence[bytes] = [b"x" * 100 + bytes([index]) for index in range(3)]
    log = opened(disk, directory, segment_bytes=1500)
    for key in (*keys, keys[1]):
        append(log, (key, b"v"))
    log.append_as_leader(produced([(b"filler", b"x" * 1300)]), 0, 0.0, NOW)
    seal(log)
    run(disk, log)
    assert sorted(kept(log)) == [0, 2, 3]


def test_record_round_trip_through_gzip() -> None:
    record = encode_record(3, -5, b"key", None)
    assert compressed(record, 0) == record
    [span] = record_spans(record, 1)
    assert (span.offset_delta, span.timestamp_delta, span.value_start) == (3, -5, -1)


def test_job_can_be_sent_to_a_subprocess(directory: str) -> None:
    disk = OsDisk(lambda callback: callback())
    disk.make_directory(directory)
    _, job = planned(disk, directory)
    assert loads(dumps(job)) == job
    disk.close()
