"""`quorumd controllers`: output and requests."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from quorumd.cli import controllers as module
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterBroker
from tests.support.client.fake_admin import SERVER


class Admin:
    """Node 1 leads, 2 is a voter, 3 an observer, 9 is absent."""

    def __init__(self) -> None:
        self.unregistered: list[int] = []

    async def describe_cluster(self, node: str) -> Any:
        assert node == "leader"
        hosts = {9: "::1", 3: "c", 2: "b", 1: "a"}
        return SimpleNamespace(brokers=[DescribeClusterBroker(n, host, 9093) for n, host in hosts.items()])

    async def describe_quorum(self) -> Any:
        voters = [SimpleNamespace(replica_id=number) for number in (1, 2)]
        return SimpleNamespace(leader_id=1, current_voters=voters, observers=[SimpleNamespace(replica_id=3)])

    async def unregister_controller(self, controller_id: int) -> None:
        if controller_id != 9:
            raise RequestFailed("not registered", ErrorCode.CONTROLLER_ID_NOT_REGISTERED)
        self.unregistered.append(controller_id)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    made = Admin()
    monkeypatch.setattr(module, "run_admin", lambda servers, work: asyncio.run(work(made)))
    return made


def run(*arguments: str) -> str:
    result = CliRunner().invoke(module.controllers, [*arguments, *SERVER], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.usefixtures("admin")
def test_list_shows_voters_observers_and_absent_controllers() -> None:
    lines = [line.split() for line in run("list").splitlines()]
    assert lines[0] == ["Id", "State", "Address"]
    assert lines[1:] == [
        ["1", "leader", "a:9093"],
        ["2", "voter", "b:9093"],
        ["3", "observer", "c:9093"],
        ["9", "absent", "[::1]:9093"],
    ]
    assert json.loads(run("list", "--output", "json"))[3] == {
        "id": 9,
        "state": "absent",
        "address": "[::1]:9093",
    }


def test_unregister_reports_committed_change(admin: Admin) -> None:
    assert run("unregister", "9") == "unregistered: controller 9\n"
    assert json.loads(run("unregister", "9", "--output", "json")) == {"id": 9, "registered": False}
    assert admin.unregistered == [9, 9]
    with pytest.raises(RequestFailed, match="not registered"):
        run("unregister", "8")
