"""`quorumd features`: output and requests."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from quorumd.cli import features
from quorumd.cli.root import run
from quorumd.client.admin import Features
from quorumd.controller.metadata_versions import default_levels
from tests.support.client.fake_admin import SERVER, FakeAdmin
from tests.support.text import cells, shows


class Admin(FakeAdmin):
    async def describe_features(self) -> Features:
        supported = {"metadata.version": (21, 33), "share.version": (0, 2)}
        return Features(supported, {"metadata.version": 27}, 17)

    async def update_features(
        self, levels: Mapping[str, int], upgrade_type: int, *, validate_only: bool = False
    ) -> None:
        self.record_call("update", dict(levels), upgrade_type, validate_only)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    made = Admin()
    monkeypatch.setattr(features, "run_admin", made.run)
    return made


def test_every_supported_feature_is_shown(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["features", "describe", *SERVER]) == 0
    assert cells(capsys.readouterr().out) == [
        ["Feature", "Finalized", "Supported", "Name"],
        ["metadata.version", "27", "21", "to", "33", "4.1-IV1"],
        ["share.version", "0", "0", "to", "2", "-"],
    ]
    assert run(["features", "describe", *SERVER, "--output", "json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert reported["epoch"] == 17
    assert reported["features"][0] == {
        "feature": "metadata.version",
        "finalized": 27,
        "lowest": 21,
        "highest": 33,
        "name": "4.1-IV1",
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["upgrade", "--release-version", "4.2"], (default_levels(29), 1, False)),
        (["upgrade", "--feature", "a=1", "--feature", "b=0"], ({"a": 1, "b": 0}, 1, False)),
        (["upgrade", "--feature", "a=1", "--dry-run"], ({"a": 1}, 1, True)),
        (["downgrade", "--feature", "a=1"], ({"a": 1}, 2, False)),
        (["downgrade", "--feature", "a=1", "--unsafe"], ({"a": 1}, 3, False)),
    ],
)
def test_feature_requests_are_sent(admin: Admin, arguments: list[str], expected: tuple[object, ...]) -> None:
    assert run(["features", *arguments, *SERVER]) == 0
    assert admin.calls == [("update", *expected)]


def test_feature_changes_are_reported(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    both = ["--feature", "metadata.version=27", "--feature", "share.version=1"]
    assert run(["features", "upgrade", *both, *SERVER]) == 0
    assert shows(capsys.readouterr().out, "committed", "share.version 0 -> 1\n")
    assert run(["features", "upgrade", *both, "--dry-run", *SERVER]) == 0
    assert shows(capsys.readouterr().out, "possible", "share.version 0 -> 1\n")
    assert run(["features", "upgrade", "--feature", "metadata.version=27", *SERVER]) == 0
    assert "nothing to change" in capsys.readouterr().out
    assert run(["features", "upgrade", *both, *SERVER, "--output", "json"]) == 0
    changes = [{"feature": "share.version", "before": 0, "after": 1}]
    assert json.loads(capsys.readouterr().out) == {"dryRun": False, "changes": changes}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "are both missing"),
        (["--feature", "a=1", "--release-version", "4.1"], "cannot be combined"),
        (["--feature", "a=1", "--feature", "a=2"], "lists a feature twice"),
        (["--feature", "a"], "is not NAME=LEVEL"),
        (["--feature", "a=-1"], "is not NAME=LEVEL"),
        (["--release-version", "5.0"], "'5.0'"),
    ],
)
def test_contradictory_feature_options_are_rejected(
    admin: Admin, arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["features", "upgrade", *arguments, *SERVER]) == 2
    assert reason in capsys.readouterr().err
    assert admin.calls == []
