"""What `log dump` finds in sound, reserved, torn and damaged files."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from quorumd.cli.log_files import Batch, Fault, IndexEntry, Piece, Preallocated, files_of, read_file
from quorumd.cli.root import run
from quorumd.errors import ConfigError
from quorumd.ids import KafkaUuid
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.kraft_version_record import KRaftVersionRecord
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage, Voter
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch

NOON_MS = 1_800_014_400_000
LEADER = encode_control_batch(
    0,
    1,
    NOON_MS,
    [
        encode_control(LeaderChangeMessage(0, 2, [Voter(2)], [Voter(2)])),
        encode_control(KRaftVersionRecord(0, 1)),
    ],
)
CONFIG = encode_batch(2, 1, NOON_MS, [encode_record(ConfigRecord(32, "orders", "name", "value"), 0)])
TOPIC = encode_batch(3, 2, NOON_MS, [encode_record(TopicRecord("t", KafkaUuid(bytes(range(16)))), 0)] * 2)
WHOLE = LEADER + CONFIG + TOPIC


def segment(folder: Path, data: bytes, name: str = f"{0:020}.log") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def faults(pieces: list[Piece]) -> list[tuple[int, str]]:
    found = [(piece.position, piece.text) for piece in pieces if isinstance(piece, Fault)]
    return found + [
        (piece.position, text) for piece in pieces if isinstance(piece, Batch) for text in piece.faults
    ]


def test_records_are_decoded_with_kafkas_field_names(tmp_path: Path) -> None:
    pieces = list(read_file(segment(tmp_path, WHOLE)))
    batches = [piece for piece in pieces if isinstance(piece, Batch)]
    assert faults(pieces) == []
    assert [batch.position for batch in batches] == [0, len(LEADER), len(LEADER) + len(CONFIG)]
    leader_change, kraft_version = batches[0].records
    assert leader_change["type"] == "LeaderChangeMessage"
    assert leader_change["data"]["leaderId"] == 2
    assert [voter["voterId"] for voter in leader_change["data"]["voters"]] == [2]
    assert kraft_version["data"]["kRaftVersion"] == 1
    assert batches[1].records == [
        {
            "offset": 2,
            "type": "ConfigRecord",
            "version": 0,
            "data": {"resourceType": 32, "resourceName": "orders", "name": "name", "value": "value"},
        }
    ]
    assert batches[2].records[1]["offset"] == 4
    assert batches[2].records[1]["data"]["topicId"] == str(KafkaUuid(bytes(range(16))))


def test_headers_only_leaves_the_records_out(tmp_path: Path) -> None:
    batches = list(read_file(segment(tmp_path, WHOLE), headers_only=True))
    assert [batch.records for batch in batches if isinstance(batch, Batch)] == [[], [], []]
    assert all(isinstance(batch, Batch) and batch.valid for batch in batches)


def test_zeros_at_the_end_are_reserved_room(tmp_path: Path) -> None:
    *_, last = read_file(segment(tmp_path, WHOLE + bytes(3_000_000)))
    assert last == Preallocated(len(WHOLE), 3_000_000)


def test_something_behind_zeros_is_a_fault(tmp_path: Path) -> None:
    pieces = list(read_file(segment(tmp_path, LEADER + bytes(2_000_000) + b"\7" + bytes(5))))
    assert faults(pieces) == [
        (len(LEADER), f"2000000 zero bytes, and then something else at {len(LEADER) + 2_000_000}")
    ]


@pytest.mark.parametrize("kept", [16, 60, 61, len(CONFIG) - 1])
def test_a_torn_batch_is_a_fault_where_it_begins(tmp_path: Path, kept: int) -> None:
    pieces = list(read_file(segment(tmp_path, LEADER + CONFIG[:kept])))
    assert [position for position, _ in faults(pieces)] == [len(LEADER)]
    assert isinstance(pieces[0], Batch)


def test_a_wrong_crc_is_told_and_the_batches_behind_it_are_shown(tmp_path: Path) -> None:
    damaged = bytearray(WHOLE)
    damaged[len(LEADER) + len(CONFIG) - 2] ^= 1
    pieces = list(read_file(segment(tmp_path, bytes(damaged))))
    assert [batch.valid for batch in pieces if isinstance(batch, Batch)] == [True, False, True]
    ((position, text),) = faults(pieces)
    assert position == len(LEADER)
    assert "CRC" in text


def test_bytes_that_are_no_header_end_the_file(tmp_path: Path) -> None:
    pieces = list(read_file(segment(tmp_path, LEADER + b"\xff" * 100)))
    ((position, text),) = faults(pieces)
    assert position == len(LEADER)
    assert text.startswith("magic -1")


def test_a_gap_and_an_epoch_that_goes_down_are_faults(tmp_path: Path) -> None:
    after_gap = encode_batch(9, 0, NOON_MS, [encode_record(ConfigRecord(32, "a", "b", "c"), 0)])
    pieces = list(read_file(segment(tmp_path, LEADER + after_gap)))
    assert [text for _, text in faults(pieces)] == [
        "offset 2 was expected here",
        "epoch 0 comes after epoch 1",
    ]


def test_a_segment_begins_at_the_offset_of_its_name_and_a_snapshot_at_zero(tmp_path: Path) -> None:
    wrong = list(read_file(segment(tmp_path, LEADER, f"{7:020}.log")))
    assert [text for _, text in faults(wrong)] == ["offset 7 was expected here"]
    right = list(read_file(segment(tmp_path, LEADER, f"{7:020}-0000000001.checkpoint")))
    assert faults(right) == []


def test_an_unknown_record_is_shown_and_is_no_fault(tmp_path: Path) -> None:
    data = encode_batch(0, 1, NOON_MS, [b"\x01\xe7\x07\x00\x00"])
    (batch,) = read_file(segment(tmp_path, data))
    assert isinstance(batch, Batch)
    assert batch.faults == []
    assert batch.records[0]["value"] == "01e7070000"


def test_a_record_that_is_no_frame_is_a_fault(tmp_path: Path) -> None:
    data = encode_batch(0, 1, NOON_MS, [b"\x07hello"])
    pieces = list(read_file(segment(tmp_path, data)))
    assert [text for _, text in faults(pieces)] == [
        "record 0: a metadata record has frame version 7, only 1 is known"
    ]


def test_index_entries_are_absolute_and_zeros_behind_them_reserved(tmp_path: Path) -> None:
    offsets = segment(tmp_path, struct.pack(">iiii", 3, 4100, 9, 8300) + bytes(80), f"{100:020}.index")
    assert list(read_file(offsets)) == [
        IndexEntry(103, position=4100),
        IndexEntry(109, position=8300),
        Preallocated(16, 80),
    ]
    times = segment(tmp_path, struct.pack(">qi", NOON_MS, 256), f"{100:020}.timeindex")
    assert list(read_file(times)) == [IndexEntry(356, timestamp_ms=NOON_MS)]


@pytest.mark.parametrize("data", [struct.pack(">iiii", 9, 8300, 3, 4100), b"\1\2\3"])
def test_a_damaged_index_is_a_fault(tmp_path: Path, data: bytes) -> None:
    assert len(faults(list(read_file(segment(tmp_path, data, f"{0:020}.index"))))) == 1


def test_a_folder_gives_its_files_in_order_of_offsets(tmp_path: Path) -> None:
    inside = tmp_path / "__cluster_metadata-0"
    inside.mkdir()
    names = [f"{5:020}-0000000002.checkpoint", f"{0:020}.log", f"{5:020}.index", f"{5:020}.log"]
    for name in names:
        (inside / name).write_bytes(b"")
    (inside / "quorum-state").write_text("{}")
    assert [path.name for path in files_of(tmp_path)] == [names[1], names[0], names[3], names[2]]


def test_what_cannot_be_dumped_is_told(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.log", segment(tmp_path, b"", "quorum-state")):
        with pytest.raises(ConfigError, match=str(path)):
            files_of(path)


def test_the_command_shows_batches_and_tells_damage_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = segment(tmp_path, WHOLE + bytes(64))
    assert run(["log", "dump", str(sound)]) == 0
    out = capsys.readouterr().out
    assert "baseOffset: 2 lastOffset: 2 count: 1 epoch: 1 isControl: false" in out
    assert "timestamp: 2027-01-15T12:00:00.000Z" in out
    assert '| offset: 2 ConfigRecord v0 {"resourceType": 32' in out
    assert "64 bytes preallocated" in out
    damaged = segment(tmp_path, WHOLE[:-1], f"{0:020}.log")
    assert run(["log", "dump", str(damaged)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {damaged}, position {len(LEADER) + len(CONFIG)}: ")


def test_json_is_one_array_also_of_a_damaged_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "dump", "--output", "json", str(segment(tmp_path, LEADER + b"\xff" * 70))]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [row["kind"] for row in rows] == ["file", "batch", "fault"]
    assert rows[1]["records"][0]["data"]["leaderId"] == 2
