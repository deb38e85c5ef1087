"""Snapshots are a complete function of the log: the same bytes whatever they were built from."""

from __future__ import annotations

import pickle
from functools import partial

import pytest

from quorumd.errors import CorruptLog, DiskFull, StorageError
from quorumd.ids import KafkaUuid, OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.meta_properties import partition_directory
from quorumd.log.snapshot_file import check_snapshot, file_name, read_batches
from quorumd.node.snapshots import builder
from quorumd.node.snapshots.builder import BATCH_RECORDS, BuiltSnapshot, build_snapshot
from quorumd.node.state.snapshot_loader import load_image
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.delegation_token_record import DelegationTokenRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.messages.register_controller_record import RegisterControllerRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import values
from quorumd.protocol.wire import Message
from quorumd.simulator.environment.disk import PowerLost, SimulatedDisk
from quorumd.simulator.environment.event_heap import Process
from tests.support.log.config_logs import DATA_DIRECTORY, ConfigLog, config_values
from tests.support.log.small_logs import fresh_disk
from tests.support.log.snapshots import voters_record

DIRECTORY = partition_directory(DATA_DIRECTORY)


@pytest.fixture
def disk() -> SimulatedDisk:
    return fresh_disk(1)


@pytest.fixture
def log(disk: SimulatedDisk) -> ConfigLog:
    return ConfigLog(disk)


def build(disk: SimulatedDisk, end_offset: int) -> BuiltSnapshot:
    built = build_snapshot(disk, DATA_DIRECTORY, end_offset, "test")
    assert built is not None
    return built


def content(disk: SimulatedDisk, snapshot: OffsetAndEpoch) -> bytes:
    return disk.contents()[f"/{DIRECTORY}/{file_name(snapshot)}"]


def snapshot_files(disk: SimulatedDisk) -> list[str]:
    return [name for name in disk.list_directory(DIRECTORY) if name[:20].isdigit() and "checkpoint" in name]


def test_snapshot_has_the_image_of_the_log(disk: SimulatedDisk, log: ConfigLog) -> None:
    log.set_configs(0, 50)
    log.epoch = 3
    log.append_voters(2, 3, 4)
    log.set_configs(40, 20, "new")
    log.append(*(ConfigRecord(32, f"g{n % 7}", f"c{n}", None) for n in range(10)), NoOpRecord())
    end = log.commit()
    built = build(disk, end)
    assert built.snapshot == OffsetAndEpoch(end, 3)
    assert built.is_new
    assert built.records == 1 + 50
    assert built.warnings == ()
    summary = check_snapshot(disk, f"{DIRECTORY}/{file_name(built.snapshot)}", built.snapshot)
    assert summary.size == built.size == len(content(disk, built.snapshot))
    assert summary.voters == voters_record(2, 3, 4)
    assert summary.timestamp_ms == 1_700_000_000_000 + log.batches
    image = load_image(disk, f"{DIRECTORY}/{file_name(built.snapshot)}", built.snapshot)
    assert image.features == {"metadata.version": 25}
    assert config_values(image.configs) == sorted((f"c{n}", "v" if n < 40 else "new") for n in range(10, 60))


def test_progress_of_a_build_is_reported(disk: SimulatedDisk, log: ConfigLog) -> None:
    log.set_configs(0, 3, "v")
    log.commit()
    progress: list[str] = []
    build_snapshot(disk, DATA_DIRECTORY, log.log.end_offset, "test", progress.append)
    assert progress == ["4 records written", "checking 4 records"]


def test_progress_of_reading_is_reported_at_intervals(
    disk: SimulatedDisk, log: ConfigLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "PROGRESS_RECORDS", 4)
    for first in range(0, 12, 3):
        log.set_configs(first, 3, "v")
    log.commit()
    progress: list[str] = []
    build_snapshot(disk, DATA_DIRECTORY, log.log.end_offset, "test", progress.append)
    read = [each for each in progress if "read" in each]
    assert read == ["5 of 14 records of the log read", "11 of 14 records of the log read"]


def test_snapshot_bytes_do_not_depend_on_the_previous_snapshot(disk: SimulatedDisk, log: ConfigLog) -> None:
    ends = []
    for round_number in range(4):
        log.set_configs(round_number * 30, 60, f"v{round_number}")
        log.append_voters(1, 2, round_number + 3)
        ends.append(log.commit())
    at_once = build(disk, ends[-1])
    expected = content(disk, at_once.snapshot)
    disk.remove(f"{DIRECTORY}/{file_name(at_once.snapshot)}")
    for end in ends:
        built = build(disk, end)
    assert built == at_once
    assert content(disk, built.snapshot) == expected


def test_snapshot_ends_with_the_last_complete_batch(disk: SimulatedDisk, log: ConfigLog) -> None:
    log.set_configs(0, 10)
    before = log.commit()
    log.set_configs(10, 10)
    log.commit()
    built = build(disk, before + 5)
    assert built.snapshot == OffsetAndEpoch(before, 1)
    assert built.records == 11


def test_snapshot_does_not_end_within_a_transaction(disk: SimulatedDisk, log: ConfigLog) -> None:
    log.set_configs(0, 5)
    before = log.commit()
    log.append(
        ConfigRecord(32, "g", "a", "before"), BeginTransactionRecord(), ConfigRecord(32, "g", "b", "1")
    )
    log.append_voters(1, 2, 9)
    log.append(ConfigRecord(32, "g", "c", "1"))
    within = build(disk, log.commit())
    assert within.snapshot == OffsetAndEpoch(before, 1)
    path = f"{DIRECTORY}/{file_name(within.snapshot)}"
    assert "a" not in load_image(disk, path, within.snapshot).config((32, "g"))
    assert check_snapshot(disk, path, within.snapshot).voters == voters_record(1, 2, 3)
    log.append(EndTransactionRecord())
    end = log.commit()
    built = build(disk, end)
    path = f"{DIRECTORY}/{file_name(built.snapshot)}"
    assert built.snapshot == OffsetAndEpoch(end, 1)
    assert load_image(disk, path, built.snapshot).config((32, "g")) == {"a": "before", "b": "1", "c": "1"}
    assert check_snapshot(disk, path, built.snapshot).voters == voters_record(1, 2, 9)


def test_snapshot_lacks_records_of_an_open_transaction(disk: SimulatedDisk, log: ConfigLog) -> None:
    log.append(BeginTransactionRecord(), ConfigRecord(32, "g", "a", "1"))
    assert build(disk, log.commit()).snapshot.offset == 2, "nothing but the files from before"
    log.append(ConfigRecord(32, "g", "b", "1"), AbortTransactionRecord(), ConfigRecord(32, "g", "c", "1"))
    built = build(disk, log.commit())
    path = f"{DIRECTORY}/{file_name(built.snapshot)}"
    assert load_image(disk, path, built.snapshot).config((32, "g")) == {"c": "1"}


@pytest.mark.parametrize(
    "record",
    [
        EndTransactionRecord(),
        RemoveTopicRecord(KafkaUuid(bytes(16))),
        FenceBrokerRecord(1, 1),
    ],
    ids=lambda record: type(record).__name__,
)
def test_inconsistent_log_is_an_error(disk: SimulatedDisk, log: ConfigLog, record: Message) -> None:
    log.append(record)
    with pytest.raises(CorruptLog, match=r"offset 2\b"):
        build(disk, log.commit())
    assert snapshot_files(disk) == []


def test_segments_below_the_previous_snapshot_are_not_needed(disk: SimulatedDisk, log: ConfigLog) -> None:
    log.set_configs(0, 200)
    first = build(disk, log.commit())
    log.set_configs(100, 200, "w")
    log.log.delete_before(first.snapshot)
    end = log.commit()
    assert log.log.start_offset == first.snapshot.offset
    built = build(disk, end)
    image = load_image(disk, f"{DIRECTORY}/{file_name(built.snapshot)}", built.snapshot)
    assert config_values(image.configs) == sorted((f"c{n}", "v" if n < 100 else "w") for n in range(300))
    disk.corrupt(f"{DIRECTORY}/{file_name(first.snapshot)}", 200, 1)
    disk.remove(f"{DIRECTORY}/{file_name(built.snapshot)}")
    with pytest.raises(StorageError, match=DIRECTORY):
        build(disk, end)


def test_log_below_the_previous_snapshot_is_not_read(disk: SimulatedDisk) -> None:
    """Otherwise every build would read a whole segment, which can have a gigabyte."""
    log = ConfigLog(disk, settings=LogSettings(index_interval_bytes=200))
    log.set_configs(0, 50)
    first = build(disk, log.commit())
    log.set_configs(50, 50)
    end = log.commit()
    disk.corrupt(f"{DIRECTORY}/{0:020d}.log", 8, 0x40)
    with pytest.raises(StorageError, match="ends at offset 52"):
        build(disk, end)
    built = build_snapshot(
        disk, DATA_DIRECTORY, end, "test", seek_hint=log.log.seek_hint(first.snapshot.offset)
    )
    assert built is not None
    assert built.records == 101


def test_build_without_new_records_returns_the_existing_snapshot(disk: SimulatedDisk, log: ConfigLog) -> None:
    assert build_snapshot(disk, DATA_DIRECTORY, 0, "test") is None
    log.set_configs(0, 50)
    first = build(disk, log.commit())
    end = log.commit()
    changes = disk.changes
    assert build(disk, end) == first._replace(is_new=False)
    assert disk.changes == changes
    assert snapshot_files(disk) == [file_name(first.snapshot)]


def test_invalid_snapshot_is_skipped_and_rebuilt(disk: SimulatedDisk, log: ConfigLog) -> None:
    log.set_configs(0, 50)
    end = log.commit()
    first = build(disk, end)
    sound = content(disk, first.snapshot)
    file = disk.open(f"{DIRECTORY}/{file_name(first.snapshot)}")
    file.write_at(300, b"?")
    again = build(disk, end)
    assert again.is_new
    assert "is corrupt" in again.warnings[0]
    assert content(disk, again.snapshot) == sound


def test_records_are_written_in_batches(disk: SimulatedDisk) -> None:
    log = ConfigLog(disk, settings=LogSettings())
    log.set_configs(0, 2 * BATCH_RECORDS, batch=500)
    log.append(*(ConfigRecord(32, "large", f"c{n}", "x" * 30_000) for n in range(20)))
    built = build(disk, log.commit())
    found = list(headers(content(disk, built.snapshot)))
    assert max(header.count for header in found) == BATCH_RECORDS
    assert max(header.size for header in found) < 100_000
    assert sum(header.count for header in found if not header.is_control) == built.records == 2021
    assert len(found) > 8


def test_records_without_effect_here_are_kept_in_snapshots(disk: SimulatedDisk, log: ConfigLog) -> None:
    log.set_configs(0, 5)
    kept = encode_record(DelegationTokenRecord(token_id="t"), 0)[:-1] + b"\1\x09\1\xff"
    log.append_values(kept)
    build(disk, log.commit())
    log.append(RegisterControllerRecord(7))
    built = build(disk, log.commit())
    path = f"{DIRECTORY}/{file_name(built.snapshot)}"
    found = [
        value
        for data, header in read_batches(disk, path, built.snapshot)
        if not header.is_control
        for value in values(data, header)
    ]
    assert found[-2:] == [kept, encode_record(RegisterControllerRecord(7), 0)]


def test_record_of_a_later_version_is_an_error(disk: SimulatedDisk, log: ConfigLog) -> None:
    log.set_configs(0, 5)
    log.append(NoOpRecord())
    log.append_values(b"\1\x63\0\0")
    with pytest.raises(CorruptLog, match=r"offset 8\b.*record type 99\b"):
        build(disk, log.commit())
    assert snapshot_files(disk) == []


def test_damaged_log_is_an_error(disk: SimulatedDisk, log: ConfigLog) -> None:
    log.set_configs(0, 200)
    end = log.commit()
    disk.corrupt(f"{DIRECTORY}/{0:020d}.log", 700, 4)
    with pytest.raises(CorruptLog, match="CRC"):
        build(disk, end)
    assert snapshot_files(disk) == []


def test_full_disk_leaves_no_files(disk: SimulatedDisk, log: ConfigLog) -> None:
    log.set_configs(0, 500)
    end = log.commit()
    used = disk.used_bytes()
    for room in (0, 100, 1000, 10_000):
        disk.capacity = used + room
        with pytest.raises(DiskFull):
            build(disk, end)
        assert snapshot_files(disk) == []
        assert disk.used_bytes() == used


def test_power_loss_at_any_call_leaves_no_snapshot_or_a_valid_one() -> None:
    """At every disk call of the builder; the next build succeeds whatever files are left."""
    outcomes = set()
    for calls in range(1, 40):
        disk = fresh_disk(calls)
        log = ConfigLog(disk)
        log.set_configs(0, 100)
        end = log.commit()
        disk.sync_directory(DIRECTORY)
        disk.sync_directory(DATA_DIRECTORY)
        disk.sync_directory(".")
        disk.lose_power_within(calls)
        try:
            build(disk, end)
            outcomes.add("built")
        except PowerLost:
            outcomes.add("lost")
        disk.lose_power()
        disk.mount(Process("test"))
        snapshot = OffsetAndEpoch(end, 1)
        for name in snapshot_files(disk):
            if name == file_name(snapshot):
                outcomes.add("sound")
                assert check_snapshot(disk, f"{DIRECTORY}/{name}", snapshot).records == 101
        assert build(disk, end).records == 101
    assert outcomes == {"built", "lost", "sound"}


def test_job_and_result_can_be_pickled(disk: SimulatedDisk, log: ConfigLog) -> None:
    log.set_configs(0, 5)
    job = pickle.loads(
        pickle.dumps(
            partial(build_snapshot, data_directory=DATA_DIRECTORY, end_offset=log.commit(), token="apart")
        )
    )
    built = job(disk)
    assert pickle.loads(pickle.dumps(built)) == built
