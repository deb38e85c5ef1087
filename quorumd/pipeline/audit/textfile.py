"""The result of an audit as metrics, in a file for the textfile collector of Prometheus' node_exporter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from quorumd.output_files import write_output

if TYPE_CHECKING:
    from quorumd.pipeline.audit.audit import AuditReport


class AuditMetrics(Collector):
    """The metrics of an audit that ended at `ended_at` (Unix seconds) and took `seconds`."""

    def __init__(self, report: AuditReport, seconds: float, ended_at: float) -> None:
        self._report = report
        self._seconds = seconds
        self._ended_at = ended_at

    def collect(self) -> Iterator[GaugeMetricFamily]:
        report = self._report
        yield GaugeMetricFamily(
            "quorumd_audit_last_run_timestamp_seconds",
            "Unix time at which the last complete audit ended.",
            self._ended_at,
        )
        yield GaugeMetricFamily("quorumd_audit_duration_seconds", "Duration of the audit.", self._seconds)
        yield GaugeMetricFamily(
            "quorumd_audit_clean", "1 if no finding is above INFO, else 0.", float(report.is_clean)
        )
        findings = GaugeMetricFamily(
            "quorumd_audit_findings", "Findings by severity and code.", labels=("severity", "code")
        )
        counts = Counter((finding.severity.name, finding.code) for finding in report.findings)
        for labels, count in sorted(counts.items()):
            findings.add_metric(labels, count)
        yield findings
        if report.commitment.claims:
            yield GaugeMetricFamily(
                "quorumd_audit_committed_offset",
                "The end of the provably committed records.",
                report.commitment.up_to,
            )
        copies = report.copies.values()
        for name, help_text, values in (
            ("log_start_offset", "The first offset of the node's copy.", [c.start_offset for c in copies]),
            ("log_end_offset", "The end offset of the node's copy.", [c.end_offset for c in copies]),
            ("read_records", "Records read from the node's copy.", [c.records for c in copies]),
            ("read_bytes", "Bytes read from the node's segments.", [c.bytes for c in copies]),
        ):
            family = GaugeMetricFamily(f"quorumd_audit_{name}", help_text, labels=("node",))
            for copy, value in zip(copies, values, strict=True):
                family.add_metric((str(copy.node),), value)
            yield family


def write_textfile(path: Path, report: AuditReport, seconds: float, ended_at: float) -> None:
    """Replace the file atomically: a collector reads either the previous or the new audit. Raises OSError."""
    registry = CollectorRegistry()
    registry.register(AuditMetrics(report, seconds, ended_at))
    write_output(path, generate_latest(registry))
