"""Opens a history for queries: its files, and times relative to its end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from quorumd.errors import ConfigError, InputIncomplete
from quorumd.pipeline.history.clocks import TIMES, Clocks, clocks_of
from quorumd.pipeline.history.tables import Manifest, as_time, read_files, read_manifest
from quorumd.pipeline.tables.schemas import HISTORY_TABLES

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import SparkSession

_RELATIVE = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
VIEWS = "churn", "leader_flaps", "under_min_isr", "reassignments"


@dataclass(frozen=True)
class History:
    """A history as of the time it was opened; later micro-batches are not visible.

    All times in results are corrected for leaders with wrong clocks (see `clocks`).
    """

    directory: Path
    manifest: Manifest

    @property
    def end_ts(self) -> datetime:
        """The corrected time of the last record."""
        micros = self.manifest.end_ts_us
        return as_time(micros + self.clocks.shift_us(self.manifest.end - 1))

    @cached_property
    def clocks(self) -> Clocks:
        """The corrections of clocks."""
        return clocks_of(self.directory, self.manifest)

    def moment(self, text: str) -> datetime:
        """Parse an age before the last record (`1h`, `30m`, `2d`) or an ISO 8601 time (UTC by default).

        Raises ConfigError.
        """
        if match := _RELATIVE.fullmatch(text.strip()):
            return self.end_ts - timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            raise ConfigError(
                f"{text!r} is not a time: expected an age such as 30m, 24h or 7d before the last record of the "
                "history, or a time such as 2026-01-31T14:03"
            ) from None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    def read(
        self,
        table: str,
        columns: list[str] | None = None,
        filters: pc.Expression | None = None,
        times: pc.Expression | None = None,
    ) -> pa.Table:
        """Return rows of a table as a pyarrow.Table.

        `times` is a pyarrow expression on columns of times, `filters` one on other columns.
        """
        return self._read(table, self.manifest.paths(table), columns, filters, times)

    def states(
        self,
        columns: list[str] | None = None,
        filters: pc.Expression | None = None,
        times: pc.Expression | None = None,
        bucket: int | None = None,
    ) -> pa.Table:
        """Return ended and current states, as `read` does; only the states of `bucket` if it is given."""
        paths = self.manifest.paths("partition_states") + self.manifest.paths("partition_current")
        if bucket is not None:
            paths = [path for path in paths if path.endswith(f"bucket-{bucket:02d}.parquet")]
        return self._read("partition_states", paths, columns, filters, times)

    def _read(
        self,
        table: str,
        paths: list[str],
        columns: list[str] | None,
        filters: pc.Expression | None,
        times: pc.Expression | None,
    ) -> pa.Table:
        moments = TIMES.get(table, {})
        if not (moments and self.clocks.moved):
            both = filters if times is None else times if filters is None else filters & times
            return read_files(self.directory, paths, table, columns, both)
        wanted = columns or list(HISTORY_TABLES[table].names)
        needed = [*wanted, *(each for pair in moments.items() for each in pair if each not in wanted)]
        rows = read_files(self.directory, paths, table, needed, filters)
        for time, offset in moments.items():
            place = rows.column_names.index(time)
            rows = rows.set_column(place, time, self.clocks.corrected(rows[time], rows[offset]))
        return (rows if times is None else rows.filter(times)).select(wanted)


def open_history(directory: Path) -> History:
    """Open the history in a directory. Raises InputIncomplete if there is none."""
    manifest = read_manifest(directory)
    if manifest is None:
        raise InputIncomplete(
            f"there is no history in {directory}: build it with "
            f"`quorumd pipeline history build --from ... --to {directory}`"
        )
    return History(directory, manifest)


def register_views(session: SparkSession, history: History) -> None:
    """Register the tables, with corrected times, and the queries in `views/` as temporary views of the session.

    The view partition_states includes the current states; their durations end at history_end().
    """
    from pyspark.sql.functions import expr

    for name, table in HISTORY_TABLES.items():
        paths = history.manifest.paths(name)
        if name == "partition_states":
            paths = paths + history.manifest.paths("partition_current")
        if paths:
            frame = session.read.schema(table.ddl).parquet(
                *(str((history.directory / path).absolute()) for path in paths)
            )
        else:
            frame = session.createDataFrame([], table.ddl)
        if history.clocks.moved:
            for time, offset in TIMES.get(name, {}).items():
                frame = frame.withColumn(time, expr(history.clocks.sql(time, offset)))
        frame.createOrReplaceTempView(name)
    end = history.end_ts.isoformat(sep=" ").removesuffix("+00:00")
    session.sql(
        f"CREATE OR REPLACE TEMPORARY FUNCTION history_end() RETURNS TIMESTAMP RETURN TIMESTAMP '{end}Z'"
    )
    for name in VIEWS:
        query = (Path(__file__).parent / "views" / f"{name}.sql").read_text(encoding="utf-8")
        session.sql(query).createOrReplaceTempView(name)
