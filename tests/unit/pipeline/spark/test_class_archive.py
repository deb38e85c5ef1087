from __future__ import annotations

import os
from pathlib import Path

from quorumd.pipeline.spark.class_archive import archive_stem, remove_archives, whole_archive
from quorumd.pipeline.spark.java import Java
from quorumd.pipeline.user_cache import cache_directory

JAVA = Java("/opt/java", 17, "17.0.15")


def jars(directory: Path) -> Path:
    directory.mkdir()
    for name in ("a.jar", "b.jar"):
        (directory / name).write_bytes(b"jar")
        os.utime(directory / name, ns=(10**18, 10**18))
    return directory


def test_cache_directory_follows_xdg() -> None:
    assert cache_directory({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/quorumd")
    assert cache_directory({"XDG_CACHE_HOME": "", "HOME": "/h"}) == Path("/h/.cache/quorumd")


def test_same_java_and_jars_share_archive(tmp_path: Path) -> None:
    directory = jars(tmp_path / "jars")
    assert archive_stem(JAVA, "4.3.0", directory) == archive_stem(JAVA, "4.3.0", directory)
    assert archive_stem(JAVA, "4.3.0", directory).startswith("spark-4.3.0-java-17.0.15-")


def test_incompatible_java_or_jars_have_other_archive(tmp_path: Path) -> None:
    directory = jars(tmp_path / "jars")
    first = archive_stem(JAVA, "4.3.0", directory)
    assert archive_stem(Java("/other/java", 17, "17.0.15"), "4.3.0", directory) != first
    assert archive_stem(JAVA, "4.3.0", jars(tmp_path / "elsewhere")) != first
    os.utime(directory / "a.jar", ns=(10**18 + 1, 10**18 + 1))
    touched = archive_stem(JAVA, "4.3.0", directory)
    assert touched != first
    (directory / "c.jar").write_bytes(b"")
    assert archive_stem(JAVA, "4.3.0", directory) != touched


def test_only_archives_are_removed(tmp_path: Path) -> None:
    directory = tmp_path / "quorumd"
    directory.mkdir()
    for name in ("spark-4.2.0-java-17-x.jsa", "spark-4.3.0-java-21-y.jsa", "other"):
        (directory / name).touch()
    removed = remove_archives({"XDG_CACHE_HOME": str(tmp_path)})
    assert [path.name for path in removed] == ["spark-4.2.0-java-17-x.jsa", "spark-4.3.0-java-21-y.jsa"]
    assert [path.name for path in directory.iterdir()] == ["other"]


def test_truncated_archive_is_not_used(tmp_path: Path) -> None:
    assert whole_archive(tmp_path, "spark-4.3.0-java-17-x") is None
    archive = tmp_path / "spark-4.3.0-java-17-x-5.jsa"
    archive.write_bytes(b"12345")
    assert whole_archive(tmp_path, "spark-4.3.0-java-17-x") == archive
    assert whole_archive(tmp_path, "spark-4.3.0-java-17-y") is None
    archive.write_bytes(b"1234")
    assert whole_archive(tmp_path, "spark-4.3.0-java-17-x") is None
