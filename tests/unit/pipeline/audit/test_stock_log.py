"""Logs of stock Kafka controllers, whose own snapshots are the oracle for decoding their records.

tests/support/data/stock_kafka_4.1.0.zip has the folders of three controllers of Apache Kafka 4.1.0 after topics
were created and deleted, a broker and the leading controller were killed, and the killed controller returned.
kafka_4.3.1_records.zip has those of a controller of 4.3.1 after ACLs, credentials, quotas, tokens and a cordoned
directory were set and removed.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from quorumd.pipeline.audit.audit import audit_here
from tests.support.log.damaged_logs import change_silently, flip_bit

DATA = Path(__file__).parents[3] / "support" / "data"
ARCHIVE = DATA / "stock_kafka_4.1.0.zip"


@pytest.fixture
def folders(tmp_path: Path) -> dict[int, str]:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    return {node: str(tmp_path / str(node)) for node in (1, 2, 3)}


def test_stock_log_is_sound_and_matches_snapshots(folders: dict[int, str]) -> None:
    report = audit_here(folders)
    assert not report.findings
    nodes = report.nodes()
    assert [(n["startOffset"], n["endOffset"], n["lastEpoch"], len(n["snapshots"])) for n in nodes] == [
        (0, 1623, 2, 5),
        (0, 1623, 2, 5),
        (0, 1623, 2, 4),
    ]


def test_damage_in_stock_log_is_found(folders: dict[int, str]) -> None:
    flipped = flip_bit(Path(folders[1]), 700)
    changed = change_silently(Path(folders[3]), 1200)
    reported = [
        (f.code, f.node, f.offset_lo, f.offset_hi) for f in audit_here(folders).findings if f.severity > 0
    ]
    assert ("BAD_CRC", 1, flipped.base_offset, flipped.end_offset) in reported
    assert ("DIVERGED", 3, changed.base_offset, changed.end_offset) in reported


def test_opaque_records_match_snapshots(tmp_path: Path) -> None:
    with zipfile.ZipFile(DATA / "kafka_4.3.1_records.zip") as archive:
        archive.extractall(tmp_path)
    report = audit_here({1: str(tmp_path / "1")})
    assert [finding.code for finding in report.findings] == ["NO_STATE"]
    (node,) = report.nodes()
    assert len(node["snapshots"]) == 3
