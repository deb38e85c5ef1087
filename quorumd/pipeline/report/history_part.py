"""The sections of a history: leaders and ISRs, partitions in trouble, epochs, brokers, lag."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorumd.pipeline.report import measures
from quorumd.pipeline.report.axes import count_text, counted, duration_text, moment_text, short_text
from quorumd.pipeline.report.measures import Churn
from quorumd.pipeline.report.page import Cell, Section, Tile, empty, legend, number, plot, table
from quorumd.pipeline.report.plots import Line, Segment, Series, bars_over_time, lanes, lines
from quorumd.pipeline.report.svg import Markup, joined, tag

TOP = 15
MOST_LANES = 60
BROKER_STYLES = (("registered", "active"), ("fenced", "fenced"), ("shutting down", "stopping"))
NO_PARTITIONS = "No partitions are in this history."
NOTHING_HAPPENED = "No partition changed its leader or its ISR in this time."


@dataclass(frozen=True, slots=True)
class HistoryData:
    """Tables of a history (schemas.HISTORY_TABLES), `states` with measures.STATE_COLUMNS: those that ended and
    those that last. Offsets [begin, end)."""

    cluster_id: str | None
    begin: int
    end: int
    states: pa.Table
    epochs: pa.Table
    brokers: pa.Table
    topics: pa.Table
    lag: pa.Table
    moved_epochs: int = 0
    """Epochs led with a wrong clock, whose times were put right: see `pipeline.history.clocks`."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Offsets [from, to) of which only the snapshot behind them was read."""


def span_of_history(data: HistoryData) -> tuple[float, float] | None:
    """From its first to its last time, in seconds; None for a history without any."""
    columns = [
        (data.states, "from_ts"),
        (data.states, "to_ts"),
        (data.epochs, "start_ts"),
        (data.epochs, "end_ts"),
    ]
    columns += [(data.brokers, "from_ts"), (data.brokers, "to_ts"), (data.lag, "ts")]
    return measures.span_of([measures.seconds(part[name]) for part, name in columns if part.num_rows])


def history_part(data: HistoryData) -> tuple[list[Tile], list[Section]]:
    """Tiles and sections of a history."""
    span = span_of_history(data)
    if span is None:
        nothing = Section(
            "history", "History", "", [empty("This history is empty: nothing was read into it yet.")]
        )
        return [Tile("Records", "0")], [nothing]
    churn = measures.churn(data.states, span)
    sections = [
        _churn_section(data, churn, span),
        _trouble_section(data, span),
        _epochs_section(data, span),
        _brokers_section(data, span),
        _lag_section(data, span),
    ]
    return _tiles(data, churn), sections


def about_history(data: HistoryData) -> str:
    """One line: from when to when, and which offsets."""
    span = span_of_history(data)
    offsets = f"offsets {data.begin:,} to {data.end:,}"
    if span is None:
        return offsets
    length = duration_text(span[1] - span[0])
    gaps = "".join(
        f"; offsets {low:,} to {high:,} are missing, they were deleted before they were read"
        for low, high in data.gaps
    )
    moved = counted(data.moved_epochs, "epoch")
    clocks = (
        f"; the leader's clock was wrong in {moved}, what it said is put right" if data.moved_epochs else ""
    )
    return f"{moment_text(span[0])} to {moment_text(span[1])} UTC ({length}), {offsets}{gaps}{clocks}"


def _tiles(data: HistoryData, churn: Churn) -> list[Tile]:
    lasting = data.states.filter(
        pc.and_(pc.is_null(data.states["to_ts"]), pc.not_equal(data.states["cause"], "deleted"))
    )
    under = int(pc.sum(lasting["under_min_isr"]).as_py() or 0)
    lacking = int(pc.sum(lasting["under_replicated"]).as_py() or 0)
    topics = data.topics.num_rows - data.topics["deleted_offset"].drop_null().length()
    unclean = int(sum(churn.unclean))
    alive = data.brokers.filter(
        pc.and_(pc.is_null(data.brokers["to_offset"]), pc.not_equal(data.brokers["event"], "unregister"))
    )
    fenced = int(pc.sum(alive["fenced"]).as_py() or 0)
    changes = sum(churn.elected) + sum(churn.lost) + unclean
    lost = f"{count_text(sum(churn.lost))} left nobody leading"
    below = f"at the end, {count_text(under)} below min ISR"
    return [
        Tile("Records", short_text(data.end - data.begin), f"in {counted(data.epochs.num_rows, 'epoch')}"),
        Tile("Partitions", short_text(lasting.num_rows), f"of {counted(topics, 'topic')}"),
        Tile("Brokers", count_text(alive.num_rows), f"{fenced} fenced" if fenced else "none fenced"),
        Tile("Leader changes", short_text(changes), lost),
        Tile(
            "Unclean elections",
            count_text(unclean),
            "records may be lost" if unclean else "no records lost that way",
            "bad" if unclean else "good",
        ),
        Tile(
            "Under-replicated",
            count_text(lacking),
            below,
            "bad" if under else "warn" if lacking else "good",
        ),
    ]


def _churn_section(data: HistoryData, churn: Churn, span: tuple[float, float]) -> Section:
    lead = "How often partitions got another leader, and how often replicas left and joined their ISRs."
    if not data.states.num_rows:
        return Section("churn", "Leaders and ISRs", lead, [empty(NO_PARTITIONS)])
    step = duration_text(churn.step_s)
    leaders = [Series("elected", "elected", churn.elected), Series("leader lost", "lost", churn.lost)]
    leaders.append(Series("unclean election", "unclean", churn.unclean))
    isr = [Series("left the ISR", "isr-left", churn.left), Series("joined the ISR", "joined", churn.joined)]
    parts: list[Markup] = []
    for name, series, unit in (("Leader changes", leaders, "changes"), ("ISR changes", isr, "replicas")):
        drawn: Markup | None = None
        if any(sum(each.values) for each in series):
            drawn = bars_over_time(churn.starts_s, churn.step_s, span, series, f"{unit} each {step}")
        keys = [(each.name, each.style) for each in series if sum(each.values)]
        parts.append(_or_empty(name, drawn, keys, f"{name}: none in this time."))
    parts.append(_top_table(data, span[1]))
    return Section("churn", "Leaders and ISRs", lead, parts)


def _or_empty(name: str, drawn: Markup | None, keys: list[tuple[str, str]], why: str) -> Markup:
    return joined([tag("h3", name), empty(why)]) if drawn is None else plot(name, drawn, keys)


def _top_table(data: HistoryData, end_s: float) -> Markup:
    rows = measures.top_partitions(data.states, end_s, TOP)
    head = tag("h3", "Partitions with the most changes")
    if not rows:
        return joined([head, empty(NOTHING_HAPPENED)])
    names = ("Partition", "Leader changes", "Unclean", "Left the ISR", "Joined the ISR", "Below min ISR")
    cells = [
        [
            Cell(f"{row['topic']}-{row['partition']}"),
            *(number(row[name]) for name in ("leader_changes", "unclean", "left", "joined")),
            number(row["under_s"], duration_text(row["under_s"]) if row["under_s"] else "-"),
        ]
        for row in rows
    ]
    return joined([head, table(names, cells)])


def _trouble_section(data: HistoryData, span: tuple[float, float]) -> Section:
    found = measures.trouble(data.states, span)
    rows = [
        Line("not all replicas in sync", "under-replicated", found.under_replicated),
        Line("below min.insync.replicas", "under-min", found.under_min_isr),
        Line("without a leader", "offline", found.offline),
    ]
    rows = [row for row in rows if any(value for _, value in row.points)]
    lead = "Partitions at the same time, the most of each step: what lacked replicas in sync, or a leader."
    if not rows:
        why = (
            "All partitions had all replicas in sync all the time." if data.states.num_rows else NO_PARTITIONS
        )
        return Section("trouble", "Partitions in trouble", lead, [empty(why)])
    keys = [(row.name, row.style) for row in rows]
    drawn = tag("div", lines(rows, span, "partitions", stepped=True), class_="plot")
    return Section("trouble", "Partitions in trouble", lead, [joined([legend(keys), drawn])])


def _epochs_section(data: HistoryData, span: tuple[float, float]) -> Section:
    segments = measures.epoch_segments(data.epochs, span[1])
    lead = "Who led the quorum when. Each bar is an epoch with its number."
    if not segments:
        return Section("epochs", "Epochs", lead, [empty("No epoch with a time is in this history.")])
    names = sorted({each.lane for each in segments}, key=int)
    lasted = [each.end_s - each.start_s for each in segments]
    median, longest = duration_text(float(np.median(lasted))), duration_text(max(lasted))
    said = f"{counted(len(segments), 'epoch')}; the median lasted {median}, the longest {longest}."
    parts = [tag("p", said, class_="lead"), _lanes(names, segments, span, "node")]
    return Section("epochs", "Epochs", lead, parts)


def _brokers_section(data: HistoryData, span: tuple[float, float]) -> Section:
    segments = measures.broker_segments(data.brokers, span[1])
    lead = "When brokers were registered, and when they were fenced: not heard from, or not caught up yet."
    if not segments:
        return Section("brokers", "Brokers", lead, [empty("No broker registered in this time.")])
    names = sorted({each.lane for each in segments}, key=int)
    parts: list[Markup] = []
    if len(names) > MOST_LANES:
        troubled = [each.lane for each in segments if each.style != "active"]
        kept = sorted(set(troubled), key=lambda name: (-troubled.count(name), int(name)))[:MOST_LANES]
        steady = counted(len(names) - len(kept), "other broker")
        names = sorted(kept, key=int)
        parts.append(
            tag(
                "p",
                f"Shown are those that were fenced or stopped most often; {steady} are left out.",
                class_="lead",
            )
        )
    if names:
        styles = {each.style for each in segments}
        parts.append(legend([(name, style) for name, style in BROKER_STYLES if style in styles]))
        parts.append(_lanes(names, [each for each in segments if each.lane in set(names)], span, "broker"))
    return Section("brokers", "Brokers", lead, parts)


def _lanes(names: list[str], segments: list[Segment], span: tuple[float, float], noun: str) -> Markup:
    return tag("div", lanes(names, segments, span, noun), class_="plot")


def _lag_section(data: HistoryData, span: tuple[float, float]) -> Section:
    rows, left_out = measures.lag_lines(data.lag)
    lead = "How many offsets each node was behind the leader when it was looked at, or behind the farthest folder."
    if not rows:
        why = "Nobody's lag is in this history: `history build` notes it each time it runs."
        return Section("lag", "Lag", lead, [empty(why)])
    parts = []
    moments = {at for row in rows for at, _ in row.points}
    if len(moments) > 1:
        keys = [(row.name, row.style) for row in rows]
        looked = (min(moments), max(moments))
        parts.append(joined([legend(keys), tag("div", lines(rows, looked, "offsets behind"), class_="plot")]))
    if left_out:
        parts.append(
            tag("p", f"{counted(left_out, 'node')} that were less behind are left out.", class_="lead")
        )
    parts.append(_lag_table(data.lag))
    return Section("lag", "Lag", lead, parts)


def _lag_table(lag: pa.Table) -> Markup:
    last: dict[int, dict[str, object]] = {}
    for row in lag.sort_by("ts").to_pylist():
        last[row["node_id"]] = row
    cells = [
        [
            Cell(f"{node}", float(node)),
            Cell(str(row["role"] or "-")),
            number(_float(row["log_end_offset"])),
            number(_float(row["high_watermark"])),
            number(_float(row["lag"])),
        ]
        for node, row in sorted(last.items())
    ]
    head = tag("h3", "At the last look")
    return joined([head, table(("Node", "Role", "Log end offset", "High watermark", "Lag"), cells)])


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
