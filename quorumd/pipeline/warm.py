"""The class-data archive: Spark's Java classes as they are after loading, which halves the time a session starts in.

Java takes an archive only if it fits: same Java, same jars. So the file's name says for what it was made, and another
Java or Spark looks for another file. One that does not fit after all is ignored by Java itself. One that was cut off
is not: Java dies of it. So the name says its size as well, and what has another size is left alone.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from quorumd.errors import JobFailed
from quorumd.pipeline.java import Java, find_java, need_extra

PATTERN = "spark-*.jsa"


@dataclass(frozen=True, slots=True)
class Warmed:
    """An archive, and in how many seconds Spark started before there was one and with it."""

    archive: Path
    before_s: float
    after_s: float


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where archives are: `quorumd` in XDG_CACHE_HOME, else in ~/.cache."""
    base = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME", "~"), ".cache")
    return Path(base).expanduser() / "quorumd"


def archive_stem(java: Java, spark_version: str, jars: Path) -> str:
    """How its name begins: made of all that Java compares before it takes one, jars with their sizes and times."""
    seen = hashlib.sha256(f"{java.home} {java.version}\n".encode())
    for jar in sorted(jars.glob("*.jar")):
        status = jar.stat()
        seen.update(f"{jar} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"spark-{spark_version}-java-{java.version}-{seen.hexdigest()[:12]}"


def whole_archive(folder: Path, stem: str) -> Path | None:
    """The archive that is named so, if it is there and as large as its name says."""
    for path in sorted(folder.glob(f"{stem}-*.jsa")):
        if path.name == f"{stem}-{path.stat().st_size}.jsa":
            return path
    return None


def archive_for(java: Java, environment: Mapping[str, str]) -> Path | None:
    """The archive for this Java and the installed Spark; None where there is none."""
    return whole_archive(cache_folder(environment), _stem(java))


def make_archive(tell: Callable[[str], None]) -> Warmed:
    """Rehearse what the pipeline does, keep the classes that it took, and start with them once.

    Replaces the one that is there. Takes about half a minute. Raises JobFailed, and leaves no archive then.
    """
    from quorumd.pipeline.rehearsal import rehearse
    from quorumd.pipeline.session import spark_session

    need_extra()
    java = find_java(os.environ)
    folder, stem = cache_folder(os.environ), _stem(java)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="warm-", dir=folder) as scratch:
            made = Path(scratch, "classes.jsa")
            tell("starting Spark without an archive")
            began = time.monotonic()
            with spark_session("local[2]", "small", record_classes_to=made) as session:
                before_s = time.monotonic() - began
                tell("rehearsing what the pipeline does")
                rehearse(session, Path(scratch))
                tell("writing the archive")
            if not made.is_file():
                raise JobFailed(f"Java wrote no class-data archive to {folder}: is there room for 200 MB?")
            for old in folder.glob(f"{stem}-*.jsa"):
                old.unlink()
            archive = folder / f"{stem}-{made.stat().st_size}.jsa"
            os.replace(made, archive)
    except OSError as error:
        raise JobFailed(f"{error.filename}: {error.strerror}") from None
    tell("starting Spark with it")
    began = time.monotonic()
    try:
        with spark_session("local[2]", "small"):
            return Warmed(archive, before_s, time.monotonic() - began)
    except JobFailed as error:
        archive.unlink(missing_ok=True)
        raise JobFailed(f"Spark does not start with its archive, which is removed again: {error}") from None


def _stem(java: Java) -> str:
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    # SPARK_HOME, if it is set, is where the jars come from that Spark's scripts start.
    return archive_stem(java, pyspark.__version__, Path(_find_spark_home(), "jars"))


def remove_archives(environment: Mapping[str, str]) -> list[Path]:
    """Remove the archives of all versions; returns what was removed."""
    found = sorted(cache_folder(environment).glob(PATTERN))
    for path in found:
        path.unlink(missing_ok=True)
    return found
