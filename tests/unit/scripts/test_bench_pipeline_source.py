from __future__ import annotations

import sys
from io import StringIO
from subprocess import PIPE, Popen

import pytest
from rich.console import Console

from scripts.bench.pipeline_source import QUESTIONS, Rate, SourceReport
from scripts.bench.source_pass import tree_cpu_seconds
from tests.support.text import shows


def report(records: float, stream: float) -> SourceReport:
    rates = {name: Rate(1e6, 1e6) for name in QUESTIONS}
    both = rates | {"usual": Rate(records, 1e6), "usual_stream": Rate(stream, 1e5)}
    return SourceReport("interpreted", 1_000_000, 50_000_000, {1: rates, 2: both}, 100_000)


def test_targets_are_those_of_two_cores() -> None:
    assert report(2.6e6, 260e3).missed() == []
    records, stream = report(2.4e6, 240e3).missed()
    assert shows(records, "2.40 million", "2.5 million")
    assert shows(stream, QUESTIONS["usual_stream"], "0.24 million")


def test_report_has_ratios() -> None:
    console = Console(width=110, record=True, file=StringIO())
    report(2.6e6, 260e3).print(console)
    text = console.export_text()
    (line,) = [line for line in text.splitlines() if QUESTIONS["usual"] in line]
    assert line.split()[-6:] == ["1.00", "2.60", "130", "2.60x", "1.00", "26.0x"]
    assert "every target reached" in text


ROOT_WITH_A_CHILD_THAT_ENDED = """
import os, subprocess, sys
work = "sum(i * i for i in range(2_000_000))"
subprocess.run([sys.executable, "-c", work], check=True)
eval(work)
used = os.times()
print(used.user + used.system, used.children_user + used.children_system, flush=True)
sys.stdin.read()
"""


def test_cpu_time_of_a_process_tree_includes_its_root_and_ended_children() -> None:
    with Popen(
        [sys.executable, "-c", ROOT_WITH_A_CHILD_THAT_ENDED], stdin=PIPE, stdout=PIPE, text=True
    ) as root:
        assert root.stdout is not None
        own, of_children = map(float, root.stdout.readline().split())
        assert min(own, of_children) > 0.02
        assert tree_cpu_seconds(root.pid) == pytest.approx(own + of_children, abs=0.05)
        root.communicate()
