from __future__ import annotations

import pytest

from quorumd.cli.pipeline import progress as pipeline_progress
from quorumd.cli.pipeline.output import print_rows
from quorumd.cli.pipeline.progress import display, tasks_on
from quorumd.pipeline.spark.progress import Progress


def test_progress_off_terminal_is_occasional_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([0.0, 1.0, 5.0, 5.0, 6.0, 11.0, 11.0])
    monkeypatch.setattr(pipeline_progress.time, "monotonic", lambda: next(now))
    with display("starting Spark") as show:
        tasks = tasks_on(show)
        tasks(Progress("reading", 1, 8))
        tasks(Progress("reading", 2, 8))
        tasks(Progress("reading", 3, 8))
        show("writing")
    assert capsys.readouterr().err.splitlines() == ["reading: 2 of 8 tasks", "writing"]


def test_no_progress_if_disabled(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_progress, "LINE_INTERVAL_S", 0.0)
    with display("starting Spark", wanted=False) as show:
        show("reading", 1, 8)
    assert capsys.readouterr().err == ""


def test_progress_ends_before_result(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_progress, "LINE_INTERVAL_S", 0.0)
    with display("starting Spark") as show:
        show("reading", 1, 8)
        print_rows([{"n": 1}], "jsonl")
        show("reading", 2, 8)
    shown = capsys.readouterr()
    assert shown.err == "reading: 1 of 8 tasks\n"
    assert shown.out == '{"n":1}\n'
