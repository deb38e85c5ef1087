"""Snapshot files: written and checked as a whole, rejected when anything is wrong."""

from __future__ import annotations

from itertools import pairwise

import pytest
from crc32c import crc32c

from quorumd.errors import CorruptSnapshot, DiskFull, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.log import batch_windows
from quorumd.log.atomic_file import read_whole
from quorumd.log.snapshot_file import (
    SnapshotWriter,
    check_snapshot,
    file_name,
    parse_snapshot_name,
    read_batches,
    read_timestamp,
)
from quorumd.ports import Disk
from quorumd.protocol.batch_header import HEADER_SIZE
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.control_record import ControlType, control_type
from quorumd.protocol.record_batch import encode_batch, records
from quorumd.simulator.environment.open_file import OpenFile
from tests.support.log.small_logs import fail_with_disk_full, fail_with_io_error, fresh_disk
from tests.support.log.snapshots import TIMESTAMP_MS, config, voters_record, write_snapshot

ID = OffsetAndEpoch(42, 7)
PATH = f"log/{file_name(ID)}"


def replace(disk: Disk, data: bytes) -> None:
    file = disk.open(PATH, create=True)
    file.truncate(0)
    file.write_at(0, data)


def content(disk: Disk) -> bytes:
    data = read_whole(disk, PATH)
    assert data is not None
    return data


@pytest.mark.parametrize(
    ("name", "snapshot"),
    [
        ("00000000000000000042-0000000007.checkpoint", ID),
        ("00000000000000000042-0000000007.checkpoint.part", None),
        ("00000000000000000042-0000000007.checkpoint.deleted", None),
        ("42-7.checkpoint", None),
        ("00000000000000000042.log", None),
        ("bootstrap.checkpoint", None),
    ],
)
def test_names(name: str, snapshot: OffsetAndEpoch | None) -> None:
    assert parse_snapshot_name(name) == snapshot
    if snapshot is not None:
        assert file_name(snapshot) == name


def test_written_snapshot_is_valid() -> None:
    disk = fresh_disk(1)
    summary = write_snapshot(disk, "log", ID)
    assert (summary.snapshot, summary.records, summary.timestamp_ms) == (ID, 5, TIMESTAMP_MS)
    assert summary.voters == voters_record(1, 2, 3)
    assert summary.size == len(content(disk))
    assert check_snapshot(disk, PATH, ID) == summary
    assert disk.list_directory("log") == [file_name(ID)]


def test_batches_are_those_a_stock_reader_expects() -> None:
    disk = fresh_disk(1)
    write_snapshot(disk, "log", ID)
    data = content(disk)
    found = list(headers(data))
    assert [(batch.base_offset, batch.end_offset, batch.epoch, batch.is_control) for batch in found] == [
        (0, 3, 7, True),
        (3, 5, 7, False),
        (5, 7, 7, False),
        (7, 8, 7, False),
        (8, 9, 7, True),
    ]
    types = [
        [control_type(record.key or b"") for record in records(data, batch)]
        for batch in (found[0], found[-1])
    ]
    header = [ControlType.SNAPSHOT_HEADER, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]
    assert types == [header, [ControlType.SNAPSHOT_FOOTER]]


def test_is_read_in_pieces_regardless_of_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = fresh_disk(1)
    write_snapshot(disk, "log", ID, [config(f"c{n}", "v" * n) for n in range(60)], batch=7)
    whole = [data[h.position : h.position + h.size] for data, h in read_batches(disk, PATH, ID)]
    monkeypatch.setattr("quorumd.log.batch_windows._WINDOW_BYTES", 100)
    pieces = [data[h.position : h.position + h.size] for data, h in read_batches(disk, PATH, ID)]
    assert pieces == whole
    assert b"".join(whole) == content(disk)


def test_file_truncated_anywhere_is_rejected() -> None:
    disk = fresh_disk(1)
    write_snapshot(disk, "log", ID)
    data = content(disk)
    for size in range(len(data)):
        replace(disk, data[:size])
        with pytest.raises(CorruptSnapshot):
            check_snapshot(disk, PATH, ID)


def test_every_changed_byte_is_detected() -> None:
    disk = fresh_disk(1)
    write_snapshot(disk, "log", ID)
    data = content(disk)
    for position in range(len(data)):
        replace(disk, data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(CorruptSnapshot):
            check_snapshot(disk, PATH, ID)


@pytest.mark.parametrize(
    "more", [b"\x00" * 100, b"x" * 100, encode_batch(9, 7, 0, [b"v"])], ids=["zeros", "bytes", "batch"]
)
def test_bytes_after_the_footer_are_rejected(more: bytes) -> None:
    disk = fresh_disk(1)
    write_snapshot(disk, "log", ID)
    replace(disk, content(disk) + more)
    with pytest.raises(CorruptSnapshot):
        check_snapshot(disk, PATH, ID)


@pytest.mark.parametrize("fault", ["compressed", "epoch"])
@pytest.mark.parametrize("window_bytes", [1 << 20, 300, 200, 100])
@pytest.mark.parametrize("number", [1, 2])
def test_position_of_an_invalid_batch_is_reported(
    monkeypatch: pytest.MonkeyPatch, number: int, window_bytes: int, fault: str
) -> None:
    monkeypatch.setattr(batch_windows, "_WINDOW_BYTES", window_bytes)
    disk = fresh_disk(1)
    write_snapshot(disk, "log", ID)
    data = bytearray(content(disk))
    invalid = list(headers(bytes(data)))[number]
    if fault == "compressed":
        data[invalid.position + 22] = 1
        end = invalid.position + invalid.size
        crc = crc32c(bytes(data[invalid.position + 21 : end]))
        data[invalid.position + 17 : invalid.position + 21] = crc.to_bytes(4, "big")
    else:
        data[invalid.position + 15] += 1
    replace(disk, bytes(data))
    with pytest.raises(CorruptSnapshot, match=rf"\b{invalid.position}\b.*{fault}"):
        check_snapshot(disk, PATH, ID)


def test_impossible_batch_size_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = fresh_disk(1)
    write_snapshot(disk, "log", ID)
    data = bytearray(content(disk) + bytes(40 << 20))
    second = list(headers(content(disk)))[1]
    data[second.position + 8 : second.position + 12] = (32 << 20).to_bytes(4, "big")
    replace(disk, bytes(data))
    lengths: list[int] = []
    read_at = OpenFile.read_at

    def counted(file: OpenFile, position: int, length: int) -> bytes:
        lengths.append(length)
        return read_at(file, position, length)

    monkeypatch.setattr(OpenFile, "read_at", counted)
    with pytest.raises(CorruptSnapshot):
        check_snapshot(disk, PATH, ID)
    assert max(lengths) <= 16 << 20


def test_age_is_read_from_the_header() -> None:
    disk = fresh_disk(1)
    write_snapshot(disk, "log", ID)
    assert read_timestamp(disk, PATH, ID) == TIMESTAMP_MS
    replace(disk, encode_batch(0, 7, 0, [b"v"]))
    with pytest.raises(CorruptSnapshot, match="header"):
        read_timestamp(disk, PATH, ID)


def test_snapshot_under_another_name_is_refused() -> None:
    disk = fresh_disk(1)
    write_snapshot(disk, "log", ID)
    with pytest.raises(CorruptSnapshot, match="epoch 7"):
        check_snapshot(disk, PATH, OffsetAndEpoch(42, 8))


def test_batches_of_a_log_are_not_a_snapshot() -> None:
    disk = fresh_disk(1)
    replace(disk, encode_batch(0, 7, 0, [b"v"]))
    with pytest.raises(CorruptSnapshot, match="header"):
        check_snapshot(disk, PATH, ID)


@pytest.mark.parametrize(
    ("failure", "error"), [(fail_with_disk_full, DiskFull), (fail_with_io_error, StorageError)]
)
@pytest.mark.parametrize("call", ["write_at", "sync", "truncate"])
def test_disk_error_costs_only_the_snapshot(
    failure: object, error: type[StorageError], call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = fresh_disk(1)
    writer = SnapshotWriter(disk, "log", ID, TIMESTAMP_MS, voters_record(1), "test")
    monkeypatch.setattr(type(writer._file), call, failure)

    def write() -> None:
        writer.write([config("a")])
        writer.finish()

    with pytest.raises(error):
        write()
    assert disk.list_directory("log") == []


def test_writes_are_synced_periodically(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorumd.log.snapshot_file._SYNC_BYTES", 500)
    disk = fresh_disk(1)
    writer = SnapshotWriter(disk, "log", ID, TIMESTAMP_MS, voters_record(1), "test")
    synced: list[int] = [0]
    monkeypatch.setattr(type(writer._file), "sync", lambda file: synced.append(file.size()))
    for n in range(20):
        writer.write([config(f"c{n}")])
    distances = [end - begin for begin, end in pairwise(synced)]
    assert len(distances) >= 3
    assert all(500 <= distance < 700 for distance in distances)


def test_file_that_becomes_shorter_while_it_is_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = fresh_disk(1)
    write_snapshot(disk, "log", ID)
    size = len(content(disk))
    monkeypatch.setattr(OpenFile, "size", lambda file: size)
    replace(disk, content(disk)[:-10])
    with pytest.raises(CorruptSnapshot):
        check_snapshot(disk, PATH, ID)


def test_records_other_than_metadata_records_are_corrupt() -> None:
    disk = fresh_disk(1)
    write_snapshot(disk, "log", ID, [b"\x07cut"])
    with pytest.raises(CorruptSnapshot, match="frame version 7"):
        check_snapshot(disk, PATH, ID, with_records=True)


def test_control_batch_with_a_malformed_record_is_corrupt() -> None:
    disk = fresh_disk(1)
    write_snapshot(disk, "log", ID)
    data = bytearray(content(disk))
    first = next(headers(bytes(data)))
    # The first record's key is its version and type; Kafka has no type 99.
    at = bytes(data).index(bytes([0, 0, 0, ControlType.SNAPSHOT_HEADER]), HEADER_SIZE)
    data[at + 3] = 99
    data[17:21] = crc32c(bytes(data[21 : first.size])).to_bytes(4, "big")
    replace(disk, bytes(data))
    with pytest.raises(CorruptSnapshot):
        check_snapshot(disk, PATH, ID)
