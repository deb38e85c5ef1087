"""The worked examples of the replication description on real brokers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripts.reassignment_example import EXAMPLES

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "reassignment_example.py"


def test_states_are_those_of_the_description() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    for states in EXAMPLES.values():
        assert str(states[1]).split() in lines
    assert done.stdout.count("each is in the log once, in order") == len(EXAMPLES)
