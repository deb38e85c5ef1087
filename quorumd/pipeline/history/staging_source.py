"""The log as a Spark source whose readers stage what they read in files, and return only a summary.

Spark plans, checkpoints and retries as for any source, but the records go from task to job in files, never through
Java. A task that runs twice writes the same files.
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
"""A row per task: a pickled `staging.Staged`."""
RECORD_COLUMNS = tuple(name for name in EVENTS.names if name != "cluster_id")


class Staging(NamedTuple):
    """The directory to stage records in, and the records."""

    directory: Path
    start: int = 0
    """The first offset."""
    epoch: int = -1
    """The epoch of the record before `start`; -1 if unknown."""
    seed: Seed | None = None
    """The snapshot to stage in a batch read."""


def staging_options(staging: Staging) -> dict[str, str]:
    """Return options for this source, in addition to the options of the source `quorumd`."""
    directory, start, epoch, seed = staging
    found = {"stagingDirectory": str(directory), "stagingStart": str(start), "stagingEpoch": str(epoch)}
    if seed is not None:
        found["stagingSeed"] = json.dumps([seed.end, seed.epoch, seed.ts.isoformat()])
    return found


class StagingSource(DataSource):
    """The source `quorumd_history`. Lists are always packed."""

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
        directory, start, epoch = (given.pop(f"staging{name}") for name in ("directory", "start", "epoch"))
        seed = None
        if text := given.pop("stagingseed", None):
            end, epoch, ts = json.loads(text)
            seed = Seed(end, epoch, datetime.fromisoformat(ts))
        options = parse_options(given | {"level": level, "lists": "packed"})
        if options.on_corrupt == REPORT:
            raise ConfigError("onCorrupt=report cannot be used for a history: use fail or skip")
        columns = RECORD_COLUMNS if seed is None else ("snapshot_offset", *RECORD_COLUMNS)
        return options, options.table.select(columns), Staging(Path(directory), int(start), int(epoch), seed)


class _StagingReader(TaskReader):
    """Base of both readers: writes rows to files and returns the summaries of `staging.stage`."""

    def __init__(self, options: SourceOptions, table: Table, staging: Staging) -> None:
        super().__init__(options, table)
        self.staging = staging

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from quorumd.pipeline.history.staging import stage

        directory, start, _, seed = self.staging
        yield from stage(self.rows(partition), directory, start, seed)


class _StagingStreamReader(_StagingReader, StreamReader):
    def initialOffset(self) -> Offset:
        """Return the start of the stream with the expected epoch, so that a different log is detected."""
        return super().initialOffset() | {"epoch": self.staging.epoch}


class _SnapshotReader(_StagingReader, PlainReader):
    pass
