"""Output and exit codes of `quorumd pipeline audit`, with the audit in this process instead of Spark."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from quorumd.cli.pipeline.options import SparkOptions
from quorumd.cli.root import run
from quorumd.pipeline.audit import audit
from scripts.log_generator import LogShape, generate
from tests.support.documented_output import assert_as_documented
from tests.support.log import damaged_logs
from tests.support.text import shows

CLEAN, FINDINGS, USAGE, JOB_FAILED, INCOMPLETE = 0, 1, 2, 7, 8


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def session(self: SparkOptions, profile: str = "big") -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(sparkContext=None)

    monkeypatch.setattr(SparkOptions, "session", session)
    monkeypatch.setattr(
        audit, "audit", lambda session, directories, most: audit.audit_here(directories, most)
    )


@pytest.fixture
def nodes(tmp_path: Path) -> dict[int, Path]:
    log = generate(tmp_path / "log", LogShape(records=5000, batch_records=8, nodes=3))
    for directory in log.directories.values():
        damaged_logs.save_state(directory, log.epoch, leader=-1, voted=-1)
    return log.directories


def arguments(nodes: dict[int, Path]) -> list[str]:
    return ["pipeline", "audit", *(f"{node}={directory}" for node, directory in nodes.items())]


def test_sound_copies(nodes: dict[int, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments(nodes)) == CLEAN
    lines = capsys.readouterr().out.splitlines()
    end = damaged_logs.end_offset(nodes[1])
    assert shows(lines[0], "node 1", f"offsets 0 to {end:,}", "epoch")
    assert lines[3] == (
        f"committed offset: {end:,} (copies of a majority of the voters, node 3 among them; "
        "voters 1, 2, 3 from the LeaderChangeMessage of epoch 5)"
    )
    assert shows(lines[4], f"{3 * end:,} records")
    assert lines[5:] == ["clean"]


def test_committed_offset_of_a_single_voter_is_its_checkpoint(
    nodes: dict[int, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    damaged_logs.save_high_watermark(nodes[3], 4037)
    assert run(arguments({3: nodes[3]})) == CLEAN
    line = capsys.readouterr().out.splitlines()[1]
    assert line.startswith("committed offset: 4,037 (high-watermark checkpoint of node 3; voters ")


def test_committed_offset_of_a_single_voter_without_checkpoint_is_not_known(
    nodes: dict[int, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments({3: nodes[3]})) == CLEAN
    line = capsys.readouterr().out.splitlines()[1]
    assert line.startswith("committed offset: not known from these directories (voters ")


def test_sound_copies_print_the_documented_output(
    nodes: dict[int, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for directory in nodes.values():
        damaged_logs.add_voters(directory, epoch=5, voters=(1, 2, 3))
    damaged_logs.save_high_watermark(nodes[3], damaged_logs.end_offset(nodes[3]))
    assert run(arguments(nodes)) == CLEAN
    assert_as_documented("quorumd pipeline audit 1=chaos/1", capsys.readouterr().out)


def test_findings_are_printed_as_table_and_json(
    nodes: dict[int, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = damaged_logs.flip_bit(nodes[2], 3000)
    assert run(arguments(nodes)) == FINDINGS
    header, finding, *_, last = capsys.readouterr().out.splitlines()
    assert header.split() == [
        *("Severity", "Code", "Node", "Peer", "Offsets", "Epochs", "Committed", "Place", "Detail")
    ]
    span = f"{batch.base_offset}..{batch.end_offset - 1}"
    assert finding.split()[:5] == ["CRITICAL", "BAD_CRC", "2", "-", span]
    assert f"{0:020d}.log at {batch.position}" in finding
    assert last == "NOT CLEAN: 1 CRITICAL"

    report = tmp_path / "audit.json"
    assert run([*arguments(nodes), "--output", "json", "--report", str(report)]) == FINDINGS
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["code"], row["node"], row["offset_lo"], row["committed"]) == (
        "BAD_CRC",
        2,
        batch.base_offset,
        True,
    )
    document: dict[str, Any] = json.loads(report.read_text())
    assert document["findings"] == [row]
    assert document["clean"] is False
    assert [node["node"] for node in document["nodes"]] == [1, 2, 3]
    pairs = {tuple(pair["nodes"]): pair["firstDivergentOffset"] for pair in document["pairs"]}
    assert pairs == {(1, 2): batch.base_offset, (1, 3): None, (2, 3): batch.base_offset}


def test_lagging_copy_keeps_exit_code_0(nodes: dict[int, Path], capsys: pytest.CaptureFixture[str]) -> None:
    damaged_logs.cut(nodes[3], 3000)
    assert run(arguments(nodes)) == CLEAN
    assert capsys.readouterr().out.splitlines()[-1] == "clean (1 INFO)"


def test_usage_errors_are_reported(
    nodes: dict[int, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pipeline", "audit", f"1={tmp_path / 'nowhere'}"]) == INCOMPLETE
    assert shows(capsys.readouterr().err, f"error: {tmp_path / 'nowhere'}", "node 1", "No such file")
    assert run(["pipeline", "audit", "one=a", "two=b"]) == USAGE
    assert "'one=a' is not ID=DIR" in capsys.readouterr().err
    assert run(["pipeline", "audit"]) == USAGE


def test_unwritable_report_is_rejected_before_audit(
    nodes: dict[int, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = tmp_path / "nowhere" / "audit.json"
    assert run([*arguments(nodes), "--report", str(nowhere)]) == USAGE
    reported = capsys.readouterr()
    assert shows(reported.err, "error: --report", nowhere, f"{nowhere.parent}\n")
    assert reported.out == ""


def test_findings_are_printed_if_report_cannot_be_written(
    nodes: dict[int, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "audit.json")

    monkeypatch.setattr(Path, "replace", full)
    assert run([*arguments(nodes), "--report", str(tmp_path / "audit.json")]) == JOB_FAILED
    reported = capsys.readouterr()
    assert reported.out.splitlines()[-1] == "clean"
    assert shows(reported.err, "error: audit.json", "No space left")


def samples(textfile: Path) -> dict[tuple[str, ...], float]:
    """Return the values in a textfile by name and labels."""
    families = text_string_to_metric_families(textfile.read_text())
    return {(each.name, *each.labels.values()): each.value for f in families for each in f.samples}


def test_textfile_has_metrics_of_last_audit(nodes: dict[int, Path], tmp_path: Path) -> None:
    textfile = tmp_path / "metrics" / "quorumd_audit.prom"
    textfile.parent.mkdir()
    began, end = time.time(), damaged_logs.end_offset(nodes[1])
    assert run([*arguments(nodes), "--textfile", str(textfile)]) == CLEAN
    first = samples(textfile)
    assert began <= first.pop(("quorumd_audit_last_run_timestamp_seconds",)) <= time.time()
    assert 0 < first.pop(("quorumd_audit_duration_seconds",)) < time.time() - began
    logs = {str(node): next(directory.rglob("*.log")) for node, directory in nodes.items()}
    sizes = {("quorumd_audit_read_bytes", node): log.stat().st_size for node, log in logs.items()}
    assert first == sizes | {
        ("quorumd_audit_clean",): 1,
        ("quorumd_audit_committed_offset",): end,
        **{("quorumd_audit_log_start_offset", node): 0 for node in "123"},
        **{("quorumd_audit_log_end_offset", node): end for node in "123"},
        **{("quorumd_audit_read_records", node): end for node in "123"},
    }

    damaged_logs.flip_bit(nodes[2], 3000)
    damaged_logs.cut(nodes[3], 4000)
    assert run([*arguments(nodes), "--textfile", str(textfile)]) == FINDINGS
    second = samples(textfile)
    assert second["quorumd_audit_clean",] == 0
    found = {key[1:]: value for key, value in second.items() if key[0] == "quorumd_audit_findings"}
    assert found == {("BAD_CRC", "CRITICAL"): 1, ("BEHIND", "INFO"): 1}
    assert list(textfile.parent.iterdir()) == [textfile]


def test_textfile_is_kept_if_audit_or_write_fails(
    nodes: dict[int, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    textfile = tmp_path / "metrics" / "quorumd_audit.prom"
    textfile.parent.mkdir()
    textfile.write_text("quorumd_audit_clean 1.0\n")
    chosen = ["--textfile", str(textfile)]
    assert run(["pipeline", "audit", f"1={tmp_path / 'nowhere'}", *chosen]) == INCOMPLETE

    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    monkeypatch.setattr(Path, "replace", full)
    assert run([*arguments(nodes), *chosen]) == JOB_FAILED
    assert textfile.read_text() == "quorumd_audit_clean 1.0\n"
    assert list(textfile.parent.iterdir()) == [textfile]


@pytest.mark.parametrize("name", ["audit.txt", "nowhere/audit.prom"])
def test_unusable_textfile_is_rejected_before_audit(
    name: str, nodes: dict[int, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments(nodes), "--textfile", str(tmp_path / name)]) == USAGE
    reported = capsys.readouterr()
    assert shows(reported.err, "error: --textfile", tmp_path / name)
    assert reported.out == ""
