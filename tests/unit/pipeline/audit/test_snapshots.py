"""Snapshots: valid or not, equal on all nodes or not, matching the log or not."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import crc32c
import pytest

from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.meta_properties import partition_directory
from quorumd.node.snapshots.builder import build_snapshot
from quorumd.pipeline.audit.audit import AuditReport, audit_here
from quorumd.pipeline.audit.findings import Finding, Severity
from quorumd.runtime.disk import OsDisk
from tests.support.log.config_logs import ConfigLog
from tests.support.log.damaged_logs import partition_path, save_state, segments
from tests.support.log.log_files import Batch, batches
from tests.support.log.snapshots import config, write_snapshot

SETTINGS = LogSettings(segment_bytes=8192, allocate_bytes=0)


@pytest.fixture
def disk() -> OsDisk:
    return OsDisk(lambda callback: None)


@pytest.fixture
def nodes(tmp_path: Path, disk: OsDisk) -> dict[int, Path]:
    """Two nodes with the same log and two snapshots."""
    first = tmp_path / "1"
    log = ConfigLog(disk, str(first), SETTINGS)
    for start in (0, 300):
        log.set_configs(start, 300)
        end = log.commit()
        assert build_snapshot(disk, str(first), end, "test") is not None
    log.set_configs(0, 50, value="w")
    log.commit()
    log.log.close()
    save_state(first, 1, leader=1, voted=1)
    shutil.copytree(first, tmp_path / "2")
    return {1: first, 2: tmp_path / "2"}


def snapshots(data_directory: Path) -> list[Path]:
    return sorted(partition_path(data_directory).glob("*.checkpoint"))


def audited(nodes: dict[int, Path], fold_records: int = 100_000) -> AuditReport:
    return audit_here({node: str(directory) for node, directory in nodes.items()}, fold_records)


def alarms(report: AuditReport) -> list[Finding]:
    return [finding for finding in report.findings if finding.severity > Severity.INFO]


def change_value(file: Path, batch: Batch) -> None:
    """Change the last letter of the last value of a batch, and fix the CRC."""
    data = bytearray(batch.data)
    # The value is followed by its tagged fields and the record's empty headers.
    data[-3] ^= 1
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    with file.open("r+b") as stream:
        stream.seek(batch.position)
        stream.write(data)


def snapshot_batches(file: Path) -> list[Batch]:
    """Read like a segment that begins at offset 0."""
    copy = file.with_name("0.log")
    shutil.copy(file, copy)
    found = batches(copy)
    copy.unlink()
    return found


def test_sound_snapshots_have_no_findings(nodes: dict[int, Path]) -> None:
    report = audited(nodes)
    assert report.findings == ()
    assert len(report.snapshots) == 4


def test_flipped_bit_is_found(nodes: dict[int, Path]) -> None:
    file = snapshots(nodes[2])[0]
    batch = snapshot_batches(file)[1]
    data = bytearray(file.read_bytes())
    data[batch.position + 100] ^= 1
    file.write_bytes(data)
    (finding,) = alarms(audited(nodes))
    assert (finding.code, finding.node, finding.segment, finding.position) == (
        "SNAPSHOT_DAMAGED", 2, file.name, batch.position,
    )  # fmt: skip


def test_truncated_snapshot_is_found(nodes: dict[int, Path]) -> None:
    file = snapshots(nodes[2])[1]
    last = snapshot_batches(file)[-1]
    file.write_bytes(file.read_bytes()[: last.position])
    (finding,) = alarms(audited(nodes))
    assert (finding.code, finding.node, finding.segment) == ("SNAPSHOT_DAMAGED", 2, file.name)
    assert "ends without a snapshot footer" in finding.detail


def test_changed_value_on_one_node_is_found(nodes: dict[int, Path]) -> None:
    file = snapshots(nodes[2])[0]
    change_value(file, snapshot_batches(file)[1])
    found = alarms(audited(nodes))
    assert {(finding.code, finding.node, finding.segment) for finding in found} == {
        ("SNAPSHOT_DIFFERS", 2, file.name)
    }
    # It differs from that of the other node and from the log.
    assert sorted(finding.peer or 0 for finding in found) == [0, 1]
    assert any(finding.detail.endswith(": configs") for finding in found)


def test_changed_value_on_all_nodes_is_found(nodes: dict[int, Path]) -> None:
    for directory in nodes.values():
        file = snapshots(directory)[1]
        change_value(file, snapshot_batches(file)[1])
    found = alarms(audited(nodes))
    assert {(finding.code, finding.node, finding.peer) for finding in found} == {
        ("SNAPSHOT_DIFFERS", 1, None),
        ("SNAPSHOT_DIFFERS", 2, None),
    }
    assert {finding.offset_lo for finding in found} == {int(snapshots(nodes[1])[0].name[:20])}


def test_order_of_snapshot_records_does_not_matter(nodes: dict[int, Path], disk: OsDisk) -> None:
    """Stock Kafka's nodes write records in different orders."""
    end = int(snapshots(nodes[1])[1].name[:20]) + 20
    values = [config(f"c{n}") for n in range(10)]
    for directory, some in zip(nodes.values(), (values, values[::-1]), strict=True):
        write_snapshot(disk, partition_directory(str(directory)), OffsetAndEpoch(end, 1), some, batch=3)
    found = alarms(audited(nodes, fold_records=0))
    assert found == []
    write_snapshot(disk, partition_directory(str(nodes[2])), OffsetAndEpoch(end, 1), values[1:])
    assert [(f.code, f.node) for f in alarms(audited(nodes, fold_records=0))] == [("SNAPSHOT_DIFFERS", 2)]


def test_excess_records_are_reported_and_not_applied(nodes: dict[int, Path]) -> None:
    report = audited(nodes, fold_records=100)
    assert report.is_clean
    codes = [finding.code for finding in report.findings]
    assert codes.count("SNAPSHOT_NOT_COMPARED") == codes.count("NOT_DECODED") == 2
    assert len(codes) == 4
    assert "100 remain of --fold-records" in report.findings[0].detail


def test_log_starting_at_snapshot_is_compared(nodes: dict[int, Path]) -> None:
    """The second snapshot is compared with the first one and the log after it."""
    end = int(snapshots(nodes[1])[0].name[:20])
    for directory in nodes.values():
        for segment in segments(directory):
            following = [each for each in segments(directory) if each > segment]
            if following and int(following[0].stem) <= end:
                segment.unlink()
    report = audited(nodes)
    assert report.copies[1].start_offset > 0
    assert report.is_clean
    assert [finding.code for finding in report.findings] == ["SNAPSHOT_NOT_COMPARED"]
    for directory in nodes.values():
        file = snapshots(directory)[1]
        change_value(file, snapshot_batches(file)[1])
    assert {finding.code for finding in alarms(audited(nodes))} == {"SNAPSHOT_DIFFERS"}


def test_unfinished_snapshot_is_information(nodes: dict[int, Path]) -> None:
    (partition_path(nodes[1]) / f"{77:020d}-{1:010d}.checkpoint.part").write_bytes(b"abc")
    (finding,) = audited(nodes).findings
    assert (finding.severity, finding.code, finding.node) == (Severity.INFO, "SNAPSHOT_PART", 1)


def test_logs_with_different_starts_are_compared(nodes: dict[int, Path]) -> None:
    """Nodes apply retention independently."""
    first, second, *_ = segments(nodes[2])
    assert int(second.stem) <= int(snapshots(nodes[2])[0].name[:20])
    first.unlink()
    report = audited(nodes)
    assert report.findings == ()
    assert (report.copies[1].start_offset, report.copies[2].start_offset) == (0, int(second.stem))
