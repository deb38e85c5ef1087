"""Every acknowledged record is at its offset while three nodes are killed, reassigned and restarted.

`python -m tests.interop.clients` does this for minutes, also with kcat.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.interop.clients.written import Place, Written, violations


def test_clients_across_disturbances() -> None:
    """The clients run in a separate process, since they leave sockets open when nodes are killed."""
    once = [word for kind in ("kill", "reassign", "restart") for word in ("--once", kind)]
    clients = [word for name in ("librdkafka", "kafka-python", "aiokafka") for word in ("--client", name)]
    command = [sys.executable, "-m", "tests.interop.clients", *once, *clients]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


FIRST, SECOND = b"writer:0", b"writer:1"
LOG = {Place(0, 0): FIRST, Place(0, 1): SECOND}


@pytest.mark.parametrize(
    ("written", "log"),
    [
        (Written("writer", True, {FIRST: Place(0, 0), b"writer:2": Place(0, 2)}), LOG),
        (Written("writer", True, {FIRST: Place(0, 1)}), LOG),
        (Written("writer", True, {b"writer:2": None}), LOG),
        (Written("writer", True), LOG | {Place(0, 2): SECOND}),
        (Written("writer", True), {Place(0, 0): SECOND, Place(0, 1): FIRST}),
        (Written("writer", False, aborted={SECOND}), LOG),
        (Written("writer", False, unknown=[{SECOND, b"writer:2"}]), LOG),
    ],
    ids=["lost", "misplaced", "lost-without-offset", "twice", "reordered", "aborted", "torn-transaction"],
)
def test_checker_finds(written: Written, log: dict[Place, bytes]) -> None:
    assert len(violations([written], log)) == 1


def test_checker_accepts_what_is_in_order() -> None:
    written = Written("writer", True, {FIRST: Place(0, 0), SECOND: None}, {b"writer:2"}, [{b"writer:3"}])
    assert violations([written], LOG) == []
