"""Every scenario in this directory is replayed and compared with its transcript.

A transcript is a claim. After an intended change, `REWRITE_SCENARIOS=1 pytest tests/scenarios` writes the new
ones; read them like code before you commit them. The language is described in `tests.support.scenarios.language`.
"""

from __future__ import annotations

import os
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.support.scenarios.language import replay

DIRECTORY = Path(__file__).parent
FILES = sorted(DIRECTORY.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    written = path.read_text()
    played = replay(path.name, written)
    if os.environ.get("REWRITE_SCENARIOS"):
        path.write_text(played)
    elif played != written:
        lines = unified_diff(written.splitlines(), played.splitlines(), "written", "played", lineterm="")
        pytest.fail("\n".join([path.name, *lines]), pytrace=False)
