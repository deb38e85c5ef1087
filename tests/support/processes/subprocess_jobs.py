"""Jobs for a subprocess, which imports them by name."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path

from quorumd.errors import CorruptSnapshot
from quorumd.ports import Disk


def write_file(path: str, text: str, disk: Disk) -> tuple[int, str]:
    file = disk.open(path, create=True)
    file.write_at(0, text.encode())
    file.sync()
    file.close()
    return len(text), path


def process_info(disk: Disk) -> tuple[int, int, int]:
    """Return process id, nice value and scheduling policy, -1 where there is none."""
    policy = os.sched_getscheduler(0) if sys.platform == "linux" else -1
    return os.getpid(), os.getpriority(os.PRIO_PROCESS, 0), policy


def compute(seconds: float, disk: Disk) -> tuple[float, float, int]:
    """Compute for `seconds` of processor time; return the processor time and the elapsed time in seconds, and the
    number of pauses."""
    began, computed, paused = time.monotonic(), time.process_time(), _pauses()
    while time.process_time() - computed < seconds:
        pass
    return time.process_time() - computed, time.monotonic() - began, _pauses() - paused


def _pauses() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


def print_output(disk: Disk) -> str:
    print("this must not become part of the result")
    return "said"


def raise_error(disk: Disk) -> None:
    raise CorruptSnapshot("position 7: what a pity")


def kill_process(number: int, disk: Disk) -> None:
    os.kill(os.getpid(), number)


def wait_for_ever(started: str, disk: Disk) -> None:
    Path(started).write_text(str(os.getpid()))
    signal.pause()
