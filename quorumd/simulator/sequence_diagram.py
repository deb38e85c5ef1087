"""A timeline as one HTML page that needs nothing else: lifelines, messages between them, time downwards."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from html import escape
from math import inf

from quorumd.simulator.timeline import KINDS, Entry

ROW, TOP, LEFT, LANE, LETTER = 20, 20, 110, 250, 7
"""Pixels."""
MOST_ROWS = 4000
"""More of a run than that is left out from the beginning: browsers and readers have an end, too."""
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
nav label{margin-right:14px;cursor:pointer}nav i{display:inline-block;width:11px;height:11px;border-radius:2px;
margin:0 4px 0 12px;vertical-align:-1px}#lanes{position:relative;height:22px;font-weight:600}
#lanes span{position:absolute;transform:translateX(-50%);white-space:nowrap}#drawing{padding:0 20px 120px}
svg{display:block}text{fill:var(--ink);font:11px ui-monospace,Menlo,Consolas,monospace}.time{fill:var(--soft)}
.lifeline{stroke:var(--line)}.band{opacity:.9}.entry{cursor:pointer}.entry:hover text{font-weight:700}
.message line{stroke:var(--message)}.message polygon{fill:var(--message)}.idle{opacity:.35}
.lost line{stroke:var(--fault);stroke-dasharray:5 4}.lost text{fill:var(--fault)}
.fault text,.process text,.verdict text{fill:var(--fault);font-weight:600}.disk text{fill:var(--disk)}
.client text{fill:var(--client)}.label{paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round}
#detail{position:fixed;left:0;right:0;bottom:0;max-height:30vh;overflow:auto;background:var(--panel);
border-top:1px solid var(--line);padding:8px 20px;white-space:pre-wrap;
font:12px ui-monospace,Menlo,Consolas,monospace}
"""
SCRIPT = """
const detail=document.getElementById('detail');
document.querySelectorAll('.entry').forEach((e,i)=>e.addEventListener('click',()=>detail.textContent=DETAILS[i]));
document.querySelectorAll('nav input').forEach(box=>box.addEventListener('change',()=>
 document.querySelectorAll('.'+box.value).forEach(e=>e.style.display=box.checked?'':'none')));
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
    left_out = max(since, len(entries) - MOST_ROWS)
    shown = entries[left_out:]
    x = {lane: LEFT + LANE // 2 + LANE * index for index, lane in enumerate(lanes)}
    height = TOP * 2 + ROW * len(shown)
    width = LEFT + LANE * len(lanes) + LANE // 2
    told = f"{len(shown):,} entries" + (f"; the {left_out:,} before them are not shown" if left_out else "")
    drawing = "".join(
        [
            *_bands(entries, left_out, x),
            *_lifelines(x, height),
            *_rows(shown, x, [entry.time_ms for entry in shown]),
        ]
    )
    details = json.dumps([_detail(entry) for entry in shown]).replace("</", "<\\/")
    broken = "".join(f'<p class="broken">{escape(text)}</p>' for text in verdict)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
        f"<header><h1>{escape(title)}</h1>{broken}<p>{told}. Time runs downwards, a row an entry; at the left "
        "milliseconds of virtual time. An arrow ends where the message arrived, a dashed one never did. Click on an "
        f"entry for all of it.</p></header>{_navigation(x)}"
        f'<div id="drawing"><svg width="{width}" height="{height}">{drawing}</svg></div><div id="detail">'
        f"Click on an entry.</div><script>const DETAILS={details};{SCRIPT}</script></html>"
    )


def _navigation(x: dict[str, int]) -> str:
    boxes = "".join(
        f'<label><input type="checkbox" checked value="{kind}"> {kind}</label>' for kind in (*KINDS, "idle")
    )
    colours = (("leader", "leader"), ("follower", "follower"), ("campaign", "campaigning"), ("other", "other role"),
               ("down", "not running"))  # fmt: skip
    legend = "".join(f'<i style="background:var(--{name})"></i>{text}' for name, text in colours)
    names = "".join(f'<span style="left:{place}px">{escape(lane)}</span>' for lane, place in x.items())
    width = max(x.values()) + LANE
    return f'<nav style="min-width:{width}px">{boxes}{legend}<div id="lanes">{names}</div></nav>'


def _lifelines(x: dict[str, int], height: int) -> Iterable[str]:
    for place in x.values():
        yield f'<line class="lifeline" x1="{place}" x2="{place}" y1="0" y2="{height}"/>'


def _bands(entries: Sequence[Entry], left_out: int, x: dict[str, int]) -> Iterable[str]:
    """What each node was, as a coloured stretch of its lifeline."""
    end = TOP + ROW * (len(entries) - left_out)
    for lane in list(x)[1:]:
        colour, since = "down", 0
        for index, entry in enumerate(entries):
            if entry.lane != lane or entry.kind not in ("role", "process"):
                continue
            row = max(0, TOP + ROW * (index - left_out))
            yield from _band(x[lane], since, row, colour)
            colour, since = _colour(entry), row
        yield from _band(x[lane], since, end, colour)


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


def _rows(shown: Sequence[Entry], x: dict[str, int], times: Sequence[float]) -> Iterable[str]:
    for index, entry in enumerate(shown):
        y = TOP + ROW * index
        time = ""
        if index == 0 or entry.time_ms != shown[index - 1].time_ms:
            time = f'<text class="time" x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{entry.time_ms:,.1f}</text>'
        kind = f"{entry.kind} idle" if entry.is_idle else entry.kind
        if entry.message is not None:
            drawn, lost = _arrow(entry, y, x, times)
            kind += " lost" if lost else ""
        else:
            text = escape(_short(entry.text, 34))
            drawn = f'<text class="label" x="{x[entry.lane] + 10}" y="{y + 4}">{text}</text>'
        yield f'{time}<g class="entry {kind}">{drawn}</g>'


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
