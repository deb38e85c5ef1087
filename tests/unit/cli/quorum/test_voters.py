"""`quorum add-voter` and `remove-voter`: requests and output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quorumd.cli import options
from quorumd.cli.quorum import voters
from quorumd.cli.root import run
from quorumd.ids import Endpoint, KafkaUuid, ReplicaKey
from tests.support.text import shows

SERVER = ("--bootstrap-server", "127.0.0.1:1")
DIRECTORY = KafkaUuid(bytes(range(16)))
VOTER = ReplicaKey(3, DIRECTORY)
NAMED = ("--id", "3", "--directory-id", str(DIRECTORY))
ENDPOINT = ("--endpoint", "controller://[::1]:9195")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    made: list[tuple[Any, ...]] = []
    admin = SimpleNamespace(
        add_voter=lambda *requests: made.append(("add", *requests)),
        remove_voter=lambda *requests: made.append(("remove", *requests)),
    )

    def send(servers: object, question: Callable[[Any], Any]) -> None:
        question(admin)
        made.append((options.timeout_s() * 1000,))

    monkeypatch.setattr(voters, "run_admin", send)
    return made


def test_add_voter_sends_request(calls: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quorum", "add-voter", *SERVER, *NAMED, *ENDPOINT, "--timeout", "7"]) == 0
    assert calls == [("add", VOTER, [Endpoint("CONTROLLER", "::1", 9195)]), (7000,)]
    out, err = capsys.readouterr()
    assert shows(out, "Added voter 3", DIRECTORY, "CONTROLLER://[::1]:9195\n")
    assert err == ""


def test_remove_voter_sends_request(calls: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quorum", "remove-voter", *SERVER, *NAMED]) == 0
    assert calls == [("remove", VOTER), (30_000,)]
    out, err = capsys.readouterr()
    assert shows(out, "Removed voter 3", f"{DIRECTORY}\n")
    assert err == ""


def test_json(calls: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quorum", "add-voter", *SERVER, *NAMED, *ENDPOINT, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "voterId": 3,
        "directoryId": str(DIRECTORY),
        "endpoints": ["CONTROLLER://[::1]:9195"],
    }
    assert run(["quorum", "remove-voter", *SERVER, *NAMED, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"voterId": 3, "directoryId": str(DIRECTORY)}


@pytest.fixture
def node_config(tmp_path: Path) -> Path:
    file = tmp_path / "node.properties"
    file.write_text(
        "node.id=3\nlisteners=CONTROLLER://127.0.0.1:9195\nbootstrap.servers=127.0.0.1:9192\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    return file


def test_add_voter_reads_properties_file(
    calls: list[tuple[Any, ...]], node_config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["format", "--config", str(node_config)]) == 0
    capsys.readouterr()
    assert run(["quorum", "add-voter", *SERVER, "--config", str(node_config)]) == 0
    ((_, voter, endpoints), _) = calls
    assert voter.id == 3
    assert endpoints == [Endpoint("CONTROLLER", "127.0.0.1", 9195)]
    meta = (node_config.parent / "data" / "meta.properties").read_text()
    assert f"directory.id={voter.directory_id}\n" in meta


def test_unformatted_directory_has_no_directory_id(
    calls: list[tuple[Any, ...]], node_config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["quorum", "add-voter", *SERVER, "--config", str(node_config)]) == 3
    assert shows(capsys.readouterr().err, "not formatted", f"quorumd format --config {node_config}")
    assert calls == []


def test_directory_of_other_node_is_rejected(
    calls: list[tuple[Any, ...]], node_config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["format", "--config", str(node_config)])
    node_config.write_text(node_config.read_text().replace("node.id=3", "node.id=4"))
    assert run(["quorum", "add-voter", *SERVER, "--config", str(node_config)]) == 3
    assert shows(capsys.readouterr().err, "node 3", "node 4")
    assert calls == []


def test_port_0_is_rejected(
    calls: list[tuple[Any, ...]], node_config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node_config.write_text(node_config.read_text().replace(":9195", ":0"))
    assert run(["quorum", "add-voter", *SERVER, "--config", str(node_config)]) == 2
    assert "the listener's port is 0" in capsys.readouterr().err
    assert calls == []


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ([], "use --config, or all of"),
        ([*NAMED], "use --config, or all of"),
        (["--config", "x", "--id", "3"], "--config cannot be combined"),
        ([*NAMED, "--endpoint", "127.0.0.1:9195"], "expected NAME://host:port"),
        ([*NAMED, "--endpoint", "C://127.0.0.1:0"], "with a port from 1 to 65535"),
        ([*NAMED, "--endpoint", "C://:9195"], "wildcard"),
        ([*NAMED, "--endpoint", ""], "NAME://host:port"),
        (["--id", "3", "--directory-id", "x", *ENDPOINT], "not a Kafka Uuid"),
        (["--id", "-1", "--directory-id", str(DIRECTORY), *ENDPOINT], "-1"),
    ],
)
def test_incomplete_voter_is_rejected_before_any_request(
    calls: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str], arguments: list[str], wrong: str
) -> None:
    assert run(["quorum", "add-voter", *SERVER, *arguments]) == 2
    assert wrong in capsys.readouterr().err
    assert calls == []
