"""Builds whose jobs run in this process, and checks of a build before it starts a job."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from quorumd.errors import ConfigError, InputIncomplete
from quorumd.pipeline.history import micro_batches
from quorumd.pipeline.history.build import build
from quorumd.pipeline.history.micro_batches import MicroBatches
from quorumd.pipeline.history.staging import Staged
from quorumd.pipeline.history.tables import STAGING, Manifest, only_writer, read_manifest, write_manifest
from quorumd.pipeline.history.writer import HistoryWriter
from tests.support.history.content import content
from tests.support.history.local_context import LocalContext, LocalJob
from tests.support.history.logs import history, write_segment, write_snapshot_of
from tests.support.history.writing import write, write_seed

NO_SPARK: Any = None
"""For builds that fail before their first job."""
TABLES = "events", "partition_states", "partition_current", "topics", "brokers", "epochs", "voters"


@pytest.mark.parametrize(
    ("offsets", "small"), [(1_000, micro_batches.SMALL), (50, micro_batches.SMALL), (150, 0)]
)
def test_micro_batches_are_jobs_without_a_session(
    offsets: int, small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(micro_batches, "SMALL", small)
    log, _ = history(7, 300)
    source = {"path": f"1={write_segment(tmp_path / 'node', log)}", "maxOffsetsPerTrigger": str(offsets)}
    context: Any = LocalContext()
    summary = build(context, source, tmp_path / "history")
    assert (summary.records, summary.end) == (len(log), log[-1].offset + 1)
    write(tmp_path / "expected", log)
    found, expected = content(tmp_path / "history"), content(tmp_path / "expected")
    assert {name: found[name] for name in TABLES} == {name: expected[name] for name in TABLES}
    folding = 0 if small else 1
    micro_batches_added = -(-(summary.end - log[0].offset) // offsets)
    assert len(context.tasks) == micro_batches_added * (1 + folding)


def test_build_ends_at_the_end_that_the_log_had_at_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = history(7, 90)
    directory = write_segment(tmp_path / "node", log[:60])
    add_staged = HistoryWriter.add_staged

    def append(writer: HistoryWriter, *arguments: Any) -> None:
        add_staged(writer, *arguments)
        write_segment(tmp_path / "node", log)

    monkeypatch.setattr(HistoryWriter, "add_staged", append)
    context: Any = LocalContext()
    summary = build(context, {"path": f"1={directory}", "maxOffsetsPerTrigger": "25"}, tmp_path / "history")
    assert summary.end == log[59].offset + 1


def test_interrupt_completes_the_micro_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = history(7, 90)
    directory = write_segment(tmp_path / "node", log)

    class Interrupted(LocalContext):
        def parallelize(self, items: Sequence[Any], slices: int) -> LocalJob:
            signal.raise_signal(signal.SIGINT)
            return super().parallelize(items, slices)

    context: Any = Interrupted()
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        build(context, {"path": f"1={directory}", "maxOffsetsPerTrigger": "25"}, tmp_path / "history")
    manifest = read_manifest(tmp_path / "history")
    assert manifest is not None
    assert manifest.end == log[0].offset + 25
    assert signal.getsignal(signal.SIGINT) is handler


def test_history_without_its_beginning_starts_with_a_snapshot(tmp_path: Path) -> None:
    log, _ = history(11, 120)
    directory = write_segment(tmp_path / "node", log[80:])
    write_snapshot_of(directory, history(11, 80)[1], log[79])
    context: Any = LocalContext()
    summary = build(context, {"path": f"1={directory}"}, tmp_path / "history")
    assert (summary.records, summary.begin, summary.end) == (40, log[79].offset + 1, log[-1].offset + 1)
    write_seed(tmp_path / "expected", history(11, 80)[1], log[79])
    write(tmp_path / "expected", log[80:])
    found, expected = (content(tmp_path / name)["partition_current"] for name in ("history", "expected"))
    assert found == [state | {"cluster_id": found[0]["cluster_id"]} for state in expected]


def test_concurrent_build_is_rejected(tmp_path: Path) -> None:
    with only_writer(tmp_path), pytest.raises(ConfigError, match="being written by another"):
        build(NO_SPARK, {"path": f"1={tmp_path}"}, tmp_path)


def test_failed_build_leaves_no_staged_files(tmp_path: Path) -> None:
    (tmp_path / STAGING).mkdir()
    (tmp_path / STAGING / "some.events").touch()
    with pytest.raises(InputIncomplete):
        build(NO_SPARK, {"path": f"1={tmp_path / 'none'}"}, tmp_path)
    assert not (tmp_path / STAGING).exists()


def test_history_of_other_cluster_is_rejected(tmp_path: Path) -> None:
    directory = write_segment(tmp_path / "node", history(1, 20)[0])
    (directory / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=1\n")
    (tmp_path / "history").mkdir()
    write_manifest(tmp_path / "history", Manifest(cluster_id="one"))
    with pytest.raises(ConfigError, match=r"cluster one, .*cluster another"):
        build(NO_SPARK, {"path": f"1={directory}"}, tmp_path / "history")


def test_history_rejects_log_that_lost_its_records(tmp_path: Path) -> None:
    log, _ = history(1, 80)
    write(tmp_path / "history", log[:60])
    manifest = read_manifest(tmp_path / "history")
    assert manifest is not None
    context: Any = LocalContext()

    def staged(directory: Path) -> list[Staged] | None:
        log = MicroBatches(context, {"path": f"1={directory}"}, manifest.end, manifest.end_epoch)
        return log.stage_next(tmp_path / "staging")

    parts = staged(write_segment(tmp_path / "same", log))
    assert parts
    assert (parts[0].low, parts[-1].high) == (manifest.end, log[-1].offset + 1)
    led_by_another = [each._replace(epoch=each.epoch + 1) for each in log[50:]]
    with pytest.raises(InputIncomplete, match="lost"):
        staged(write_segment(tmp_path / "other", log[:50] + led_by_another))
