"""Streams over growing directories, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from quorumd.errors import InputIncomplete
from quorumd.pipeline.live.observer import Observer
from quorumd.pipeline.source.followed import FollowedDirectories, FollowedSegment
from quorumd.pipeline.source.options import Interval
from quorumd.pipeline.source.stream import LiveLog, Offset, StreamReader
from quorumd.pipeline.source.tasks import File
from quorumd.protocol.record_batch import encode_batch
from tests.support.history.source_rows import options_of, read_micro_batch

ALL = ReadAllAvailable()


def batch(offset: int, epoch: int = 1, count: int = 3) -> bytes:
    return encode_batch(offset, epoch, 1_000 + offset, [b"\x01\x14\x63\x01"] * count)


def segment(directory: Path, base: int = 0) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory / f"{base:020d}.log"


def append(directory: Path, *batches: bytes, base: int = 0) -> None:
    with segment(directory, base).open("ab") as stream:
        stream.write(b"".join(batches))


def reader(path: Path | str, **options: object) -> StreamReader:
    parsed = options_of(path, **options)
    return StreamReader(parsed, parsed.table.select(("offset", "fault")))


def offsets(stream: StreamReader, start: Offset, end: Offset) -> list[int]:
    found: list[int] = sorted(read_micro_batch(stream, start, end).column("offset").to_pylist())
    return found


def test_offsets_are_ordered_json_integers(tmp_path: Path) -> None:
    append(tmp_path, batch(0), batch(3, epoch=2))
    stream = reader(tmp_path)
    start = stream.initialOffset()
    assert json.dumps(start) == '{"node": 0, "offset": 0, "epoch": -1}'
    assert json.dumps(stream.latestOffset(start, ALL)) == '{"node": 0, "offset": 6, "epoch": 2}'
    assert stream.reportLatestOffset() == stream.latestOffset(start, ALL)


@given(cuts=st.lists(st.integers(1, 400), min_size=1, max_size=12), zeros=st.booleans())
@settings(max_examples=40)
def test_micro_batches_have_each_record_once(
    cuts: list[int], zeros: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("grows")
    written = b"".join(batch(offset, epoch=1 + offset // 30) for offset in range(0, 60, 3))
    stream = reader(directory)
    position = 0
    seen: list[int] = []
    segment(directory).touch()
    start = stream.initialOffset()
    for cut in [*cuts, len(written)]:
        position = min(position + cut, len(written))
        segment(directory).write_bytes(written[:position] + bytes(500 if zeros else 0))
        end = stream.latestOffset(start, ALL)
        # The last byte of a batch may be zero.
        assert end["offset"] == 3 * ((position + zeros) // len(batch(0)))
        seen += offsets(stream, start, end)
        assert offsets(reader(directory), start, end) == offsets(stream, start, end), (
            "a replay by a new process"
        )
        start = end
    assert seen == list(range(60))


def test_rate_limit_is_kept_unless_spark_overrides(tmp_path: Path) -> None:
    append(tmp_path, *(batch(offset) for offset in range(0, 30, 3)))
    stream = reader(tmp_path, maxOffsetsPerTrigger=7)
    assert stream.getDefaultReadLimit() == ReadMaxRows(7)
    assert reader(tmp_path).getDefaultReadLimit() == ALL
    start = stream.initialOffset()
    seen: list[int] = []
    for expected in (7, 14, 21, 28, 30):
        end = stream.latestOffset(start, ReadMaxRows(7))
        assert end["offset"] == expected
        seen += offsets(stream, start, end)
        start = end
    assert seen == list(range(30))
    assert stream.latestOffset(start, ALL) == start
    assert stream.latestOffset(stream.initialOffset(), ALL)["offset"] == 30


def test_available_now_ends_at_initial_log_end(tmp_path: Path) -> None:
    append(tmp_path, batch(0))
    stream = reader(tmp_path)
    stream.prepareForTriggerAvailableNow()
    append(tmp_path, batch(3))
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert end["offset"] == 3
    assert stream.latestOffset(end, ALL) == end


def test_stream_follows_segment_roll(tmp_path: Path) -> None:
    append(tmp_path, batch(0), batch(3))
    stream = reader(tmp_path)
    first = stream.latestOffset(stream.initialOffset(), ALL)
    append(tmp_path, batch(6))
    append(tmp_path, base=9)
    second = stream.latestOffset(first, ALL)
    assert (second["offset"], second["epoch"]) == (9, 1), "the new segment has nothing in it yet"
    append(tmp_path, batch(9), base=9)
    third = stream.latestOffset(second, ALL)
    assert offsets(stream, first, second) == [6, 7, 8]
    assert offsets(stream, second, third) == [9, 10, 11]
    assert offsets(stream, stream.initialOffset(), third) == list(range(12))


def test_most_up_to_date_copy_is_followed_consistently(
    tmp_path: Path,
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    append(one, batch(0), batch(3))
    append(two, batch(0))
    stream = reader(f"1={one},2={two}")
    start = stream.initialOffset()
    first = stream.latestOffset(start, ALL)
    assert first == {"node": 1, "offset": 6, "epoch": 1}
    append(two, batch(3), batch(6), batch(9, epoch=2))
    second = stream.latestOffset(first, ALL)
    assert second == {"node": 2, "offset": 12, "epoch": 2}
    segment(one).write_bytes(b"")
    assert offsets(stream, start, first) == [0, 1, 2, 3, 4, 5], "from the other copy, which has the same"
    assert offsets(stream, first, second) == [6, 7, 8, 9, 10, 11]


def test_longer_copy_of_older_epoch_is_not_followed(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    append(one, *(batch(offset) for offset in range(0, 30, 3)))
    append(two, batch(0), batch(3, epoch=2))
    stream = reader(f"1={one},2={two}")
    assert stream.latestOffset(stream.initialOffset(), ALL) == {"node": 2, "offset": 6, "epoch": 2}


def test_log_truncated_below_streamed_offset_fails_stream(tmp_path: Path) -> None:
    append(tmp_path, batch(0), batch(3))
    stream = reader(tmp_path)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    segment(tmp_path).write_bytes(batch(0))
    assert stream.latestOffset(end, ALL) == end, "nothing new yet, and nothing known to be wrong"
    append(tmp_path, batch(3, epoch=2), batch(6, epoch=2))
    with pytest.raises(InputIncomplete, match=r"offset 6 .*epoch 1 .*epoch 2 .*node 0"):
        stream.latestOffset(end, ALL)
    with pytest.raises(InputIncomplete, match=r"offset 6\b.*epoch 1\b"):
        stream.partitions(stream.initialOffset(), end)


def test_records_deleted_before_streaming_are_reported(tmp_path: Path) -> None:
    append(tmp_path, batch(0))
    stream = reader(tmp_path)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    append(tmp_path, batch(9), base=9)
    segment(tmp_path).unlink()
    with pytest.raises(InputIncomplete, match=r"\b3\b.*\b9\b"):
        stream.latestOffset(end, ALL)
    assert reader(tmp_path).initialOffset()["offset"] == 9


def test_damage_before_sound_batches_is_reported(tmp_path: Path) -> None:
    data = bytearray(batch(0) + batch(3) + batch(6))
    data[len(batch(0)) + 70] ^= 1
    append(tmp_path, bytes(data))
    stream = reader(tmp_path)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert end["offset"] == 9
    with pytest.raises(InputIncomplete, match="offset 3: BAD_CRC"):
        offsets(stream, stream.initialOffset(), end)
    assert offsets(reader(tmp_path, onCorrupt="report"), stream.initialOffset(), end) == [0, 1, 2, 3, 6, 7, 8]
    at_end = tmp_path / "at-end"
    append(at_end, bytes(data[: 2 * len(batch(0))]))
    tail = reader(at_end, onCorrupt="report")
    assert tail.latestOffset(tail.initialOffset(), ALL)["offset"] == 3, "it may be half written"


def test_followed_segment_has_offset_positions(tmp_path: Path) -> None:
    size = len(batch(0))
    followed = FollowedSegment(File(0, str(segment(tmp_path)), 0, 0, None, True))
    for offset in range(0, 30, 3):
        append(tmp_path, batch(offset))
        followed.look(File(0, str(segment(tmp_path)), (offset + 3) // 3 * size, 0, None, True))
    assert followed.bounds(Interval(12, 15)) == (4 * size, 5 * size)
    assert followed.bounds(Interval(13, 17)) == (4 * size, 6 * size)
    assert followed.bounds(Interval(0, 100)) == (0, 10 * size)


def test_rewritten_segment_is_scanned_again(tmp_path: Path) -> None:
    file = File(0, str(segment(tmp_path)), 0, 0, None, True)
    append(tmp_path, batch(0), batch(3))
    followed = FollowedSegment(file)
    followed.look(file)
    assert (followed.end_offset, followed.epoch) == (6, 1)
    segment(tmp_path).write_bytes(batch(0) + batch(3, epoch=2, count=1) + batch(4, epoch=2, count=5))
    followed.look(file)
    assert (followed.end_offset, followed.epoch) == (9, 2)


def test_segment_deleted_before_read_is_reported(tmp_path: Path) -> None:
    append(tmp_path, batch(0), batch(3))
    append(tmp_path, batch(6), base=6)
    copy = FollowedDirectories({1: str(tmp_path)})
    copy.look()
    segment(tmp_path).unlink()
    with pytest.raises(InputIncomplete, match=f"{segment(tmp_path)} .*node 1\\b.*No such file"):
        copy.copies[1].epoch_before(3)


def test_stopped_stream_closes_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Observer] = []
    monkeypatch.setattr(Observer, "close", lambda observer: closed.append(observer))
    parsed = options_of(None, bootstrap="127.0.0.1:1")
    stream = StreamReader(parsed, parsed.table)
    stream.stop()
    assert closed == [], "it was never there"
    assert isinstance(stream.log, LiveLog)
    stream.stop()
    assert len(closed) == 1
