"""The bare disk: the cost of one durable append without any protocol."""

from __future__ import annotations

import os
import time
from pathlib import Path

from scripts.bench.summary import Latency

APPEND_BYTES = 250
"""Approximate size of a 200-byte write in a log."""


def measure_appends(directory: Path, seconds: float) -> Latency:
    """Repeat appends of APPEND_BYTES with fdatasync into preallocated blocks."""
    path = directory / "fdatasync.probe"
    data = bytes(range(APPEND_BYTES))
    took_ms: list[float] = []
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
    try:
        os.posix_fallocate(descriptor, 0, 64 * 1024 * 1024)
        os.fsync(descriptor)
        deadline = time.perf_counter() + seconds
        position = 0
        while (begin := time.perf_counter()) < deadline:
            os.pwrite(descriptor, data, position)
            os.fdatasync(descriptor)
            took_ms.append((time.perf_counter() - begin) * 1000)
            position = (position + APPEND_BYTES) % (63 * 1024 * 1024)
    finally:
        os.close(descriptor)
        path.unlink()
    return Latency.of(took_ms)
