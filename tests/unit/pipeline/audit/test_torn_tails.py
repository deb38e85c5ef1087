"""A crash explains unwritten sectors at the end of a log, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from quorumd.pipeline.audit.audit import AuditReport, audit_here
from quorumd.pipeline.audit.findings import Severity
from scripts.log_generator import LogShape, generate
from tests.support.log import damaged_logs
from tests.support.log.damaged_logs import segments
from tests.support.log.log_files import Batch, batches

SECTOR = 512


@pytest.fixture
def nodes(tmp_path: Path) -> dict[int, Path]:
    log = generate(tmp_path, LogShape(records=3000, batch_records=4, segment_bytes=64 << 10, nodes=2))
    for directory in log.directories.values():
        damaged_logs.save_state(directory, log.epoch, leader=-1, voted=-1)
    shutil.copytree(log.directories[2], tmp_path / "node-3")
    return {**log.directories, 3: tmp_path / "node-3"}


def audited(nodes: dict[int, Path]) -> AuditReport:
    return audit_here({node: str(directory) for node, directory in nodes.items()})


def lose_sector(data_directory: Path, from_end: int = 10) -> Batch:
    """Overwrite a sector of the last segment with zeros; return the first batch that overlaps it."""
    segment = segments(data_directory)[-1]
    found = batches(segment)
    sector = found[-from_end].position // SECTOR * SECTOR
    with segment.open("r+b") as file:
        file.seek(sector)
        file.write(bytes(SECTOR))
    return next(batch for batch in found if batch.position + len(batch.data) > sector)


def test_unwritten_sector_is_torn_tail(nodes: dict[int, Path]) -> None:
    batch = lose_sector(nodes[2])
    report = audited(nodes)
    assert report.is_clean
    torn = next(finding for finding in report.findings if finding.code == "TORN_TAIL")
    assert (torn.severity, torn.node, torn.offset_lo) == (Severity.INFO, 2, batch.base_offset)
    assert torn.position == batch.position
    assert report.copies[2].end_offset == batch.base_offset
    assert {finding.code for finding in report.findings} == {"TORN_TAIL", "BEHIND"}


def test_flushed_sector_is_damage(nodes: dict[int, Path]) -> None:
    batch = lose_sector(nodes[2])
    damaged_logs.save_high_watermark(nodes[2], batch.end_offset)
    report = audited(nodes)
    assert not report.is_clean
    assert batch.base_offset in {f.offset_lo for f in report.findings if f.severity == Severity.CRITICAL}


def test_unwritten_sector_before_last_segment_is_damage(nodes: dict[int, Path]) -> None:
    segment = segments(nodes[2])[0]
    data = bytearray(segment.read_bytes())
    data[SECTOR * 20 : SECTOR * 21] = bytes(SECTOR)
    segment.write_bytes(data)
    assert not audited(nodes).is_clean


def test_flipped_bit_is_not_torn_tail(nodes: dict[int, Path]) -> None:
    last = batches(segments(nodes[2])[-1])[-2]
    batch = damaged_logs.flip_bit(nodes[2], last.base_offset)
    (finding,) = audited(nodes).findings
    assert (finding.severity, finding.code, finding.offset_lo) == (
        Severity.CRITICAL, "BAD_CRC", batch.base_offset,
    )  # fmt: skip


def test_damage_before_torn_tail_is_reported_too(nodes: dict[int, Path]) -> None:
    flipped = damaged_logs.flip_bit(nodes[2], 50)
    torn = lose_sector(nodes[2])
    found = {finding.code: finding for finding in audited(nodes).findings}
    assert found["BAD_CRC"].offset_lo == flipped.base_offset
    assert found["BAD_CRC"].severity == Severity.CRITICAL
    assert (found["TORN_TAIL"].offset_lo, found["TORN_TAIL"].severity) == (torn.base_offset, Severity.INFO)
