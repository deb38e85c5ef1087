"""The sections of a history: leaders and ISRs, degraded partitions, epochs, brokers, lag."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorumd.pipeline.report import measures
from quorumd.pipeline.report.chart_parts import Spec
from quorumd.pipeline.report.charts import Line, Segment, Series, counts_over_time, lines, timeline
from quorumd.pipeline.report.formatting import (
    format_count,
    format_duration,
    format_short,
    format_time,
    pluralize,
)
from quorumd.pipeline.report.measures import Churn
from quorumd.pipeline.report.page import Cell, Chart, Note, Part, Section, Table, Tile, empty, number

TOP_PARTITIONS = 15
MAX_LANES = 60
EPOCH_COLORS = (("epoch", "blue"),)
BROKER_COLORS = (("registered", "calm"), ("fenced", "orange"), ("shutting down", "violet"))
NO_PARTITIONS = "This history has no partitions."
NO_CHANGES = "No partition changed its leader or its ISR in this time."


@dataclass(frozen=True, slots=True)
class HistoryData:
    """Tables of a history (schemas.HISTORY_TABLES) for offsets [begin, end).

    `states` has measures.STATE_COLUMNS of all partition states, past and current.
    """

    cluster_id: str | None
    begin: int
    end: int
    states: pa.Table
    epochs: pa.Table
    brokers: pa.Table
    topics: pa.Table
    lag: pa.Table
    moved_epochs: int = 0
    """Epochs whose leader had a wrong clock and whose times were corrected: see `pipeline.history.clocks`."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Offsets [from, to) whose records are missing: only the snapshot after them was read."""


def span_of_history(data: HistoryData) -> tuple[float, float] | None:
    """Return the first and the last time in seconds; None for a history without any."""
    columns = [
        (data.states, "from_ts"),
        (data.states, "to_ts"),
        (data.epochs, "start_ts"),
        (data.epochs, "end_ts"),
    ]
    columns += [(data.brokers, "from_ts"), (data.brokers, "to_ts"), (data.lag, "ts")]
    return measures.span_of([measures.seconds(part[name]) for part, name in columns if part.num_rows])


def history_sections(data: HistoryData) -> tuple[list[Tile], list[Section]]:
    """Return the tiles and the sections of a history."""
    span = span_of_history(data)
    if span is None:
        reason = "This history is empty: no records have been read yet."
        return [Tile("Records", "0")], [Section("history", "History", "", [empty(reason)])]
    churn = measures.churn(data.states, span)
    sections = [
        _churn_section(data, churn, span),
        _degraded_section(data, span),
        _epochs_section(data, span),
        _brokers_section(data, span),
        _lag_section(data),
    ]
    return _tiles(data, churn), sections


def about_history(data: HistoryData) -> str:
    """Describe a history in one line: its time span, its offsets, and what is missing or corrected."""
    span = span_of_history(data)
    offsets = f"offsets {data.begin:,} to {data.end:,}"
    if span is None:
        return offsets
    parts = [
        f"{format_time(span[0])} to {format_time(span[1])} UTC ({format_duration(span[1] - span[0])}), {offsets}",
        *(
            f"offsets {low:,} to {high:,} are missing: they were deleted before they were read"
            for low, high in data.gaps
        ),
    ]
    if data.moved_epochs:
        epochs = pluralize(data.moved_epochs, "epoch")
        parts.append(f"the leader's clock was wrong in {epochs}, whose times are corrected")
    return "; ".join(parts)


def _tiles(data: HistoryData, churn: Churn) -> list[Tile]:
    current = data.states.filter(
        pc.and_(pc.is_null(data.states["to_ts"]), pc.not_equal(data.states["cause"], "deleted"))
    )
    under = int(pc.sum(current["under_min_isr"]).as_py() or 0)
    under_replicated = int(pc.sum(current["under_replicated"]).as_py() or 0)
    topics = data.topics.num_rows - data.topics["deleted_offset"].drop_null().length()
    unclean = int(sum(churn.unclean))
    registered = data.brokers.filter(
        pc.and_(pc.is_null(data.brokers["to_offset"]), pc.not_equal(data.brokers["event"], "unregister"))
    )
    fenced = int(pc.sum(registered["fenced"]).as_py() or 0)
    changes = sum(churn.elected) + sum(churn.lost) + unclean
    lost = f"{format_count(sum(churn.lost))} left no leader"
    below = f"at the end, {format_count(under)} below min ISR"
    return [
        Tile(
            "Records", format_short(data.end - data.begin), f"in {pluralize(data.epochs.num_rows, 'epoch')}"
        ),
        Tile("Partitions", format_short(current.num_rows), f"of {pluralize(topics, 'topic')}"),
        Tile("Brokers", format_count(registered.num_rows), f"{fenced} fenced" if fenced else "none fenced"),
        Tile("Leader changes", format_short(changes), lost),
        Tile(
            "Unclean elections",
            format_count(unclean),
            "records may have been lost" if unclean else "no records lost by them",
            "bad" if unclean else "good",
        ),
        Tile(
            "Under-replicated",
            format_count(under_replicated),
            below,
            "bad" if under else "warn" if under_replicated else "good",
        ),
    ]


def _churn_section(data: HistoryData, churn: Churn, span: tuple[float, float]) -> Section:
    lead = "Leader changes of partitions, and replicas that left and joined the ISR."
    if not data.states.num_rows:
        return Section("churn", "Leaders and ISRs", lead, [empty(NO_PARTITIONS)])
    leaders = [
        Series("elected", "blue", churn.elected),
        Series("leader lost", "orange", churn.lost),
        Series("unclean election", "red", churn.unclean),
    ]
    isr = [Series("left the ISR", "orange", churn.left), Series("joined the ISR", "teal", churn.joined)]
    parts: list[Part] = []
    for name, series, unit in (("Leader changes", leaders, "changes"), ("ISR changes", isr, "replicas")):
        if any(sum(each.values) for each in series):
            unit = f"{unit} per {format_duration(churn.step_s)}"
            parts.append(Chart(name, counts_over_time(churn.starts_s, churn.step_s, span, series, unit)))
        else:
            parts.append(empty(f"{name}: none in this time.", name))
    parts.append(_top_table(data, span[1]))
    return Section("churn", "Leaders and ISRs", lead, parts)


def _top_table(data: HistoryData, end_s: float) -> Part:
    title = "Partitions with the most changes"
    top = measures.top_partitions(data.states, end_s, TOP_PARTITIONS)
    if not top:
        return empty(NO_CHANGES, title)
    columns = ("Partition", "Leader changes", "Unclean", "Left the ISR", "Joined the ISR", "Below min ISR")
    rows = [
        [
            Cell(f"{row['topic']}-{row['partition']}"),
            *(number(row[name]) for name in ("leader_changes", "unclean", "left", "joined")),
            number(row["under_s"], format_duration(row["under_s"]) if row["under_s"] else "-"),
        ]
        for row in top
    ]
    return Table(title, columns, rows)


def _degraded_section(data: HistoryData, span: tuple[float, float]) -> Section:
    degraded = measures.degraded(data.states, span)
    rows = [
        Line("under-replicated", "orange", degraded.under_replicated),
        Line("below min.insync.replicas", "violet", degraded.under_min_isr),
        Line("without a leader", "red", degraded.offline),
    ]
    rows = [row for row in rows if any(value for _, value in row.points)]
    lead = "Partitions that lacked in-sync replicas or a leader at the same time; the maximum of each step."
    if not rows:
        reason = (
            "All partitions were fully replicated all the time." if data.states.num_rows else NO_PARTITIONS
        )
        return Section("degraded", "Degraded partitions", lead, [empty(reason)])
    chart = Chart("", lines(rows, span, "partitions", stepped=True))
    return Section("degraded", "Degraded partitions", lead, [chart])


def _epochs_section(data: HistoryData, span: tuple[float, float]) -> Section:
    segments = measures.epoch_segments(data.epochs, span[1])
    lead = "The leader of the quorum over time. Each bar is an epoch with its number."
    if not segments:
        return Section("epochs", "Epochs", lead, [empty("This history has no epoch with a time.")])
    names = sorted({segment.lane for segment in segments}, key=int)
    durations = [segment.end_s - segment.start_s for segment in segments]
    median, longest = format_duration(float(np.median(durations))), format_duration(max(durations))
    summary = f"{pluralize(len(segments), 'epoch')}; the median lasted {median}, the longest {longest}."
    chart = timeline(names, segments, span, "node", EPOCH_COLORS)
    return Section("epochs", "Epochs", lead, [Note(summary), Chart("", chart)])


def _brokers_section(data: HistoryData, span: tuple[float, float]) -> Section:
    segments = measures.broker_segments(data.brokers, span[1])
    lead = "The times at which brokers were registered, fenced or shutting down."
    if not segments:
        return Section("brokers", "Brokers", lead, [empty("No broker registered in this time.")])
    names = sorted({segment.lane for segment in segments}, key=int)
    parts: list[Part] = []
    if len(names) > MAX_LANES:
        troubled = Counter(segment.lane for segment in segments if segment.kind != "registered")
        kept = sorted(troubled, key=lambda name: (-troubled[name], int(name)))[:MAX_LANES]
        left_out = pluralize(len(names) - len(kept), "other broker")
        names = sorted(kept, key=int)
        parts.append(Note(f"The brokers that were fenced or shut down most often. Not shown: {left_out}."))
    if names:
        parts.append(Chart("", _broker_timeline(names, segments, span)))
    return Section("brokers", "Brokers", lead, parts)


def _broker_timeline(names: list[str], segments: list[Segment], span: tuple[float, float]) -> Spec:
    shown = [segment for segment in segments if segment.lane in set(names)]
    kinds = {segment.kind for segment in shown}
    return timeline(names, shown, span, "broker", [each for each in BROKER_COLORS if each[0] in kinds])


def _lag_section(data: HistoryData) -> Section:
    rows, left_out = measures.lag_lines(data.lag)
    lead = "The offsets by which each node was behind the leader or the most up-to-date copy, at each observation."
    if not rows:
        reason = "This history has no lag: `quorumd pipeline history build` records it each time it runs."
        return Section("lag", "Lag", lead, [empty(reason)])
    parts: list[Part] = []
    moments = {at for row in rows for at, _ in row.points}
    if len(moments) > 1:
        parts.append(Chart("", lines(rows, (min(moments), max(moments)), "offsets behind")))
    if left_out:
        parts.append(Note(f"Not shown: {pluralize(left_out, 'node')} with less lag."))
    parts.append(_lag_table(data.lag))
    return Section("lag", "Lag", lead, parts)


def _lag_table(lag: pa.Table) -> Table:
    last = {row["node_id"]: row for row in lag.sort_by("ts").to_pylist()}
    rows = [
        [
            Cell(f"{node}", float(node)),
            Cell(row["role"] or "-"),
            *(number(row[name]) for name in ("log_end_offset", "high_watermark", "lag")),
        ]
        for node, row in sorted(last.items())
    ]
    return Table("Last observation", ("Node", "Role", "Log end offset", "High watermark", "Lag"), rows)
