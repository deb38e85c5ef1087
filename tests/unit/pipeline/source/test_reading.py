"""The source's readers on directories, called as Spark calls them."""

from __future__ import annotations

import shutil
import struct
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, LessThan, LessThanOrEqual

from quorumd.errors import InputIncomplete
from quorumd.ids import OffsetAndEpoch
from quorumd.log.meta_properties import PARTITION_DIRECTORY
from quorumd.pipeline.copies.log_files import read_directories
from quorumd.pipeline.decode.plain import LATEST_MS
from quorumd.pipeline.scan.batches import Batches, read_pieces
from quorumd.pipeline.source import planning
from quorumd.pipeline.tables.schemas import LEVELS
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch
from quorumd.runtime.disk import OsDisk
from scripts.log_generator import GeneratedLog, LogShape, generate
from tests.support.history.source_rows import read_table, rows
from tests.support.log.raw_batches import raw_batch, raw_record
from tests.support.log.snapshots import config, write_snapshot
from tests.support.text import shows

SHAPE = LogShape(records=3_000, segment_bytes=60_000, epoch_records=700, batch_records=12)
COLUMNS = ("segment", "position", "offset", "type", "fault")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> GeneratedLog:
    return generate(tmp_path_factory.mktemp("log"), SHAPE)


@pytest.fixture(scope="module")
def directory(log: GeneratedLog) -> Path:
    return log.directories[1] / PARTITION_DIRECTORY


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def batches_of(segment: Path) -> Batches:
    ((_, _, scanned),) = read_pieces(segment)
    return scanned.batches


@pytest.mark.parametrize("level", sorted(LEVELS.keys() - {"snapshot"}))
@pytest.mark.parametrize("lists", ["array", "packed"])
def test_columns_have_types_required_by_spark(directory: Path, level: str, lists: str) -> None:
    table = read_table(directory, level=level, lists=lists, onCorrupt="report")
    assert table.num_rows > 0
    assert table.schema.names == list(LEVELS[level].names)


@given(data=st.data())
@settings(max_examples=25)
def test_rows_do_not_depend_on_splits(
    data: st.DataObject, directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = tmp_path_factory.mktemp("damaged")
    for segment in segments(directory):
        (copy / segment.name).write_bytes(damaged(data, segment.read_bytes()))
    level = data.draw(st.sampled_from(["records", "batches"]))
    columns = COLUMNS if level == "records" else ("segment", "position", "base_offset", "crc", "fault")
    whole = rows(read_table(copy, columns, level=level, onCorrupt="report"))
    split_bytes = data.draw(st.integers(4_000, 60_000))
    pack_bytes = data.draw(st.integers(1, 200_000))
    split = read_table(
        copy, columns, level=level, onCorrupt="report", splitBytes=split_bytes, packBytes=pack_bytes
    )
    assert rows(split) == whole
    skipped = rows(read_table(copy, columns, level=level, onCorrupt="skip", splitBytes=split_bytes))
    crcs = sound_crcs(directory)
    # A gap is reported with the sound batch after it, which is kept.
    sound = [row | {"fault": None} for row in whole if row["fault"] is None or row.get("crc") in crcs]
    assert skipped == sound


def sound_crcs(directory: Path) -> set[int]:
    return {int(crc) for segment in segments(directory) for crc in batches_of(segment).crc}


def damaged(data: st.DataObject, segment: bytes) -> bytes:
    kind = data.draw(st.sampled_from(["none", "none", "bit", "zeros", "cut", "hole"]))
    at = data.draw(st.integers(0, len(segment) - 1))
    size = data.draw(st.integers(1, 3_000))
    if kind == "bit":
        return segment[:at] + bytes([segment[at] ^ 1 << data.draw(st.integers(0, 7))]) + segment[at + 1 :]
    if kind == "zeros":
        return segment[:at] + bytes(len(segment[at : at + size])) + segment[at + size :]
    if kind == "cut":
        return segment[:at]
    return segment[:at] + segment[at + size :] if kind == "hole" else segment


@pytest.mark.parametrize(
    "filters",
    [
        [EqualTo(("offset",), 1_234)],
        [GreaterThanOrEqual(("offset",), 700), LessThan(("offset",), 703)],
        [GreaterThanOrEqual(("base_offset",), 2_900)],
        [LessThanOrEqual(("offset",), 50)],
        [EqualTo(("epoch",), 3)],
        [EqualTo(("node",), 0)],
    ],
)
def test_pushed_filters_keep_matching_rows_and_prune(directory: Path, filters: list[Filter]) -> None:
    everything = read_table(directory)
    pruned = read_table(directory, filters=filters)
    assert passing(pruned, filters) == passing(everything, filters) != []
    if filters[0].attribute != ("node",):  # type: ignore[attr-defined] # of comparisons
        assert pruned.num_rows < everything.num_rows / 2


def passing(table: pa.Table, filters: list[Filter]) -> list[dict[str, object]]:
    tests = {
        EqualTo: lambda a, b: a == b,
        GreaterThanOrEqual: lambda a, b: a >= b,
        LessThan: lambda a, b: a < b,
        LessThanOrEqual: lambda a, b: a <= b,
    }
    return [
        row
        for row in rows(table)
        if all(tests[type(f)](row[f.attribute[0]], f.value) for f in filters)  # type: ignore[index, attr-defined] # as above
    ]


@given(st.integers(0, 3_100), st.integers(0, 3_100))
@settings(max_examples=30)
def test_requested_offsets_are_exact(directory: Path, log: GeneratedLog, low: int, high: int) -> None:
    table = read_table(directory, ("offset",), startingOffset=low, endingOffset=high, splitBytes=7_000)
    assert sorted(table.column("offset").to_pylist()) == list(range(low, min(high, log.end_offset)))
    batches = read_table(directory, ("base_offset",), level="batches", startingOffset=low, endingOffset=high)
    bases = [int(b) for segment in segments(directory) for b in batches_of(segment).base_offset]
    assert batches.column("base_offset").to_pylist() == [base for base in bases if low <= base < high]


def test_requested_times_apply_to_batches(directory: Path) -> None:
    ends = [int(ts) for segment in segments(directory) for ts in batches_of(segment).max_timestamp]
    low, high = ends[20], ends[120]
    table = read_table(directory, ("ts",), level="batches", startingTimestamp=low, endingTimestamp=high)
    expected = [ts for ts in ends if low <= ts < high]
    assert table.column("ts").cast(pa.int64()).to_pylist() == [ts * 1000 for ts in expected]


def test_negative_times_and_epochs_are_read(tmp_path: Path) -> None:
    times = [-1, -5_000, -(2**63), 2**63 - 1, LATEST_MS, -LATEST_MS, LATEST_MS + 1, 1_000]
    value = raw_record(encode_record(NoOpRecord(), 0), 0)
    batches = [raw_batch([value], offset, base_timestamp=time, epoch=-1) for offset, time in enumerate(times)]
    (tmp_path / f"{0:020d}.log").write_bytes(b"".join(batches))
    micros = [time * 1000 if abs(time) <= LATEST_MS else None for time in times]
    for level in ("records", "batches"):
        table = read_table(tmp_path, ("epoch", "ts"), level=level)
        assert table.column("ts").cast(pa.int64()).to_pylist() == micros
        assert table.column("epoch").to_pylist() == [-1] * len(times)
    before_1970 = [LessThan(("ts",), datetime(1970, 1, 1, tzinfo=UTC)), LessThan(("epoch",), 0)]
    found = read_table(tmp_path, ("ts",), before_1970).column("ts").cast(pa.int64()).to_pylist()
    assert {-1_000, -5_000_000, -LATEST_MS * 1000} <= set(found)
    assert read_table(tmp_path, ("ts",), startingTimestamp=0, endingTimestamp=1_001).num_rows == 1


def with_indexes(directory: Path, copy: Path, late: int = 0) -> None:
    """A copy of a directory with indexes like a node's; `late` moves their positions by this number of batches."""
    shutil.copytree(directory, copy)
    for segment in segments(copy):
        batches, base = batches_of(segment), int(segment.stem)
        known = range(1, len(batches) - late, 3)
        entries = [(int(batches.end_offset[n]) - 1 - base, int(batches.position[n + late])) for n in known]
        data = b"".join(struct.pack(">II", *entry) for entry in entries)
        segment.with_suffix(".index").write_bytes(data + bytes(80))


@pytest.mark.parametrize("late", [0, 20])
def test_index_prunes_reading_and_is_not_trusted(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    copy = tmp_path / "copy"
    with_indexes(directory, copy, late)
    monkeypatch.setattr(planning, "INDEXED_BYTES", 0)
    for low in (300, 1_000, 1_700):
        table = read_table(copy, ("offset",), startingOffset=low, endingOffset=low + 5)
        assert table.column("offset").to_pylist() == list(range(low, low + 5))
    (read,) = read_directories({0: str(copy)})
    (file,) = [f for f in planning.files_of([read], "records") if f.expected_offset <= 1_000][-1:]
    start, end = planning.segment_bounds(file, planning.Interval(1_000, 1_005))
    assert late or end - start < file.size / 4


def test_missing_segment_is_a_gap(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    first, second, third = segments(copy)[:3]
    second.unlink()
    size, lost = first.stat().st_size, (int(second.stem), int(third.stem))
    with pytest.raises(InputIncomplete) as raised:
        read_table(copy, ("offset",))
    assert shows(str(raised.value), f"{first}, position {size}, offset {lost[0]}: GAP: ", *lost)
    assert read_table(copy, ("offset",), startingOffset=lost[1]).num_rows > 0


def test_damage_in_requested_offsets_is_reported_by_one_task(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    segment = segments(copy)[1]
    batches = batches_of(segment)
    whole = segment.read_bytes()
    first, last = int(batches.base_offset[7]), int(batches.end_offset[7])
    start, end = int(batches.position[7]), int(batches.position[8])
    for code, damage in {
        "BAD_CRC": whole[: end - 1] + bytes([whole[end - 1] ^ 1]) + whole[end:],
        "GAP": whole[:start] + whole[end:],
        "BROKEN_CHAIN": whole[:start] + bytes(end - start - 1) + b"x" + whole[end:],
        "TORN_TAIL": whole[: start + 70],
    }.items():
        segment.write_bytes(damage)
        for low, high in ((first - 1, last + 1), (first, last), (first + 1, last), (last - 1, last)):
            requested = {"startingOffset": low, "endingOffset": high}
            with pytest.raises(InputIncomplete, match=f"offset {first}: {code}"):
                read_table(copy, ("offset",), **requested)
            with pytest.raises(InputIncomplete, match=code):
                read_table(copy, ("offset",), [GreaterThanOrEqual(("offset",), low)], endingOffset=high)
        reported = read_table(
            copy, ("offset", "fault"), startingOffset=first + 2, onCorrupt="report", splitBytes=99
        )
        assert [row["offset"] for row in rows(reported) if row["fault"]] == [first]
        if code != "TORN_TAIL":
            assert read_table(copy, ("offset",), startingOffset=last).num_rows > 0
        assert read_table(copy, ("offset",), endingOffset=first).num_rows == first


def test_only_last_segment_may_end_within_batch(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    last = segments(copy)[-1]
    cut = batches_of(last)
    last.write_bytes(last.read_bytes()[: int(cut.position[-1]) + 40])
    offsets = read_table(copy, ("offset",)).column("offset")
    assert offsets.to_pylist()[-1] == cut.base_offset[-1] - 1
    (torn,) = [row for row in rows(read_table(copy, onCorrupt="report")) if row["fault"]]
    assert (torn["segment"], torn["position"]) == (last.name, int(cut.position[-1]))
    first = segments(copy)[0]
    first.write_bytes(first.read_bytes()[:-30])
    with pytest.raises(InputIncomplete, match=f"{first}, position .*TORN_TAIL"):
        read_table(copy, ("offset",))


def test_record_of_unknown_type_is_raw_row(tmp_path: Path) -> None:
    frames = [b"\x01\xf4\x03\x00body", b"\x01\x02\x63\x00odd"]
    (tmp_path / f"{0:020d}.log").write_bytes(encode_batch(0, 1, 1_000, frames))
    unknown, version = rows(read_table(tmp_path))
    assert (unknown["type"], unknown["type_name"], unknown["raw"]) == (500, None, frames[0])
    assert (version["type"], version["version"], version["raw"]) == (2, 99, frames[1])


def test_unreadable_record_is_damage(tmp_path: Path) -> None:
    frame = b"\x01\x05\x02\xff\xff\xff"
    (tmp_path / f"{0:020d}.log").write_bytes(encode_batch(0, 1, 1_000, [frame]))
    for columns in ((), ("offset",)):
        with pytest.raises(InputIncomplete, match=r"0\.log, position 0, offset 0: BAD_RECORD: "):
            read_table(tmp_path, columns)
        assert read_table(tmp_path, columns, onCorrupt="skip").num_rows == 0
        assert read_table(tmp_path, columns, onCorrupt="report").num_rows == 1


def test_snapshot_records_have_its_offset_and_epoch(tmp_path: Path) -> None:
    write_snapshot(
        OsDisk(lambda callback: callback()),
        str(tmp_path),
        OffsetAndEpoch(40, 3),
        [config(f"c{n}") for n in range(30)],
    )
    table = read_table(tmp_path, level="snapshot", splitBytes=200, packBytes=1)
    found = rows(table)
    assert {(row["snapshot_offset"], row["snapshot_epoch"], row["epoch"]) for row in found} == {(40, 3, 3)}
    assert sorted(row["offset"] for row in found) == list(range(len(found)))
    types = [row["type_name"] for row in sorted(found, key=lambda row: row["offset"])]
    assert (types[0], types[-1], types.count("ConfigRecord")) == (
        "SnapshotHeaderRecord",
        "SnapshotFooterRecord",
        30,
    )
    columns = ("type_name", "snapshot_offset")
    assert read_table(tmp_path, columns, level="snapshot").schema.names == list(columns)


def test_snapshot_truncated_between_batches_is_reported(tmp_path: Path) -> None:
    disk = OsDisk(lambda callback: callback())
    write_snapshot(disk, str(tmp_path), OffsetAndEpoch(40, 3), [config(f"c{n}") for n in range(9)])
    (file,) = tmp_path.glob("*.checkpoint")
    whole, batches = file.read_bytes(), batches_of(file)
    for cut in batches.position.tolist():
        file.write_bytes(whole[:cut])
        offset = int(batches.base_offset[batches.position.tolist().index(cut)])
        for split_bytes in (1 << 20, 150):
            requested = {"level": "snapshot", "splitBytes": split_bytes, "packBytes": 1}
            reported = f"position {cut}, offset {offset}: TORN_TAIL: the snapshot ends without its footer"
            with pytest.raises(InputIncomplete, match=reported):
                read_table(tmp_path, ("offset",), **requested)
            table = read_table(tmp_path, ("offset", "fault"), onCorrupt="report", **requested)
            assert [row["offset"] for row in rows(table) if row["fault"]] == [offset]
    file.write_bytes(whole)
    assert read_table(tmp_path, ("offset",), level="snapshot", splitBytes=150, packBytes=1).num_rows > 9


def test_empty_directory_and_missing_snapshots_are_reported(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(InputIncomplete, match="has no log"):
        read_table(tmp_path)
    with pytest.raises(InputIncomplete, match="snapshot"):
        read_table(directory, level="snapshot")
