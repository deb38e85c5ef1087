"""`quorumd simulate` as a process with workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import pytest

from tests.support.processes.daemons import PATIENCE_S

BETWEEN_S = 0.1


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """A background job of a shell ignores Ctrl-C, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_ctrl_c_ends_all_processes_even_if_pressed_twice() -> None:
    """A terminal sends SIGINT to every process of the group."""
    command = [
        sys.executable,
        "-m",
        "quorumd",
        "simulate",
        "--seeds",
        "2000",
        "--profile",
        "calm",
        "--jobs",
        "2",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        assert child.stderr is not None
        try:
            # The workers run once a seed is done.
            begun = list(islice(child.stderr, 2))
            os.killpg(child.pid, signal.SIGINT)
            time.sleep(BETWEEN_S)
            os.killpg(child.pid, signal.SIGINT)
            _, errors = child.communicate(timeout=PATIENCE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    assert "of 2000 seeds done" in begun[1]
    assert errors.splitlines()[-1] == "error: interrupted"
    assert child.returncode == 130
