"""Logs of stock Kafka controllers, whose own snapshots are the oracle for decoding their records.

tests/support/data/stock_kafka_4.1.0.zip has the directories of three controllers of Apache Kafka 4.1.0 after topics
were created and deleted, a broker and the leading controller were killed, and the killed controller returned.
kafka_4.3.1_records.zip has those of a controller of 4.3.1 after ACLs, credentials, quotas, tokens and a cordoned
directory were set and removed.
kafka_4.3.1_history.zip and kafka_4.4.0_history.zip are copies of three running nodes, after random changes, kills and
truncations (tests.interop.stock_tools.stock_histories), without indexes and with some of their snapshots.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path

import pytest

from quorumd.ids import OffsetAndEpoch
from quorumd.log.snapshot_file import parse_snapshot_name, read_batches
from quorumd.pipeline.audit.audit import audit_here
from quorumd.pipeline.audit.findings import Severity
from quorumd.pipeline.copies.read_only_disk import ReadOnlyDisk
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch, records, values
from tests.support.log.damaged_logs import change_silently, flip_bit

DATA = Path(__file__).parents[3] / "support" / "data"
ARCHIVE = DATA / "stock_kafka_4.1.0.zip"


@pytest.fixture
def directories(tmp_path: Path) -> dict[int, str]:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    return {node: str(tmp_path / str(node)) for node in (1, 2, 3)}


def test_stock_log_is_sound_and_matches_snapshots(directories: dict[int, str]) -> None:
    report = audit_here(directories)
    assert not report.findings
    nodes = report.nodes()
    assert [(n["startOffset"], n["endOffset"], n["lastEpoch"], len(n["snapshots"])) for n in nodes] == [
        (0, 1623, 2, 5),
        (0, 1623, 2, 5),
        (0, 1623, 2, 4),
    ]


def test_damage_in_stock_log_is_found(directories: dict[int, str]) -> None:
    flipped = flip_bit(Path(directories[1]), 700)
    changed = change_silently(Path(directories[3]), 1200)
    reported = [
        (f.code, f.node, f.offset_lo, f.offset_hi) for f in audit_here(directories).findings if f.severity > 0
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


@pytest.mark.parametrize(
    ("version", "stale"),
    [("4.3.1", {"WARNING": 2, "INFO": 4}), ("4.4.0", {"WARNING": 1, "INFO": 3})],
)
def test_history_of_stock_cluster_raises_no_false_alarm(
    version: str, stale: dict[str, int], tmp_path: Path
) -> None:
    """Nodes disagree about configs of removed topics, which is true, and about nothing else."""
    with zipfile.ZipFile(DATA / f"kafka_{version}_history.zip") as archive:
        archive.extractall(tmp_path)
    report = audit_here({node: str(tmp_path / str(node)) for node in (1, 2, 3)})
    found = Counter(each.severity.name for each in report.findings if each.code == "STALE_CONFIGS")
    assert found == stale
    others = [each for each in report.findings if each.code != "STALE_CONFIGS"]
    assert all(each.severity is Severity.INFO for each in others)
    assert "SNAPSHOT_NOT_COMPARED" not in {each.code for each in others}
    assert len(report.snapshots) > 3


def snapshot_without(path: Path, kind: type) -> None:
    """Write a valid snapshot again, without one record of this type."""
    snapshot = parse_snapshot_name(path.name)
    assert isinstance(snapshot, OffsetAndEpoch)
    content, offset, is_left = b"", 0, False
    for data, header in list(read_batches(ReadOnlyDisk(), str(path), snapshot)):
        if header.is_control:
            kept = [(record.key or b"", record.value or b"") for record in records(data, header)]
            content += encode_control_batch(offset, header.epoch, header.timestamp_ms, kept)
            offset += len(kept)
            continue
        left = values(data, header)
        for value in left:
            if not is_left and type(decode_record(value)) is kind:
                left.remove(value)
                is_left = True
                break
        if left:
            content += encode_batch(offset, header.epoch, header.timestamp_ms, left)
            offset += len(left)
    assert is_left
    path.write_bytes(content)


def test_missing_record_of_each_type_is_found(tmp_path: Path) -> None:
    """No other node has this snapshot: the log shows what is missing."""
    with zipfile.ZipFile(DATA / "kafka_4.3.1_records.zip") as archive:
        archive.extractall(tmp_path)
    path = max((tmp_path / "1").glob("*/*.checkpoint"))
    snapshot = parse_snapshot_name(path.name)
    assert snapshot is not None
    whole = path.read_bytes()
    kinds = {
        type(decode_record(value))
        for data, header in read_batches(ReadOnlyDisk(), str(path), snapshot)
        if not header.is_control
        for value in values(data, header)
    }
    found = set()
    for kind in kinds:
        snapshot_without(path, kind)
        report = audit_here({1: str(tmp_path / "1")})
        if any(each.code == "SNAPSHOT_DIFFERS" and each.segment == path.name for each in report.findings):
            found.add(kind)
        path.write_bytes(whole)
    assert {kind.__name__ for kind in kinds - found} == set()
    names = {kind.__name__ for kind in kinds}
    assert names >= {
        "AccessControlEntryRecord",
        "UserScramCredentialRecord",
        "ClientQuotaRecord",
        "DelegationTokenRecord",
        "RegisterControllerRecord",
    }
