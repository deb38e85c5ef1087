"""Plans shards with Spark: the same plan as in one process, distributed over executors."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from quorumd.pipeline.plan.arrays import Ints, Rows
from quorumd.pipeline.plan.shards import Runner, Shard, work_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def on_spark(session: SparkSession) -> Runner:
    """Return a runner that plans each shard in its own Spark task."""

    def run(shards: Iterable[Shard]) -> Iterator[tuple[Ints, Rows]]:
        order = []
        packed = []
        for shard in shards:
            order.append(shard.index)
            packed.append(pickle.dumps(shard, pickle.HIGHEST_PROTOCOL))
        table = pa.table(
            {"number": pa.array(range(len(packed)), pa.int32()), "shard": pa.array(packed, pa.binary())}
        )
        frame = session.createDataFrame(table).repartition(len(packed), "number")
        found = frame.mapInArrow(_worked_on, "number INT, width INT, replicas BINARY").toArrow()
        for number, width, replicas in zip(*(column.to_pylist() for column in found.columns), strict=True):
            yield order[number], np.frombuffer(replicas, np.int32).reshape(-1, width)

    return run


def _worked_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number, shard in zip(batch["number"].to_pylist(), batch["shard"].to_pylist(), strict=True):
            rows = work_on(pickle.loads(shard))
            columns = [
                pa.array([number], pa.int32()),
                pa.array([rows.shape[1]], pa.int32()),
                pa.array([rows.tobytes()], pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(columns, names=["number", "width", "replicas"])
