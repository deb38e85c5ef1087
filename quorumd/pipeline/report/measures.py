"""What the plots of a history show, out of its tables: a few rows each, whatever the size of the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quorumd.pipeline.report.axes import counted, duration_text, moment_text, time_step
from quorumd.pipeline.report.plots import Line, Segment

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MOST_BINS = 160
NODE_STYLES = 8
STATE_COLUMNS = (
    *("topic", "partition", "from_ts", "to_ts", "leader", "leader_before", "isr_left", "isr_joined"),
    *("cause", "under_replicated", "under_min_isr"),
)
"""Of partition_states and partition_current: what is read for a report."""
NO_CHANGE = ("created", "snapshot", "deleted")
"""Causes of states that are no change of a partition that was there and stays."""


@dataclass(frozen=True, slots=True)
class Churn:
    """How often things happened in steps of time that begin at `starts_s`."""

    starts_s: list[float]
    step_s: float
    elected: list[float]
    lost: list[float]
    unclean: list[float]
    left: list[float]
    joined: list[float]


@dataclass(frozen=True, slots=True)
class Trouble:
    """How many partitions were in trouble at most within each step of time: (seconds, partitions)."""

    under_replicated: list[tuple[float, float]]
    under_min_isr: list[tuple[float, float]]
    offline: list[tuple[float, float]]


def seconds(column: pa.ChunkedArray, otherwise: float = np.nan) -> Floats:
    """Times as seconds since 1970; `otherwise` for those that are null."""
    micros = pc.cast(pc.cast(column, pa.timestamp("us", "UTC")), pa.int64())
    filled: Floats = pc.cast(micros, pa.float64()).to_numpy() / 1e6
    return np.where(np.isnan(filled), otherwise, filled)


def span_of(times: Sequence[Floats]) -> tuple[float, float] | None:
    """First and last of all times; None where there are none."""
    known = [part[~np.isnan(part)] for part in times]
    together = np.concatenate(known) if known else np.zeros(0)
    if not len(together):
        return None
    low, high = float(together.min()), float(together.max())
    return (low, high) if high > low else (low, low + 1.0)


def steps_of(span_s: tuple[float, float]) -> tuple[list[float], float]:
    """Begins of the steps that a span is divided into, and their length."""
    step = time_step(span_s[1] - span_s[0], MOST_BINS)
    first = int(span_s[0] // step)
    return [i * step for i in range(first, int(span_s[1] // step) + 1)], step


def churn(states: pa.Table, span_s: tuple[float, float]) -> Churn:
    """Leader changes and ISR changes over time."""
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


def trouble(states: pa.Table, span_s: tuple[float, float]) -> Trouble:
    """Partitions that lacked replicas in sync, too many of them, or a leader, over time."""
    lives = ~_is_in(states["cause"], ("deleted",))
    start = seconds(states["from_ts"])
    end = seconds(states["to_ts"], np.inf)

    def over_time(flags: Flags) -> list[tuple[float, float]]:
        return _most_at_once(start[flags & lives], end[flags & lives], span_s)

    return Trouble(
        over_time(_flags(states["under_replicated"])),
        over_time(_flags(states["under_min_isr"])),
        over_time(_numbers(states["leader"]) < 0),
    )


def _most_at_once(start: Floats, end: Floats, span_s: tuple[float, float]) -> list[tuple[float, float]]:
    """How many intervals [start, end) hold at once, at most, within each step."""
    times = np.concatenate([start, end])
    deltas = np.concatenate([np.ones(len(start)), -np.ones(len(end))])
    # What ends where another one begins is not there together with it.
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


def top_partitions(states: pa.Table, end_s: float, limit: int) -> list[dict[str, Any]]:
    """Partitions with the most changes of leader and ISR, the most first."""
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
    casted = [pc.cast(rows[name], pa.float64()) for name in names]
    rows = pa.table([rows["topic"], rows["partition"], *casted], names=["topic", "partition", *names])
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
    top: list[dict[str, Any]] = found.sort_by(order).slice(0, limit).to_pylist()
    return top


def epoch_segments(epochs: pa.Table, end_s: float) -> list[Segment]:
    """Each epoch in the lane of its leader."""
    found = []
    for row in epochs.sort_by("epoch").to_pylist():
        if row["start_ts"] is None:
            continue
        start = row["start_ts"].timestamp()
        stop = row["end_ts"].timestamp() if row["end_ts"] is not None else max(end_s, start)
        last = "the end" if row["end_offset"] is None else f"{row['end_offset']:,}"
        said = [
            f"epoch {row['epoch']}, leader {row['leader_id']}",
            f"{moment_text(start)}, for {duration_text(stop - start)}",
            f"{counted(row['records'] or 0, 'record')} in {counted(row['batches'] or 0, 'batch', 'batches')}",
            f"offsets {row['start_offset']:,} to {last}",
        ]
        lane = str(row["leader_id"])
        found.append(Segment(lane, start, stop, "epoch", "\n".join(said), f"{row['epoch']}"))
    return found


def broker_segments(brokers: pa.Table, end_s: float) -> list[Segment]:
    """When each broker was registered (style `active`), and over that when it was fenced or shutting down."""
    found: list[Segment] = []
    there: dict[str, Segment] = {}
    for row in brokers.sort_by([("broker_id", "ascending"), ("from_offset", "ascending")]).to_pylist():
        if row["event"] == "unregister" or row["from_ts"] is None:
            continue
        start = row["from_ts"].timestamp()
        stop = row["to_ts"].timestamp() if row["to_ts"] is not None else max(end_s, start)
        lane = str(row["broker_id"])
        run = there.get(lane)
        since = run.start_s if run is not None and start - run.end_s < 1e-6 else start
        if run is not None and since == start:
            found.append(run)
        title = f"broker {lane}: registered\n{moment_text(since)}, for {duration_text(stop - since)}"
        there[lane] = Segment(lane, since, stop, "active", title)
        style = "stopping" if row["event"] == "shutdown" else "fenced" if row["fenced"] else None
        if style is not None:
            said = f"broker {lane}: {style}\n{moment_text(start)}, for {duration_text(stop - start)}"
            found.append(_longer(found, Segment(lane, start, stop, style, said)))
    return [*there.values(), *found]


def _longer(found: list[Segment], segment: Segment) -> Segment:
    """The segment, together with the one before it where that is the same and ends as it begins."""
    last = found[-1] if found else segment
    same = (last.lane, last.style) == (segment.lane, segment.style)
    if last is segment or not same or segment.start_s - last.end_s >= 1e-6:
        return segment
    found.pop()
    length = duration_text(segment.end_s - last.start_s)
    title = f"broker {segment.lane}: {segment.style}\n{moment_text(last.start_s)}, for {length}"
    return Segment(segment.lane, last.start_s, segment.end_s, segment.style, title)


def lag_lines(lag: pa.Table, most: int = NODE_STYLES) -> tuple[list[Line], int]:
    """How far each node was behind, over time: the `most` that were farthest; and how many are left out."""
    by_node: dict[int, list[tuple[float, float]]] = {}
    for row in lag.sort_by("ts").to_pylist():
        if row["ts"] is not None and row["lag"] is not None:
            by_node.setdefault(row["node_id"], []).append((row["ts"].timestamp(), float(row["lag"])))
    worst = sorted(by_node, key=lambda node: (-max(value for _, value in by_node[node]), node))[:most]
    rows = [Line(f"node {node}", f"node-{i}", by_node[node]) for i, node in enumerate(sorted(worst))]
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
