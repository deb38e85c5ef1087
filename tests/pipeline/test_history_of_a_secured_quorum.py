"""A history of a live quorum whose only listeners are SASL_SSL, built with --command-config."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.daemons import run_quorumd
from tests.support.processes.secured import SecureExample


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureExample]:
    cluster = SecureExample(tmp_path_factory.mktemp("secure"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def test_history_is_built_over_tls_with_a_login(cluster: SecureExample, tmp_path: Path) -> None:
    cluster.quorumd("quotas", "set", "producer_byte_rate=1", "--user", "alice")
    directory = tmp_path / "history"
    build = ("pipeline", "history", "build", "--to", str(directory), "--no-progress", "--output", "json")
    (summary,) = json.loads(cluster.quorumd(*build))
    assert summary["records"] > 0
    assert list(directory.iterdir())


def test_history_is_not_built_without_a_login(cluster: SecureExample, tmp_path: Path) -> None:
    command = ("pipeline", "history", "build", "--to", str(tmp_path / "history"), "--no-progress")
    refused = run_quorumd(*command, "--bootstrap-server", cluster.bootstrap, "--timeout", "2s")
    assert refused.returncode != 0
