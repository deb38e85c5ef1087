"""The source over a running cluster: real daemons, read as an observer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorumd.errors import InputIncomplete
from quorumd.pipeline.tables.schemas import RECORDS
from tests.support.history.source_rows import read_table, rows
from tests.support.processes.daemons import Cluster, run_quorumd, wait_for
from tests.support.processes.fixtures import running_cluster

NO_IDLE_RECORDS = "metadata.max.idle.interval.ms=0\n"
"""Keeps the end of the log fixed between looking it up and reading."""
EXTRA = (
    f"{NO_IDLE_RECORDS}"
    "metadata.log.segment.bytes=256KiB\n"
    "metadata.log.max.record.bytes.between.snapshots=400KiB\n"
    "metadata.max.retention.bytes=600KiB\n"
)
RECORD_COLUMNS = [name for name in RECORDS.names if name not in ("node", "segment", "position")]

TOO_SHORT = "use a longer --duration"
"""Printed by the benchmark on a very busy machine."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), extra=NO_IDLE_RECORDS) as started:
        yield started


def write(cluster: Cluster, seconds: float) -> int:
    """Write for this long, or longer if no write succeeded; return the high watermark once all nodes are level."""
    done = None
    while done is None or TOO_SHORT in done.stderr:
        done = run_quorumd(
            "bench", "--bootstrap-server", cluster.bootstrap, "--in-flight", "64", "--duration", f"{seconds}s"
        )
        seconds *= 2
    assert done.returncode == 0, done.stderr
    return cluster.wait_until_level()


def test_live_rows_equal_rows_of_directories(cluster: Cluster) -> None:
    end = write(cluster, 0.3)
    leader = cluster.leader()
    follower = cluster.others(leader)[0]
    address = f"127.0.0.1:{follower.port}"
    live = read_table(None, RECORD_COLUMNS, bootstrap=address)
    start = min(live.column("offset").to_pylist())
    directory = read_table(leader.data, RECORD_COLUMNS, startingOffset=start, endingOffset=end)
    assert rows(live) == rows(directory)
    assert sorted(live.column("offset").to_pylist()) == list(range(start, end))
    places = read_table(None, ("node", "segment", "position"), bootstrap=address, endingOffset=start + 1)
    assert places.to_pylist() == [{"node": leader.node_id, "segment": None, "position": None}]
    batches = read_table(None, ("base_offset", "crc"), level="batches", bootstrap=address)
    stored = read_table(leader.data, ("base_offset", "crc"), level="batches", startingOffset=start)
    assert rows(batches) == rows(stored)
    assert leader.describe_quorum().observers == {}, "a consumer leaves no trace"  # type: ignore[union-attr] # it runs


def test_stream_has_each_committed_record_once_across_leader_change(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    def stream() -> list[int]:
        source = spark.readStream.format("quorumd").option("bootstrap", cluster.bootstrap)
        source = source.option("maxOffsetsPerTrigger", 1_000_000).schema("offset BIGINT, epoch INT")
        writer = source.load().writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer = writer.option("path", str(tmp_path / "rows")).trigger(availableNow=True)
        writer.start(format="parquet").awaitTermination()
        written = spark.read.parquet(str(tmp_path / "rows")).toArrow()
        found: list[int] = sorted(written.column("offset").to_pylist())
        return found

    end = write(cluster, 0.1)
    first = stream()
    assert first == list(range(first[0], first[-1] + 1))
    assert first[-1] + 1 >= end
    killed = cluster.leader()
    killed.kill()
    cluster.leader(besides=killed.node_id)
    killed.start()
    end = write(cluster, 0.1)
    second = stream()
    # A started node registers as a controller, possibly after the last write.
    assert second == list(range(first[0], second[-1] + 1))
    assert second[-1] + 1 >= end


def test_records_below_log_start_are_in_snapshot(tmp_path: Path) -> None:
    with running_cluster(tmp_path, size=1, extra=EXTRA) as cluster:
        _check_snapshot(cluster)


def _check_snapshot(cluster: Cluster) -> None:
    def begins_above() -> int:
        write(cluster, 0.1)
        # The node also builds snapshots by itself, but slowly if the machine is busy writing.
        done = run_quorumd("snapshot", "--config", cluster.leader().config)
        assert done.returncode == 0, done.stderr
        try:
            found = read_table(None, ("offset",), bootstrap=cluster.bootstrap).column("offset").to_pylist()
        except InputIncomplete:
            # The start of the log may be deleted between planning and reading; then there is one more snapshot.
            return 0
        return int(min(found))

    start = wait_for("a log that does not begin at 0", begins_above)
    with pytest.raises(InputIncomplete) as refused:
        read_table(None, bootstrap=cluster.bootstrap, startingOffset=1)
    reported = re.search(
        r"startingOffset is 1, but the log of the cluster starts at (\d+)", str(refused.value)
    )
    assert reported is not None
    assert int(reported[1]) >= start
    live = read_table(None, bootstrap=cluster.bootstrap, level="snapshot").drop_columns(
        ["node", "segment", "position"]
    )
    end = live.column("snapshot_offset")[0].as_py()
    assert end >= start
    stored = read_table(cluster.leader().data, level="snapshot").drop_columns(["node", "segment", "position"])
    assert rows(live) == [row for row in rows(stored) if row["snapshot_offset"] == end]
