"""The page as a whole: nothing from elsewhere, every part that was asked for, and words where there is nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from quorumd.cli import root
from quorumd.errors import InputIncomplete, JobFailed
from quorumd.pipeline.history.tables import Manifest, path_in, write_manifest, write_table
from quorumd.pipeline.plan.files import Plan, write_plan
from quorumd.pipeline.report.history_part import about_history
from quorumd.pipeline.report.report import Inputs, page_of, read_audit, read_history, read_plan, write_report
from quorumd.pipeline.schemas import HISTORY_TABLES
from tests.support.history_logs import history as happened
from tests.support.history_writing import write, write_seed
from tests.support.report_data import MORNING, a_day, a_plan, history, state, table

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
AUDIT = {
    "clean": False,
    "committedUpTo": 1200,
    "nodes": [NODE | {"endOffset": 1200, "lastEpoch": 4}],
    "pairs": [{"nodes": [1, 2], "comparedFrom": 0, "comparedTo": 1200, "firstDivergentOffset": 700}],
    "findings": [
        DIVERGED | {"committed": True, "detail": "<other> bytes"},
        {"severity": "INFO", "code": "NO_STATE", "node": 1, "detail": "no quorum-state"},
    ],
}


class Reader(HTMLParser):
    """Collects the ids of sections and checks that what is opened is closed."""

    VOID = {"meta", "br", "input"}

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sections: list[str] = []
        self.links: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if tag == "section":
            self.sections.append(said["id"] or "")
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_everything_is_on_the_page() -> None:
    page = page_of(Inputs(a_day(), a_plan(), AUDIT), NOW)
    found = Reader(page)
    assert found.sections == ["churn", "trouble", "epochs", "brokers", "lag", "audit", "plan"]
    assert found.links == [f"#{section}" for section in found.sections]
    assert "Made by quorumd pipeline report on 2026-03-16 at 12:00 UTC" in page
    assert "DIVERGED" in page
    assert "&lt;other&gt; bytes" in page


def test_nothing_is_fetched_from_anywhere() -> None:
    page = page_of(Inputs(a_day(), a_plan(), AUDIT), NOW)
    urls = set(re.findall(r"[a-z]+://[^\s\"']+", page))
    assert urls == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\(|<link|<img|fetch\(|XMLHttp", page)


def test_the_same_inputs_give_the_same_page() -> None:
    assert page_of(Inputs(a_day(), a_plan(), AUDIT), NOW) == page_of(Inputs(a_day(), a_plan(), AUDIT), NOW)


def test_it_is_no_heavier_than_a_picture() -> None:
    assert len(page_of(Inputs(a_day(partitions=5000), a_plan(brokers=1000), AUDIT), NOW)) < 1_000_000


def test_what_is_not_given_is_not_there() -> None:
    assert Reader(page_of(Inputs(plan=a_plan()), NOW)).sections == ["plan"]
    assert "<h1>Audit</h1>" in page_of(Inputs(audit=AUDIT), NOW)


def test_an_empty_history_says_so() -> None:
    page = page_of(Inputs(history([])), NOW)
    assert "This history is empty: nothing was read into it yet." in page


def test_each_part_with_nothing_to_show_says_why() -> None:
    page = page_of(Inputs(history([state(MORNING, None, "created")])), NOW)
    for why in (
        "Leader changes: none in this time.",
        "ISR changes: none in this time.",
        "No partition changed its leader or its ISR in this time.",
        "All partitions had all replicas in sync all the time.",
        "No epoch with a time is in this history.",
        "No broker registered in this time.",
        "Nobody&#x27;s lag is in this history",
    ):
        assert why.replace("&#x27;", "'") in page


def test_a_log_without_partitions_says_so_once_a_section() -> None:
    page = page_of(Inputs(history([], epochs=a_day().epochs)), NOW)
    assert page.count("No partitions are in this history.") == 2


def test_a_plan_without_moves_and_an_audit_without_findings() -> None:
    page = page_of(Inputs(plan=a_plan(added=0, per_broker=0), audit={"findings": [], "clean": True}), NOW)
    assert "Nothing moves: all is where this plan wants it." in page
    assert "Nothing is wrong with any copy." in page


def written(folder: Path) -> Path:
    """The day as a history on disk."""
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
        write_table(folder, path, table(HISTORY_TABLES[name], content.to_pylist()))
        manifest.files[name] = [path]
    write_manifest(folder, manifest)
    return folder


def test_files_become_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "history")
    plan = a_plan()
    write_plan(Plan(plan.moves, plan.brokers, plan.figures, {}), tmp_path / "plan")
    (tmp_path / "audit.json").write_text(json.dumps(AUDIT))
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
    expected = page_of(Inputs(read_history(tmp_path / "history"), plan, AUDIT), NOW)
    made = re.sub(r"on \d{4}-\d\d-\d\d at \d\d:\d\d UTC", "on 2026-03-16 at 12:00 UTC", out.read_text())
    assert made == expected


def test_what_is_missing_in_a_history_and_wrong_clocks_are_said_at_the_top(tmp_path: Path) -> None:
    log, image = happened(3, 200)
    write(tmp_path, log[:100])
    write_seed(tmp_path, image, log[-1])
    about = about_history(read_history(tmp_path))
    low, high = log[99].offset + 1, log[-1].offset + 1
    assert f"offsets {low:,} to {high:,} are missing, they were deleted before they were read" in about
    assert "clock" not in about
    assert "the leader's clock was wrong in 1 epoch, what" in about_history(replace(a_day(), moved_epochs=1))


def test_nothing_to_report_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert root.run(["pipeline", "report"]) == 2
    assert "give at least one of --history, --plan and --audit" in capsys.readouterr().err


def test_what_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputIncomplete, match="there is no history in"):
        read_history(tmp_path)
    with pytest.raises(InputIncomplete, match="holds no plan of"):
        read_plan(tmp_path)
    for damage in ([], {}, {"findings": 5}, {"findings": [5]}, {**AUDIT, "pairs": [{"nodes": [1, 2]}]}):
        (tmp_path / "audit.json").write_text(json.dumps(damage))
        with pytest.raises(InputIncomplete, match="is no report of `quorumd pipeline audit --report`: "):
            read_audit(tmp_path / "audit.json")
    folder = written(tmp_path / "history")
    damaged = next(folder.glob("epochs/*/*.parquet"))
    damaged.write_bytes(b"PAR1 no more")
    with pytest.raises(InputIncomplete, match="a file of this history cannot be read"):
        read_history(folder)
    damaged.unlink()
    with pytest.raises(InputIncomplete, match="is not there any more"):
        read_history(folder)


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(json.dumps(AUDIT))
    with pytest.raises(JobFailed, match=r"report\.html cannot be written: No such file"):
        write_report(None, None, tmp_path / "audit.json", tmp_path / "none" / "report.html", NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["audit.json"]
