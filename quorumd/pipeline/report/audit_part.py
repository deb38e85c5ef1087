"""The section of an audit: which copies were read, and what is wrong with them."""

from __future__ import annotations

from typing import Any

from quorumd.pipeline.report.axes import bytes_text, count_text, counted
from quorumd.pipeline.report.page import Cell, Section, Tile, badge, empty, number, table
from quorumd.pipeline.report.svg import Markup, joined, tag

MOST_FINDINGS = 200


def audit_part(document: dict[str, Any]) -> tuple[list[Tile], list[Section]]:
    """Tile and section of the document that `quorumd pipeline audit --report` writes."""
    findings = document.get("findings", [])
    serious = [each for each in findings if each["severity"] != "INFO"]
    committed = int(document.get("committedUpTo") or 0)
    clean = bool(document.get("clean", not serious))
    tile = Tile(
        "Audit",
        "clean" if clean else counted(len(serious), "finding"),
        f"{counted(len(document.get('nodes', [])), 'copy', 'copies')} compared",
        "good" if clean else "bad",
    )
    lead = f"All copies of the log against each other. Provably committed: offsets below {committed:,}."
    parts = [_nodes(document.get("nodes", [])), _pairs(document.get("pairs", [])), _findings(findings)]
    return [tile], [Section("audit", "Audit", lead, parts)]


def _nodes(nodes: list[dict[str, Any]]) -> Markup:
    if not nodes:
        return Markup()
    cells = [
        [
            Cell(f"{node['node']}", node["node"]),
            *(number(node.get(key)) for key in ("segments", "batches", "records")),
            number(node.get("bytes"), bytes_text(node.get("bytes") or 0)),
            *(number(node.get(key)) for key in ("startOffset", "endOffset", "lastEpoch")),
        ]
        for node in nodes
    ]
    names = ("Node", "Segments", "Batches", "Records", "Bytes", "From offset", "To offset", "Last epoch")
    return joined([tag("h3", "Copies"), table(names, cells)])


def _pairs(pairs: list[dict[str, Any]]) -> Markup:
    if not pairs:
        return Markup()
    cells = []
    for pair in pairs:
        first = pair.get("firstDivergentOffset")
        compared = f"{pair['comparedFrom']:,} to {pair['comparedTo']:,}"
        cells.append(
            [
                Cell(" and ".join(map(str, pair["nodes"]))),
                Cell(compared, style="number"),
                Cell("equal" if first is None else f"differ from {first:,} on", first, "number"),
            ]
        )
    return joined([tag("h3", "Comparisons"), table(("Nodes", "Offsets", "Result"), cells)])


def _findings(findings: list[dict[str, Any]]) -> Markup:
    head = tag("h3", "Findings")
    if not findings:
        return joined([head, empty("Nothing is wrong with any copy.")])
    cells = [
        [
            Cell(badge(each["severity"])),
            Cell(each["code"]),
            Cell(_who(each)),
            Cell(_offsets(each), each.get("offset_lo"), "number"),
            Cell({True: "yes", False: "no"}.get(each.get("committed"), "-")),  # type: ignore[arg-type]  # JSON
            Cell(each.get("detail") or "", style="wide"),
        ]
        for each in findings[:MOST_FINDINGS]
    ]
    names = ("Severity", "Code", "Node", "Offsets", "Committed", "What")
    parts = [head, table(names, cells)]
    if len(findings) > MOST_FINDINGS:
        parts.append(tag("p", f"and {counted(len(findings) - MOST_FINDINGS, 'more finding')}", class_="lead"))
    return joined(parts)


def _who(finding: dict[str, Any]) -> str:
    node, peer = finding.get("node"), finding.get("peer")
    if node is None:
        return "-"
    return f"{node}" if peer is None else f"{node} and {peer}"


def _offsets(finding: dict[str, Any]) -> str:
    low, high = finding.get("offset_lo"), finding.get("offset_hi")
    if low is None:
        return "-"
    return count_text(low) if high is None or high <= low + 1 else f"{low:,} to {high:,}"
