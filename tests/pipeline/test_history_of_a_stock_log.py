"""The history of a log that a stock cluster wrote: kafka_4.3.1_history.zip, see the unit tests of the audit."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from quorumd.controller.cluster_image import ClusterImage
from quorumd.log.log_reader import read_log
from quorumd.log.meta_properties import load_meta_properties
from quorumd.pipeline.copies.read_only_disk import ReadOnlyDisk
from quorumd.pipeline.history.build import build
from quorumd.pipeline.history.history import open_history
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE = Path(__file__).parents[1] / "support" / "data" / "kafka_4.3.1_history.zip"
NODES, END = (1, 2, 3), 825


def test_history_of_stock_log_has_each_record_once_and_its_cluster(
    spark: SparkSession, tmp_path: Path
) -> None:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    directory = tmp_path / "history"
    # Node 1 is behind, and has a record that was not committed.
    build(spark, {"path": ",".join(f"{node}={tmp_path / str(node)}" for node in NODES)}, directory)
    history = open_history(directory)
    meta = load_meta_properties(ReadOnlyDisk(), str(tmp_path / "1"))
    assert meta is not None
    assert history.manifest.cluster_id == meta.cluster_id
    events = history.read("events", ["offset", "cluster_id"])
    assert sorted(events["offset"].to_pylist()) == list(range(END))
    assert set(events["cluster_id"].to_pylist()) == {meta.cluster_id}

    image = ClusterImage()
    for data, header in read_log(ReadOnlyDisk(), str(tmp_path / "2" / "__cluster_metadata-0"), 0, END):
        if not header.is_control:
            for value in values(data, header):
                image.apply(decode_record(value), [], value)
    expected = {
        (topic.name, number): (partition.leader, list(partition.replicas), sorted(partition.isr))
        for topic in image.topics.values()
        for number, partition in topic.partitions.items()
    }
    # Any tool reads the files without the manifest.
    rows = pq.read_table(directory / "partition_current").to_pylist()
    found = {
        (row["topic"], row["partition"]): (row["leader"], row["replicas"], sorted(row["isr"])) for row in rows
    }
    assert len(found) == len(rows)
    assert found == expected
