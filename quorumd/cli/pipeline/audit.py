"""`quorumd pipeline audit`: compare the copies of a log."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorumd.cli.output import columns
from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.options import SparkOptions
from quorumd.cli.pipeline.output import print_rows
from quorumd.errors import ConfigError
from quorumd.output_files import write_output

if TYPE_CHECKING:
    from quorumd.pipeline.audit.audit import AuditReport
    from quorumd.pipeline.audit.findings import Finding

FOLD_RECORDS = 2_000_000
_HEADER = ("Severity", "Code", "Node", "Peer", "Offsets", "Epochs", "Committed", "Place", "Detail")


@click.command()
@click.argument("directories", metavar="ID=DIR...", nargs=-1, required=True)
@click.option(
    "--report",
    "report_path",
    metavar="FILE.json",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a JSON report: findings, nodes, pairs of nodes, what is committed and why.",
)
@click.option(
    "--textfile",
    metavar="FILE.prom",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write metrics for the textfile collector of Prometheus' node_exporter; the file is replaced atomically.",
)
@click.option(
    "--fold-records",
    type=click.IntRange(min=0),
    default=FOLD_RECORDS,
    show_default=True,
    help="Decode at most this many records, and apply at most as many to compare snapshots with the log.",
)
@pipeline_options.spark
@pipeline_options.output
def audit(
    directories: tuple[str, ...],
    report_path: Path | None,
    textfile: Path | None,
    fold_records: int,
    spark: SparkOptions,
    output: str,
) -> None:
    """Check each copy of a log, and compare all copies with each other.

    DIR is the log directory of the node with this ID, of quorumd or of a stock Kafka controller, a copy of it, or
    a URL such as hdfs://namenode/n1. The node may be running. The audit checks CRCs, offsets and epochs; that all
    nodes have the same batches; that snapshots are valid, equal, and match the log; and that the votes and leaders
    that nodes recorded are consistent. It reports the first offset of a difference, and whether that offset is
    provably committed. Uncommitted differences that Raft allows, and nodes that lag, are INFO.

    Exit code 1 for findings above INFO, 8 for incomplete input. --textfile keeps the metrics of the last
    audit that ended with code 0 or 1; config/quorumd-audit.timer runs the audit daily.

    \b
    Examples:
      quorumd pipeline audit 1=/srv/n1 2=/srv/n2 3=/srv/n3
      quorumd pipeline audit 1=n1 2=n2 3=n3 --report audit.json --output jsonl
      quorumd pipeline audit 1=n1 2=n2 3=n3 --textfile /var/lib/prometheus/node-exporter/quorumd_audit.prom
      quorumd pipeline audit 1=hdfs://namenode/backup/n1 2=hdfs://namenode/backup/n2
      quorumd pipeline audit --master spark://10.0.0.5:7077 1=/mnt/n1 2=/mnt/n2 3=/mnt/n3
    """
    from quorumd.pipeline.copies.log_files import parse_directories, read_directories
    from quorumd.pipeline.spark.progress import doing
    from quorumd.pipeline.spark.remote_directories import copied_directories, local_directories

    _check_files(report_path, textfile)
    by_node = parse_directories(",".join(directories))
    # Report mistakes in the directories before Spark starts.
    read_directories(local_directories(by_node))
    with (
        spark.session("thin") as session,
        copied_directories(session.sparkContext, by_node, spark.master) as copies,
    ):
        # Imported here because it needs numpy and pyarrow, which are loaded while Java starts.
        from quorumd.pipeline.audit.audit import audit as run_audit

        doing("reading the copies")
        started_s = time.monotonic()
        report = run_audit(session, copies, fold_records)
        seconds = time.monotonic() - started_s
    _print(report, seconds, output)
    _write_files(report, seconds, report_path, textfile)
    if not report.is_clean:
        raise click.exceptions.Exit(1)


def _check_files(report_path: Path | None, textfile: Path | None) -> None:
    """Raise ConfigError for files that could not be written after the audit, or would not be read."""
    for option, path in (("--report", report_path), ("--textfile", textfile)):
        if path is not None and not path.parent.is_dir():
            raise ConfigError(f"{option} {path}: the directory does not exist: {path.parent}")
    if textfile is not None and textfile.suffix != ".prom":
        raise ConfigError(f"--textfile {textfile}: node_exporter reads only files whose name ends in .prom")


def _write_files(
    report: AuditReport, seconds: float, report_path: Path | None, textfile: Path | None
) -> None:
    if report_path is not None:
        document = json.dumps(report.document() | {"seconds": round(seconds, 3)}, indent=2)
        write_output(report_path, document + "\n")
    if textfile is not None:
        from quorumd.pipeline.audit.textfile import write_textfile

        write_textfile(textfile, report, seconds, time.time())


def _print(report: AuditReport, seconds: float, output: str) -> None:
    if output == "text":
        show(report, seconds)
    else:
        print_rows([finding.row() for finding in report.findings], output, report.columns)


def show(report: AuditReport, seconds: float) -> None:
    """Print the findings, what was read, and the verdict."""
    if report.findings:
        click.echo(columns(_HEADER, [_cells(finding) for finding in report.findings]))
        click.echo()
    for line in summary(report, seconds):
        click.echo(line)


def summary(report: AuditReport, seconds: float) -> list[str]:
    """Return a line per node, what is committed, how much was read, and the verdict."""
    nodes = report.nodes()
    lines = [
        f"node {n['node']}: offsets {n['startOffset']:,} to {n['endOffset']:,}, epoch {n['lastEpoch']}, "
        f"{n['segments']:,} segments, {n['batches']:,} batches, {len(n['snapshots']):,} sound snapshots"
        for n in nodes
    ]
    lines.append(_committed(report))
    records, size = sum(n["records"] for n in nodes), sum(n["bytes"] for n in nodes)
    lines.append(f"read {records:,} records, {size / 1e9:.2f} GB in {seconds:.1f} s")
    lines.append(verdict(report))
    return lines


def verdict(report: AuditReport) -> str:
    """Return the result in one line."""
    counts = dict.fromkeys(("CRITICAL", "WARNING", "INFO"), 0)
    for finding in report.findings:
        counts[finding.severity.name] += 1
    counted = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    if not report.is_clean:
        return f"NOT CLEAN: {counted}"
    return f"clean ({counted})" if counted else "clean"


def _committed(report: AuditReport) -> str:
    voters = ", ".join(map(str, report.voters))
    source = f"voters {voters} from {report.voters_from}"
    if not report.commitment.claims:
        return f"committed offset: not known from these directories ({source})"
    claim = report.commitment.claims[0]
    return f"committed offset: {claim.offset:,} ({claim.why}; {source})"


def _cells(finding: Finding) -> tuple[str, ...]:
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
