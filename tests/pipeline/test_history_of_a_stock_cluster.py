"""Histories of logs that stock controllers wrote; tests/unit/pipeline/audit/test_stock_log.py describes the data."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorumd.pipeline.history.build import build
from quorumd.pipeline.history.history import History, open_history
from quorumd.protocol.json_values import HIDDEN
from tests.support.history.content import by
from tests.support.history.logs import read_log
from tests.support.history.reference import NaiveHistory
from tests.support.history.rows import plain_states

DATA = Path(__file__).parents[1] / "support" / "data"
KEY = "topic_id", "partition", "from_offset"


def history_of(spark: SparkSession, archive: str, nodes: tuple[int, ...], directory: Path) -> History:
    with zipfile.ZipFile(DATA / archive) as files:
        files.extractall(directory)
    source = {"path": ",".join(f"{node}={directory / str(node)}" for node in nodes)}
    build(spark.sparkContext, source, directory / "history")
    return open_history(directory / "history")


@pytest.mark.parametrize(
    ("archive", "complete", "end"), [("stock_kafka_4.1.0.zip", 1, 1623), ("kafka_4.3.1_history.zip", 2, 825)]
)
def test_history_has_each_record_and_state_and_the_cluster_id(
    spark: SparkSession, archive: str, complete: int, end: int, tmp_path: Path
) -> None:
    """Node 1 of 4.3.1 is behind, and its last record was not committed."""
    built = history_of(spark, archive, (1, 2, 3), tmp_path)
    naive = NaiveHistory()
    naive.apply(read_log(str(tmp_path / str(complete))))
    assert naive.closed
    assert by(plain_states(built.read("partition_states")), *KEY) == by(naive.closed, *KEY)
    assert by(plain_states(built.read("partition_current")), *KEY) == by([*naive.open.values()], *KEY)
    events = built.read("events")
    assert sorted(events["offset"].to_pylist()) == list(range(end))
    # A stock log does not have the cluster id.
    written = (tmp_path / "1" / "meta.properties").read_text().splitlines()
    assert f"cluster.id={built.manifest.cluster_id}" in written
    assert set(events["cluster_id"].to_pylist()) == {built.manifest.cluster_id}


def test_history_has_no_secrets(spark: SparkSession, tmp_path: Path) -> None:
    events = history_of(spark, "kafka_4.3.1_records.zip", (1,), tmp_path).read("events").to_pylist()
    credentials = [
        json.loads(row["data"]) for row in events if row["type_name"] == "UserScramCredentialRecord"
    ]
    assert credentials
    found = {fields[name] for fields in credentials for name in ("salt", "storedKey", "serverKey")}
    assert found == {HIDDEN}
