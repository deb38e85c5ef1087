from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemons import Cluster
from tests.support.fixtures import running_cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three daemons of this test's own."""
    with running_cluster(tmp_path) as started:
        yield started


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Cluster]:
    """One daemon of this test's own, a quorum of itself."""
    with running_cluster(tmp_path, size=1) as started:
        yield started
