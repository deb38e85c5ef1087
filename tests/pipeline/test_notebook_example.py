"""The cells of the documented notebook run one after the other, in a Python that nothing prepared for Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from quorumd.pipeline.spark.java import find_java
from tests.support.history.logs import history, write_segment

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"
DIRECTORIES = "1=/srv/n1,2=/srv/n2,3=/srv/n3"


def test_cells_of_notebook_run(tmp_path: Path) -> None:
    cells = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S))
    assert DIRECTORIES in cells
    log, _ = history(11, 40)
    copies = [f"{node}={write_segment(tmp_path / str(node), log)}" for node in (1, 2, 3)]
    environment = {name: value for name, value in os.environ.items() if name in ("HOME", "PATH")}
    # The Python first in the path is not the one with quorumd.
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    places = {
        "PATH": f"{other.parent}:{environment['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        [sys.executable, "-c", cells.replace(DIRECTORIES, ",".join(copies))],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment | places | {"JAVA_HOME": find_java(os.environ).home, "SPARK_LOCAL_IP": "127.0.0.1"},
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"\|\s*(\w+Record)\|\s*(\d+)\|", done.stdout)
    assert rows
    assert all(int(count) <= len(log) for _, count in rows)
