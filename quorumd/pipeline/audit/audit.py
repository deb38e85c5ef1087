"""Runs an audit: reads the rows of the level `audit`, with or without Spark, and derives findings from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from quorumd.errors import InputIncomplete
from quorumd.pipeline.audit.commitment import Claim, Commitment, Pair, majority_claim
from quorumd.pipeline.audit.compare import compare_all, findings_of_pairs
from quorumd.pipeline.audit.continuity import add_boundary_faults, findings_of_copy
from quorumd.pipeline.audit.control_batches import read_controls
from quorumd.pipeline.audit.copies import Copy, read_copies
from quorumd.pipeline.audit.derived_files import findings_of_derived_files
from quorumd.pipeline.audit.findings import Finding, Severity, in_order
from quorumd.pipeline.audit.quorum_states import findings_of_states, voters_of
from quorumd.pipeline.audit.rereading import DirectoryReader
from quorumd.pipeline.audit.sidecar_files import SidecarFiles, read_sidecar_files
from quorumd.pipeline.audit.snapshot_fold import Log, fold_snapshots
from quorumd.pipeline.audit.snapshots import SoundSnapshot, check_snapshots, compare_snapshots
from quorumd.pipeline.audit.torn_tails import cut_torn_tail
from quorumd.pipeline.audit.undecodable import undecodable_records
from quorumd.pipeline.copies.log_files import CopyDirectory, read_directories
from quorumd.pipeline.scan.batches import read_pieces
from quorumd.pipeline.scan.digests import SegmentDigests
from quorumd.pipeline.tables import schemas

if TYPE_CHECKING:
    import pyarrow as pa

    from quorumd.pipeline.spark.session import SparkSession

FOLD_RECORDS = 2_000_000
"""Default limit of the records to decode, and of the records to apply when snapshots are compared with the log.
Reaching it takes about 20 seconds."""


class NodeSummary(TypedDict):
    """The size and extent of the copy of one node, in a report's JSON."""

    node: int
    segments: int
    batches: int
    records: int
    bytes: int
    startOffset: int
    endOffset: int
    lastEpoch: int
    snapshots: list[str]


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The copies that an audit read, and its findings."""

    findings: tuple[Finding, ...]
    """In order of decreasing severity."""
    copies: Mapping[int, Copy]
    pairs: Mapping[tuple[int, int], Pair]
    commitment: Commitment
    voters: tuple[int, ...]
    voters_from: str
    snapshots: tuple[SoundSnapshot, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of findings."""
        return schemas.AUDIT_FINDINGS.names

    @property
    def is_clean(self) -> bool:
        """True if no finding is above INFO."""
        return all(finding.severity == Severity.INFO for finding in self.findings)

    def nodes(self) -> list[NodeSummary]:
        """Return the size and extent of each copy."""
        return [_node(copy, self.snapshots) for copy in self.copies.values()]

    def document(self) -> dict[str, object]:
        """Return the report as a JSON object."""
        return {
            "clean": self.is_clean,
            "committedUpTo": self.commitment.up_to,
            "committedBecause": [claim._asdict() for claim in self.commitment.claims],
            "voters": list(self.voters),
            "votersFrom": self.voters_from,
            "nodes": self.nodes(),
            "pairs": [_pair(pair) for pair in self.pairs.values() if pair.one < pair.two],
            "findings": [finding.row() for finding in self.findings],
        }


def audit(
    session: SparkSession, directories: Mapping[int, str], fold_records: int = FOLD_RECORDS
) -> AuditReport:
    """Audit the copies in these directories, by node; Spark reads the logs. Raises InputIncomplete, JobFailed."""
    path = ",".join(f"{node}={directory}" for node, directory in directories.items())
    source = session.read.format("quorumd").option("path", path).option("level", "audit")
    found = read_directories(directories)
    rows = source.option("onCorrupt", "report").load().toArrow()
    return judge({directory.node: directory for directory in found}, rows, fold_records)


def audit_here(directories: Mapping[int, str], fold_records: int = FOLD_RECORDS) -> AuditReport:
    """Audit without Spark, in one thread. Raises InputIncomplete."""
    found = {directory.node: directory for directory in read_directories(directories)}
    return judge(found, read_rows(found.values()), fold_records)


def read_rows(directories: Iterable[CopyDirectory]) -> pa.Table:
    """Read the rows of the level `audit` in this process. Raises InputIncomplete."""
    import pyarrow as pa

    batches = [_segment_rows(f.node, s.name, s.path, s.base_offset) for f in directories for s in f.segments]
    return pa.Table.from_batches(batches, schema=schemas.AUDIT.arrow())


def _segment_rows(node: int, name: str, path: str, base_offset: int) -> pa.RecordBatch:
    digests = SegmentDigests(node, name, base_offset)
    try:
        for _, position, scanned in read_pieces(path, base_offset=base_offset):
            digests.add(scanned.batches, position, scanned.faults)
    except OSError as error:
        raise InputIncomplete(f"{path} of node {node} cannot be read: {error.strerror}") from None
    return digests.arrow()


def judge(directories: Mapping[int, CopyDirectory], rows: pa.Table, fold_records: int) -> AuditReport:
    """Derive findings from rows of the level `audit` and the sidecar files. Raises InputIncomplete."""
    copies, reader = read_copies(rows, directories), DirectoryReader(directories)
    sidecar_files = {node: read_sidecar_files(directory) for node, directory in directories.items()}
    checked = {node: check_snapshots(directory) for node, directory in directories.items()}
    sound = [snapshot for snapshots, _ in checked.values() for snapshot in snapshots]
    for node, copy in copies.items():
        add_boundary_faults(copy)
        ends = [snapshot.file.end_offset for snapshot in checked[node][0]]
        flushed = [sidecar_files[node].high_watermark, *(end for end in ends if end <= copy.end_offset)]
        cut_torn_tail(copy, max(flushed), reader)
    controls = {node: read_controls(copy, reader) for node, copy in copies.items()}
    pairs = compare_all(copies, reader.bucket)
    voters, voters_from = voters_of(controls, sidecar_files, tuple(directories))
    commitment = Commitment(list(_claims(copies, sidecar_files, checked, voters, pairs)), pairs)
    findings = [*findings_of_states(copies, sidecar_files, controls)]
    findings += findings_of_pairs(copies, pairs, commitment, set(voters))
    for node, (snapshots, of_files) in checked.items():
        ends = [snapshot.file.end_offset for snapshot in snapshots]
        findings += findings_of_copy(copies[node], commitment, sidecar_files[node].high_watermark, ends)
        findings += of_files
        findings += findings_of_derived_files(directories[node], copies[node])
    findings += undecodable_records(directories, copies, pairs, commitment, fold_records)
    explained: set[str] = set()
    findings += fold_snapshots(Log(directories, copies, pairs), sound, fold_records, explained)
    findings += compare_snapshots(sound, explained)
    return AuditReport(
        tuple(in_order(findings)), copies, pairs, commitment, voters, voters_from, tuple(sound)
    )


def _claims(
    copies: Mapping[int, Copy],
    sidecar_files: Mapping[int, SidecarFiles],
    checked: Mapping[int, tuple[list[SoundSnapshot], list[Finding]]],
    voters: tuple[int, ...],
    pairs: Mapping[tuple[int, int], Pair],
) -> Iterator[Claim]:
    claim = majority_claim(copies, voters, pairs)
    if claim is not None:
        yield claim
    for node, copy in copies.items():
        state = sidecar_files[node].state
        epoch = max(copy.last_epoch, state.leader_epoch if state is not None else -1)
        known = [(sidecar_files[node].high_watermark, f"high-watermark checkpoint of node {node}")]
        known += [
            (snapshot.file.end_offset, f"{snapshot.file.name} of node {node}")
            for snapshot in checked[node][0]
        ]
        for offset, why in known:
            if copy.start_offset < offset <= copy.end_offset:
                yield Claim(offset, node, epoch, why)


def _node(copy: Copy, snapshots: tuple[SoundSnapshot, ...]) -> NodeSummary:
    return {
        "node": copy.node,
        "segments": len({part.segment for part in copy.parts}),
        "batches": copy.batches,
        "records": copy.records,
        "bytes": copy.bytes,
        "startOffset": copy.start_offset,
        "endOffset": copy.end_offset,
        "lastEpoch": copy.last_epoch,
        "snapshots": [each.file.name for each in snapshots if each.file.node == copy.node],
    }


def _pair(pair: Pair) -> dict[str, object]:
    first = pair.differences[0].offset_lo if pair.differences else None
    return {
        "nodes": [pair.one, pair.two],
        "comparedFrom": pair.start,
        "comparedTo": max(pair.end, pair.start),
        "firstDivergentOffset": first,
    }
