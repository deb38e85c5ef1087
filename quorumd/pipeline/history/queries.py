"""Queries without Spark: the states of a partition, and the partitions with the most changes."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorumd.errors import ConfigError
from quorumd.pipeline.history.history import History
from quorumd.pipeline.history.packed import Ints
from quorumd.pipeline.history.staging import bucket_of
from quorumd.pipeline.tables.schemas import Row

STATE_COLUMNS = (
    "topic",
    "partition",
    "from_ts",
    "to_ts",
    "from_offset",
    "leader",
    "leader_epoch",
    "isr",
    "elr",
    "replicas",
    "adding",
    "removing",
    "cause",
    "under_min_isr",
)
_NO_FLAPS = ["created", "snapshot", "deleted"]
_KEY = ["topic", "partition", "topic_id"]


def partition_rows(
    history: History, topic: str | None, partition: int | None, since: datetime | None, until: datetime | None
) -> list[Row]:
    """Return the states that overlap [since, until), ordered by topic, partition and offset.

    The column `lasted` has the duration as text. Raises ConfigError for a topic or partition that never existed.
    """
    wanted, bucket = None, None
    if topic is not None:
        topics = history.read("topics", ["topic_id", "partitions"], pc.field("topic") == topic)
        if not len(topics):
            raise ConfigError(f"the history has no topic {topic!r}")
        count = pc.max(topics["partitions"]).as_py()
        if partition is not None and partition >= count:
            raise ConfigError(
                f"the history has {count} partitions of topic {topic!r}, but not partition {partition}"
            )
        wanted = pc.field("topic") == topic
        if partition is not None and len(topics) == 1:
            bucket = int(bucket_of(topics["topic_id"], pa.array([partition], pa.int32()))[0])
    if partition is not None:
        wanted = _and(wanted, pc.field("partition") == partition)
    times = None if until is None else pc.field("from_ts") < until
    if since is not None:
        times = _and(times, _lasts_at(since))
    states = history.states([*STATE_COLUMNS, "topic_id"], wanted, times, bucket)
    start, end = _lifetimes(history, states)
    lasted = [duration_text(timedelta(microseconds=int(length))) for length in end - start]
    states = states.append_column("lasted", pa.array(lasted, pa.string()))
    order = [("topic", "ascending"), ("partition", "ascending"), ("from_offset", "ascending")]
    rows: list[Row] = states.sort_by(order).select([*STATE_COLUMNS, "lasted"]).to_pylist()
    return rows


_ORDER_AND_END = {
    "epochs": ("start_offset", "end_ts"),
    "brokers": ("from_offset", "to_ts"),
    "topics": ("topic", "deleted_ts"),
    "voters": ("from_offset", "to_ts"),
    "lag": ("ts", "ts"),
    "gaps": ("from_offset", "to_ts"),
}
"""Per small table: the column to order by, and the column of a row's end, null for current rows."""


def table_rows(history: History, table: str, since: datetime | None) -> list[Row]:
    """Return the rows of a small table in order, without rows that ended before `since`."""
    order, end = _ORDER_AND_END[table]
    rows: list[Row] = history.read(table).drop_columns(["cluster_id"]).sort_by(order).to_pylist()
    if since is None:
        return rows
    ends = [row.get(end) for row in rows]
    if table == "voters":
        # Each set lasts until the next one.
        ends = [*(row["from_ts"] for row in rows[1:]), None]
    return [row for row, ended in zip(rows, ends, strict=True) if ended is None or ended >= since]


def isr_churn(history: History, since: datetime | None, limit: int) -> list[Row]:
    """Return the partitions with the most ISR changes."""
    changed = (pc.field("isr_left") > 0) | (pc.field("isr_joined") > 0)
    states = history.states([*_KEY, "from_ts", "isr_left", "isr_joined"], changed, _begins(since))
    found = states.group_by(_KEY).aggregate(
        [("isr_left", "count"), ("isr_left", "sum"), ("isr_joined", "sum"), ("from_ts", "max")]
    )
    names = {
        "isr_left_count": "changes",
        "isr_left_sum": "left",
        "isr_joined_sum": "joined",
        "from_ts_max": "last",
    }
    return _top(found, names, limit)


def leader_flaps(history: History, since: datetime | None, limit: int) -> list[Row]:
    """Return the partitions with the most leader changes, including losses of the leader."""
    moved = (pc.field("leader") != pc.field("leader_before")) & ~pc.field("cause").isin(_NO_FLAPS)
    columns = [*_KEY, "from_ts", "leader", "leader_before", "cause"]
    states = history.states(columns, moved, _begins(since))
    states = states.append_column("lost", pc.cast(pc.equal(states["leader"], -1), pa.int64()))
    states = states.append_column("unclean", pc.cast(pc.equal(states["cause"], "unclean"), pa.int64()))
    found = states.group_by(_KEY).aggregate(
        [("leader", "count"), ("lost", "sum"), ("unclean", "sum"), ("from_ts", "max")]
    )
    names = {"leader_count": "changes", "lost_sum": "lost", "unclean_sum": "unclean", "from_ts_max": "last"}
    return _top(found, names, limit)


def under_min_isr(history: History, since: datetime | None, limit: int) -> list[Row]:
    """Return the partitions that were under min ISR the longest, in seconds since `since`."""
    times = None if since is None else _lasts_at(since)
    states = history.states([*_KEY, "from_ts", "to_ts", "leader"], pc.field("under_min_isr"), times)
    start, end = _lifetimes(history, states)
    if since is not None:
        start = np.maximum(start, _micros(pa.array([since], states.schema.field("from_ts").type), since)[0])
    seconds = np.maximum(end - start, 0) / 1_000_000
    offline = np.where(states["leader"].to_numpy() == -1, seconds, 0)
    states = states.append_column("seconds", pa.array(seconds)).append_column("offline", pa.array(offline))
    states = states.append_column("now", pc.cast(states["to_ts"].is_null(), pa.int64()))
    found = states.group_by(_KEY).aggregate(
        [("seconds", "sum"), ("offline", "sum"), ("seconds", "count"), ("now", "max")]
    )
    found = found.set_column(found.column_names.index("now_max"), "now_max", pc.equal(found["now_max"], 1))
    names = {"seconds_sum": "seconds", "offline_sum": "offline", "seconds_count": "states", "now_max": "now"}
    return _top(found, names, limit)


def _begins(since: datetime | None) -> pc.Expression | None:
    return None if since is None else pc.field("from_ts") >= since


def _lasts_at(since: datetime) -> pc.Expression:
    return (pc.field("to_ts") > since) | pc.field("to_ts").is_null()


def _and(one: pc.Expression | None, other: pc.Expression) -> pc.Expression:
    return other if one is None else one & other


def _top(found: pa.Table, names: dict[str, str], limit: int) -> list[Row]:
    """Rename columns to `names`, and return the rows with the largest values of the first."""
    ranked = found.select([*_KEY, *names]).rename_columns([*_KEY, *names.values()])
    first = next(iter(names.values()))
    order = [(first, "descending"), ("topic", "ascending"), ("partition", "ascending")]
    rows: list[Row] = ranked.sort_by(order).slice(0, limit).drop_columns(["topic_id"]).to_pylist()
    return rows


def _lifetimes(history: History, states: pa.Table) -> tuple[Ints, Ints]:
    """Return the start and end of each state in microseconds; current states end with the history."""
    return _micros(states["from_ts"], history.end_ts), _micros(states["to_ts"], history.end_ts)


def _micros(times: pa.ChunkedArray, otherwise: datetime) -> Ints:
    filled = pc.fill_null(times, pa.scalar(otherwise, times.type))
    micros: Ints = pc.cast(filled, pa.int64()).to_numpy()
    return micros


def duration_text(length: timedelta) -> str:
    """Format a duration with at most two units: `2d 3h`, `4m 10s`, `1.250s`."""
    seconds = length.total_seconds()
    if seconds < 60:
        return f"{seconds:.3f}s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if hours == 0:
        return f"{minutes}m {int(seconds % 60)}s"
    if days == 0:
        return f"{hours}h {minutes % 60}m"
    return f"{days}d {hours % 24}h"
