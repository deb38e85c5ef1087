"""The whole page: no external resources, all requested parts, and a reason where there is nothing to show."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from quorumd.cli import root
from quorumd.errors import InputIncomplete, JobFailed
from quorumd.pipeline.history.tables import Manifest, path_in, write_manifest, write_table
from quorumd.pipeline.plan.files import Plan, write_plan
from quorumd.pipeline.report.audit_section import AuditDocument
from quorumd.pipeline.report.history_sections import about_history
from quorumd.pipeline.report.report import (
    Inputs,
    read_audit,
    read_history,
    read_plan,
    render_report,
    write_report,
)
from quorumd.pipeline.report.vega import vega_script
from quorumd.pipeline.tables.schemas import HISTORY_TABLES
from tests.support.history.logs import history as happened
from tests.support.history.writing import write, write_seed
from tests.support.plan.report_data import MORNING, a_day, a_plan, history, state, table
from tests.support.text import shows

NOW = datetime(2026, 3, 16, 12, tzinfo=UTC)
NODE = {"node": 1, "segments": 2, "batches": 30, "records": 1200, "bytes": 9000, "startOffset": 0}
DIVERGED = {
    "severity": "CRITICAL",
    "code": "DIVERGED",
    "node": 2,
    "peer": 1,
    "offset_lo": 700,
    "offset_hi": 740,
}
AUDIT_JSON = {
    "clean": False,
    "committedUpTo": 1200,
    "nodes": [NODE | {"endOffset": 1200, "lastEpoch": 4}],
    "pairs": [{"nodes": [1, 2], "comparedFrom": 0, "comparedTo": 1200, "firstDivergentOffset": 700}],
    "findings": [
        DIVERGED | {"committed": True, "detail": "<other> bytes"},
        {"severity": "INFO", "code": "NO_STATE", "node": 1, "detail": "no quorum-state"},
    ],
}
AUDIT = AuditDocument.model_validate(AUDIT_JSON)


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Caches Vega's script here instead of the home directory of the user who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(directory))
        yield directory


class Reader(HTMLParser):
    """Collects sections, links and scripts, and checks that each element is closed."""

    VOID = {"meta", "br", "input"}

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sections: list[str] = []
        self.links: list[str] = []
        self.scripts: list[str] = []
        self.specs: list[dict[str, Any]] = []
        self.policy = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        reported = dict(attrs)
        if tag == "section":
            self.sections.append(reported["id"] or "")
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if reported.get("http-equiv") == "Content-Security-Policy":
            self.policy = reported["content"] or ""
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            if data.startswith("{"):
                self.specs.append(json.loads(data))
            else:
                self.scripts.append(data)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_has_all_sections() -> None:
    page = render_report(Inputs(a_day(), a_plan(), AUDIT), NOW)
    found = Reader(page)
    assert found.sections == ["churn", "degraded", "epochs", "brokers", "lag", "audit", "plan"]
    assert found.links == [f"#{section}" for section in found.sections]
    assert "2026-03-16 at 12:00 UTC" in page
    assert "DIVERGED" in page
    assert "&lt;other&gt; bytes" in page


def test_page_fetches_nothing() -> None:
    page = render_report(Inputs(a_day(), a_plan(), AUDIT), NOW)
    found = Reader(page)
    own = page.replace(found.scripts[0], "")
    schema = found.specs[0]["$schema"]
    assert set(re.findall(r"[a-z]+://[^\s\"']+", own)) == {schema}
    assert not re.search(r"@import|url\(|<link|<img|fetch\(|XMLHttp", own)
    policy = dict(part.split(" ", 1) for part in found.policy.split("; "))
    assert policy["default-src"] == "'none'"
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in found.scripts]
    assert policy["script-src"].split() == ["'unsafe-eval'", *(f"'sha256-{each}'" for each in hashes)]


def test_page_without_charts_has_no_chart_script() -> None:
    page = render_report(Inputs(audit=AUDIT), NOW)
    assert len(Reader(page).scripts) == 1
    assert len(page) < 50_000


def test_hostile_names_are_escaped() -> None:
    name = "</script><script>alert(1)</script><!--{{ 7 * 7 }}"
    states = [
        state(MORNING, None, "leader", topic=name, leader=2),
        state(MORNING, None, topic=name, isr_left=1),
    ]
    plan = a_plan()
    racks = pa.array([name] * plan.brokers.num_rows)
    position = plan.brokers.schema.get_field_index("rack")
    plan = replace(
        plan, brokers=plan.brokers.set_column(position, plan.brokers.schema.field(position), racks)
    )
    finding = {"severity": name, "code": name, "detail": name}
    page = render_report(
        Inputs(history(states), plan, AuditDocument.model_validate({"findings": [finding], "clean": False})),
        NOW,
    )
    assert name not in page
    found = Reader(page)
    assert len(found.scripts) == 2
    assert found.specs[-1]["datasets"]["racks"][0]["rack"] == name
    assert page.count("&lt;script&gt;alert(1)") >= 4


def test_script_is_cached_unless_truncated(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    script = vega_script(environment)
    [cached] = tmp_path.rglob("*.js")
    assert cached.read_text() == script
    changed = "changed" + script
    cached.write_text(changed)
    assert vega_script(environment) == changed
    cached.write_text(changed[:1000])
    assert vega_script(environment) == script
    cached.unlink()
    cached.parent.rmdir()
    tmp_path.joinpath("quorumd").touch()
    assert vega_script(environment) == script


def test_same_inputs_render_same_page() -> None:
    assert render_report(Inputs(a_day(), a_plan(), AUDIT), NOW) == render_report(
        Inputs(a_day(), a_plan(), AUDIT), NOW
    )


def test_page_size_is_bounded() -> None:
    assert len(render_report(Inputs(a_day(partitions=5000), a_plan(brokers=1000), AUDIT), NOW)) < 2_000_000


def test_missing_inputs_have_no_section() -> None:
    assert Reader(render_report(Inputs(plan=a_plan()), NOW)).sections == ["plan"]
    assert "<h1>Audit</h1>" in render_report(Inputs(audit=AUDIT), NOW)


def test_empty_history_is_reported() -> None:
    page = render_report(Inputs(history([])), NOW)
    assert "This history is empty" in page


def test_empty_parts_state_reason() -> None:
    page = render_report(Inputs(history([state(MORNING, None, "created")])), NOW)
    for why in (
        "Leader changes: none",
        "ISR changes: none",
        "No partition changed",
        "fully replicated",
        "no epoch",
        "No broker registered",
        "no lag",
    ):
        assert why in page


def test_log_without_partitions_is_reported_once_per_section() -> None:
    page = render_report(Inputs(history([], epochs=a_day().epochs)), NOW)
    assert page.count("no partitions") == 2


def test_page_of_plan_without_moves_and_clean_audit() -> None:
    page = render_report(
        Inputs(plan=a_plan(added=0, per_broker=0), audit=AuditDocument(findings=[], clean=True)), NOW
    )
    assert "No replica moves" in page
    assert "No copy has a fault" in page


def written(directory: Path) -> Path:
    """The day's history on disk."""
    day = a_day(partitions=60)
    manifest = Manifest(end=1000, cluster_id=day.cluster_id)
    tables = {
        "partition_states": day.states,
        "epochs": day.epochs,
        "brokers": day.brokers,
        "topics": day.topics,
        "lag": day.lag,
    }
    for name, content in tables.items():
        path = path_in(name, 0, "all")
        write_table(directory, path, table(HISTORY_TABLES[name], content.to_pylist()))
        manifest.files[name] = [path]
    write_manifest(directory, manifest)
    return directory


def test_files_are_rendered_as_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "history")
    plan = a_plan()
    write_plan(Plan(plan.moves, plan.brokers, plan.figures, {}), tmp_path / "plan")
    (tmp_path / "audit.json").write_text(json.dumps(AUDIT_JSON))
    out = tmp_path / "report.html"
    options = [
        "--history",
        tmp_path / "history",
        "--plan",
        tmp_path / "plan",
        "--audit",
        tmp_path / "audit.json",
    ]
    assert root.run(["pipeline", "report", *map(str, options), "--out", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"{out} (")
    expected = render_report(Inputs(read_history(tmp_path / "history"), plan, AUDIT), NOW)
    made = re.sub(r"on \d{4}-\d\d-\d\d at \d\d:\d\d UTC", "on 2026-03-16 at 12:00 UTC", out.read_text())
    assert made == expected


def test_gaps_and_wrong_clocks_are_reported_at_top(tmp_path: Path) -> None:
    log, image = happened(3, 200)
    write(tmp_path, log[:100])
    write_seed(tmp_path, image, log[-1])
    about = about_history(read_history(tmp_path))
    low, high = log[99].offset + 1, log[-1].offset + 1
    assert f"offsets {low:,} to {high:,} are missing" in about
    assert "clock" not in about
    assert shows(about_history(replace(a_day(), moved_epochs=1)), "clock", "1 epoch")


def test_report_without_inputs_is_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert root.run(["pipeline", "report"]) == 2
    assert shows(capsys.readouterr().err, "--history", "--plan", "--audit")


def test_missing_or_damaged_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputIncomplete, match="history"):
        read_history(tmp_path)
    with pytest.raises(InputIncomplete, match="plan"):
        read_plan(tmp_path)
    for damage in ([], {}, {"findings": 5}, {"findings": [5]}, {**AUDIT_JSON, "pairs": [{"nodes": [1, 2]}]}):
        (tmp_path / "audit.json").write_text(json.dumps(damage))
        with pytest.raises(InputIncomplete, match="audit --report"):
            read_audit(tmp_path / "audit.json")
    directory = written(tmp_path / "history")
    damaged = next(directory.glob("epochs/*/*.parquet"))
    damaged.write_bytes(b"PAR1 no more")
    with pytest.raises(InputIncomplete, match=damaged.name):
        read_history(directory)
    damaged.unlink()
    with pytest.raises(InputIncomplete, match="no longer exists"):
        read_history(directory)


def test_unwritable_page_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(json.dumps(AUDIT_JSON))
    with pytest.raises(JobFailed, match=r"report\.html.*No such file"):
        write_report(None, None, tmp_path / "audit.json", tmp_path / "none" / "report.html", NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["audit.json"]
