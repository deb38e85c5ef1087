"""Which quorumd the benchmark starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.bench.__main__ import choose_package
from scripts.bench.processes import BenchError


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with a quorumd of its own, found by processes only if they are told to look there."""
    for variable in ("PYTHONPATH", "PYTHONSAFEPATH"):
        monkeypatch.setenv(variable, "")
    folder = tmp_path / "quorumd"
    folder.mkdir()
    (folder / "__main__.py").write_text('print("quorumd 9 (compiled)")\n')
    return tmp_path


def test_processes_take_it_from_the_folder_that_was_chosen_also_in_a_checkout(package: Path) -> None:
    assert choose_package(package) == "compiled, as pip install and the image give it"
    reported = subprocess.run([sys.executable, "-m", "quorumd", "--version"], capture_output=True, text=True)
    assert reported.stdout == "quorumd 9 (compiled)\n"


def test_sources_are_told_as_interpreted(package: Path) -> None:
    assert choose_package(Path.cwd()) == "interpreted"


def test_what_was_not_built_is_told(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="make compile"):
        choose_package(tmp_path)
