"""Loopback ports for the processes that tests start. Test processes on the same machine never share a port."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from quorumd.cli.local_cluster import (
    CLIENT_PORT_OFFSET,
    METRICS_PORT_OFFSET,
    REPLICATION_PORT_OFFSET,
    is_free,
)

FIRST_PORT, BLOCK, BLOCKS = 10_000, 400, 25
"""The ports are below the ports of benchmarks, whose short forms run in parallel with tests. A block fits the four
ranges of ports of `quorumd cluster up`."""
CLUSTER_RANGES = (0, METRICS_PORT_OFFSET, CLIENT_PORT_OFFSET, REPLICATION_PORT_OFFSET)
"""Offsets of the ports of `quorumd cluster up` from its base port: peers, metrics, clients, replication."""


@cache
def _block() -> int:
    """Lock a block of ports until this process ends; return its first port."""
    directory = Path(tempfile.gettempdir(), f"quorumd-test-ports-{os.getuid()}")
    directory.mkdir(mode=0o700, exist_ok=True)
    for number in range(BLOCKS):
        lock = os.open(directory / str(number), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return FIRST_PORT + number * BLOCK
        except BlockingIOError:
            os.close(lock)
    raise AssertionError(f"{BLOCKS} processes have locked all blocks of ports in {directory}")


@cache
def _turns() -> Iterator[int]:
    """Cycle through the positions in the block, so that a port is reused as late as possible."""

    def turns() -> Iterator[int]:
        while True:
            yield from range(BLOCK)

    return turns()


def free_port() -> int:
    """Return a port without a listener."""
    return next(port for port in _candidates() if is_free(port))


def free_base_port(nodes: int = 1) -> int:
    """Return a base port for `quorumd cluster up` with `nodes` nodes, such that no port of the cluster has a
    listener."""
    last = _block() + BLOCK - CLUSTER_RANGES[-1] - nodes
    used = [offset + node for offset in CLUSTER_RANGES for node in range(nodes)]
    return next(
        base for base in _candidates() if base <= last and all(is_free(base + offset) for offset in used)
    )


def _candidates() -> Iterator[int]:
    for _ in range(BLOCK):
        yield _block() + next(_turns())
    raise AssertionError(f"all ports from {_block()} to {_block() + BLOCK - 1} are in use")
