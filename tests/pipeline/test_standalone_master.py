"""The short form of `make standalone`: a command on a Spark master with two workers."""

from __future__ import annotations

from pathlib import Path

from scripts.log_generator import LogShape
from tests.pipeline.standalone.commands import Commands, write_generated_log
from tests.support.processes.standalone_spark import standalone_spark, started_executors

SHAPE = LogShape(records=5_000, segment_bytes=100_000, nodes=3)


def test_audit_finds_the_same_damage_on_two_workers_as_in_one_process(tmp_path: Path) -> None:
    write_generated_log(tmp_path / "logs", SHAPE)
    with standalone_spark(tmp_path) as master:
        findings, report = Commands(tmp_path / "cluster", tmp_path / "logs", master).audit_damaged()
        assert started_executors(tmp_path) == 2
    assert "BAD_CRC" in findings
    assert (findings, report) == Commands(tmp_path / "process", tmp_path / "logs", "local[2]").audit_damaged()
