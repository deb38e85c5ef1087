"""The report describes a run, also with anomalies; the timeline is well-formed and shows every round."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.chaos.faults import KINDS
from tests.chaos.history import Entry, Histories
from tests.chaos.report import FAULTS, Run, ambiguous_writes, percentile, report, write_report
from tests.chaos.rounds import Round
from tests.chaos.timeline import FAMILIES
from tests.chaos.verdict import Verdict

ROUNDS = [
    Round(1, ["kill -9"], ["node 1"], 0, 1000, 2000, 100, 800),
    Round(2, ["full disk", "SIGSTOP"], ["node 3", "node 1"], 2000, 4000, 5000, 50, 1500, ["full disk"]),
    Round(3, ["kill -9"], ["node 2"], 5000, 6000, 7000, 10, 40),
]


@pytest.fixture
def run() -> Run:
    histories = Histories([])
    histories.add(Entry(1, "write", "r", "a", 0, 500, "ok"))
    histories.add(Entry(1, "write", "r", "b", 600, None, "no response"))
    histories.add(Entry(1, "append", "list-1", "c", 600, None, "not sent"))
    histories.add(Entry(1, "read", "r", None, 600, None, "no response"))
    return Run(
        list(ROUNDS),
        histories,
        Verdict([], 2, 77, 1234, 5, 6),
        0.0,
        420.0,
        3,
        99,
        "a tmpfs",
        "never stood still",
    )


def test_every_kind_of_fault_has_a_line_and_a_colour() -> None:
    kinds = [kind.kind for kind in KINDS]
    assert sorted(kinds) == sorted(FAULTS) == sorted(kind for _, family in FAMILIES for kind in family)


def test_report_has_the_figures(run: Run) -> None:
    text = report(run)
    assert "3 rounds in 7.0 minutes on 3 nodes: **no anomaly**. Seed 99" in text
    assert "| kill -9 | and a restart | 2 | 0.04 s | 0.80 s |" in text
    assert "| 1 (1 not felt) | 1.50 s | 1.50 s |" in text
    assert "| **all** | 1 rounds with two faults | 3 | 0.80 s | 1.50 s |" in text
    assert "| unknown: no response | 1 | 0 | 1 | 2 |" in text
    assert ambiguous_writes(run.histories) == 1
    assert "3 operations on 2 registers and lists are linearizable" in text


def test_reassignments_are_grouped_by_whether_processes_were_killed(run: Run) -> None:
    assert "## Reassignments" not in report(run)
    run.rounds[1:] = [
        Round(2, ["voter change"], ["1 to 2"], 0, 0, 0, 0, 60, reassigned_ms=100),
        Round(3, ["voter change", "kill -9"], ["2 to 1, 3"], 0, 0, 0, 0, 800, reassigned_ms=3000, kills=2),
    ]
    run.rounds[2].retries.append("node 1 sent no response to AlterQuorum")
    text = report(run)
    assert "| undisturbed | 1 | 0 | 0.10 s | 0.10 s | 0.06 s | 0.06 s |" in text
    assert "| processes killed | 1 | 2 | 3.00 s | 3.00 s | 0.80 s | 0.80 s |" in text
    assert "| **all** | 2 | 2 | 0.10 s | 3.00 s | 0.06 s | 0.80 s |" in text
    assert "- round 3: node 1 sent no response to AlterQuorum" in text


def test_anomalies_are_listed_first(run: Run) -> None:
    run.verdict.anomalies.append("nodes 1 and 2 both led epoch 3")
    lines = report(run).splitlines()
    assert "**1 anomalies**" in lines[2]
    assert lines[6] == "- nodes 1 and 2 both led epoch 3"


def test_run_that_ended_early_reports_no_success(run: Run) -> None:
    early = Run([], Histories([]), Verdict(["no leader"]), 0.0, 10.0, 3, 1, "", "stood still")
    assert "linearizable" not in report(early)
    assert "- no leader" in report(early)


def test_picture_shows_every_round(run: Run, tmp_path: Path) -> None:
    write_report(run, tmp_path)
    picture = ElementTree.parse(tmp_path / "timeline.svg")
    titles = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert sorted(title.split(":")[0] for title in titles if title) == [
        "round 1",
        "round 2",
        "round 2",
        "round 3",
    ]
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}circle"))) == 4


def test_percentiles_are_nearest_ranks() -> None:
    assert percentile([5, 1, 3], 50) == 3
    assert percentile([5, 1, 3, 4], 50) == 3
    assert percentile([5], 99) == 5
