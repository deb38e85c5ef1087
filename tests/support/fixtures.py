"""What the tests with real processes share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.daemons import Cluster


@contextmanager
def running_cluster(folder: Path, size: int = 3, extra: str = "") -> Iterator[Cluster]:
    """A running cluster in a new folder, stopped at the end; none of its daemons may have printed a traceback."""
    cluster = Cluster(folder, size, extra)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
    for daemon in cluster:
        assert "Traceback" not in daemon.said(), daemon.said()[-3000:]
