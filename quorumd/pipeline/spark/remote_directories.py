"""Directories on Hadoop's file systems (hdfs://, s3a://, webhdfs://, ...), copied to this machine for one command.

Java lists and copies the files, with Hadoop's configuration and credentials (`--conf spark.hadoop.*`). The copies are
then read like any directory: segments in pieces, with indexes. They take as much disk as the log, and a few megabytes
of memory.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from quorumd.errors import ConfigError, InputIncomplete
from quorumd.log.meta_properties import PARTITION_DIRECTORY
from quorumd.pipeline.spark.failures import first_line
from quorumd.pipeline.spark.progress import doing
from quorumd.pipeline.spark.settings import stays_here

if TYPE_CHECKING:
    from quorumd.pipeline.spark.session import SparkContext


class _HadoopPath(Protocol):
    """Java's org.apache.hadoop.fs.Path."""

    def getName(self) -> str: ...

    def getFileSystem(self, configuration: object) -> _FileSystem: ...


class _Status(Protocol):
    """Java's FileStatus."""

    def isFile(self) -> bool: ...

    def getPath(self) -> _HadoopPath: ...


class _FileSystem(Protocol):
    """Java's org.apache.hadoop.fs.FileSystem."""

    def exists(self, path: _HadoopPath) -> bool: ...

    def listStatus(self, path: _HadoopPath) -> Iterable[_Status]: ...

    def copyToLocalFile(
        self, delete_source: bool, source: _HadoopPath, target: _HadoopPath, use_raw_local: bool
    ) -> None: ...


_UNKNOWN_FILE_SYSTEM = ("ClassNotFoundException", "UnsupportedFileSystemException")
_MISSING_PACKAGE = (
    "; name the Hadoop package of this file system with --conf spark.jars.packages=GROUP:NAME:VERSION"
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_remote(directory: str) -> bool:
    """Return True for a URL, such as hdfs://namenode/n1."""
    return _URL.match(directory) is not None


def local_directories(directories: Mapping[int, str]) -> dict[int, str]:
    """Return the directories that Python can open."""
    return {node: directory for node, directory in directories.items() if not is_remote(directory)}


@contextmanager
def copied_directories(
    context: SparkContext, directories: Mapping[int, str], master: str
) -> Iterator[dict[int, str]]:
    """Yield the directories, remote ones replaced by local copies, which are removed afterwards.

    Raises InputIncomplete if a file cannot be read, ConfigError if workers on other machines would need the copies.
    """
    remote = {node: directory for node, directory in directories.items() if is_remote(directory)}
    if not remote:
        yield dict(directories)
        return
    if not stays_here(master):
        raise ConfigError(
            f"{min(remote.values())} is copied to this machine, where the workers of {master} cannot read it; "
            "use --master local[*], or mount the directory on all of them"
        )
    with tempfile.TemporaryDirectory(prefix="quorumd-copies-") as temporary:
        copies = dict(directories)
        for node, directory in sorted(remote.items()):
            doing(f"copying {directory}")
            target = Path(temporary) / f"node-{node}"
            target.mkdir()
            _copy(context, node, directory, target)
            copies[node] = str(target)
        yield copies


def _copy(context: SparkContext, node: int, directory: str, target: Path) -> None:
    """Copy the files of a log directory and of the log in it, or of a directory of segments."""
    from py4j.protocol import Py4JJavaError

    try:
        path = _path(context, directory)
        files = path.getFileSystem(context._jsc.hadoopConfiguration())
        _copy_files(context, files, path, target)
        log = _path(context, path, PARTITION_DIRECTORY)
        if files.exists(log):
            (target / PARTITION_DIRECTORY).mkdir()
            _copy_files(context, files, log, target / PARTITION_DIRECTORY)
    except Py4JJavaError as error:
        cause = first_line(str(error.java_exception.toString()))
        remedy = _MISSING_PACKAGE if any(name in cause for name in _UNKNOWN_FILE_SYSTEM) else ""
        raise InputIncomplete(f"{directory} of node {node} cannot be read: {cause}{remedy}") from None


def _copy_files(context: SparkContext, files: _FileSystem, path: _HadoopPath, target: Path) -> None:
    from py4j.protocol import Py4JJavaError

    for status in files.listStatus(path):
        if not status.isFile():
            continue
        source = status.getPath()
        local = _path(context, str(target / source.getName()))
        try:
            # Without the checksum files of Hadoop's LocalFileSystem.
            files.copyToLocalFile(False, source, local, True)
        except Py4JJavaError:
            # A running node deletes obsolete files.
            if files.exists(source):
                raise


def _path(context: SparkContext, *parts: object) -> _HadoopPath:
    java = context._jvm
    assert java is not None, "the context has ended"
    made: _HadoopPath = java.org.apache.hadoop.fs.Path(*parts)
    return made
