"""Clusters of daemons for the duration of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes.daemons import Cluster


@contextmanager
def running_cluster(
    directory: Path, size: int = 3, extra: str = "", release: str | None = None
) -> Iterator[Cluster]:
    """Run a cluster in a new directory, and stop it at the end."""
    cluster = Cluster(directory, size, extra, release)
    try:
        cluster.start()
        with without_traceback(cluster):
            yield cluster
    finally:
        cluster.stop()


@contextmanager
def without_traceback(cluster: Cluster) -> Iterator[None]:
    """Fail if a daemon has printed a traceback by the end."""
    yield
    for daemon in cluster:
        assert "Traceback" not in daemon.log_text(), daemon.log_text()[-3000:]
