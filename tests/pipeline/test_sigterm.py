"""SIGTERM, sent while the first records are written, ends a build with one line and leaves a whole history."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quorumd.errors import ExitCode
from quorumd.pipeline.history.history import open_history
from tests.support.history.logs import history, write_segment

BUILD = """
import os, signal, sys
from quorumd.cli.root import run
from quorumd.pipeline.history import writer
published = writer.write_manifest
def publish_and_terminate(directory, manifest):
    published(directory, manifest)
    (os.killpg if sys.argv[1] == "group" else os.kill)(os.getpid(), signal.SIGTERM)
writer.write_manifest = publish_and_terminate
sys.exit(run(["pipeline", "history", "build", "--no-progress", "--output", "csv", *sys.argv[2:]]))
"""


@pytest.mark.parametrize(
    ("receiver", "option", "code", "errors"),
    [
        # A service manager sends it to Java and the Python workers as well.
        ("group", "--once", ExitCode.TERMINATED, "error: terminated\n"),
        ("process", "--follow", ExitCode.DONE, ""),
    ],
)
def test_sigterm_ends_build(receiver: str, option: str, code: int, errors: str, tmp_path: Path) -> None:
    log, _ = history(11, 300)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    source = write_segment(tmp_path / "log", log)
    arguments = (receiver, "--from", f"1={source}", "--to", str(tmp_path / "history"), option)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(scratch), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=900,
        start_new_session=True,
    )
    assert (done.returncode, done.stderr) == (code, errors)
    assert done.stdout.startswith("records,") == (code == ExitCode.DONE)
    found = open_history(tmp_path / "history")
    assert sorted(found.read("events", ["offset"])["offset"].to_pylist()) == [each.offset for each in log]
    assert (
        sorted(path.name for path in found.directory.iterdir() if path.name in ("staging", "checkpoint"))
        == []
    )
    assert list(scratch.glob("quorumd-spark-*")) == []
