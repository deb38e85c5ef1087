"""Makes the class-data archive with which Spark starts in half the time."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from quorumd.errors import JobFailed
from quorumd.pipeline.spark.class_archive import installed_stem
from quorumd.pipeline.spark.java import find_java
from quorumd.pipeline.spark.rehearsal import rehearse
from quorumd.pipeline.spark.session import spark_session
from quorumd.pipeline.user_cache import cache_directory


@dataclass(frozen=True, slots=True)
class Warmed:
    """A new archive, and the startup times of Spark."""

    archive: Path
    before_s: float
    """Without the archive."""
    after_s: float
    """With the archive."""


def make_archive(report: Callable[[str], None]) -> Warmed:
    """Rehearse what the pipeline does, archive the classes it loaded, and start Spark with the archive once.

    Replaces an existing archive and takes about half a minute. Raises JobFailed and leaves no archive if it fails.
    """
    java = find_java(os.environ)
    directory, stem = cache_directory(os.environ), installed_stem(java)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="warm-", dir=directory) as scratch:
            made = Path(scratch, "classes.jsa")
            report("starting Spark without an archive")
            began = time.monotonic()
            with spark_session("local[2]", "small", record_classes_to=made) as session:
                before_s = time.monotonic() - began
                report("rehearsing the pipeline")
                rehearse(session, Path(scratch))
                report("writing the archive")
            if not made.is_file():
                raise JobFailed(
                    f"Java wrote no class-data archive to {directory}; it needs 200 MB of free space"
                )
            for old in directory.glob(f"{stem}-*.jsa"):
                old.unlink()
            archive = directory / f"{stem}-{made.stat().st_size}.jsa"
            os.replace(made, archive)
    except OSError as error:
        raise JobFailed(f"{error.filename}: {error.strerror}") from None
    report("starting Spark with the archive")
    began = time.monotonic()
    try:
        with spark_session("local[2]", "small"):
            return Warmed(archive, before_s, time.monotonic() - began)
    except JobFailed as error:
        archive.unlink(missing_ok=True)
        raise JobFailed(f"Spark does not start with its archive, which was removed: {error}") from None
