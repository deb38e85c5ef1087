"""Damage is located as exactly when Spark reads the files in pieces split anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from quorumd.pipeline.audit.audit import FOLD_RECORDS, audit_here, judge
from quorumd.pipeline.copies.log_files import read_directories
from scripts.log_generator import LogShape, generate
from tests.support.log import damaged_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_audit_finds_all_kinds_of_damage(spark: SparkSession, tmp_path: Path) -> None:
    log = generate(tmp_path, LogShape(records=80_000, batch_records=8, segment_bytes=1 << 20, nodes=3))
    directories = {node: str(directory) for node, directory in log.directories.items()}
    spoilt = damaged_logs.spoil(log.directories[1], 70_000)
    flipped = damaged_logs.flip_bit(log.directories[1], 10_000)
    dropped = damaged_logs.drop_batch(log.directories[2], 30_000)
    changed = damaged_logs.change_silently(log.directories[3], 50_000)
    plain = audit_here(directories)

    source = spark.read.format("quorumd").option("level", "audit").option("splitBytes", 70_000)
    path = ",".join(f"{node}={directory}" for node, directory in directories.items())
    rows = source.option("path", path).option("onCorrupt", "report").load().toArrow()
    report = judge(
        {directory.node: directory for directory in read_directories(directories)}, rows, FOLD_RECORDS
    )

    assert report.document() == plain.document()
    reported = [(f.code, f.node, f.offset_lo, f.offset_hi) for f in report.findings if f.severity > 0]
    assert reported == [
        ("BAD_CRC", 1, flipped.base_offset, flipped.end_offset),
        ("GAP", 2, dropped.base_offset, dropped.end_offset),
        ("DIVERGED", 3, changed.base_offset, changed.end_offset),
        ("BROKEN_CHAIN", 1, spoilt.base_offset, spoilt.end_offset),
    ]
