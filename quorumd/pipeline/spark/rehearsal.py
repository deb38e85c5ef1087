"""Exercises every feature of Spark that the pipeline uses, on a few rows; `warm` archives the loaded classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from quorumd.pipeline.spark.session import SparkSession

COLUMNS = "`offset` BIGINT, `partition` INT, `isr` ARRAY<INT>, `topic` STRING, `ts` TIMESTAMP"


def rehearse(session: SparkSession, scratch: Path) -> None:
    """Run a job; read, filter, join, fold and sort a few rows, write and read them as Parquet, and as a stream."""
    session.sparkContext.parallelize(range(4), 2).mapPartitions(list).collect()
    session.dataSource.register(RehearsalSource)
    rows = session.read.format("quorumd_rehearsal").load().filter("offset >= 0 and ts is not null")
    folded = rows.repartition(2, "partition").mapInArrow(_same, rows.schema)
    grouped = folded.groupBy("partition").applyInArrow(_same_table, folded.schema)
    grouped.write.mode("overwrite").parquet(str(scratch / "rows"))
    stored = session.read.parquet(str(scratch / "rows"))
    stored.createOrReplaceTempView("rows")
    session.sql(
        "select partition, topic, count(*) as n, max(offset) as last, bit_xor(offset) as digest, "
        "max_by(isr, offset) as isr, size(flatten(collect_list(isr))) as ids from rows "
        "group by partition, topic having n > 0 order by n desc, partition"
    ).toArrow()
    session.sql(
        "select *, lag(offset) over (partition by partition order by offset) as previous from rows "
        "where ts between timestamp'1970-01-01' and now()"
    ).toArrow()
    session.sql("select a.* from rows a join rows b using (offset) left anti join rows c on a.offset < 0")
    stored.join(stored.selectExpr("offset", "partition as p"), "offset", "full_outer").orderBy("p").toArrow()
    session.sql("select explode(isr) as id, topic from rows").groupBy("id").pivot("topic").count().collect()
    session.createDataFrame(pa.table({"offset": [1, 2]})).join(stored, "offset").collect()
    _stream(session, stored, scratch)


def _stream(session: SparkSession, stored: DataFrame, scratch: Path) -> None:
    def store(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(scratch / f"batch-{number}"))

    query = (
        session.readStream.schema(stored.schema)
        .parquet(str(scratch / "rows"))
        .writeStream.foreachBatch(store)
        .option("checkpointLocation", str(scratch / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


class RehearsalSource(DataSource):
    """A few rows in two tasks."""

    @classmethod
    def name(cls) -> str:
        return "quorumd_rehearsal"

    def schema(self) -> str:
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader()


class _Reader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield eight rows per task."""
        offsets = range(8 * partition.value, 8 * partition.value + 8)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(offsets, pa.int64()),
                pa.array([offset % 3 for offset in offsets], pa.int32()),
                pa.array([[1, 2, 3]] * len(offsets), pa.list_(pa.field("element", pa.int32()))),
                pa.array(["topic"] * len(offsets)),
                pa.array(list(offsets), pa.timestamp("us", "UTC")),
            ],
            ["offset", "partition", "isr", "topic", "ts"],
        )


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _same_table(table: pa.Table) -> pa.Table:
    return table
