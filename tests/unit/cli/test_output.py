"""The output of commands: tables, fields, progress without a terminal."""

from __future__ import annotations

import pytest

from quorumd.cli.output import columns, fields, heading, progress, steps
from tests.support.text import shows


def test_columns_are_aligned_and_numbers_right_aligned() -> None:
    assert columns(["NODE", "ROLE", "LAG"], [[0, "leader", "1,000"], [12, "follower", "-"]]) == (
        "Node  Role        Lag\n   0  leader    1,000\n  12  follower      -"
    )


def test_cells_neither_control_a_terminal_nor_forge_rows() -> None:
    hostile = "rack\n   1  leader\x1b[2J\x9b"
    for shown in (columns(["NODE", "RACK"], [[0, hostile]]), "\n" + fields([("rack", hostile)])):
        assert shown.count("\n") == 1
        assert all(each == "\n" or each.isprintable() for each in shown)


def test_table_without_rows_has_only_header() -> None:
    assert columns(["A", "B"], []) == "A  B"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("logEndOffset", "LogEndOffset"),
        ("log_end_offset", "LogEndOffset"),
        ("LOG END OFFSET", "LogEndOffset"),
        ("p99Ms", "P99Ms"),
        ("isr", "Isr"),
        ("", ""),
        ("count(*)", "count(*)"),
    ],
)
def test_heading_is_one_word_as_in_kafka_tools(name: str, shown: str) -> None:
    assert heading(name) == shown


def test_field_values_are_aligned() -> None:
    assert fields([("leaderId", 1), ("CurrentVoters", [1, 2]), ("rack", "")]) == (
        "LeaderId:       1\nCurrentVoters:  [1, 2]\nRack:"
    )


@pytest.mark.parametrize(("interval_s", "shown"), [(0.0, "starting\n1 of 3\n3 of 3\n"), (9.0, "starting\n")])
def test_progress_off_terminal_is_occasional_lines_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, interval_s: float, shown: str
) -> None:
    monkeypatch.setattr("quorumd.cli.output.LINE_INTERVAL_S", interval_s)
    with progress("starting") as show:
        show("1 of 3")
        show("3 of 3")
    assert capsys.readouterr() == ("", shown)


def test_steps_off_terminal_are_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorumd.cli.output.LINE_INTERVAL_S", 0.0)
    with steps() as show:
        show(1, 3, "next: this")
    out, err = capsys.readouterr()
    assert out == ""
    assert shows(err, "\n1 of 3", "next: this\n")


def test_steps_on_terminal_are_a_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with steps() as show:
        show(1, 3, "to be added: 4 [17 behind]")
    reported = capsys.readouterr()
    assert reported.out == ""
    assert "1/3" in reported.err
    assert "to be added: 4 [17 behind]" in reported.err
