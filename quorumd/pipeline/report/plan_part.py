"""The section of a plan: how much it moves, and what brokers have before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorumd.pipeline.report.axes import bytes_text, count_text, counted, short_text
from quorumd.pipeline.report.page import Cell, Section, Tile, empty, number, plot, table
from quorumd.pipeline.report.plots import Broker, before_and_after
from quorumd.pipeline.report.svg import Markup, joined, tag

KEYS = [("before", "before"), ("after", "after")]
MOST_WAVES = 40


@dataclass(frozen=True, slots=True)
class PlanData:
    """schemas.PLAN_MOVES and PLAN_BROKERS of a plan; `figures` as its plan.json has them."""

    moves: pa.Table
    brokers: pa.Table
    figures: dict[str, Any]


def plan_part(data: PlanData) -> tuple[list[Tile], list[Section]]:
    """Tiles and the section of a plan."""
    lead = "What the plan makes of the brokers. Pale is before, strong is after."
    if not data.brokers.num_rows:
        return [], [Section("plan", "Plan", lead, [empty("This plan knows no brokers.")])]
    moves = int(data.figures.get("moves") or 0)
    parts = [_figures_table(data)]
    for name, column, target in (
        ("Replicas", "replicas", "replicas_target"),
        ("Preferred leaders", "leaders", None),
    ):
        rows = _brokers(data.brokers, column, target)
        keys = (
            [*KEYS, ("target", "target")]
            if target and rows[0].target is not None and len(rows) <= 80
            else KEYS
        )
        parts.append(plot(f"{name} of each broker", before_and_after(rows, name.lower()), keys))
    sizes = _brokers(data.brokers, "bytes", None)
    if data.brokers["bytes_after"].null_count < data.brokers.num_rows:
        parts.append(plot("Bytes of each broker", before_and_after(sizes, "bytes", bytes_text), KEYS))
    parts.append(_waves_table(data.moves))
    return [_tile(data, moves)], [Section("plan", "Plan", lead, parts)]


def _tile(data: PlanData, moves: int) -> Tile:
    bound = data.figures.get("lower_bound")
    more = f"in {counted(int(data.figures.get('waves') or 0), 'wave')}"
    if bound is not None:
        more += ", the fewest possible" if moves == bound else f", at least {short_text(bound)} are needed"
    return Tile("Moves of the plan", short_text(moves), more, "good" if moves == bound else "")


def _brokers(brokers: pa.Table, column: str, target: str | None) -> list[Broker]:
    rows = brokers.to_pylist()
    return [
        Broker(
            row["broker"],
            row["rack"],
            float(row[f"{column}_before"] or 0),
            float(row[f"{column}_after"] or 0),
            None if target is None or row[target] is None else float(row[target]),
        )
        for row in rows
    ]


def _figures_table(data: PlanData) -> Markup:
    """How even it is before and after: the figures of plan.json where it has them, else out of the brokers."""
    rows = []
    for name, column in (("Replicas of a broker", "replicas"), ("Preferred leaders of a broker", "leaders")):
        before, after = (_spread(data.brokers, f"{column}_{when}") for when in ("before", "after"))
        rows.append([Cell(name), Cell(before, style="number"), Cell(after, style="number")])
    told = [
        ("Most to mean, replicas", "replicas_max_to_mean"),
        ("Most to mean, leaders", "leaders_max_to_mean"),
    ]
    told += [
        ("Most to mean, bytes", "bytes_max_to_mean"),
        ("Partitions that violate racks", "rack_violations"),
    ]
    for name, key in told:
        values = [(data.figures.get(when) or {}).get(key) for when in ("before", "after")]
        if any(value is not None for value in values):
            rows.append([Cell(name), *(Cell("-" if v is None else f"{v:,}", v, "number") for v in values)])
    return table(("", "Before", "After"), rows)


def _spread(brokers: pa.Table, column: str) -> str:
    values = brokers[column].drop_null().to_numpy()
    if not len(values):
        return "-"
    return f"{count_text(int(np.min(values)))} to {count_text(int(np.max(values)))}"


def _waves_table(moves: pa.Table) -> Markup:
    head = tag("h3", "Waves")
    if not moves.num_rows:
        return joined([head, empty("Nothing moves: all is where this plan wants it.")])
    added = pc.list_value_length(moves["adds"])
    rows = moves.select(["wave", "bytes"]).append_column("adds", added)
    found = (
        rows.group_by("wave")
        .aggregate([("adds", "count"), ("adds", "sum"), ("bytes", "sum")])
        .sort_by("wave")
    )
    cells = []
    sized = moves["bytes"].null_count < moves.num_rows
    for row in found.slice(0, MOST_WAVES).to_pylist():
        cell = [Cell(str(row["wave"]), row["wave"]), number(row["adds_count"]), number(row["adds_sum"])]
        cells.append(cell + ([number(row["bytes_sum"], bytes_text(row["bytes_sum"] or 0))] if sized else []))
    names = ["Wave", "Partitions", "Replicas to copy"] + (["Bytes to copy"] if sized else [])
    parts = [head, table(names, cells)]
    if found.num_rows > MOST_WAVES:
        parts.append(tag("p", f"and {counted(found.num_rows - MOST_WAVES, 'more wave')}", class_="lead"))
    return joined(parts)
