"""A history that was built, open for questions: its files, and times relative to its end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quorumd.errors import ConfigError, InputIncomplete
from quorumd.pipeline.history.tables import Manifest, read_files, read_manifest
from quorumd.pipeline.schemas import HISTORY_TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RELATIVE = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
VIEWS = "churn", "leader_flaps", "under_min_isr", "reassignments"


@dataclass(frozen=True, slots=True)
class History:
    """What `history.json` said when it was opened; later micro-batches are not seen."""

    folder: Path
    manifest: Manifest

    @property
    def end_ts(self) -> datetime:
        """When the last record was written."""
        return datetime.fromtimestamp(self.manifest.end_ts_us / 1_000_000, UTC)

    def moment(self, text: str) -> datetime:
        """`1h`, `30m`, `2d` before the last record of the history, or a time as ISO 8601 has it (UTC unless said).

        Raises ConfigError.
        """
        if match := _RELATIVE.fullmatch(text.strip()):
            return self.end_ts - timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            raise ConfigError(
                f"{text!r} is no time: expected an age such as 30m, 24h or 7d, counted from the last record of the "
                "history, or a time such as 2026-01-31T14:03"
            ) from None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    def read(self, table: str, columns: list[str] | None = None, filters: Any = None) -> Any:
        """Rows of a table as a pyarrow.Table; `filters` is an expression of pyarrow."""
        return read_files(self.folder, self.manifest.paths(table), table, columns, filters)

    def states(self, columns: list[str] | None = None, filters: Any = None, bucket: int | None = None) -> Any:
        """States that ended and states that last; of one bucket only, where one is given."""
        paths = self.manifest.paths("partition_states") + self.manifest.paths("partition_current")
        if bucket is not None:
            paths = [path for path in paths if path.endswith(f"bucket-{bucket:02d}.parquet")]
        return read_files(self.folder, paths, "partition_states", columns, filters)


def open_history(folder: Path) -> History:
    """Raises InputIncomplete where there is no history in the folder."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise InputIncomplete(
            f"there is no history in {folder}: build it with "
            f"`quorumd pipeline history build --from ... --to {folder}`"
        )
    return History(folder, manifest)


def register_views(session: SparkSession, history: History) -> None:
    """The tables and the views of views.sql as temporary views of the session."""
    for name, table in HISTORY_TABLES.items():
        paths = history.manifest.paths(name)
        if name == "partition_states":
            paths = paths + history.manifest.paths("partition_current")
        if paths:
            frame = session.read.schema(table.ddl).parquet(
                *(str((history.folder / path).absolute()) for path in paths)
            )
        else:
            frame = session.createDataFrame([], table.ddl)
        frame.createOrReplaceTempView(name)
    end = history.end_ts.isoformat(sep=" ").removesuffix("+00:00")
    session.sql(
        f"CREATE OR REPLACE TEMPORARY FUNCTION history_end() RETURNS TIMESTAMP RETURN TIMESTAMP '{end}Z'"
    )
    text = (Path(__file__).parent / "views.sql").read_text(encoding="utf-8")
    for statement in "\n".join(line for line in text.splitlines() if not line.startswith("--")).split(";"):
        if statement.strip():
            session.sql(statement)
