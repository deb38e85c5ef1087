"""A history written in micro-batches, killed anywhere and restarted, has the same tables as one written at once;
half of a micro-batch is never visible."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quorumd.errors import InputIncomplete
from quorumd.ids import KafkaUuid
from quorumd.pipeline.decode import decode_records
from quorumd.pipeline.history import staging, tables
from quorumd.pipeline.history.merging import MANY
from quorumd.pipeline.history.staging import stage
from quorumd.pipeline.history.tables import Manifest, read_files, read_manifest
from quorumd.pipeline.history.writer import HistoryWriter
from quorumd.pipeline.scan.batches import scan
from quorumd.pipeline.tables.schemas import HISTORY_TABLES
from quorumd.protocol import messages
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch
from tests.support.history.content import by, content
from tests.support.history.logs import history
from tests.support.history.reference import NaiveHistory
from tests.support.history.rows import batches, plain_states
from tests.support.history.writing import add, write


class Killed(BaseException):
    """Not an Exception, so that the writer cannot catch it."""


@pytest.mark.parametrize("seed", range(6))
def test_tables_do_not_depend_on_batch_and_task_sizes(tmp_path: Path, seed: int) -> None:
    log, _ = history(seed)
    write(tmp_path / "whole", log)
    lots = Random(seed)
    cuts = sorted({0, len(log), *(lots.randint(0, len(log)) for _ in range(4))})
    for low, high in pairwise(cuts):
        write(tmp_path / "cut", log[low:high], tasks=lots.randint(1, 4))
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


def test_tables_equal_reference_state_machine(tmp_path: Path) -> None:
    log, _ = history(3)
    write(tmp_path, log[:200])
    write(tmp_path, log[200:], tasks=3)
    naive = NaiveHistory()
    naive.apply(log)
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    for table, expected in (
        ("partition_states", naive.closed),
        ("partition_current", [*naive.open.values()]),
    ):
        found = plain_states(read_files(tmp_path, manifest.paths(table), table))
        key = "topic_id", "partition", "from_offset"
        assert by(found, *key) == by(expected, *key)
    events = read_files(tmp_path, manifest.paths("events"), "events").to_pylist()
    assert [event["offset"] for event in by(events, "offset")] == [logged.offset for logged in log]
    assert all(event["topic"] is not None for event in events if event["topic_id"] is not None)


WRITES = ("write_table", "write_manifest", "remove_obsolete")


def killed_at(moment: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Raise Killed in the middle of the write with this number; return the number of writes."""
    count = 0

    def dying(original: Callable[..., None]) -> Callable[..., None]:
        def write(directory: Path, *rest: Any) -> None:
            nonlocal count
            count += 1
            if count == moment:
                raise Killed
            original(directory, *rest)
            count += 1
            if count == moment:
                raise Killed

        return write

    from quorumd.pipeline.history import jobs, writer

    for name in WRITES:
        wrapped = dying(getattr(tables, name))
        for module in (tables, jobs, writer):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, wrapped)
    return lambda: count


def test_restart_after_kill_gives_same_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = history(5, 40)
    cuts = [0, 25, 40]
    states = [content(tmp_path / "none")]
    for low, high in pairwise(cuts):
        write(tmp_path / "whole", log[low:high])
        states.append(content(tmp_path / "whole"))
    moment, was_killed = 0, True
    while was_killed:
        moment += 1
        directory, was_killed = tmp_path / f"killed-{moment}", False
        with monkeypatch.context() as patch:
            killed_at(moment, patch)
            try:
                for low, high in pairwise(cuts):
                    write(directory, log[low:high])
            except Killed:
                was_killed = True
        if was_killed:
            assert content(directory) in states, "half of a micro-batch is to be seen"
        # The stream's checkpoint is older than the history, so all records may be replayed.
        for low, high in pairwise(cuts):
            write(directory, log[low:high])
        assert content(directory) == states[-1]
        assert files_in(directory) == set(files_named(directory)), "leftovers"
    assert moment > 30


def test_finished_history_has_one_generation_of_each_table(tmp_path: Path) -> None:
    """Other programs read the directory of a table without the manifest."""
    log, _ = history(5, 40)
    writer = HistoryWriter(tmp_path, Manifest())
    add(writer, log[:25])
    add(writer, log[25:])
    assert writer.manifest.obsolete
    writer.finish()
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert files_in(tmp_path) == manifest.named


def files_in(directory: Path) -> set[str]:
    return {str(file.relative_to(directory)) for file in directory.rglob("*") if file.is_file()} - {
        tables.MANIFEST
    }


def files_named(directory: Path) -> list[str]:
    manifest = read_manifest(directory) or Manifest()
    return [path for table in HISTORY_TABLES for path in manifest.paths(table)] + manifest.obsolete


def test_many_small_files_are_merged(tmp_path: Path) -> None:
    log, _ = history(4, 240)
    write(tmp_path / "whole", log)
    writer = HistoryWriter(tmp_path / "followed", Manifest())
    for start in range(0, len(log), 3):
        add(writer, log[start : start + 3])
    assert content(tmp_path / "followed") == content(tmp_path / "whole")
    files = writer.manifest.files
    assert len(files["events"]) <= MANY
    buckets = [path[-17:] for path in files["partition_states"]]
    assert max(buckets.count(bucket) for bucket in buckets) <= MANY
    assert any("merged-bucket" in path for path in files["partition_states"])
    assert files_in(tmp_path / "followed") == set(files_named(tmp_path / "followed"))


def test_missing_offsets_are_reported(tmp_path: Path) -> None:
    log, _ = history(2, 60)
    write(tmp_path, log[:20])
    with pytest.raises(InputIncomplete, match=f"{log[19].offset + 1} to {log[29].offset}"):
        write(tmp_path, log[30:])


def test_chunks_are_limited_by_records_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = history(2, 60)
    assert len(list(staging._chunks(batches(log, 5), 0))) == 1
    monkeypatch.setattr(staging, "CHUNK_BYTES", 1)
    assert [len(chunk) for chunk in staging._chunks(batches(log, 5), 0)] == [5] * 12


def stage_values(directory: Path, values: list[bytes]) -> None:
    data = encode_batch(0, 1, 1_000, values)
    rows = decode_records(data, scan(data).batches, 1, None, None, packed=True)
    stage(iter([rows]), directory, 0)


@pytest.mark.parametrize(
    "name", ["PartitionRecord", "PartitionChangeRecord", "TopicRecord", "ClearElrRecord"]
)
def test_unknown_version_of_needed_record_is_rejected(tmp_path: Path, name: str) -> None:
    number = {name: number for number, name in messages.RECORDS.items()}[name]
    known = encode_record(TopicRecord("t", KafkaUuid(bytes(15) + b"\1")), 0)
    reported = f"offset 1 is a {name} of unknown version 99"
    with pytest.raises(InputIncomplete, match=reported):
        stage_values(tmp_path, [known, bytes([1, number, 99]) + b"what it says"])


def test_other_records_may_have_unknown_versions(tmp_path: Path) -> None:
    stage_values(
        tmp_path, [b"\x01\xf4\x03\x00of a type yet to come", b"\x01\x0c\x63of a version yet to come"]
    )
    stage_values(tmp_path, [b"\x09\x00no frame that is known"])
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".events", ".partitions"]
