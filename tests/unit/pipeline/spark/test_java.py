from __future__ import annotations

from pathlib import Path

import pytest

from quorumd.errors import JobFailed
from quorumd.pipeline.spark.java import feature_version, find_java, read_java, why_no_spark
from tests.support.text import shows


def installed(home: Path, version: str | None) -> Path:
    """A directory that looks like a Java; without a version it has no `release` file, and its java prints nothing."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (home / "bin" / "java").chmod(0o755)
    if version is not None:
        (home / "release").write_text(f'IMPLEMENTOR="Nobody"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.mark.parametrize(
    ("version", "feature"), [("17.0.15", 17), ("1.8.0_452", 8), ("21", 21), ("22-ea", 22), ("11.0.2", 11)]
)
def test_feature_version_is_parsed(version: str, feature: int) -> None:
    assert feature_version(version) == feature


def test_java_home_precedes_path(tmp_path: Path) -> None:
    home, other = installed(tmp_path / "a", "21.0.1"), installed(tmp_path / "b", "17.0.15")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, ())
    assert (found.home, found.feature, found.version) == (str(home), 21, "21.0.1")


def test_system_java_is_used_if_path_has_old_one(tmp_path: Path) -> None:
    old = installed(tmp_path / "old", "11.0.2")
    newest, right = installed(tmp_path / "jvm" / "a", "25.0.1"), installed(tmp_path / "jvm" / "z", "17.0.15")
    found = find_java({"PATH": str(old / "bin")}, (str(tmp_path / "jvm"),))
    assert found.home == str(right) != str(newest)


def test_link_on_path_is_resolved(tmp_path: Path) -> None:
    home = installed(tmp_path / "java", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}, ()).home == str(home)


def test_java_has_one_path_for_all_names(tmp_path: Path) -> None:
    """A session selects the class-data archive of this Java by its home."""
    home = installed(tmp_path / "jvm" / "java-17", "17.0.15")
    alias = tmp_path / "jvm" / "a-name-of-it"
    alias.symlink_to(home)
    system = (str(tmp_path / "jvm"),)
    by_path, by_system = find_java({"PATH": str(home / "bin")}, system), find_java({"PATH": ""}, system)
    assert find_java({"JAVA_HOME": str(alias)}, ()) == by_system == by_path


def test_java_without_release_file_is_run_for_version(tmp_path: Path) -> None:
    home = installed(tmp_path / "java", None)
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"18.0.2\" 2022' >&2\n")
    found = read_java(str(home))
    assert found is not None
    assert found.feature == 18


def test_java_with_invalid_version_is_ignored(tmp_path: Path) -> None:
    assert read_java(str(installed(tmp_path / "java", "internal"))) is None


def test_missing_java_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(JobFailed) as raised:
        find_java({"PATH": str(tmp_path)}, ())
    assert shows(str(raised.value), "no Java", "Java 17", "openjdk-17-jre-headless", "JAVA_HOME")
    assert "\n" not in str(raised.value)


def test_old_java_is_reported_in_one_line(tmp_path: Path) -> None:
    old = installed(tmp_path, "11.0.2")
    with pytest.raises(JobFailed, match=r"Java 11\.0\.2 .*Java 17"):
        find_java({"JAVA_HOME": str(old), "PATH": ""}, ())


def test_directory_without_java_is_skipped(tmp_path: Path) -> None:
    silent = installed(tmp_path / "silent", None)
    right = installed(tmp_path / "right", "17.0.1")
    found = find_java({"PATH": f"{silent / 'bin'}"}, (str(tmp_path),))
    assert found.home == str(right)


@pytest.mark.parametrize("name", ["missing", "silent"])
def test_wrong_java_home_is_named(tmp_path: Path, name: str) -> None:
    """Spark would fail with it, or another Java than the chosen one would run."""
    installed(tmp_path / "silent", None)
    right = installed(tmp_path / "right", "17.0.1")
    with pytest.raises(JobFailed) as raised:
        find_java({"JAVA_HOME": str(tmp_path / name), "PATH": str(right / "bin")}, ())
    assert shows(str(raised.value), f"JAVA_HOME={tmp_path / name} ")


def test_missing_spark_requirement_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorumd.pipeline.spark.java.SYSTEM_DIRECTORIES", ())
    assert str(why_no_spark({"PATH": ""})).startswith("no Java found: ")
    assert why_no_spark({"JAVA_HOME": str(installed(tmp_path, "17.0.15"))}) is None
