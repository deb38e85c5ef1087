"""`log dump --output jsonl|csv`: the records of `--output json`, as a flat row each."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quorumd.cli.root import run
from quorumd.pipeline.tables.schemas import RECORDS
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch
from scripts.log_generator import LogShape, generate
from tests.support.text import shows
from tests.unit.cli.log.test_files import CONFIG, LEADER, segment, unfinished_writes

FIELDS = {
    "partition": "partitionId",
    "topic_id": "topicId",
    "topic": "name",
    "isr": "isr",
    "replicas": "replicas",
    "adding": "addingReplicas",
    "removing": "removingReplicas",
    "original_replicas": "originalReplicas",
    "directories": "directories",
    "elr": "eligibleLeaderReplicas",
    "last_known_elr": "lastKnownElr",
    "leader": "leader",
    "leader_epoch": "leaderEpoch",
    "partition_epoch": "partitionEpoch",
    "recovering": "leaderRecoveryState",
    "broker_id": "brokerId",
    "broker_epoch": "brokerEpoch",
    "fenced": "fenced",
    "in_controlled_shutdown": "inControlledShutdown",
}
UNCHANGED = {"leader": -2, "recovering": -1}
"""Values of a PartitionChangeRecord that stand for unchanged; null in a row."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    shape = LogShape(records=3_000, batch_records=20, segment_bytes=60_000, brokers=5, topics=3, partitions=4)
    return generate(tmp_path, shape).directories[1]


def dumped(capsys: pytest.CaptureFixture[str], output: str, *paths: Path, code: int = 0) -> str:
    assert run(["log", "dump", "--output", output, *map(str, paths)]) == code
    return capsys.readouterr().out


def json_rows(text: str) -> list[dict[str, Any]]:
    """The records of `--output json`, with the columns of their batches."""
    rows, file = [], ""
    for piece in json.loads(text):
        if piece["kind"] == "file":
            file = piece["file"]
        for record in piece.get("records", []):
            around = {"segment": file, "position": piece["position"], "base_offset": piece["baseOffset"]}
            rows.append({**around, "epoch": piece["epoch"], "control": piece["isControl"], **record})
    return rows


def test_jsonl_has_same_records_as_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flat = [json.loads(line) for line in dumped(capsys, "jsonl", log).splitlines()]
    whole = json_rows(dumped(capsys, "json", log))
    assert len(flat) == len(whole) > 3_000
    types = set()
    for row, shown in zip(flat, whole, strict=True):
        for name in ("segment", "position", "base_offset", "epoch", "control", "offset"):
            assert row[name] == shown[name]
        assert (row["type_name"], row.get("version")) == (shown["type"], shown.get("version"))
        types.add(shown["type"])
        data = shown["data"]
        if "data" in row:
            assert row["data"] == data
            continue
        reported = {name: data[field] for name, field in FIELDS.items() if data.get(field) is not None}
        if shown["type"] == "PartitionChangeRecord":
            reported = {name: value for name, value in reported.items() if value != UNCHANGED.get(name)}
        assert {name: row[name] for name in FIELDS if name in row} == reported
    assert len(types) > 8


def test_csv_has_same_rows_with_header(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flat = [json.loads(line) for line in dumped(capsys, "jsonl", log).splitlines()]
    rows = list(csv.DictReader(dumped(capsys, "csv", log).splitlines()))
    assert list(rows[0]) == [name for name in RECORDS.names if name != "node"]
    for row, expected in zip(rows, flat, strict=True):
        for name, cell in row.items():
            value = expected.get(name)
            if isinstance(value, list | dict):
                assert json.loads(cell) == value
            elif isinstance(value, bool):
                assert cell == str(value).lower()
            else:
                assert cell == ("" if value is None else str(value))


def test_special_characters_are_preserved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = 'a "b", é\n\x01'
    values = [
        encode_record(TopicRecord(name), 0),
        encode_record(ConfigRecord(2, name, "k", name), 0),
        b"\1\x7f\0x",
    ]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(encode_batch(0, 1, -5, values))
    rows = [json.loads(line) for line in dumped(capsys, "jsonl", path).splitlines()]
    assert rows[0]["topic"] == rows[1]["data"]["value"] == name
    assert rows[2]["raw"] == b"\1\x7f\0x".hex()
    assert rows[0]["ts"] == "1969-12-31T23:59:59.995Z"
    cells = list(csv.DictReader(dumped(capsys, "csv", path).split("\n"), strict=True))
    assert json.loads(cells[1]["data"])["name"] == "k"


def test_damage_is_row_and_repeated_at_end(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segments = sorted(log.rglob("*.log"))
    before = [json.loads(line) for line in dumped(capsys, "jsonl", log).splitlines()]
    positions = sorted({row["position"] for row in before if row["segment"] == str(segments[0])})
    data = bytearray(segments[0].read_bytes())
    data[positions[3] + 70] ^= 1
    segments[0].write_bytes(data[:-5])
    assert run(["log", "dump", "--output", "jsonl", str(log)]) == 1
    captured = capsys.readouterr()
    rows = [json.loads(line) for line in captured.out.splitlines()]
    faults = [row for row in rows if "fault" in row]
    assert [row["position"] for row in faults] == [positions[3], positions[-1]]
    assert [row["fault"].split(":")[0] for row in faults] == ["BAD_CRC", "TORN_TAIL"]
    assert [row["position"] for row in rows[: rows.index(faults[0]) + 1]][-2:] == positions[2:4]
    lost = [row for row in before if row["segment"] == str(segments[0]) and row["position"] in positions[3:4]]
    lost += [row for row in before if row["segment"] == str(segments[0]) and row["position"] == positions[-1]]
    assert [row for row in before if row not in rows] == lost
    assert [line.partition(", position ")[0] for line in captured.err.splitlines()] == [
        f"error: {segments[0]}"
    ] * 2


@pytest.mark.parametrize("seen", unfinished_writes(CONFIG).values(), ids=unfinished_writes(CONFIG))
def test_rows_of_a_log_that_is_being_written_end_with_its_last_whole_batch(
    tmp_path: Path, seen: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = segment(tmp_path, LEADER + seen)
    monkeypatch.setattr("quorumd.cli.log.rows.changes", lambda *details: True)
    rows = dumped(capsys, "jsonl", path).splitlines()
    assert [json.loads(row)["type_name"] for row in rows] == ["LeaderChangeMessage", "KRaftVersionRecord"]


@pytest.mark.parametrize("size", [0, 1])
def test_snapshot_without_footer_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int
) -> None:
    """All batches are complete, but the footer is missing; a snapshot being fetched may end anywhere."""
    path = tmp_path / f"{5:020}-{1:010}.checkpoint"
    path.write_bytes(encode_batch(0, 1, 0, [encode_record(TopicRecord("t"), 0)]) * size)
    position = path.stat().st_size
    assert run(["log", "dump", "--output", "jsonl", str(path)]) == 1
    captured = capsys.readouterr()
    last = json.loads(captured.out.splitlines()[-1])
    assert last["position"] == position
    assert shows(last["fault"], "TORN_TAIL", "footer")
    assert shows(captured.err, f"error: {path}, position {position} (offset {size})", last["fault"])
    dumped(capsys, "jsonl", path.rename(f"{path}.part"))


def test_unreadable_record_is_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(encode_batch(0, 1, 0, [b"\1\3\1cut", encode_record(TopicRecord("t"), 0)]))
    rows = [json.loads(line) for line in dumped(capsys, "jsonl", path, code=1).splitlines()]
    assert rows[0]["fault"].startswith("BAD_RECORD: PartitionRecord v1")
    assert rows[1]["topic"] == "t"


def test_rows_exclude_indexes_and_headers_only(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log / "__cluster_metadata-0" / f"{0:020}.index").write_bytes(bytes(8))
    dumped(capsys, "jsonl", log)
    assert run(["log", "dump", "--headers-only", "--output", "csv", str(log)]) == 2
    assert "--headers-only" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["numpy", "pyarrow"])
def test_missing_packages_are_reported_in_one_line(log: Path, missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from quorumd.cli.root import run; "
        f"sys.exit(run(['log', 'dump', '--output', 'jsonl', {str(log)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert shows(
        done.stderr, f"error: --output jsonl needs {missing}", "'quorumd[pipeline]'", "--output json\n"
    )
    assert done.stderr.count("\n") == 1
