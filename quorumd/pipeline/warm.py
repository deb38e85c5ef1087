"""The class-data archive: Spark's Java classes as they are after loading, which halves the time a session starts in.

Java takes an archive only if it fits: same Java, same jars. So the file's name says for what it was made, and another
Java or Spark looks for another file. One that does not fit after all is ignored by Java itself.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from quorumd.errors import JobFailed
from quorumd.pipeline.java import Java, find_java, need_extra

PATTERN = "spark-*.jsa"


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where archives are: `quorumd` in XDG_CACHE_HOME, else in ~/.cache."""
    base = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME", "~"), ".cache")
    return Path(base).expanduser() / "quorumd"


def archive_name(java: Java, spark_version: str, jars: Path) -> str:
    """The archive's file name, made of all that Java compares before it takes one: itself, jars, sizes and times."""
    seen = hashlib.sha256(f"{java.home} {java.version}\n".encode())
    for jar in sorted(jars.glob("*.jar")):
        status = jar.stat()
        seen.update(f"{jar} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"spark-{spark_version}-java-{java.version}-{seen.hexdigest()[:12]}.jsa"


def archive_for(java: Java, environment: Mapping[str, str]) -> Path:
    """Where the archive for this Java and the installed Spark is, or would be."""
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    # SPARK_HOME, if it is set, is where the jars come from that Spark's scripts start.
    jars = Path(_find_spark_home(), "jars")
    return cache_folder(environment) / archive_name(java, pyspark.__version__, jars)


def make_archive(tell: Callable[[str], None]) -> Path:
    """Rehearse what the pipeline does and keep the classes that it took; returns the archive.

    Replaces the one that is there. Takes about half a minute. Raises JobFailed.
    """
    from quorumd.pipeline.rehearsal import rehearse
    from quorumd.pipeline.session import spark_session

    need_extra()
    target = archive_for(find_java(os.environ), os.environ)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="warm-", dir=target.parent) as scratch:
            made = Path(scratch, target.name)
            tell("starting Spark without an archive")
            with spark_session("local[2]", "small", record_classes_to=made) as session:
                tell("rehearsing what the pipeline does")
                rehearse(session, Path(scratch))
                tell("writing the archive")
            if not made.is_file():
                raise JobFailed(
                    f"Java wrote no class-data archive to {made.parent}: is there room for 200 MB?"
                )
            os.replace(made, target)
    except OSError as error:
        raise JobFailed(f"{error.filename}: {error.strerror}") from None
    return target


def remove_archives(environment: Mapping[str, str]) -> list[Path]:
    """Remove the archives of all versions; returns what was removed."""
    found = sorted(cache_folder(environment).glob(PATTERN))
    for path in found:
        path.unlink(missing_ok=True)
    return found
