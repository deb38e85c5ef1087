"""The section of a plan: its moves, and the load of brokers before and after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorumd.pipeline.plan.files import Figures
from quorumd.pipeline.report.broker_chart import Broker, before_and_after
from quorumd.pipeline.report.formatting import format_bytes, format_count, format_short, pluralize
from quorumd.pipeline.report.page import Cell, Chart, Note, Part, Section, Table, Tile, empty, number

MAX_WAVES = 40


@dataclass(frozen=True, slots=True)
class PlanData:
    """The moves (schemas.PLAN_MOVES), brokers (PLAN_BROKERS) and figures of a plan."""

    moves: pa.Table
    brokers: pa.Table
    figures: Figures


def plan_section(data: PlanData) -> tuple[list[Tile], list[Section]]:
    """Return the tile and the section of a plan."""
    lead = "The brokers before the plan (pale) and after it (strong)."
    if not data.brokers.num_rows:
        return [], [Section("plan", "Plan", lead, [empty("This plan has no brokers.")])]
    replicas = _brokers(data.brokers, "replicas", "replicas_target")
    leaders = _brokers(data.brokers, "leaders", None)
    parts: list[Part] = [
        _balance_table(data),
        Chart("Replicas per broker", before_and_after(replicas, "replicas")),
        Chart("Preferred leaders per broker", before_and_after(leaders, "preferred leaders")),
    ]
    if data.brokers["bytes_after"].null_count < data.brokers.num_rows:
        sizes = _brokers(data.brokers, "bytes", None)
        parts.append(Chart("Bytes per broker", before_and_after(sizes, "bytes", format_bytes)))
    parts += _waves(data.moves)
    return [_tile(data)], [Section("plan", "Plan", lead, parts)]


def _tile(data: PlanData) -> Tile:
    moves = data.figures["moves"]
    bound = data.figures["lower_bound"]
    detail = f"in {pluralize(data.figures['waves'], 'wave')}"
    if bound is not None:
        detail += (
            ", the fewest possible" if moves == bound else f", at least {format_short(bound)} are needed"
        )
    return Tile("Moves of the plan", format_short(moves), detail, "good" if moves == bound else "")


def _brokers(brokers: pa.Table, column: str, target: str | None) -> list[Broker]:
    return [
        Broker(
            row["broker"],
            row["rack"],
            float(row[f"{column}_before"] or 0),
            float(row[f"{column}_after"] or 0),
            None if target is None or row[target] is None else float(row[target]),
        )
        for row in brokers.to_pylist()
    ]


def _balance_table(data: PlanData) -> Table:
    """Return the balance of brokers before and after: ranges from the table of brokers, ratios from plan.json."""
    rows = []
    for name, column in (("Replicas per broker", "replicas"), ("Preferred leaders per broker", "leaders")):
        before, after = (_range(data.brokers, f"{column}_{when}") for when in ("before", "after"))
        rows.append([Cell(name), Cell(before, style="number"), Cell(after, style="number")])
    for name, key in (
        ("Maximum to mean, replicas", "replicas_max_to_mean"),
        ("Maximum to mean, leaders", "leaders_max_to_mean"),
        ("Maximum to mean, bytes", "bytes_max_to_mean"),
        ("Partitions that violate rack awareness", "rack_violations"),
    ):
        values = [each.get(key) for each in (data.figures["before"], data.figures["after"])]
        if any(value is not None for value in values):
            rows.append([Cell(name), *(Cell("-" if v is None else f"{v:,}", v, "number") for v in values)])
    return Table("", ("", "Before", "After"), rows)


def _range(brokers: pa.Table, column: str) -> str:
    values = brokers[column].drop_null().to_numpy()
    if not len(values):
        return "-"
    return f"{format_count(int(np.min(values)))} to {format_count(int(np.max(values)))}"


def _waves(moves: pa.Table) -> list[Part]:
    if not moves.num_rows:
        return [empty("No replica moves: the cluster is already as planned.", "Waves")]
    added = pc.list_value_length(moves["adds"])
    waves = (
        moves.select(["wave", "bytes"])
        .append_column("adds", added)
        .group_by("wave")
        .aggregate([("adds", "count"), ("adds", "sum"), ("bytes", "sum")])
        .sort_by("wave")
    )
    has_sizes = moves["bytes"].null_count < moves.num_rows
    rows = []
    for row in waves.slice(0, MAX_WAVES).to_pylist():
        cells = [Cell(str(row["wave"]), row["wave"]), number(row["adds_count"]), number(row["adds_sum"])]
        if has_sizes:
            cells.append(number(row["bytes_sum"], format_bytes(row["bytes_sum"] or 0)))
        rows.append(cells)
    columns = ["Wave", "Partitions", "Replicas to copy", *(["Bytes to copy"] if has_sizes else [])]
    parts: list[Part] = [Table("Waves", columns, rows)]
    if waves.num_rows > MAX_WAVES:
        parts.append(Note(f"and {pluralize(waves.num_rows - MAX_WAVES, 'more wave')}"))
    return parts
