"""Renders the directories and files that the pipeline wrote as a page, without Spark."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from pydantic import ValidationError

from quorumd.errors import InputIncomplete, JobFailed
from quorumd.output_files import write_output
from quorumd.pipeline.history.history import History, open_history
from quorumd.pipeline.plan.files import read_plan_directory
from quorumd.pipeline.report.audit_section import AuditDocument, audit_section
from quorumd.pipeline.report.history_sections import HistoryData, about_history, history_sections
from quorumd.pipeline.report.measures import STATE_COLUMNS
from quorumd.pipeline.report.page import Page, Section, Tile, render
from quorumd.pipeline.report.plan_section import PlanData, plan_section
from quorumd.pipeline.report.vega import vega_script


@dataclass(frozen=True, slots=True)
class Inputs:
    """The data of a report; None for inputs that are not given."""

    history: HistoryData | None = None
    plan: PlanData | None = None
    audit: AuditDocument | None = None


def write_report(
    history: Path | None, plan: Path | None, audit: Path | None, out: Path, now: datetime
) -> None:
    """Read the inputs and write the page atomically. Raises InputIncomplete, ConfigError, JobFailed."""
    inputs = Inputs(
        None if history is None else read_history(history),
        None if plan is None else read_plan(plan),
        None if audit is None else read_audit(audit),
    )
    content = render_report(inputs, now)
    try:
        write_output(out, content)
    except OSError as error:
        raise JobFailed(f"{out} cannot be written: {error.strerror}") from None


def render_report(inputs: Inputs, now: datetime) -> str:
    """Render the page as HTML."""
    tiles: list[Tile] = []
    sections: list[Section] = []
    title, about = "Reassignment plan" if inputs.audit is None else "Audit", ""
    parts = []
    if inputs.history is not None:
        parts.append(history_sections(inputs.history))
        about = about_history(inputs.history)
        title = "Cluster history"
        if inputs.history.cluster_id:
            title = f"Cluster {inputs.history.cluster_id}"
    if inputs.audit is not None:
        parts.append(audit_section(inputs.audit))
    if inputs.plan is not None:
        parts.append(plan_section(inputs.plan))
    for more_tiles, more_sections in parts:
        tiles += more_tiles
        sections += more_sections
    footer = (
        f"Made by quorumd pipeline report on {now:%Y-%m-%d at %H:%M} UTC. All times are UTC. In a chart over time, "
        "drag to move, use Ctrl and the wheel to zoom, and double-click to reset."
    )
    return render(Page(title, about, tiles, sections, footer), vega_script(os.environ))


def read_history(directory: Path) -> HistoryData:
    """Read the tables that a report uses. Raises InputIncomplete, ConfigError."""
    try:
        history = open_history(directory)
        epochs, brokers, topics, lag = (history.read(name) for name in ("epochs", "brokers", "topics", "lag"))
        return HistoryData(
            history.manifest.cluster_id,
            history.manifest.begin,
            history.manifest.end,
            history.states([*STATE_COLUMNS]),
            epochs,
            brokers,
            topics,
            lag,
            history.clocks.moved,
            _gaps(history),
        )
    except pa.ArrowException as error:
        raise InputIncomplete(f"{directory}: a file of this history cannot be read: {error}") from None


def _gaps(history: History) -> tuple[tuple[int, int], ...]:
    rows = history.read("gaps", ["from_offset", "to_offset"]).sort_by("from_offset").to_pylist()
    return tuple((row["from_offset"], row["to_offset"]) for row in rows)


def read_plan(directory: Path) -> PlanData:
    """Read the moves, brokers and figures of a plan. Raises InputIncomplete."""
    plan = read_plan_directory(directory)
    return PlanData(plan.moves, plan.brokers, plan.figures)


def read_audit(file: Path) -> AuditDocument:
    """Read what `audit --report` wrote. Raises InputIncomplete."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputIncomplete(
            f"{file} is not a report of `quorumd pipeline audit --report`: {error}"
        ) from None
    try:
        return AuditDocument.model_validate(document)
    except ValidationError as invalid:
        problem = invalid.errors(include_url=False)[0]
        place = ".".join(map(str, problem["loc"])) or "the document"
        raise InputIncomplete(
            f"{file} is not a report of `quorumd pipeline audit --report`: {place}: {problem['msg']}"
        ) from None
