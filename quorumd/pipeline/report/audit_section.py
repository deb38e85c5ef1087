"""The section of an audit: the copies that were compared, and the findings."""

from __future__ import annotations

from pydantic import BaseModel

from quorumd.pipeline.report.formatting import format_bytes, format_count, pluralize
from quorumd.pipeline.report.page import Cell, Note, Part, Section, Table, Tile, empty, number

MAX_FINDINGS = 200
_YES_NO = {True: "yes", False: "no"}


class AuditFinding(BaseModel):
    """A finding, with the columns of schemas.AUDIT_FINDINGS that the page uses."""

    severity: str
    code: str
    node: int | None = None
    peer: int | None = None
    offset_lo: int | None = None
    offset_hi: int | None = None
    committed: bool | None = None
    detail: str | None = None


class AuditedCopy(BaseModel):
    """One copy of the log."""

    node: int
    segments: int | None = None
    batches: int | None = None
    records: int | None = None
    bytes: int | None = None
    startOffset: int | None = None
    endOffset: int | None = None
    lastEpoch: int | None = None


class ComparedPair(BaseModel):
    """Two copies, and the offsets compared."""

    nodes: list[int]
    comparedFrom: int
    comparedTo: int
    firstDivergentOffset: int | None = None


class AuditDocument(BaseModel):
    """The fields of a document of `quorumd pipeline audit --report` that the page uses."""

    findings: list[AuditFinding]
    nodes: list[AuditedCopy] = []
    pairs: list[ComparedPair] = []
    committedUpTo: int | None = None
    clean: bool | None = None


def audit_section(document: AuditDocument) -> tuple[list[Tile], list[Section]]:
    """Return the tile and the section of an audit."""
    findings = document.findings
    serious = [finding for finding in findings if finding.severity != "INFO"]
    clean = document.clean if document.clean is not None else not serious
    tile = Tile(
        "Audit",
        "clean" if clean else pluralize(len(serious), "finding"),
        f"{pluralize(len(document.nodes), 'copy', 'copies')} compared",
        "good" if clean else "bad",
    )
    committed = document.committedUpTo or 0
    lead = f"The copies of the log were compared. Offsets below {committed:,} are provably committed."
    parts = [*_nodes(document.nodes), *_pairs(document.pairs), *_findings(findings)]
    return [tile], [Section("audit", "Audit", lead, parts)]


def _nodes(nodes: list[AuditedCopy]) -> list[Part]:
    if not nodes:
        return []
    rows = [
        [
            Cell(f"{node.node}", node.node),
            *(number(count) for count in (node.segments, node.batches, node.records)),
            number(node.bytes, format_bytes(node.bytes or 0)),
            *(number(count) for count in (node.startOffset, node.endOffset, node.lastEpoch)),
        ]
        for node in nodes
    ]
    columns = ("Node", "Segments", "Batches", "Records", "Bytes", "Start offset", "End offset", "Last epoch")
    return [Table("Copies", columns, rows)]


def _pairs(pairs: list[ComparedPair]) -> list[Part]:
    if not pairs:
        return []
    rows = []
    for pair in pairs:
        divergent = pair.firstDivergentOffset
        result = "equal" if divergent is None else f"different from offset {divergent:,}"
        rows.append(
            [
                Cell(" and ".join(map(str, pair.nodes))),
                Cell(f"{pair.comparedFrom:,} to {pair.comparedTo:,}", style="number"),
                Cell(result, divergent, "number"),
            ]
        )
    return [Table("Comparisons", ("Nodes", "Offsets", "Result"), rows)]


def _findings(findings: list[AuditFinding]) -> list[Part]:
    if not findings:
        return [empty("No copy has a fault.", "Findings")]
    rows = [
        [
            Cell(finding.severity, style=f"badge {finding.severity.lower()}"),
            Cell(finding.code),
            Cell(_nodes_of(finding)),
            Cell(_offsets_of(finding), finding.offset_lo, "number"),
            Cell("-" if finding.committed is None else _YES_NO[finding.committed]),
            Cell(finding.detail or "", style="wide"),
        ]
        for finding in findings[:MAX_FINDINGS]
    ]
    columns = ("Severity", "Code", "Node", "Offsets", "Committed", "Detail")
    parts: list[Part] = [Table("Findings", columns, rows)]
    if len(findings) > MAX_FINDINGS:
        parts.append(Note(f"and {pluralize(len(findings) - MAX_FINDINGS, 'more finding')}"))
    return parts


def _nodes_of(finding: AuditFinding) -> str:
    node, peer = finding.node, finding.peer
    if node is None:
        return "-"
    return f"{node}" if peer is None else f"{node} and {peer}"


def _offsets_of(finding: AuditFinding) -> str:
    low, high = finding.offset_lo, finding.offset_hi
    if low is None:
        return "-"
    return format_count(low) if high is None or high <= low + 1 else f"{low:,} to {high:,}"
