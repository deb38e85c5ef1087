"""`quorumd brokers`: list, describe and unregister."""

from __future__ import annotations

import json

import pytest

from quorumd.cli import brokers
from quorumd.cli.root import run
from quorumd.protocol.messages.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
    Listener,
)
from tests.support.client.fake_admin import SERVER, FakeAdmin
from tests.support.text import cells, shows

LISTENERS = [Listener("PLAINTEXT", "ten", 9092, 0), Listener("SSL", "::1", 9093, 1)]
QUORUM_NODE = DescribeClusterBroker(1, "one", 9192)
RUNNING = DescribeClusterBroker(10, "ten", 9092, "a", False, 510, False, 3, LISTENERS)
STOPPING = DescribeClusterBroker(12, "twelve", 9092, None, False, 512, True, 0, LISTENERS[:1])
FENCED = DescribeClusterBroker(11, "eleven", 9092, None, True, 511)


class Admin(FakeAdmin):
    brokers = (STOPPING, FENCED, QUORUM_NODE, RUNNING)

    async def describe_brokers(self) -> DescribeClusterResponse:
        return DescribeClusterResponse(brokers=list(self.brokers))

    async def unregister_broker(self, broker_id: int) -> None:
        self.record_call("unregister", broker_id)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    made = Admin()
    monkeypatch.setattr(brokers, "run_admin", made.run)
    return made


def test_list_shows_registered_brokers(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["brokers", "list", *SERVER]) == 0
    assert cells(capsys.readouterr().out) == [
        ["Id", "State", "Leads", "Rack", "Epoch", "Listeners"],
        ["10", "running", "3", "a", "510", "PLAINTEXT://ten:9092,SSL://[::1]:9093"],
        ["11", "fenced", "0", "-", "511", "-"],
        ["12", "stopping", "0", "-", "512", "PLAINTEXT://ten:9092"],
    ]
    assert run(["brokers", "list", *SERVER, "--output", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0] == {
        "id": 10,
        "state": "running",
        "leads": 3,
        "rack": "a",
        "epoch": 510,
        "listeners": ["PLAINTEXT://ten:9092", "SSL://[::1]:9093"],
    }


def test_environment_supplies_bootstrap_server(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["brokers", "list"]) == 2
    assert "Missing option '--bootstrap-server'" in capsys.readouterr().err
    monkeypatch.setenv("QUORUMD_BOOTSTRAP_SERVER", "127.0.0.1:1")
    assert run(["brokers", "list"]) == 0


def test_list_reports_no_brokers(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.brokers = (QUORUM_NODE,)
    assert run(["brokers", "list", *SERVER]) == 0
    assert shows(capsys.readouterr().out, "no broker")


def test_describe_shows_one_broker(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["brokers", "describe", "11", *SERVER]) == 0
    assert dict(cells(capsys.readouterr().out)) == {
        "Id:": "11",
        "State:": "fenced",
        "Leads:": "0",
        "Rack:": "-",
        "Epoch:": "511",
        "Listeners:": "-",
    }
    assert run(["brokers", "describe", "12", *SERVER, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "stopping"


@pytest.mark.parametrize("command", ["describe", "unregister"])
def test_unknown_broker_is_reported_with_registered_ones(
    admin: Admin, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run(["brokers", command, "1", *SERVER]) == 1
    assert shows(capsys.readouterr().err, "error: broker 1 is not registered", "10, 11, 12\n")
    assert admin.calls == []


def test_unregister_removes_fenced_broker(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["brokers", "unregister", "11", *SERVER]) == 0
    assert admin.calls == [("unregister", 11)]
    assert shows(capsys.readouterr().out, "unregistered", "broker 11\n")


@pytest.mark.parametrize(("broker", "state"), [("10", "running"), ("12", "stopping")])
def test_unregister_running_broker_requires_force(
    admin: Admin, capsys: pytest.CaptureFixture[str], broker: str, state: str
) -> None:
    assert run(["brokers", "unregister", broker, *SERVER]) == 1
    assert shows(capsys.readouterr().err, f"broker {broker} is {state}", "stop it")
    assert admin.calls == []
    assert run(["brokers", "unregister", broker, *SERVER, "--force", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": int(broker), "registered": False}
