"""The short form of every benchmark of the pipeline that needs Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("pipeline-source", "pipeline-audit", "pipeline-history", "pipeline-million", "pipeline-start")


@pytest.mark.parametrize("part", PARTS)
def test_benchmark_prints_its_figures(part: str) -> None:
    command = [sys.executable, "-m", "scripts.bench", "--short", "--interpreted", "--only", part]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "written to build/bench/short.json" in done.stdout
