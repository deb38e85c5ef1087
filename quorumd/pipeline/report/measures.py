"""Reduces the tables of a history to the few rows that its charts show, whatever its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quorumd.pipeline.report.charts import Line, Segment
from quorumd.pipeline.report.formatting import format_duration, format_time
from quorumd.pipeline.tables.schemas import Row

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MAX_STEPS = 160
MAX_LAG_LINES = 8
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
_MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)
_DAYS = (1, 2, 7, 14, 28, 91, 364)
TIME_STEPS_S = _SECONDS + tuple(60 * each for each in _MINUTES) + tuple(86_400 * each for each in _DAYS)
STATE_COLUMNS = (
    "topic",
    "partition",
    "from_ts",
    "to_ts",
    "leader",
    "leader_before",
    "isr_left",
    "isr_joined",
    "cause",
    "under_replicated",
    "under_min_isr",
)
"""Columns of partition_states and partition_current that a report reads."""
NO_CHANGE = ("created", "snapshot", "deleted")
"""Causes of states that do not change an existing partition."""


@dataclass(frozen=True, slots=True)
class Churn:
    """Leader and ISR changes per time step."""

    starts_s: list[float]
    step_s: float
    elected: list[float]
    lost: list[float]
    unclean: list[float]
    left: list[float]
    joined: list[float]


@dataclass(frozen=True, slots=True)
class Degraded:
    """The maximum number of degraded partitions in each time step, as (seconds, partitions)."""

    under_replicated: list[tuple[float, float]]
    under_min_isr: list[tuple[float, float]]
    offline: list[tuple[float, float]]


def seconds(column: pa.ChunkedArray, default: float = np.nan) -> Floats:
    """Return times as seconds since 1970; `default` for null."""
    micros = pc.cast(pc.cast(column, pa.timestamp("us", "UTC")), pa.int64())
    filled: Floats = pc.cast(micros, pa.float64()).to_numpy() / 1e6
    return np.where(np.isnan(filled), default, filled)


def span_of(times: Sequence[Floats]) -> tuple[float, float] | None:
    """Return the first and the last of all times; None if there are none."""
    known = [part[~np.isnan(part)] for part in times]
    together = np.concatenate(known) if known else np.zeros(0)
    if not len(together):
        return None
    low, high = float(together.min()), float(together.max())
    return (low, high) if high > low else (low, low + 1.0)


def steps_of(span_s: tuple[float, float]) -> tuple[list[float], float]:
    """Divide a span into at most MAX_STEPS steps of a usual length; return their starts and the length."""
    length = span_s[1] - span_s[0]
    step = next((each for each in TIME_STEPS_S if length / each <= MAX_STEPS), TIME_STEPS_S[-1])
    first = int(span_s[0] // step)
    return [i * step for i in range(first, int(span_s[1] // step) + 1)], step


def churn(states: pa.Table, span_s: tuple[float, float]) -> Churn:
    """Count leader changes and ISR changes over time."""
    starts, step = steps_of(span_s)
    index = np.clip((seconds(states["from_ts"]) - starts[0]) // step, 0, len(starts) - 1).astype(np.int64)
    change = ~_is_in(states["cause"], NO_CHANGE)
    leader = _numbers(states["leader"])
    moved = change & (leader != _numbers(states["leader_before"]))
    unclean = _is_in(states["cause"], ("unclean",))

    def counts(weights: Floats | Flags) -> list[float]:
        found: list[float] = np.bincount(index, weights.astype(np.float64), len(starts)).tolist()
        return found

    return Churn(
        starts,
        step,
        elected=counts(moved & (leader >= 0) & ~unclean),
        lost=counts(moved & (leader < 0)),
        unclean=counts(unclean),
        left=counts(np.where(change, _numbers(states["isr_left"]), 0)),
        joined=counts(np.where(change, _numbers(states["isr_joined"]), 0)),
    )


def degraded(states: pa.Table, span_s: tuple[float, float]) -> Degraded:
    """Count partitions over time that lack in-sync replicas, fall below min.insync.replicas, or lack a leader."""
    exists = ~_is_in(states["cause"], ("deleted",))
    start = seconds(states["from_ts"])
    end = seconds(states["to_ts"], np.inf)

    def over_time(flags: Flags) -> list[tuple[float, float]]:
        return _max_concurrent(start[flags & exists], end[flags & exists], span_s)

    return Degraded(
        over_time(_flags(states["under_replicated"])),
        over_time(_flags(states["under_min_isr"])),
        over_time(_numbers(states["leader"]) < 0),
    )


def _max_concurrent(start: Floats, end: Floats, span_s: tuple[float, float]) -> list[tuple[float, float]]:
    """Return the maximum number of concurrent intervals [start, end) in each step."""
    times = np.concatenate([start, end])
    deltas = np.concatenate([np.ones(len(start)), -np.ones(len(end))])
    # An interval that ends where another begins does not overlap it.
    order = np.lexsort((deltas, times))
    times, running = times[order], np.cumsum(deltas[order])
    starts, step = steps_of(span_s)
    edges = np.append(starts, starts[-1] + step)
    at = np.searchsorted(times, edges, "right")
    points = []
    for i, begin in enumerate(starts):
        before = running[at[i] - 1] if at[i] else 0.0
        within = running[at[i] : at[i + 1]]
        points.append((max(begin, span_s[0]), float(max(before, within.max(initial=0.0)))))
    return [*points, (span_s[1], float(points[-1][1]))]


def top_partitions(states: pa.Table, end_s: float, limit: int) -> list[Row]:
    """Return the partitions with the most leader and ISR changes, most first."""
    change = ~_is_in(states["cause"], NO_CHANGE)
    leader = _numbers(states["leader"])
    under = _flags(states["under_min_isr"])
    lasted = seconds(states["to_ts"], end_s) - seconds(states["from_ts"])
    rows = pa.table(
        {
            "topic": states["topic"],
            "partition": states["partition"],
            "leader_changes": change & (leader != _numbers(states["leader_before"])),
            "unclean": _is_in(states["cause"], ("unclean",)),
            "left": np.where(change, _numbers(states["isr_left"]), 0),
            "joined": np.where(change, _numbers(states["isr_joined"]), 0),
            "under_s": np.where(under, np.maximum(lasted, 0), 0),
        }
    )
    names = ["leader_changes", "unclean", "left", "joined", "under_s"]
    converted = [pc.cast(rows[name], pa.float64()) for name in names]
    rows = pa.table([rows["topic"], rows["partition"], *converted], names=["topic", "partition", *names])
    found = rows.group_by(["topic", "partition"]).aggregate([(name, "sum") for name in names])
    found = found.select(["topic", "partition", *(f"{name}_sum" for name in names)])
    found = found.rename_columns(["topic", "partition", *names])
    changes = pc.add(pc.add(found["leader_changes"], found["left"]), found["joined"])
    found = found.append_column("changes", changes).filter(pc.greater(changes, 0))
    order = [
        ("changes", "descending"),
        ("under_s", "descending"),
        ("topic", "ascending"),
        ("partition", "ascending"),
    ]
    top: list[Row] = found.sort_by(order).slice(0, limit).to_pylist()
    return top


def epoch_segments(epochs: pa.Table, end_s: float) -> list[Segment]:
    """Return a segment per epoch, in the lane of its leader."""
    segments = []
    for row in epochs.sort_by("epoch").to_pylist():
        if row["start_ts"] is None:
            continue
        start = row["start_ts"].timestamp()
        end = row["end_ts"].timestamp() if row["end_ts"] is not None else max(end_s, start)
        last = "the end" if row["end_offset"] is None else f"{row['end_offset']:,}"
        details = {
            "Epoch": f"{row['epoch']}",
            "Leader": f"{row['leader_id']}",
            "From": format_time(start),
            "Duration": format_duration(end - start),
            "Offsets": f"{row['start_offset']:,} to {last}",
            "Records": f"{row['records'] or 0:,}",
            "Batches": f"{row['batches'] or 0:,}",
        }
        segments.append(Segment(str(row["leader_id"]), start, end, "epoch", details, f"{row['epoch']}"))
    return segments


def broker_segments(brokers: pa.Table, end_s: float) -> list[Segment]:
    """Return segments of the registrations of brokers, followed by segments in which they were fenced or shutting
    down."""
    registered: list[Segment] = []
    degraded: list[Segment] = []
    for row in brokers.sort_by([("broker_id", "ascending"), ("from_offset", "ascending")]).to_pylist():
        if row["event"] == "unregister" or row["from_ts"] is None:
            continue
        start = row["from_ts"].timestamp()
        end = row["to_ts"].timestamp() if row["to_ts"] is not None else max(end_s, start)
        broker = str(row["broker_id"])
        _extend(registered, broker, start, end, "registered")
        if row["event"] == "shutdown":
            _extend(degraded, broker, start, end, "shutting down")
        elif row["fenced"]:
            _extend(degraded, broker, start, end, "fenced")
    return [*registered, *degraded]


def _extend(segments: list[Segment], broker: str, start_s: float, end_s: float, kind: str) -> None:
    """Append a segment; extend the last one instead if it has the same broker and kind and ends at its start."""
    last = segments[-1] if segments else None
    if last is not None and (last.lane, last.kind) == (broker, kind) and start_s - last.end_s < 1e-6:
        start_s = last.start_s
        segments.pop()
    details = {
        "Broker": broker,
        "State": kind,
        "From": format_time(start_s),
        "Duration": format_duration(end_s - start_s),
    }
    segments.append(Segment(broker, start_s, end_s, kind, details))


def lag_lines(lag: pa.Table, limit: int = MAX_LAG_LINES) -> tuple[list[Line], int]:
    """Return the lag over time of the `limit` nodes that were farthest behind, and how many nodes are left out."""
    by_node: dict[int, list[tuple[float, float]]] = {}
    for row in lag.sort_by("ts").to_pylist():
        if row["ts"] is not None and row["lag"] is not None:
            by_node.setdefault(row["node_id"], []).append((row["ts"].timestamp(), float(row["lag"])))
    worst = sorted(by_node, key=lambda node: (-max(value for _, value in by_node[node]), node))[:limit]
    rows = [Line(f"node {node}", f"n{i}", by_node[node]) for i, node in enumerate(sorted(worst))]
    return rows, len(by_node) - len(rows)


def _numbers(column: pa.ChunkedArray) -> Floats:
    found: Floats = pc.cast(pc.fill_null(column, 0), pa.float64()).to_numpy()
    return found


def _flags(column: pa.ChunkedArray) -> Flags:
    found: Flags = pc.fill_null(column, False).to_numpy().astype(np.bool_)
    return found


def _is_in(column: pa.ChunkedArray, values: tuple[str, ...]) -> Flags:
    found: Flags = pc.is_in(column, pa.array(values)).to_numpy().astype(np.bool_)
    return found
