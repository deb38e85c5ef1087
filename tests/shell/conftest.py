from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.daemons import Cluster
from tests.support.processes.fixtures import running_cluster, without_traceback


@pytest.fixture(scope="module")
def properties(request: pytest.FixtureRequest) -> str:
    """What a file says in PROPERTIES, if it does: lines for the nodes that its tests share, or have of their own."""
    return str(getattr(request.module, "PROPERTIES", ""))


@pytest.fixture(scope="module")
def _cluster_of_module(tmp_path_factory: pytest.TempPathFactory, properties: str) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), extra=properties) as started:
        yield started


@pytest.fixture
def cluster(_cluster_of_module: Cluster) -> Iterator[Cluster]:
    """Three daemons, all running and level, which the tests of a file share: starting them is what costs."""
    _cluster_of_module.heal()
    with without_traceback(_cluster_of_module):
        yield _cluster_of_module


@pytest.fixture
def own_cluster(tmp_path: Path, properties: str) -> Iterator[Cluster]:
    """Three daemons for a test that leaves them in ruins."""
    with running_cluster(tmp_path, extra=properties) as started:
        yield started


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Cluster]:
    """One daemon of this test's own, a quorum of itself."""
    with running_cluster(tmp_path, size=1) as started:
        yield started
