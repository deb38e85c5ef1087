"""The output of `quorumd format`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from quorumd.cli.root import run
from quorumd.controller.bootstrap_metadata import feature_levels_from
from quorumd.log.directory_lock import lock_directory
from quorumd.node.state.bootstrap_records import load_new_cluster
from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from quorumd.protocol.wire import Message
from quorumd.runtime.disk import OsDisk
from tests.support.text import shows


def test_format_rejects_directory_of_running_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, data = tmp_path / "node.properties", tmp_path / "data"
    config.write_text(f"node.id=1\nlog.dirs={data}\nlisteners=PLAINTEXT://127.0.0.1:9192\nquorum.voters=1\n")
    data.mkdir()
    disk = OsDisk(lambda callback: None)
    held = lock_directory(disk, str(data))
    try:
        assert run(["format", "--config", str(config)]) == 3
        output = capsys.readouterr().err
        assert shows(output, f"{data} is in use", f"pid {os.getpid()}", f"{data}/.lock")
        assert sorted(path.name for path in data.iterdir()) == [".lock"]
    finally:
        held.close()
        disk.close()
    assert run(["format", "--config", str(config)]) == 0


def test_format_prints_result_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "node.properties"
    config.write_text(
        f"node.id=1\nlog.dirs={tmp_path}/data\nlisteners=PLAINTEXT://127.0.0.1:9192\nquorum.voters=1\n"
    )
    rows = []
    for _ in range(2):
        assert run(["format", "--config", str(config), "--output", "json"]) == 0
        rows.append(json.loads(capsys.readouterr().out))
    first, second = rows
    assert len(first.pop("directoryId")) == 22
    assert first == {
        "directory": str(tmp_path / "data"),
        "outcome": "formatted",
        "nodeId": 1,
        "clusterId": None,
    }
    assert second["outcome"] == "already formatted"
    assert run(["format", "--config", str(config)]) == 0
    output = capsys.readouterr().out
    assert shows(output, f"{tmp_path}/data", "already formatted", "node.id 1", second["directoryId"])


def formatted(tmp_path: Path, *arguments: str) -> tuple[int, list[Message]]:
    """The exit code, and the initial records of a new cluster."""
    config = tmp_path / "node.properties"
    config.write_text(
        f"node.id=1\nlog.dirs={tmp_path}/data\nlisteners=PLAINTEXT://127.0.0.1:9192\nquorum.voters=1\n"
    )
    code = run(["format", "--config", str(config), *arguments])
    disk = OsDisk(lambda callback: None)
    try:
        return code, load_new_cluster(
            disk, f"{tmp_path}/data", log_is_empty=True
        ).records if code == 0 else []
    finally:
        disk.close()


def test_format_determines_initial_features(tmp_path: Path) -> None:
    user = "SCRAM-SHA-256=[name=alice,password=alice-secret]"
    levels = ("--release-version", "4.1", "--feature", "share.version=1")
    code, records = formatted(tmp_path, *levels, "--add-scram", user)
    assert code == 0
    assert feature_levels_from(records) == {
        "metadata.version": 27,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "transaction.version": 2,
    }
    assert isinstance(records[-1], UserScramCredentialRecord)
    again = formatted(tmp_path, "--release-version", "4.0")
    assert again == (0, records), "a directory that is formatted stays as it is"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--release-version", "4.1", "--feature", "metadata.version=25"], "cannot be combined"),
        (["--feature", "share.version=3"], "share.version 3 is not supported"),
        (["--feature", "group.version=1", "--feature", "group.version=0"], "lists a feature twice"),
        (["--add-scram", "SCRAM-SHA-256=[name=alice,secret]"], "'secret' has no '='"),
    ],
)
def test_impossible_initial_features_are_rejected(
    tmp_path: Path, arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert formatted(tmp_path, *arguments)[0] == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
