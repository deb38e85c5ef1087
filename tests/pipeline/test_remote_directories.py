"""Directories on Hadoop's file systems give the results of local ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quorumd.errors import ConfigError, InputIncomplete
from quorumd.pipeline.audit.audit import audit, audit_here
from quorumd.pipeline.history.build import build
from quorumd.pipeline.history.history import open_history
from quorumd.pipeline.spark.remote_directories import copied_directories, local_directories
from scripts.log_generator import LogShape, generate
from tests.support.log import damaged_logs
from tests.support.processes.webhdfs import webhdfs
from tests.support.text import shows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[2]"


@pytest.fixture(params=["file", "webhdfs"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        yield f"file://{tmp_path}"
    else:
        with webhdfs(tmp_path) as url:
            yield url


def test_audit_of_urls_equals_that_of_directories(spark: SparkSession, served: str, tmp_path: Path) -> None:
    log = generate(
        tmp_path / "log", LogShape(records=20_000, batch_records=8, segment_bytes=1 << 19, nodes=3)
    )
    damaged_logs.flip_bit(log.directories[1], 10_000)
    damaged_logs.drop_batch(log.directories[2], 15_000)
    damaged_logs.save_state(log.directories[3], log.epoch, leader=-1, voted=2)
    directories = {node: str(directory) for node, directory in log.directories.items()}
    urls = {
        node: f"{served}/{directory.relative_to(tmp_path)}" for node, directory in log.directories.items()
    }
    assert local_directories(urls | {4: "n4"}) == {4: "n4"}

    with copied_directories(spark.sparkContext, urls | {3: directories[3]}, LOCAL) as copies:
        assert copies[3] == directories[3]
        report = audit(spark, copies)

    assert report.document() == audit_here(directories).document()
    assert {finding.code for finding in report.findings} >= {"BAD_CRC", "GAP"}
    assert not Path(copies[1]).exists()


def test_history_of_url_equals_that_of_directory(spark: SparkSession, tmp_path: Path) -> None:
    log = generate(tmp_path / "log", LogShape(records=3_000, segment_bytes=100_000))
    (directory,) = log.directories.values()
    build(spark.sparkContext, {"path": f"1={directory}"}, tmp_path / "local")
    with (
        webhdfs(tmp_path) as url,
        copied_directories(spark.sparkContext, {1: f"{url}/{directory.relative_to(tmp_path)}"}, LOCAL) as c,
    ):
        build(spark.sparkContext, {"path": f"1={c[1]}"}, tmp_path / "remote")
    for table in ("events", "partition_current", "brokers"):
        local, remote = (open_history(tmp_path / name).read(table) for name in ("local", "remote"))
        assert local.num_rows
        assert remote.equals(local)


def test_missing_url_and_distant_workers_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    with webhdfs(tmp_path) as url:
        with (
            pytest.raises(InputIncomplete) as caught,
            copied_directories(spark.sparkContext, {7: f"{url}/n7"}, LOCAL),
        ):
            pass
        assert shows(str(caught.value), url, "node 7", "/n7")
    for url in ("nowhere://h/n7", "s3a://h/n7"):
        with (
            pytest.raises(InputIncomplete) as caught,
            copied_directories(spark.sparkContext, {7: url}, LOCAL),
        ):
            pass
        assert shows(str(caught.value), url, "spark.jars.packages")
    with (
        pytest.raises(ConfigError),
        copied_directories(spark.sparkContext, {7: "hdfs://h/n7"}, "spark://10.0.0.5:7077"),
    ):
        pass
