"""What stock Kafka controllers wrote: their own snapshots are the oracle for how the records of their log are read.

tests/support/data/stock_kafka_4.1.0.zip holds what three controllers of Apache Kafka 4.1.0 left after topics were
made and deleted, a broker and the leading controller were killed, and the killed controller came back;
kafka_4.3.1_records.zip what one of 4.3.1 left after access control entries, credentials, quotas, tokens and a
cordoned directory were set and removed.
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


def test_it_is_sound_and_leads_to_every_snapshot(folders: dict[int, str]) -> None:
    report = audit_here(folders)
    assert not report.findings
    nodes = report.document()["nodes"]
    assert [(n["startOffset"], n["endOffset"], n["lastEpoch"], len(n["snapshots"])) for n in nodes] == [
        (0, 1623, 2, 5),
        (0, 1623, 2, 5),
        (0, 1623, 2, 4),
    ]


def test_damage_in_it_is_found(folders: dict[int, str]) -> None:
    flipped = flip_bit(Path(folders[1]), 700)
    changed = change_silently(Path(folders[3]), 1200)
    told = [
        (f.code, f.node, f.offset_lo, f.offset_hi) for f in audit_here(folders).findings if f.severity > 0
    ]
    assert ("BAD_CRC", 1, flipped.base_offset, flipped.end_offset) in told
    assert ("DIVERGED", 3, changed.base_offset, changed.end_offset) in told


def test_records_that_are_kept_for_others_lead_to_every_snapshot(tmp_path: Path) -> None:
    with zipfile.ZipFile(DATA / "kafka_4.3.1_records.zip") as archive:
        archive.extractall(tmp_path)
    report = audit_here({1: str(tmp_path / "1")})
    assert [finding.code for finding in report.findings] == ["NO_STATE"]
    (node,) = report.document()["nodes"]
    assert len(node["snapshots"]) == 3
