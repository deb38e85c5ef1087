"""The log as a Spark source whose readers put aside what they read, and tell only that they did.

Spark plans, checks off and retries as with any source; what a task has read goes to its next user in files, never
through Java. A task that runs twice writes the same files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from quorumd.errors import ConfigError
from quorumd.pipeline.history.seed import Seed
from quorumd.pipeline.source.options import REPORT, SourceOptions, parse_options
from quorumd.pipeline.source.reader import PlainReader, TaskReader
from quorumd.pipeline.source.stream import Offset, StreamReader
from quorumd.pipeline.tables.schemas import EVENTS, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

NAME = "quorumd_history"
STAGED = "staged BINARY"
"""A row for each task: a pickled `staging.Staged`."""
RECORD_COLUMNS = tuple(name for name in EVENTS.names if name != "cluster_id")


class Staging(NamedTuple):
    """Where to put aside what there is from offset `start` on; of which epoch the record before that was, -1 where it
    is not known; of a batch, which snapshot."""

    folder: Path
    start: int = 0
    epoch: int = -1
    seed: Seed | None = None


def staging_options(staging: Staging) -> dict[str, str]:
    """Options beside those of the source `quorumd`."""
    folder, start, epoch, seed = staging
    found = {"stagingFolder": str(folder), "stagingStart": str(start), "stagingEpoch": str(epoch)}
    if seed is not None:
        found["stagingSeed"] = json.dumps([seed.end, seed.epoch, seed.ts.isoformat()])
    return found


class StagingSource(DataSource):
    """`quorumd_history`: see the module. Lists are packed, whatever the option `lists` says."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return STAGED

    def reader(self, schema: StructType) -> DataSourceReader:
        return _SnapshotReader(*self._parsed("snapshot"))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _StagingStreamReader(*self._parsed("records"))

    def _parsed(self, level: str) -> tuple[SourceOptions, Table, Staging]:
        given = {name.lower(): value for name, value in self.options.items()}
        folder, start, epoch = (given.pop(f"staging{name}") for name in ("folder", "start", "epoch"))
        seed = None
        if text := given.pop("stagingseed", None):
            end, epoch, ts = json.loads(text)
            seed = Seed(end, epoch, datetime.fromisoformat(ts))
        options = parse_options(given | {"level": level, "lists": "packed"})
        if options.on_corrupt == REPORT:
            raise ConfigError("a history has no rows for damage: use onCorrupt fail or skip")
        columns = RECORD_COLUMNS if seed is None else ("snapshot_offset", *RECORD_COLUMNS)
        return options, options.table.select(columns), Staging(Path(folder), int(start), int(epoch), seed)


class _StagingReader(TaskReader):
    """Of both readers: rows go to files, and Spark gets what `staging.stage` tells of them."""

    def __init__(self, options: SourceOptions, table: Table, staging: Staging) -> None:
        super().__init__(options, table)
        self.staging = staging

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from quorumd.pipeline.history.staging import stage

        folder, start, _, seed = self.staging
        yield from stage(self.rows(partition), folder, start, seed)


class _StagingStreamReader(_StagingReader, StreamReader):
    def initialOffset(self) -> Offset:
        """As the stream's, with the epoch: the log has to be the one that was read up to there."""
        return super().initialOffset() | {"epoch": self.staging.epoch}


class _SnapshotReader(_StagingReader, PlainReader):
    pass
