"""`make compile` builds again what was edited since the last build began."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.documentation import ROOT

BUILD = """#!/bin/sh
case "$*" in *pip*)
    test -e edits || exit 0
    # Until the clock of the file system has advanced.
    for _ in $(seq 1000); do
        touch quorumd/edited.py
        test quorumd/edited.py -nt build/compiled/.ready.began && exit 0
    done
esac
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout whose build only edits a source, if `edits` exists."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for path in ("pyproject.toml", "scripts/setup_venv.sh", "scripts/build_backend.py", "quorumd/edited.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
        os.utime(tmp_path / path, (0, 0))
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(BUILD)
    python.chmod(0o755)
    (tmp_path / ".venv/.ready").touch()
    os.utime(tmp_path / ".venv/.ready", (1, 1))
    return tmp_path


def make(tree: Path, *options: str) -> int:
    return subprocess.run(["make", *options, "compile"], cwd=tree, capture_output=True).returncode


def test_build_is_current_until_a_source_is_edited(tree: Path) -> None:
    assert make(tree, "--question") == 1
    assert make(tree) == 0
    assert make(tree, "--question") == 0
    later = (tree / "build/compiled/.ready").stat().st_mtime + 1
    os.utime(tree / "quorumd/edited.py", (later, later))
    assert make(tree, "--question") == 1


def test_build_during_which_a_source_is_edited_is_not_current(tree: Path) -> None:
    (tree / "edits").touch()
    assert make(tree) == 0
    assert make(tree, "--question") == 1
