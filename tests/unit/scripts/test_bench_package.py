"""The quorumd that the benchmark starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.bench.__main__ import choose_package
from scripts.bench.processes import BenchError


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A directory with its own quorumd, which only processes with the given environment import."""
    for variable in ("PYTHONPATH", "PYTHONSAFEPATH"):
        monkeypatch.setenv(variable, "")
    directory = tmp_path / "quorumd"
    directory.mkdir()
    (directory / "__main__.py").write_text('print("quorumd 9 (compiled)")\n')
    return tmp_path


def test_processes_import_the_chosen_directory_even_in_a_checkout(package: Path) -> None:
    assert choose_package(package).startswith("compiled")
    reported = subprocess.run([sys.executable, "-m", "quorumd", "--version"], capture_output=True, text=True)
    assert reported.stdout == "quorumd 9 (compiled)\n"


def test_sources_are_reported_as_interpreted(package: Path) -> None:
    assert choose_package(Path.cwd()) == "interpreted"


def test_missing_build_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="make compile"):
        choose_package(tmp_path)
