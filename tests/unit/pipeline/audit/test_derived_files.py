"""Files derived from the log that contradict it, and records that no reader can decode."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import crc32c
import pytest

from quorumd.log import LogSettings
from quorumd.node.snapshots.builder import build_snapshot
from quorumd.pipeline.audit.audit import audit_here
from quorumd.pipeline.audit.findings import Finding, Severity
from quorumd.runtime.disk import OsDisk
from tests.support.log.config_logs import ConfigLog
from tests.support.log.damaged_logs import (
    BODY_AT,
    CHANGED_BYTE,
    CRC_AT,
    add_tail,
    batch_at,
    cut,
    partition_path,
    save_state,
    segments,
)

SETTINGS = LogSettings(segment_bytes=8192, allocate_bytes=0, index_interval_bytes=500)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node with two epochs, several segments, and a snapshot in the last one."""
    directory, disk = tmp_path / "1", OsDisk(lambda callback: None)
    log = ConfigLog(disk, str(directory), SETTINGS)
    log.set_configs(0, 600)
    end = log.commit()
    assert build_snapshot(disk, str(directory), end, "test") is not None
    log.set_configs(0, 50, value="w")
    log.commit()
    log.log.close()
    add_tail(directory, epoch=2, leader=1, voters=(1, 2, 3))
    save_state(directory, 2, leader=1, voted=1)
    return directory


def findings(*directories: Path) -> list[Finding]:
    report = audit_here({number: str(directory) for number, directory in enumerate(directories, 1)})
    return [finding for finding in report.findings if finding.severity > Severity.INFO]


def codes(*directories: Path) -> list[str]:
    return [finding.code for finding in findings(*directories)]


def test_files_of_a_node_agree_with_its_log(node: Path) -> None:
    assert len(segments(node)) > 2
    assert all(segment.with_suffix(".index").stat().st_size for segment in segments(node)[:-1])
    assert codes(node) == []


@pytest.mark.parametrize(
    "text",
    [
        "0\n2\n1 0\n2 50\n",
        "0\n2\n1 0\n3 50\n",
        "0\n1\n3 40\n",
        "0\n2\n1 0\n",
        "1\n1\n1 0\n",
        "0\n1\n1 0 9\n",
        "x",
    ],
)
def test_epochs_that_the_log_does_not_have_are_found(node: Path, text: str) -> None:
    (partition_path(node) / "leader-epoch-checkpoint").write_text(text)
    assert codes(node) == ["EPOCHS_CONTRADICT_LOG"]


@pytest.mark.parametrize("text", ["0\n0\n", "0\n1\n1 40\n", "0\n2\n1 0\n2 5000\n"])
def test_epochs_of_a_log_without_its_beginning_or_end_are_tolerated(node: Path, text: str) -> None:
    (partition_path(node) / "leader-epoch-checkpoint").write_text(text)
    assert codes(node) == []


@pytest.mark.parametrize("text", ["version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg", "topic"])
def test_directory_of_another_partition_is_found(node: Path, text: str) -> None:
    (partition_path(node) / "partition.metadata").write_text(text)
    assert codes(node) == ["PARTITION_METADATA_CONTRADICTS"]


@pytest.mark.parametrize(
    ("suffix", "layout", "at", "value"),
    [
        (".index", ">I", 4, 1),
        (".index", ">I", 4, 1_000_000),
        (".index", ">I", 8, 1),
        (".timeindex", ">q", 12, 1),
        (".timeindex", ">I", 20, 0),
    ],
    ids=["position", "position beyond the end", "offset", "timestamp", "offset of a timestamp"],
)
def test_wrong_index_entry_is_found(node: Path, suffix: str, layout: str, at: int, value: int) -> None:
    index = segments(node)[1].with_suffix(suffix)
    data = bytearray(index.read_bytes())
    struct.pack_into(layout, data, at, value)
    index.write_bytes(data)
    (finding,) = findings(node)
    assert (finding.code, finding.segment) == ("INDEX_CONTRADICTS_LOG", index.name)


def test_preallocated_index_is_read_to_its_last_entry(node: Path) -> None:
    index = segments(node)[0].with_suffix(".index")
    index.write_bytes(index.read_bytes() + bytes(800))
    assert codes(node) == []


def test_log_that_ends_below_a_snapshot_is_found(node: Path) -> None:
    end = cut(node, 500)
    found = next(each for each in findings(node) if each.code == "SNAPSHOT_BEYOND_LOG")
    assert (found.offset_lo, found.offset_hi) == (end, 602)


def test_interrupted_installation_of_a_snapshot_is_no_gap(node: Path) -> None:
    end = cut(node, 500)
    last = segments(node)[-1]
    new = last.with_name("00000000000000000602.log")
    new.touch()
    assert "GAP" not in codes(node)
    new.rename(last.with_name("00000000000000000603.log"))
    gap = next(each for each in findings(node) if each.code == "GAP")
    assert (gap.offset_lo, gap.offset_hi) == (end, 603)


def test_undecodable_record_is_found_in_each_copy(node: Path, tmp_path: Path) -> None:
    segment, batch = batch_at(node, 300)
    data = bytearray(batch.data)
    # Position and version of the frame: the first byte of the value of the batch's first record.
    frame = data.index(b"\x01\x04\x00", CHANGED_BYTE - 6)
    data[frame] = 9
    struct.pack_into(">I", data, CRC_AT, crc32c.crc32c(bytes(data[BODY_AT:])))
    with segment.open("r+b") as file:
        file.seek(batch.position)
        file.write(data)
    for snapshot in partition_path(node).glob("*.checkpoint"):
        snapshot.unlink()
    shutil.copytree(node, tmp_path / "2")
    found = findings(node, tmp_path / "2")
    undecodable = [each for each in found if each.code == "UNDECODABLE_RECORD"]
    assert [(each.node, each.offset_lo, each.segment) for each in undecodable] == [
        (number, batch.base_offset, segment.name) for number in (1, 2)
    ]
