"""Runs one command of `quorumd` from its start to its end, and measures it with all of its processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from scripts.bench.processes import BenchError, children_cpu_seconds, resident_mib
from scripts.bench.source_pass import tree

SAMPLE_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one command."""

    wall_s: float
    cpu_s: float
    """CPU seconds of all processes."""
    peak_mib: float
    """The largest sum of the resident memory of all processes."""


def measure(arguments: list[str], cache: Path) -> Cost:
    """Run `quorumd` with these arguments; `cache` is the directory of its archives. Raises BenchError."""
    command = [sys.executable, "-m", "quorumd", *arguments]
    environment = os.environ | {"XDG_CACHE_HOME": str(cache.resolve())}
    began, used = time.monotonic(), children_cpu_seconds()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as child:
        ended = threading.Event()
        peak_mib = [0.0]

        def sample() -> None:
            while not ended.wait(SAMPLE_INTERVAL_S):
                peak_mib.append(sum(map(resident_mib, tree(child.pid))))

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            _, errors = child.communicate()
        finally:
            ended.set()
            sampler.join()
    if child.returncode:
        raise BenchError(f"quorumd {' '.join(arguments)} failed: {' '.join(errors.split())}")
    return Cost(time.monotonic() - began, children_cpu_seconds() - used, max(peak_mib))
