"""Renders a timeline as one self-contained HTML page: lifelines, messages between them, time downwards."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from math import inf

from quorumd.simulator.explain.diagram_page import BAND, GAP, LANE, LEFT, LETTER, ROW, SCRIPT, STYLE, TOP
from quorumd.simulator.explain.timeline import KINDS, Entry

MAX_ROWS = 4000
"""Maximum number of rows on a page; earlier rows are left out."""
FOLDED_FROM = 3
"""Minimum number of consecutive routine messages that are folded into one row."""
CAMPAIGNING = ("prospective", "candidate")
MARKED_EVERY = 10
"""Rows between two marks of role and epoch on a band, so that one is always visible."""


def page(
    title: str,
    verdict: Sequence[str],
    lanes: Sequence[str],
    entries: Sequence[Entry],
    span_ms: tuple[float, float] = (0.0, inf),
) -> str:
    """Render the entries of a run, in order of time, that are within `span_ms`.

    `lanes` are all lanes; `verdict` has the violations, if any.
    """
    entries = [entry for entry in entries if entry.time_ms <= span_ms[1]]
    since = bisect_left(entries, span_ms[0], key=lambda entry: entry.time_ms)
    rows = _folded(entries[since:])[-MAX_ROWS:]
    count = sum(map(len, rows))
    left_out = len(entries) - count
    x = {lane: LEFT + LANE // 2 + LANE * index for index, lane in enumerate(lanes)}
    height = TOP * 2 + ROW * len(rows)
    width = LEFT + LANE * len(lanes) + LANE // 2
    summary = f"{count:,} entries" + (f"; the {left_out:,} before them are not shown" if left_out else "")
    times = [row[0].time_ms for row in rows]
    drawing = "".join(
        [
            *_bands(entries[:left_out], rows, x),
            *_lifelines(x, height),
            '<g id="gaps"></g>',
            *_rows(rows, x, times),
        ]
    )
    names = sorted(
        {entry.text for row in rows for entry in row if len(row) == 1 and entry.message is not None}
    )
    constants = {
        "DETAILS": ["\n".join(map(_detail, row)) for row in rows], "COUNTS": [len(row) for row in rows],
        "TIMES": [round(time, 3) for time in times], "ROW": ROW, "GAP": GAP, "TOP": TOP, "LEFT": LEFT,
    }  # fmt: skip
    data = "".join(f"const {name}={json.dumps(value)};\n" for name, value in constants.items())
    data = data.replace("</", "<\\/")  # or a client's value could end the script
    broken = "".join(f'<p class="broken">{escape(text)}</p>' for text in verdict)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
        f"<header><h1>{escape(title)}</h1>{broken}<p>{summary}. Time runs downwards, at the left in milliseconds of "
        f"virtual time; one row per entry, or per {FOLDED_FROM} or more consecutive routine messages. An arrow ends "
        "where the message arrived; a dashed one never did, a dotted one was in flight at the end. On a band, F 3 is "
        "a follower in epoch 3: the first letter of the role. Click a row for its details.</p></header>"
        f"{_navigation(x, names)}"
        f'<div id="drawing"><svg width="{width}" height="{height}">{drawing}</svg></div><div id="detail">'
        f"Click a row.</div><script>{data}{SCRIPT}</script></html>"
    )


def _folded(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Group entries into rows: one entry each, or consecutive routine messages."""
    rows: list[list[Entry]] = []
    for is_idle, group in groupby(entries, key=lambda entry: entry.is_idle):
        together = list(group)
        if is_idle and len(together) >= FOLDED_FROM:
            rows.append(together)
        else:
            rows += [[entry] for entry in together]
    return rows


def _navigation(x: dict[str, int], names: Sequence[str]) -> str:
    boxes = "".join(_box(kind) for kind in (*KINDS, "idle"))
    messages = "".join(_box(name) for name in names)
    colours = (("leader", "leader"), ("follower", "follower"), ("campaign", "campaigning"), ("other", "other role"),
               ("down", "not running"))  # fmt: skip
    legend = "".join(f'<i style="background:var(--{name})"></i>{text}' for name, text in colours)
    legend += '<i class="arrow"></i>message<i class="arrow never"></i>never arrives'
    legend += '<i class="arrow travels"></i>in flight at the end'
    lanes = "".join(f'<span style="left:{place}px">{escape(lane)}</span>' for lane, place in x.items())
    width = max(x.values()) + LANE
    return (
        f'<nav style="min-width:{width}px">{boxes}{legend}<details><summary>messages by name</summary>{messages}'
        f'</details><div id="lanes">{lanes}</div></nav>'
    )


def _box(value: str) -> str:
    return f'<label><input type="checkbox" checked value="{escape(value)}"> {escape(value)}</label>'


def _lifelines(x: dict[str, int], height: int) -> Iterable[str]:
    for place in x.values():
        yield f'<line class="lifeline" x1="{place}" x2="{place}" y1="0" y2="{height}"/>'


def _bands(before: Sequence[Entry], rows: Sequence[Sequence[Entry]], x: dict[str, int]) -> Iterable[str]:
    """Draw the role of each node as a coloured part of its lifeline; `before` are the entries before the rows."""
    for lane in list(x)[1:]:
        state = next((entry for entry in reversed(before) if _changes(entry, lane)), None)
        since = -1
        for index, (entry, *_) in enumerate(rows):
            if _changes(entry, lane):
                yield from _band(x[lane], since, index, state)
                state, since = entry, index
        yield from _band(x[lane], since, len(rows), state)


def _changes(entry: Entry, lane: str) -> bool:
    return entry.lane == lane and entry.kind in ("role", "process")


def _band(place: int, since: int, until: int, state: Entry | None) -> Iterable[str]:
    """Draw a band between two rows, -1 for above the first; role and epoch are also text, not colour alone."""
    if until <= since:
        return
    top = TOP + ROW * since
    yield (
        f'<rect class="band" data-from="{since}" data-to="{until}" x="{place - BAND // 2}" y="{top}" '
        f'width="{BAND}" height="{ROW * (until - since)}" fill="var(--{_colour(state)})"/>'
    )
    if state is not None and state.kind == "role":
        mark = f"{state.text[0].upper()} {state.epoch}"
        for row in range(max(since, 0), until, MARKED_EVERY):
            yield f'<text class="mark" data-row="{row}" x="{place}" y="{TOP + ROW * row + 14}">{mark}</text>'


def _colour(state: Entry | None) -> str:
    if state is None or state.kind == "process":
        return "down" if state is None or state.text == "ends" else "other"
    role = state.text.split()[0]
    return "campaign" if role in CAMPAIGNING else role if role in ("leader", "follower") else "other"


def _rows(rows: Sequence[Sequence[Entry]], x: dict[str, int], times: Sequence[float]) -> Iterable[str]:
    shown = ""
    for index, (entry, *more) in enumerate(rows):
        y = TOP + ROW * index
        time = f"{times[index]:,.1f}"
        again = ' style="display:none"' if time == shown else ""
        shown = time
        kind = f"{entry.kind} idle" if entry.is_idle else entry.kind
        data = ""
        if more:
            drawn = _label(f"… {1 + len(more)} routine", LEFT + 10)
            kind += " folded"
        elif entry.message is not None:
            foot = max(float(index), bisect_left(times, entry.message.arrived_ms or 0.0) - 0.5)
            drawn, how = _arrow(entry, ROW * (foot - index), x)
            kind += how
            data = f' data-name="{escape(entry.text)}" data-foot="{foot}"'
        else:
            drawn = _label(_short(entry.text, 34), x[entry.lane] + BAND // 2 + 5)
        yield (
            f'<text class="time" x="{LEFT - 12}" y="{y + 4}" text-anchor="end"{again}>{time}</text>'
            f'<g class="entry {kind}"{data} transform="translate(0,{y})">{drawn}</g>'
        )


def _label(text: str, left: int) -> str:
    return f'<text class="label" x="{left}" y="4">{escape(text)}</text>'


def _arrow(entry: Entry, down: float, x: dict[str, int]) -> tuple[str, str]:
    """Draw a message as an arrow that ends `down` pixels below its row; return it and its additional CSS class."""
    message = entry.message
    assert message is not None
    start, end = x[entry.lane], x[entry.to]
    if start == end:
        end = start + 80 + BAND
    side = 1 if end > start else -1
    start, end = start + side * (BAND // 2 + 1), end - side * (BAND // 2 + 1)
    line = f'<line x1="{start}" y1="0" x2="{end}" y2="{down:.0f}"/>'
    back = end - side * 6
    head = f'<polygon points="{end},0 {back},-4 {back},4" transform="translate(0,{down:.0f})"/>'
    name = _short(
        f"{entry.text.replace('Request', '')} {', '.join(entry.details)}", (abs(end - start) - 8) // LETTER
    )
    anchor = "start" if side > 0 else "end"
    label = f'<text class="label" x="{start + side * 4}" y="-3" text-anchor="{anchor}">{escape(name)}</text>'
    if message.arrived_ms is not None:
        return line + head + label, ""
    return line + label, " underway" if message.in_flight else " lost"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _detail(entry: Entry) -> str:
    return str(entry).strip()
