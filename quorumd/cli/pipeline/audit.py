"""`quorumd pipeline audit`: whether the copies of a log agree."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quorumd.cli.output import columns
from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.options import SparkOptions
from quorumd.cli.pipeline.output import print_rows
from quorumd.errors import ConfigError

if TYPE_CHECKING:
    from quorumd.pipeline.audit.audit import AuditReport
    from quorumd.pipeline.audit.findings import Finding

FOLD_RECORDS = 2_000_000
_HEADER = ("Severity", "Code", "Node", "Peer", "Offsets", "Epochs", "Committed", "Place", "Detail")


@click.command()
@click.argument("folders", metavar="ID=FOLDER...", nargs=-1, required=True)
@click.option(
    "--report",
    "report_path",
    metavar="FILE.json",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write all of it as JSON: findings, nodes, pairs of nodes, what is committed and why.",
)
@click.option(
    "--fold-records",
    type=click.IntRange(min=0),
    default=FOLD_RECORDS,
    show_default=True,
    help="Apply at most so many records, one by one, to compare snapshots with the log.",
)
@pipeline_options.spark
@pipeline_options.output
def audit(
    folders: tuple[str, ...], report_path: Path | None, fold_records: int, spark: SparkOptions, output: str
) -> None:
    """Check the copies of a log, each by itself and all against each other.

    FOLDER is the data folder of the node with this ID, of quorumd or of a stock Kafka controller, or a copy of it;
    of a node that runs, it is read as it is at this moment. Checked are CRCs, offsets and epochs; that all nodes
    hold the same batches; that snapshots are sound, equal, and what the log adds up to; that votes and leaders
    remembered by the nodes fit together. A difference is told from its first offset on, and whether that is
    provably committed. Ends that Raft lets differ, and nodes that are only behind, are INFO.

    Exit code 1 for findings above INFO, 8 for input that is not all there.

    \b
    Examples:
      quorumd pipeline audit 1=/srv/n1 2=/srv/n2 3=/srv/n3
      quorumd pipeline audit 1=n1 2=n2 3=n3 --report audit.json --output jsonl
      quorumd pipeline audit --master spark://10.0.0.5:7077 1=/mnt/n1 2=/mnt/n2 3=/mnt/n3
    """
    from quorumd.pipeline.copies.log_files import parse_folders, read_folders
    from quorumd.pipeline.spark.progress import doing

    if report_path is not None and not report_path.parent.is_dir():
        raise ConfigError(f"--report {report_path}: there is no folder {report_path.parent}")
    by_node = parse_folders(",".join(folders))
    # A mistake in them need not wait for Spark to start.
    read_folders(by_node)
    with spark.session("thin") as session:
        # With it come numpy and pyarrow, which were imported while Java started.
        from quorumd.pipeline.audit.audit import audit as run_audit

        doing("reading the copies")
        began = time.monotonic()
        report = run_audit(session, by_node, fold_records)
        seconds = time.monotonic() - began
    if output == "table":
        show(report, seconds)
    else:
        print_rows([finding.row() for finding in report.findings], output, report.columns)
    if report_path is not None:
        document = json.dumps(report.document() | {"seconds": round(seconds, 3)}, indent=2)
        report_path.write_text(document + "\n", encoding="utf-8")
    if not report.is_clean:
        raise click.exceptions.Exit(1)


def show(report: AuditReport, seconds: float) -> None:
    """For people: findings, then what was read and what came out."""
    if report.findings:
        click.echo(columns(_HEADER, [_cells(finding) for finding in report.findings]))
        click.echo()
    for line in summary(report, seconds):
        click.echo(line)


def summary(report: AuditReport, seconds: float) -> list[str]:
    """A line for each node, what is committed, how much was read, and the verdict."""
    nodes = report.document()["nodes"]
    lines = [
        f"node {n['node']}: offsets {n['startOffset']:,} to {n['endOffset']:,}, epoch {n['lastEpoch']}, "
        f"{n['segments']:,} segments, {n['batches']:,} batches, {len(n['snapshots']):,} sound snapshots"
        for n in nodes
    ]
    lines.append(_committed(report))
    records, size = (sum(n[name] for n in nodes) for name in ("records", "bytes"))
    lines.append(f"read {records:,} records, {size / 1e9:.2f} GB in {seconds:.1f} s")
    lines.append(verdict(report))
    return lines


def verdict(report: AuditReport) -> str:
    """One line."""
    counts = dict.fromkeys(("CRITICAL", "WARNING", "INFO"), 0)
    for finding in report.findings:
        counts[finding.severity.name] += 1
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    if not report.is_clean:
        return f"NOT CLEAN: {told}"
    return f"clean ({told})" if told else "clean"


def _committed(report: AuditReport) -> str:
    voters = ", ".join(map(str, report.voters))
    source = f"voters {voters}, by {report.voters_from}"
    if not report.commitment.claims:
        return f"committed up to: not known from these folders ({source})"
    claim = report.commitment.claims[0]
    return f"committed up to offset {claim.offset:,}: node {claim.node}, {claim.why} ({source})"


def _cells(finding: Finding) -> tuple[Any, ...]:
    place = finding.segment or "-"
    if finding.position is not None:
        place += f" at {finding.position}"
    return (
        finding.severity.name,
        finding.code,
        _or_dash(finding.node),
        _or_dash(finding.peer),
        _span(finding.offset_lo, finding.offset_hi),
        _epochs(finding.epoch_lo, finding.epoch_hi),
        "-" if finding.committed is None else "yes" if finding.committed else "no",
        place,
        finding.detail,
    )


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _span(low: int | None, high: int | None) -> str:
    if low is None:
        return "-"
    return str(low) if high is None or high <= low + 1 else f"{low}..{high - 1}"


def _epochs(low: int | None, high: int | None) -> str:
    if low is None:
        return "-"
    return str(low) if high is None or high == low else f"{low}..{high}"
