"""The class-data archive: Spark's Java classes in their loaded form, which halves the startup time of a session.

Java uses an archive only if it was made by the same Java for the same jars, so the file name is derived from both.
Java ignores an archive that does not fit, but crashes on a truncated one, so the name also has the size, and a file
of another size is not used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from quorumd.pipeline.spark.java import Java
from quorumd.pipeline.user_cache import cache_directory

PATTERN = "spark-*.jsa"


def archive_stem(java: Java, spark_version: str, jars: Path) -> str:
    """Return the first part of the name, from all that Java compares: its version, and the jars' sizes and times."""
    digest = hashlib.sha256(f"{java.home} {java.version}\n".encode())
    for jar in sorted(jars.glob("*.jar")):
        status = jar.stat()
        digest.update(f"{jar} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"spark-{spark_version}-java-{java.version}-{digest.hexdigest()[:12]}"


def whole_archive(directory: Path, stem: str) -> Path | None:
    """Return the archive with this stem if it has the size in its name."""
    for path in sorted(directory.glob(f"{stem}-*.jsa")):
        if path.name == f"{stem}-{path.stat().st_size}.jsa":
            return path
    return None


def archive_for(java: Java, environment: Mapping[str, str]) -> Path | None:
    """Return the archive for this Java and the installed Spark; None if there is none."""
    return whole_archive(cache_directory(environment), installed_stem(java))


def installed_stem(java: Java) -> str:
    """Return the stem of the archive for this Java and the installed Spark."""
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    # Spark's scripts take the jars from SPARK_HOME if it is set.
    return archive_stem(java, pyspark.__version__, Path(_find_spark_home(), "jars"))


def remove_archives(environment: Mapping[str, str]) -> list[Path]:
    """Remove the archives of all versions; return the removed files."""
    found = sorted(cache_directory(environment).glob(PATTERN))
    for path in found:
        path.unlink(missing_ok=True)
    return found
