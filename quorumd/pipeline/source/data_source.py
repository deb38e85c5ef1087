"""The entry point of the source for Spark."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from quorumd.errors import ConfigError
from quorumd.pipeline.source.options import parse_options
from quorumd.pipeline.tables.schemas import Table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

PUSH_DOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module of Spark's worker that creates a reader to push filters to it."""


class QuorumdSource(DataSource):
    """`spark.read.format("quorumd")` and `spark.readStream.format("quorumd")`; see `quorumd.pipeline`."""

    @classmethod
    def name(cls) -> str:
        return "quorumd"

    def schema(self) -> str:
        return parse_options(self.options).table.ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        # Imported here: Spark starts a process only for the schema, which does not need the reader.
        from quorumd.pipeline.source.reader import PlainReader, Reader

        kind = Reader if _is_pushing() else PlainReader
        return kind(parse_options(self.options), self._table(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from quorumd.pipeline.source.stream import StreamReader

        options = parse_options(self.options)
        if options.level in ("audit", "snapshot"):
            raise ConfigError(
                f"level {options.level} cannot be streamed; read it as a batch, or stream level records or batches"
            )
        return StreamReader(options, self._table(schema))

    def _table(self, schema: StructType) -> Table:
        columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        return parse_options(self.options).select(columns)


def _is_pushing() -> bool:
    """Return True if Spark creates the reader to push filters to it.

    With `spark.sql.python.filterPushdown.enabled` off, Spark rejects readers that support push-down, and a source
    cannot see the setting.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return PUSH_DOWN_WORKER in sys.modules or (spec is not None and spec.name == PUSH_DOWN_WORKER)
