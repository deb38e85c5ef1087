"""Opening a data log after clean and unclean stops."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.appended import Appended
from quorumd.broker.log.compaction import compact, install_compaction, plan_compaction
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log.timestamps import TimestampOffset
from quorumd.ids import OffsetAndEpoch
from quorumd.log.atomic_file import read_whole
from quorumd.ports import Disk
from quorumd.protocol.batch_header import read_header
from quorumd.simulator.environment.disk import DEFAULT_CAPACITY_BYTES, PowerLost, SimulatedDisk
from quorumd.simulator.environment.event_heap import Process
from tests.support.log.data_batches import produced
from tests.support.log.partition_logs import COMMIT, append, of_producer, opened
from tests.support.protocol.steps import run_steps


def test_clean_restart_reads_no_batches_below_the_last_index_entry(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings(segment_bytes=400))
    for sequence in range(9):
        append(log, of_producer(sequence), epoch=sequence // 3)
    log.append_marker(7, 0, COMMIT, 2, 0.0, 1000)
    log.close()
    log, report = PartitionLog.open(
        disk, f"{directory}/t-0", PartitionLogSettings(), recovery_point=10, is_clean=True
    )
    assert (report.end_offset, report.verified_bytes, report.truncations) == (10, 0, ())
    assert log.end_of_epoch(1) == OffsetAndEpoch(6, 1)
    assert log.producers.entries[7].last_sequence == 8
    assert append(log, of_producer(9)) == Appended(10, 10)
    assert append(log, of_producer(8)).is_duplicate


def test_closing_an_unchanged_log_writes_nothing(memory_disk: SimulatedDisk, directory: str) -> None:
    log = opened(memory_disk, directory)
    append(log, of_producer(0))
    log.close()
    changes = memory_disk.changes
    log, _ = PartitionLog.open(
        memory_disk, f"{directory}/t-0", PartitionLogSettings(), recovery_point=1, is_clean=True
    )
    log.close()
    assert memory_disk.changes == changes
    log, _ = PartitionLog.open(
        memory_disk, f"{directory}/t-0", PartitionLogSettings(), recovery_point=1, is_clean=True
    )
    append(log, of_producer(1))
    log.close()
    log, report = PartitionLog.open(
        memory_disk, f"{directory}/t-0", PartitionLogSettings(), recovery_point=2, is_clean=True
    )
    assert (report.end_offset, report.verified_bytes) == (2, 0)
    assert log.producers.entries[7].last_sequence == 1


def test_unclean_restart_truncates_after_the_last_valid_batch(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings(segment_bytes=400))
    for sequence in range(9):
        append(log, of_producer(sequence))
    path = log.segments()[-1].path
    size = log.segments()[-1].size
    end_offset = log.end_offset
    file = disk.open(path)
    file.write_at(size, produced()[:40])
    log, report = PartitionLog.open(disk, f"{directory}/t-0", PartitionLogSettings())
    assert (report.end_offset, report.truncated_bytes) == (end_offset, 40)
    file.write_at(size - 1, b"\xff")
    log, report = PartitionLog.open(disk, f"{directory}/t-0", PartitionLogSettings())
    assert report.end_offset == end_offset - 1
    assert "CRC" in str(report)
    assert log.producers.entries[7].last_sequence == 7


def test_lost_write_before_a_later_segment_truncates_it(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings(segment_bytes=400))
    for sequence in range(9):
        append(log, of_producer(sequence))
    first = log.segments()[0]
    disk.open(first.path).truncate(first.size - len(of_producer(0)))
    log, report = PartitionLog.open(disk, f"{directory}/t-0", PartitionLogSettings())
    assert report.end_offset == first.end_offset - 1
    assert len(log.segments()) == 1


def test_lost_write_in_a_segment_of_the_last_clean_stop_truncates_later_ones(
    disk: Disk, directory: str
) -> None:
    settings = PartitionLogSettings(segment_bytes=400)
    log = opened(disk, directory, settings)
    append(log, of_producer(0))
    log.close()
    log, _ = PartitionLog.open(disk, f"{directory}/t-0", settings, recovery_point=1, is_clean=True)
    for sequence in range(1, 9):
        append(log, of_producer(sequence))
    first = log.segments()[0]
    disk.open(first.path).truncate(first.size - len(of_producer(0)))
    log, report = PartitionLog.open(disk, f"{directory}/t-0", settings, recovery_point=1)
    assert report.end_offset == first.end_offset - 1
    assert len(log.segments()) == 1


def test_truncated_segment_is_verified_whatever_the_recovery_point(disk: Disk, directory: str) -> None:
    """The recovery point in the checkpoint file may be older than a truncation."""
    settings = PartitionLogSettings(segment_bytes=400)
    log = opened(disk, directory, settings)
    for sequence in range(9):
        append(log, of_producer(sequence))
    log.close()
    log, _ = PartitionLog.open(disk, f"{directory}/t-0", settings, recovery_point=9, is_clean=True)
    log.truncate(1)
    for sequence in range(1, 9):
        append(log, of_producer(sequence))
    first = log.segments()[0]
    disk.open(first.path).write_at(first.size - 1, b"\xff")
    log, report = PartitionLog.open(disk, f"{directory}/t-0", settings, recovery_point=9)
    assert report.end_offset == first.end_offset - 1


def test_recovery_point_stays_when_the_disk_is_too_full_for_the_epochs(
    memory_disk: SimulatedDisk, directory: str
) -> None:
    log = opened(memory_disk, directory)
    append(log, epoch=4)
    memory_disk.capacity = memory_disk.used_bytes()
    assert log.begin_flush()() == 1
    assert log.recovery_point == 0
    memory_disk.capacity = DEFAULT_CAPACITY_BYTES
    assert log.begin_flush()() == log.recovery_point == 1
    assert read_whole(memory_disk, f"{directory}/t-0/leader-epoch-checkpoint") == b"0\n1\n4 0\n"


def test_snapshots_of_lost_batches_are_removed(disk: Disk, directory: str) -> None:
    settings = PartitionLogSettings(segment_bytes=400)
    log = opened(disk, directory, settings)
    for sequence in range(12):
        append(log, of_producer(sequence))
    assert disk.exists(f"{directory}/t-0/{10:020d}.snapshot")
    disk.open(log.segments()[0].path).truncate(0)
    PartitionLog.open(disk, f"{directory}/t-0", settings)
    assert not [name for name in disk.list_directory(f"{directory}/t-0") if name.endswith(".snapshot")]


def test_log_below_its_start_offset_is_emptied(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    append(log)
    log, report = PartitionLog.open(disk, f"{directory}/t-0", PartitionLogSettings(), start_offset=5)
    assert (log.start_offset, log.end_offset, report.truncated_bytes) == (5, 5, len(produced()))


def test_flushed_batches_of_a_new_log_survive_a_power_loss(
    memory_disk: SimulatedDisk, directory: str
) -> None:
    sync_parents(memory_disk, directory)
    log = opened(memory_disk, directory)
    append(log)
    log.begin_flush()()
    memory_disk.lose_power()
    memory_disk.mount(Process("test"))
    assert opened(memory_disk, directory).end_offset == 1


def test_damaged_index_files_are_rebuilt(disk: Disk, directory: str) -> None:
    log = opened(disk, directory, PartitionLogSettings(segment_bytes=2000, index_interval_bytes=100))
    for _ in range(60):
        append(log)
    log.close()
    for suffix in ("index", "timeindex"):
        disk.open(f"{directory}/t-0/{0:020d}.{suffix}").write_at(8, bytes(24))
    log, _ = PartitionLog.open(
        disk, f"{directory}/t-0", PartitionLogSettings(), recovery_point=60, is_clean=True
    )
    for offset in range(60):
        assert read_header(log.read(offset, 1, 60)).base_offset == offset
    assert run_steps(log.max_timestamp())[1] == TimestampOffset(1000, 0, 0)


def test_files_of_other_kinds_are_left_or_removed(disk: Disk, directory: str, tmp_path: Path) -> None:
    log = opened(disk, directory)
    append(log)
    log.close()
    path = f"{directory}/t-0"
    for name in ("partition.metadata", f"{9:020d}.index", f"{5:020d}.log.deleted", f"{0:020d}.log.cleaned"):
        disk.open(f"{path}/{name}", create=True).close()
    PartitionLog.open(disk, path, PartitionLogSettings())
    names = disk.list_directory(path)
    assert "partition.metadata" in names
    assert not [
        name for name in names if name.startswith(f"{9:020d}") or name.endswith((".deleted", ".cleaned"))
    ]


def test_epoch_keeps_its_start_when_its_first_batches_were_compacted(disk: Disk, directory: str) -> None:
    log = opened(disk, directory)
    append(log, epoch=1)
    log.start_epoch(3)
    log.append_as_follower(produced(base_offset=7, epoch=3))
    log.begin_flush()()
    log = opened(disk, directory)
    assert (log.end_offset, log.end_of_epoch(1)) == (8, OffsetAndEpoch(1, 1))


def test_interrupted_recovery_keeps_the_gaps_of_compaction(
    memory_disk: SimulatedDisk, directory: str
) -> None:
    """An old recovery point makes recovery read compacted segments, which do not continue each other."""
    settings = PartitionLogSettings(
        segment_bytes=200, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0
    )
    log = opened(memory_disk, directory, settings)
    for _ in range(9):
        append(log)
    log.begin_flush()()
    job = plan_compaction(log, 1000, 9)
    assert job is not None
    assert install_compaction(memory_disk, log, job, compact(memory_disk, job)) > 0
    expected = log.read(0, 1 << 20, 9)
    sync_parents(memory_disk, directory)
    for calls in range(1, 40):
        memory_disk.mount(Process("test"))
        memory_disk.lose_power_within(calls)
        with suppress(PowerLost):
            opened(memory_disk, directory, settings)
        memory_disk.lose_power()
        memory_disk.mount(Process("test"))
        log = opened(memory_disk, directory, settings)
        assert (log.end_offset, log.read(0, 1 << 20, 9)) == (9, expected)


def sync_parents(disk: Disk, directory: str) -> None:
    """Make the directory durable."""
    while directory:
        directory = directory.rpartition("/")[0]
        disk.sync_directory(directory or ".")
