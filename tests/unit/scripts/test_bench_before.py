"""The daemons of an earlier commit, which a benchmark compares with those of the working tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.bench.before import check_out, environment_of, is_compiled_package
from scripts.bench.pairs import Comparison, PairedLevel, PairedReport
from scripts.bench.processes import BenchError
from scripts.bench.quorumd_cluster import QuorumdCluster
from scripts.bench.summary import Latency, Run

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(ROOT)
    check_out("HEAD", tmp_path / "tree")
    return tmp_path / "tree"


def test_earlier_commit_is_imported_from_its_tree(earlier: Path) -> None:
    environment = environment_of(earlier)
    command = [sys.executable, "-c", "import quorumd; print(quorumd.__file__)"]
    imported = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert Path(imported.strip()).is_relative_to(earlier)
    assert not is_compiled_package(environment)


def test_nodes_of_a_cluster_have_its_environment(tmp_path: Path) -> None:
    cluster = QuorumdCluster(tmp_path / "quorumd", environment=environment_of(ROOT) | {"OF_THE_TEST": "1"})
    try:
        environments = [Path(f"/proc/{each.pid}/environ").read_bytes() for each in cluster.processes]
    finally:
        cluster.stop()
    assert [b"OF_THE_TEST=1" in each.split(b"\0") for each in environments] == [True] * 3


def test_unknown_commit_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no-such-commit"):
        check_out("no-such-commit", tmp_path)


def runs(*rates: float) -> list[Run]:
    return [Run(rate, Latency(1, 1.0, 1.0), 1) for rate in rates]


def test_ratio_is_the_median_of_adjacent_runs() -> None:
    level = PairedLevel(16, runs(100, 200, 400), runs(90, 200, 300))
    comparison = Comparison("before", "", ("before", "now"), 0.95)
    assert (level.ratio, level.ratios) == (0.9, [0.9, 1.0, 0.75])
    assert len(PairedReport(comparison, "interpreted", [level]).missed()) == 1
    assert PairedReport(comparison._replace(target=0.9), "interpreted", [level]).missed() == []
