"""The section of an audit: which copies were compared, and what is wrong with them."""

from __future__ import annotations

from typing import Any

from quorumd.pipeline.report.formatting import format_bytes, format_count, pluralize
from quorumd.pipeline.report.page import Cell, Note, Part, Section, Table, Tile, empty, number

MAX_FINDINGS = 200
_YES_NO = {True: "yes", False: "no"}


def audit_section(document: dict[str, Any]) -> tuple[list[Tile], list[Section]]:
    """Return the tile and the section of a document that `quorumd pipeline audit --report` wrote."""
    findings = document.get("findings", [])
    serious = [finding for finding in findings if finding["severity"] != "INFO"]
    committed = int(document.get("committedUpTo") or 0)
    clean = bool(document.get("clean", not serious))
    tile = Tile(
        "Audit",
        "clean" if clean else pluralize(len(serious), "finding"),
        f"{pluralize(len(document.get('nodes', [])), 'copy', 'copies')} compared",
        "good" if clean else "bad",
    )
    lead = f"All copies of the log compared. Provably committed: offsets below {committed:,}."
    parts = [*_nodes(document.get("nodes", [])), *_pairs(document.get("pairs", [])), *_findings(findings)]
    return [tile], [Section("audit", "Audit", lead, parts)]


def _nodes(nodes: list[dict[str, Any]]) -> list[Part]:
    if not nodes:
        return []
    rows = [
        [
            Cell(f"{node['node']}", node["node"]),
            *(number(node.get(key)) for key in ("segments", "batches", "records")),
            number(node.get("bytes"), format_bytes(node.get("bytes") or 0)),
            *(number(node.get(key)) for key in ("startOffset", "endOffset", "lastEpoch")),
        ]
        for node in nodes
    ]
    columns = ("Node", "Segments", "Batches", "Records", "Bytes", "Start offset", "End offset", "Last epoch")
    return [Table("Copies", columns, rows)]


def _pairs(pairs: list[dict[str, Any]]) -> list[Part]:
    if not pairs:
        return []
    rows = []
    for pair in pairs:
        divergent = pair.get("firstDivergentOffset")
        result = "equal" if divergent is None else f"different from offset {divergent:,}"
        rows.append(
            [
                Cell(" and ".join(map(str, pair["nodes"]))),
                Cell(f"{pair['comparedFrom']:,} to {pair['comparedTo']:,}", style="number"),
                Cell(result, divergent, "number"),
            ]
        )
    return [Table("Comparisons", ("Nodes", "Offsets", "Result"), rows)]


def _findings(findings: list[dict[str, Any]]) -> list[Part]:
    if not findings:
        return [empty("No copy has a fault.", "Findings")]
    rows = [
        [
            Cell(finding["severity"], style=f"badge {str(finding['severity']).lower()}"),
            Cell(finding["code"]),
            Cell(_nodes_of(finding)),
            Cell(_offsets_of(finding), finding.get("offset_lo"), "number"),
            Cell("-" if finding.get("committed") is None else _YES_NO[finding["committed"]]),
            Cell(finding.get("detail") or "", style="wide"),
        ]
        for finding in findings[:MAX_FINDINGS]
    ]
    columns = ("Severity", "Code", "Node", "Offsets", "Committed", "Detail")
    parts: list[Part] = [Table("Findings", columns, rows)]
    if len(findings) > MAX_FINDINGS:
        parts.append(Note(f"and {pluralize(len(findings) - MAX_FINDINGS, 'more finding')}"))
    return parts


def _nodes_of(finding: dict[str, Any]) -> str:
    node, peer = finding.get("node"), finding.get("peer")
    if node is None:
        return "-"
    return f"{node}" if peer is None else f"{node} and {peer}"


def _offsets_of(finding: dict[str, Any]) -> str:
    low, high = finding.get("offset_lo"), finding.get("offset_hi")
    if low is None:
        return "-"
    return format_count(low) if high is None or high <= low + 1 else f"{low:,} to {high:,}"
