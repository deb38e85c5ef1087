"""`log dump` of sound, preallocated, torn and damaged files."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from quorumd.cli.log.files import (
    Batch,
    Fault,
    Incomplete,
    IndexEntry,
    Piece,
    Preallocated,
    files_of,
    read_file,
)
from quorumd.cli.root import run
from quorumd.errors import ConfigError
from quorumd.ids import KafkaUuid, OffsetAndEpoch
from quorumd.log.atomic_file import read_whole
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.json_values import HIDDEN
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.kraft_version_record import KRaftVersionRecord
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage, Voter
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from quorumd.protocol.messages.voters_record import TargetVoter
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from tests.support.log.small_logs import fresh_disk
from tests.support.log.snapshots import CLUSTER_ID, TIMESTAMP_MS, voters_record, write_snapshot
from tests.support.text import shows

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
CONFIG_FRAME = encode_record(ConfigRecord(32, "orders", "name", "value"), 0)
CONFIG = encode_batch(2, 1, NOON_MS, [CONFIG_FRAME])
TOPIC = encode_batch(3, 2, NOON_MS, [encode_record(TopicRecord("t", KafkaUuid(bytes(range(16)))), 0)] * 2)
WHOLE = LEADER + CONFIG + TOPIC


def segment(directory: Path, data: bytes, name: str = f"{0:020}.log") -> Path:
    path = directory / name
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


def test_headers_only_omits_records(tmp_path: Path) -> None:
    batches = list(read_file(segment(tmp_path, WHOLE), headers_only=True))
    assert [batch.records for batch in batches if isinstance(batch, Batch)] == [[], [], []]
    assert all(isinstance(batch, Batch) and batch.valid for batch in batches)


def test_trailing_zeros_are_preallocated_space(tmp_path: Path) -> None:
    *_, last = read_file(segment(tmp_path, WHOLE + bytes(3_000_000)))
    assert last == Preallocated(len(WHOLE), 3_000_000)


def test_data_after_zeros_is_fault(tmp_path: Path) -> None:
    pieces = list(read_file(segment(tmp_path, LEADER + bytes(2_000_000) + b"\7" + bytes(5))))
    ((position, text),) = faults(pieces)
    assert position == len(LEADER)
    assert shows(text, "2000000 zero bytes", len(LEADER) + 2_000_000)


@pytest.mark.parametrize("kept", [16, 60, 61, len(CONFIG) - 1])
def test_torn_batch_is_fault_at_its_start(tmp_path: Path, kept: int) -> None:
    pieces = list(read_file(segment(tmp_path, LEADER + CONFIG[:kept])))
    assert [position for position, _ in faults(pieces)] == [len(LEADER)]
    assert isinstance(pieces[0], Batch)


def unfinished_writes(batch: bytes) -> dict[str, bytes]:
    """Return parts of a batch that is being written at the end of a file, preallocated or not."""
    return {
        "length": batch[:12],
        "header": batch[:61],
        "records": batch[:-1],
        "preallocated": batch[:70] + bytes(500),
        "header of a preallocated segment": batch[:30] + bytes(500),
    }


@pytest.mark.parametrize("seen", unfinished_writes(CONFIG).values(), ids=unfinished_writes(CONFIG))
def test_log_that_is_being_written_ends_with_its_last_whole_batch(tmp_path: Path, seen: bytes) -> None:
    path = segment(tmp_path, LEADER + seen)
    whole, end = read_file(path, pause=lambda seconds: segment(tmp_path, LEADER + CONFIG))
    assert isinstance(whole, Batch)
    assert whole.valid
    assert isinstance(end, Incomplete)
    assert end.position == len(LEADER)


def test_wrong_crc_is_reported_and_later_batches_are_shown(tmp_path: Path) -> None:
    damaged = bytearray(WHOLE)
    damaged[len(LEADER) + len(CONFIG) - 2] ^= 1
    pieces = list(read_file(segment(tmp_path, bytes(damaged))))
    assert [batch.valid for batch in pieces if isinstance(batch, Batch)] == [True, False, True]
    ((position, text),) = faults(pieces)
    assert position == len(LEADER)
    assert "CRC" in text


def test_bytes_without_header_end_file(tmp_path: Path) -> None:
    pieces = list(read_file(segment(tmp_path, LEADER + b"\xff" * 100)))
    ((position, text),) = faults(pieces)
    assert position == len(LEADER)
    assert text.startswith("magic -1")


def test_gap_and_epoch_regression_are_faults(tmp_path: Path) -> None:
    after_gap = encode_batch(9, 0, NOON_MS, [encode_record(ConfigRecord(32, "a", "b", "c"), 0)])
    pieces = list(read_file(segment(tmp_path, LEADER + after_gap)))
    assert [text for _, text in faults(pieces)] == [
        "expected offset 2",
        "epoch 0 follows epoch 1",
    ]


def test_segment_begins_at_offset_in_its_name(tmp_path: Path) -> None:
    wrong = list(read_file(segment(tmp_path, LEADER, f"{7:020}.log")))
    assert [text for _, text in faults(wrong)] == ["expected offset 7"]


SNAPSHOT = f"{7:020}-0000000001.checkpoint"


@pytest.fixture(scope="module")
def snapshot_bytes() -> bytes:
    disk = fresh_disk(1)
    voters = voters_record(1, 2)
    voters.target_voters = [TargetVoter(2), TargetVoter(3)]
    write_snapshot(disk, "log", OffsetAndEpoch(7, 1), voters=voters)
    return read_whole(disk, f"log/{SNAPSHOT}") or b""


def test_snapshot_is_shown_from_header_to_footer(tmp_path: Path, snapshot_bytes: bytes) -> None:
    pieces = list(read_file(segment(tmp_path, snapshot_bytes, SNAPSHOT)))
    assert faults(pieces) == []
    records = [record for piece in pieces if isinstance(piece, Batch) for record in piece.records]
    assert [record["type"] for record in records] == [
        "SnapshotHeaderRecord",
        "KRaftVersionRecord",
        "VotersRecord",
        *["ConfigRecord"] * 5,
        "SnapshotFooterRecord",
    ]
    assert records[0]["data"]["lastContainedLogTimestamp"] == TIMESTAMP_MS
    voters = records[2]["data"]
    assert [voter["voterId"] for voter in voters["voters"]] == [1, 2]
    assert voters["clusterId"] == CLUSTER_ID
    assert [voter["voterId"] for voter in voters["targetVoters"]] == [2, 3]


def test_headers_only_still_checks_snapshot(tmp_path: Path, snapshot_bytes: bytes) -> None:
    pieces = list(read_file(segment(tmp_path, snapshot_bytes, SNAPSHOT), headers_only=True))
    assert faults(pieces) == []
    assert [piece.records for piece in pieces if isinstance(piece, Batch)] == [[]] * len(pieces)
    cut = snapshot_bytes[: pieces[-1].position]
    ((_, text),) = faults(list(read_file(segment(tmp_path, cut, SNAPSHOT), headers_only=True)))
    assert "snapshot footer" in text


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        (SNAPSHOT, lambda data: b"", "without a snapshot footer"),
        (SNAPSHOT, lambda data: data[:-1], "are present"),
        (SNAPSHOT, lambda data: data + bytes(9), "9 zero bytes"),
        (
            SNAPSHOT,
            lambda data: data + encode_batch(9, 1, 0, [CONFIG_FRAME]),
            "follows the snapshot footer",
        ),
        (SNAPSHOT.replace("1.c", "2.c"), lambda data: data, "expected epoch 2"),
    ],
    ids=["empty", "torn", "zeros", "more", "epoch"],
)
def test_incomplete_snapshot_is_fault(
    tmp_path: Path, snapshot_bytes: bytes, name: str, change: Callable[[bytes], bytes], text: str
) -> None:
    found = faults(list(read_file(segment(tmp_path, change(snapshot_bytes), name))))
    assert found
    assert all(text in fault for _, fault in found)


def test_batches_of_a_log_are_not_a_snapshot(tmp_path: Path) -> None:
    found = [text for _, text in faults(list(read_file(segment(tmp_path, LEADER, SNAPSHOT))))]
    assert len(found) == 2
    assert "snapshot footer" in found[0]
    assert "snapshot header" in found[1]


@pytest.mark.parametrize("missing", [0, 1, 20, 150])
def test_partial_snapshot_is_reported_as_incomplete(
    tmp_path: Path, snapshot_bytes: bytes, missing: int, capsys: pytest.CaptureFixture[str]
) -> None:
    part = segment(tmp_path, snapshot_bytes[: len(snapshot_bytes) - missing], f"{SNAPSHOT}.part")
    *batches, last = read_file(part)
    end = sum(batch.header.size for batch in batches if isinstance(batch, Batch))
    assert last == Incomplete(end, len(snapshot_bytes) - missing - end)
    assert run(["log", "dump", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"{part}: incomplete snapshot" in out
    assert f"from position {end}" in out
    assert run(["log", "dump", "--output", "json", str(part)]) == 0
    assert json.loads(capsys.readouterr().out)[-1]["kind"] == "incomplete"


def test_damage_in_partial_snapshot_is_fault(tmp_path: Path, snapshot_bytes: bytes) -> None:
    damaged = bytearray(snapshot_bytes)
    damaged[70] ^= 1
    found = faults(list(read_file(segment(tmp_path, bytes(damaged), f"{SNAPSHOT}.part"))))
    assert [position for position, _ in found] == [0]


def test_unknown_record_is_shown_without_fault(tmp_path: Path) -> None:
    data = encode_batch(0, 1, NOON_MS, [b"\x01\xe7\x07\x00\x00"])
    (batch,) = read_file(segment(tmp_path, data))
    assert isinstance(batch, Batch)
    assert batch.faults == []
    assert batch.records[0]["value"] == "01e7070000"


def test_record_without_frame_is_fault(tmp_path: Path) -> None:
    data = encode_batch(0, 1, NOON_MS, [b"\x07hello"])
    pieces = list(read_file(segment(tmp_path, data)))
    ((_, text),) = faults(pieces)
    assert shows(text, "record 0:", "frame version 7")


def test_index_entries_are_absolute_before_preallocated_space(tmp_path: Path) -> None:
    offsets = segment(tmp_path, struct.pack(">iiii", 3, 4100, 9, 8300) + bytes(80), f"{100:020}.index")
    assert list(read_file(offsets)) == [
        IndexEntry(103, position=4100),
        IndexEntry(109, position=8300),
        Preallocated(16, 80),
    ]
    times = segment(tmp_path, struct.pack(">qi", NOON_MS, 256), f"{100:020}.timeindex")
    assert list(read_file(times)) == [IndexEntry(356, timestamp_ms=NOON_MS)]


@pytest.mark.parametrize("data", [struct.pack(">iiii", 9, 8300, 3, 4100), b"\1\2\3"])
def test_damaged_index_is_fault(tmp_path: Path, data: bytes) -> None:
    assert len(faults(list(read_file(segment(tmp_path, data, f"{0:020}.index"))))) == 1


def test_directory_lists_files_by_offset(tmp_path: Path) -> None:
    inside = tmp_path / "__cluster_metadata-0"
    inside.mkdir()
    names = [f"{5:020}-0000000002.checkpoint", f"{0:020}.log", f"{5:020}.index", f"{5:020}.log"]
    for name in names:
        (inside / name).write_bytes(b"")
    (inside / "quorum-state").write_text("{}")
    assert [path.name for path in files_of(tmp_path)] == [names[1], names[0], names[3], names[2]]


def test_unsupported_files_are_reported(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.log", segment(tmp_path, b"", "quorum-state")):
        with pytest.raises(ConfigError, match=str(path)):
            files_of(path)


def test_dump_shows_batches_and_repeats_damage_at_end(
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


def test_json_is_one_array_even_for_damaged_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "dump", "--output", "json", str(segment(tmp_path, LEADER + b"\xff" * 70))]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [row["kind"] for row in rows] == ["file", "batch", "fault"]
    assert rows[1]["records"][0]["data"]["leaderId"] == 2


def test_secrets_are_shown_only_on_request(tmp_path: Path) -> None:
    record = UserScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 4096)
    path = segment(tmp_path, encode_batch(0, 1, 0, [encode_record(record, 0)]))
    shown = [piece.records[0]["data"] for piece in read_file(path) if isinstance(piece, Batch)]
    assert [data["storedKey"] for data in shown] == [HIDDEN]
    shown = [piece.records[0]["data"] for piece in read_file(path, secrets=True) if isinstance(piece, Batch)]
    assert [data["storedKey"] for data in shown] == [b"stored".hex()]
