from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.daemons import Cluster
from tests.support.processes.fixtures import running_cluster, without_traceback
from tests.support.processes.kafka_python import kafka_python_tidied


@pytest.fixture(scope="module")
def properties(request: pytest.FixtureRequest) -> str:
    """The test module's PROPERTIES, if it has any: lines for the properties files of its nodes."""
    return str(getattr(request.module, "PROPERTIES", ""))


@pytest.fixture(scope="module")
def _cluster_of_module(tmp_path_factory: pytest.TempPathFactory, properties: str) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), extra=properties) as started:
        yield started


@pytest.fixture
def cluster(_cluster_of_module: Cluster) -> Iterator[Cluster]:
    """Three daemons, running and caught up, which the tests of a module share because starting them is slow."""
    _cluster_of_module.heal()
    with without_traceback(_cluster_of_module):
        yield _cluster_of_module


@pytest.fixture
def own_cluster(tmp_path: Path, properties: str) -> Iterator[Cluster]:
    """Three daemons for a test that leaves them unusable."""
    with running_cluster(tmp_path, extra=properties) as started:
        yield started


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Cluster]:
    """One daemon for this test, a quorum of one voter."""
    with running_cluster(tmp_path, size=1) as started:
        yield started


@pytest.fixture(autouse=True)
def _kafka_python() -> Iterator[None]:
    with kafka_python_tidied():
        yield
