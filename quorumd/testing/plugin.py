"""The pytest plugin: fixtures that are available wherever quorumd is installed, through its entry point."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quorumd.testing.cluster import KafkaCluster


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the size of the shared cluster."""
    group = parser.getgroup("quorumd")
    group.addoption(
        "--quorumd-nodes", type=int, default=1, help="Run the shared Kafka cluster with this many nodes."
    )


@pytest.fixture(scope="session")
def quorumd_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A running Kafka cluster that all tests share, started on first use."""
    with KafkaCluster(request.config.getoption("--quorumd-nodes")) as cluster:
        yield cluster


@pytest.fixture
def quorumd_bootstrap_servers(quorumd_cluster: KafkaCluster) -> str:
    """The addresses of the shared cluster for clients, `host:port,...`."""
    return quorumd_cluster.bootstrap_servers
