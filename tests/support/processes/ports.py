"""Loopback ports for the processes that tests start; no two test processes of this machine are given the same one."""

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
"""Below the ports of benchmarks, whose short forms run beside other tests. A block has room for the four ranges of
ports of `quorumd cluster up`."""
CLUSTER_RANGES = (0, METRICS_PORT_OFFSET, CLIENT_PORT_OFFSET, REPLICATION_PORT_OFFSET)
"""Offsets of the ports of `quorumd cluster up` from its base port: peers, metrics, clients, replication."""


@cache
def _block() -> int:
    """First port of a block that this process has locked until it ends."""
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
    """Positions in the block, round and round: a port is given again as late as possible."""

    def turns() -> Iterator[int]:
        while True:
            yield from range(BLOCK)

    return turns()


def free_port() -> int:
    """A port without a listener."""
    return next(port for port in _candidates() if is_free(port))


def free_base_port(nodes: int = 1) -> int:
    """A base port for `quorumd cluster up` with this many nodes: no port of the cluster has a listener."""
    last = _block() + BLOCK - CLUSTER_RANGES[-1] - nodes
    used = [offset + node for offset in CLUSTER_RANGES for node in range(nodes)]
    return next(
        base for base in _candidates() if base <= last and all(is_free(base + offset) for offset in used)
    )


def _candidates() -> Iterator[int]:
    for _ in range(BLOCK):
        yield _block() + next(_turns())
    raise AssertionError(f"all ports from {_block()} to {_block() + BLOCK - 1} are in use")
