from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.daemons import Cluster
from tests.support.fixtures import running_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three daemons that the tests of this folder share; a test that kills one starts it again."""
    with running_cluster(tmp_path_factory.mktemp("interop")) as started:
        yield started
