from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.registry import CollectorRegistry

from quorumd.runtime.health_probe import problem
from quorumd.runtime.http_endpoint import HttpEndpoint, ProbeResult
from tests.support.processes.ports import free_port


def properties(directory: Path, listener: str) -> Path:
    file = directory / "node.properties"
    file.write_text(
        f"node.id=1\nquorum.voters=1\nlog.dirs={directory}\nlisteners=CONTROLLER://127.0.0.1:9192\n"
        f"metrics.listener={listener}\n"
    )
    return file


@pytest.mark.parametrize("is_ok", [True, False])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_probe_requests_the_configured_port(tmp_path: Path, is_ok: bool, host: str) -> None:
    endpoint = HttpEndpoint(("127.0.0.1", 0))
    try:
        endpoint.start(CollectorRegistry(), lambda: ProbeResult(is_ok, "x"), lambda: ProbeResult(True, "x"))
        found = problem([str(properties(tmp_path, f"{host}:{endpoint.port}"))])
        assert (found is None) == is_ok
    finally:
        endpoint.close()


@pytest.mark.parametrize("listener", ["", "127.0.0.1:{port}"])
def test_node_that_cannot_be_probed_is_not_healthy(tmp_path: Path, listener: str) -> None:
    assert problem([str(properties(tmp_path, listener.format(port=free_port())))]) is not None


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    assert problem([str(tmp_path / "none")]) is not None
    assert problem([]) is not None
