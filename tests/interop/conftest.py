from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.support.processes.daemons import Cluster, Daemon, wait_for
from tests.support.processes.fixtures import running_cluster
from tests.support.processes.kafka_python import kafka_python_tidied
from tests.support.processes.requests import nodes_known

NO_IDLE_RECORDS = "metadata.max.idle.interval.ms=0\n"
"""Nodes write no NoOpRecords, since some tests compare log end offsets."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three daemons that the tests of this directory share; a test that kills one restarts it."""

    def all_known(daemon: Daemon) -> bool:
        with daemon.connect() as wire:
            return nodes_known(wire) == set(started.daemons)

    with running_cluster(tmp_path_factory.mktemp("interop"), extra=NO_IDLE_RECORDS) as started:
        for daemon in started:
            # The node that started first found the other nodes unreachable, and probes them again within a second.
            wait_for(f"node {daemon.node_id} to know all nodes", partial(all_known, daemon))
        yield started


@pytest.fixture(autouse=True)
def _kafka_python() -> Iterator[None]:
    with kafka_python_tidied():
        yield
