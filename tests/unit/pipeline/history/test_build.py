"""Checks of a build before it uses Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from quorumd.errors import ConfigError, InputIncomplete
from quorumd.pipeline.history.build import build
from quorumd.pipeline.history.staging_source import Staging, StagingSource, staging_options
from quorumd.pipeline.history.tables import STAGING, Manifest, only_writer, read_manifest, write_manifest
from tests.support.history.logs import history, write_segment
from tests.support.history.writing import write

NO_SPARK: Any = None


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
    """Independent of the stream's leftovers: the history records its own end offset and epoch."""
    log, _ = history(1, 80)
    write(tmp_path / "history", log[:60])
    manifest = read_manifest(tmp_path / "history")
    assert manifest is not None
    begin = Staging(tmp_path / "staging", manifest.end, manifest.end_epoch)

    def look(directory: Path) -> int:
        options = {"path": f"1={directory}", "startingOffset": str(manifest.end)} | staging_options(begin)
        reader = StagingSource(options).streamReader(NO_SPARK)
        end: int = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())["offset"]
        return end

    assert look(write_segment(tmp_path / "same", log)) == log[-1].offset + 1
    led_by_another = [each._replace(epoch=each.epoch + 1) for each in log[50:]]
    with pytest.raises(InputIncomplete, match="lost"):
        look(write_segment(tmp_path / "other", log[:50] + led_by_another))
