"""A timeline as one HTML page that needs nothing else: lifelines, messages between them, time downwards."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from math import inf

from quorumd.simulator.timeline import KINDS, Entry

ROW, TOP, LEFT, LANE, LETTER = 20, 20, 110, 250, 7
"""Pixels."""
MOST_ROWS = 4000
"""More of a run than that is left out from the beginning: browsers and readers have an end, too."""
FOLDED_FROM = 3
"""So many messages in a row that say nothing new are one row."""
CAMPAIGNING = ("prospective", "candidate")

STYLE = """
:root{--paper:#fff;--ink:#1c2430;--soft:#6a7482;--line:#c9d1da;--panel:#f4f6f8;--down:#e3e7eb;--leader:#2f9e58;
--follower:#9cc5ee;--campaign:#efb540;--other:#c6ccd3;--fault:#d03b3b;--message:#3867b5;--disk:#7a5ab5;--client:#0f7f86}
@media(prefers-color-scheme:dark){:root{--paper:#14181d;--ink:#e4e8ed;--soft:#939eab;--line:#3a434d;--panel:#1d232a;
--down:#2a3138;--leader:#3fb068;--follower:#3f6d9c;--campaign:#c9912b;--other:#535d68;--fault:#f0716d;
--message:#7fa8ec;--disk:#b49aea;--client:#4bbcc3}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:13px/1.45 system-ui,sans-serif}
header{padding:14px 20px 8px}h1{font-size:17px;margin:0 0 4px}p{margin:2px 0;color:var(--soft);max-width:110ch}
p.broken{color:var(--fault);font-weight:600;white-space:pre-wrap}
nav{position:sticky;top:0;z-index:2;background:var(--paper);border-bottom:1px solid var(--line);padding:6px 20px 0}
nav label{display:inline-block;white-space:nowrap;margin-right:14px;cursor:pointer}
nav i{display:inline-block;width:11px;height:11px;border-radius:2px;
margin:0 4px 0 12px;vertical-align:-1px}#lanes{position:relative;height:22px;font-weight:600}
#lanes span{position:absolute;transform:translateX(-50%);white-space:nowrap}#drawing{padding:0 20px 120px}
svg{display:block}text{fill:var(--ink);font:11px ui-monospace,Menlo,Consolas,monospace}.time{fill:var(--soft)}
.lifeline{stroke:var(--line)}.band{opacity:.9}.entry{cursor:pointer}.entry:hover text{font-weight:700}
.message line{stroke:var(--message)}.message polygon{fill:var(--message)}.idle{opacity:.35}
.lost line{stroke:var(--fault);stroke-dasharray:5 4}.lost text{fill:var(--fault)}
.fault text,.process text,.verdict text{fill:var(--fault);font-weight:600}.disk text{fill:var(--disk)}
.client text{fill:var(--client)}nav i.arrow{height:0;border-top:2px solid var(--message);vertical-align:4px}
nav i.never{border-top:2px dashed var(--fault)}nav details{padding:4px 0}
.folded{opacity:1}.folded text{fill:var(--soft)}
.label{paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round}
#detail{position:fixed;left:0;right:0;bottom:0;max-height:30vh;overflow:auto;background:var(--panel);
border-top:1px solid var(--line);padding:8px 20px;white-space:pre-wrap;
font:12px ui-monospace,Menlo,Consolas,monospace}
"""
SCRIPT = """
const detail=document.getElementById('detail');
const entries=document.querySelectorAll('.entry'),hidden=new Set();
entries.forEach((e,i)=>e.addEventListener('click',()=>detail.textContent=DETAILS[i]));
document.querySelectorAll('nav input').forEach(box=>box.addEventListener('change',()=>{
 box.checked?hidden.delete(box.value):hidden.add(box.value);
 entries.forEach(e=>e.style.display=[...e.classList,e.dataset.name].some(kind=>hidden.has(kind))?'none':'');}));
"""


def page(
    title: str,
    verdict: Sequence[str],
    lanes: Sequence[str],
    entries: Sequence[Entry],
    span_ms: tuple[float, float] = (0.0, inf),
) -> str:
    """The whole page: of the entries of a whole run, which are in the order of time, those within `span_ms`.

    `lanes` are all that there are, `verdict` is what was broken, if anything.
    """
    entries = [entry for entry in entries if entry.time_ms <= span_ms[1]]
    since = bisect_left(entries, span_ms[0], key=lambda entry: entry.time_ms)
    rows = _folded(entries[since:])[-MOST_ROWS:]
    count = sum(map(len, rows))
    left_out = len(entries) - count
    x = {lane: LEFT + LANE // 2 + LANE * index for index, lane in enumerate(lanes)}
    height = TOP * 2 + ROW * len(rows)
    width = LEFT + LANE * len(lanes) + LANE // 2
    told = f"{count:,} entries" + (f"; the {left_out:,} before them are not shown" if left_out else "")
    drawing = "".join(
        [
            *_bands(entries[:left_out], rows, x),
            *_lifelines(x, height),
            *_rows(rows, x, [row[0].time_ms for row in rows]),
        ]
    )
    names = sorted(
        {entry.text for row in rows for entry in row if len(row) == 1 and entry.message is not None}
    )
    details = json.dumps(["\n".join(map(_detail, row)) for row in rows]).replace("</", "<\\/")
    broken = "".join(f'<p class="broken">{escape(text)}</p>' for text in verdict)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
        f"<header><h1>{escape(title)}</h1>{broken}<p>{told}. Time runs downwards, at the left in milliseconds of "
        f"virtual time; a row an entry, or {FOLDED_FROM} and more messages with nothing new that follow each other. "
        "An arrow ends where the message arrived, a dashed one never did. Click on a row for all of it.</p></header>"
        f"{_navigation(x, names)}"
        f'<div id="drawing"><svg width="{width}" height="{height}">{drawing}</svg></div><div id="detail">'
        f"Click on a row.</div><script>const DETAILS={details};{SCRIPT}</script></html>"
    )


def _folded(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The rows: an entry each, or all of some messages in a row that say nothing new."""
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
    """What each node was, as a coloured stretch of its lifeline; at first what it was `before` the rows."""
    for lane in list(x)[1:]:
        earlier = [entry for entry in before if _colours(entry, lane)]
        colour, since = _colour(earlier[-1]) if earlier else "down", 0
        for index, (entry, *_) in enumerate(rows):
            if _colours(entry, lane):
                y = TOP + ROW * index
                yield from _band(x[lane], since, y, colour)
                colour, since = _colour(entry), y
        yield from _band(x[lane], since, TOP + ROW * len(rows), colour)


def _colours(entry: Entry, lane: str) -> bool:
    return entry.lane == lane and entry.kind in ("role", "process")


def _band(place: int, top: int, bottom: int, colour: str) -> Iterable[str]:
    if bottom > top:
        yield (
            f'<rect class="band" x="{place - 5}" y="{top}" width="10" height="{bottom - top}" '
            f'fill="var(--{colour})"/>'
        )


def _colour(entry: Entry) -> str:
    if entry.kind == "process":
        return "down" if entry.text == "is gone" else "other"
    role = entry.text.split()[0]
    return "campaign" if role in CAMPAIGNING else role if role in ("leader", "follower") else "other"


def _rows(rows: Sequence[Sequence[Entry]], x: dict[str, int], times: Sequence[float]) -> Iterable[str]:
    for index, (entry, *more) in enumerate(rows):
        y = TOP + ROW * index
        time = ""
        if index == 0 or times[index] != times[index - 1]:
            time = (
                f'<text class="time" x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{times[index]:,.1f}</text>'
            )
        kind = f"{entry.kind} idle" if entry.is_idle else entry.kind
        name = ""
        if more:
            drawn = _label(f"… {1 + len(more)} routine", LEFT + 10, y)
            kind += " folded"
        elif entry.message is not None:
            drawn, lost = _arrow(entry, y, x, times)
            kind += " lost" if lost else ""
            name = f' data-name="{escape(entry.text)}"'
        else:
            drawn = _label(_short(entry.text, 34), x[entry.lane] + 10, y)
        yield f'{time}<g class="entry {kind}"{name}>{drawn}</g>'


def _label(text: str, left: int, y: int) -> str:
    return f'<text class="label" x="{left}" y="{y + 4}">{escape(text)}</text>'


def _arrow(entry: Entry, y: int, x: dict[str, int], times: Sequence[float]) -> tuple[str, bool]:
    assert entry.message is not None
    arrived = entry.message.arrived_ms
    start, end = x[entry.lane], x[entry.to]
    foot = y if arrived is None else max(y, TOP + ROW * (bisect_left(times, arrived) - 0.5))
    if start == end:
        end = start + 80
    step = 6 if end > start else -6
    end -= step
    line = f'<line x1="{start + step}" y1="{y}" x2="{end}" y2="{foot:.0f}"/>'
    head = f'<polygon points="{end},{foot:.0f} {end - step},{foot - 4:.0f} {end - step},{foot + 4:.0f}"/>'
    name = _short(
        f"{entry.text.removesuffix('Request')} {', '.join(entry.details)}", (abs(end - start) - 20) // LETTER
    )
    anchor, place = ("start", start + 12) if end > start else ("end", start - 12)
    label = f'<text class="label" x="{place}" y="{y - 3}" text-anchor="{anchor}">{escape(name)}</text>'
    return line + (head if arrived is not None else "") + label, arrived is None


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _detail(entry: Entry) -> str:
    return str(entry).strip()
