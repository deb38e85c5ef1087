"""The table of verbs in docs/stock-kafka.md matches the recorded results of `make stock-tools`."""

from __future__ import annotations

from tests.interop.stock_tools.matrix import NOT_THERE
from tests.interop.stock_tools.results import PAGE, kept, page
from tests.interop.stock_tools.verbs import ROWS, STOPPED_ROWS, TOOLS
from tests.support.text import shows

COMMANDS = [row.command for row in (*ROWS, *STOPPED_ROWS)]


def test_row_names_are_unique() -> None:
    assert len(set(COMMANDS)) == len(COMMANDS)


def test_every_tool_has_a_row() -> None:
    assert {command.split()[0] for command in COMMANDS} == set(TOOLS)


def test_page_matches_the_recorded_results() -> None:
    assert PAGE.read_text() == page(kept()), "run python -m tests.interop.stock_tools.results"


def test_failures_are_numbered_and_explained_once() -> None:
    why = "exit code 1: Could not add | it"
    text = page({"4.3.1 static": dict.fromkeys(COMMANDS[:2], why), "4.0.2 static": {COMMANDS[0]: NOT_THERE}})
    first, second = (
        line
        for line in text.splitlines()
        if line.startswith(f"| `{COMMANDS[0].split()[0]} ") and "**1**" in line
    )
    assert first.endswith("| - | **1** |")
    assert second.endswith("| not run | **1** |")
    assert shows(text, "\n1. exit code 1", "Could not add \\| it\n")
    assert "| 0 of 0 | 0 of 2 |" in text
