"""`config check`: one line per problem as text, one document as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quorumd.cli.root import run

GOOD = "node.id=1\nlog.dirs=/data\nlisteners=PLAINTEXT://127.0.0.1:9192\nquorum.voters=1\nnum.io.threads=8\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "node.properties"
    path.write_text(GOOD)
    return path


def test_check_accepts_valid_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warning = f"{file}:5: num.io.threads has no effect here"
    assert run(["config", "check", "--config", str(file)]) == 0
    assert capsys.readouterr() == (f"{file}: node 1, no problems\n", f"warning: {warning}\n")
    assert run(["config", "check", "--config", str(file), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "file": str(file),
        "nodeId": 1,
        "errors": [],
        "warnings": [warning],
    }


def test_check_reports_invalid_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GOOD + "log.level=LOUD\n")
    reported = f"{file}:6: log.level=LOUD: not one of the choices; allowed: DEBUG, INFO, WARNING, ERROR"
    assert run(["config", "check", "--config", str(file)]) == 2
    assert capsys.readouterr() == ("", f"error: {reported}\n")
    assert run(["config", "check", "--config", str(file), "--output", "json"]) == 2
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out)["errors"] == [reported]
