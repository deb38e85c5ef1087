"""Shared options of `quorumd pipeline`, its exit codes, and errors if Spark cannot run."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from quorumd.cli import root
from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.options import SparkOptions
from tests.support.text import shows


def parsed(arguments: list[str]) -> SparkOptions:
    @click.command()
    @pipeline_options.spark
    def command(spark: SparkOptions) -> SparkOptions:
        return spark

    found = command.main(arguments, standalone_mode=False)
    assert isinstance(found, SparkOptions)
    return found


def test_spark_runs_locally_by_default() -> None:
    assert parsed([]) == SparkOptions("local[*]", {}, None, True)


def test_spark_options_are_passed_to_session() -> None:
    arguments = [
        "--master",
        "spark://h:7077",
        "--conf",
        "spark.a=1=2",
        "--conf",
        "spark.b=",
        "--spark-log",
        "f",
    ]
    found = parsed([*arguments, "--no-progress"])
    assert found == SparkOptions("spark://h:7077", {"spark.a": "1=2", "spark.b": ""}, Path("f"), False)


def test_setting_must_be_spark_property() -> None:
    with pytest.raises(click.BadParameter, match=r"'driver\.memory=1g'"):
        parsed(["--conf", "driver.memory=1g"])


def test_help_names_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert root.run(["pipeline", "--help"]) == 0
    reported = " ".join(capsys.readouterr().out.split())
    assert shows(reported, "1 for findings", "7 for a failed job", "8 for incomplete input")


def test_old_java_exits_with_code_7(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("")
    (tmp_path / "bin" / "java").chmod(0o755)
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("quorumd.pipeline.spark.java.SYSTEM_DIRECTORIES", ())
    assert root.run(["pipeline", "warm"]) == 7
    reported = capsys.readouterr().err
    assert shows(
        reported, "error: Java 11.0.1", tmp_path, "too old", "Java 17", "openjdk-17-jre-headless", "JAVA_HOME"
    )
    assert reported.count("\n") == 1


def test_missing_package_exits_with_code_7(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "quorumd.pipeline.spark.java.find_spec", lambda name: None if name == "pandas" else name
    )
    assert root.run(["pipeline", "warm"]) == 7
    assert shows(capsys.readouterr().err, "error: ", "pandas", "pip install 'quorumd[pipeline]'\n")
