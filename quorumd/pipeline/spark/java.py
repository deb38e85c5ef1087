"""Finds a Java that Spark supports, or reports in one line what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from quorumd.errors import JobFailed

OLDEST_JAVA = 17
SYSTEM_DIRECTORIES = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines")
INSTALL_JAVA = (
    f"install one (Debian, Ubuntu: apt install openjdk-{OLDEST_JAVA}-jre-headless) or set JAVA_HOME to it"
)
INSTALL_EXTRA = "pip install 'quorumd[pipeline]'"
SPARK_MODULES = ("pyspark", "pyarrow", "numpy", "pandas")
REPORT_MODULES = ("altair", "jinja2", "numpy", "pyarrow", "vl_convert")


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its JAVA_HOME, feature version (17) and full version (17.0.15)."""

    home: str
    feature: int
    version: str


def find_java(environment: Mapping[str, str], system_directories: tuple[str, ...] | None = None) -> Java:
    """Find a Java for Spark: from JAVA_HOME, PATH, or the oldest supported one in SYSTEM_DIRECTORIES.

    Raises JobFailed if there is none, if JAVA_HOME has none, or if all are older than OLDEST_JAVA.
    """
    chosen = environment.get("JAVA_HOME")
    if chosen and read_java(chosen) is None:
        raise JobFailed(
            f"JAVA_HOME={chosen} has no bin/java of a known version: correct the variable or unset it"
        )
    too_old = None
    for home in _candidates(
        environment, SYSTEM_DIRECTORIES if system_directories is None else system_directories
    ):
        # Resolve links, so that one Java has the same path however it was found.
        java = read_java(os.path.realpath(home))
        if java is None:
            continue
        if java.feature >= OLDEST_JAVA:
            return java
        too_old = too_old or java
    if too_old is not None:
        raise JobFailed(
            f"Java {too_old.version} in {too_old.home} is too old: "
            f"Spark needs Java {OLDEST_JAVA} or later; {INSTALL_JAVA}"
        )
    raise JobFailed(f"no Java found: Spark needs Java {OLDEST_JAVA} or later; {INSTALL_JAVA}")


def read_java(home: str) -> Java | None:
    """Return the Java in a directory; None if there is none or its version is unknown."""
    if not os.access(Path(home, "bin", "java"), os.X_OK):
        return None
    try:
        text = Path(home, "release").read_text(encoding="utf-8")
    except OSError:
        text = _reported_version(home)
    match = re.search(r'(?:JAVA_VERSION=|version )"([^"]*\d[^"]*)"', text)
    if match is None:
        return None
    return Java(home, feature_version(match[1]), match[1])


def feature_version(version: str) -> int:
    """Return the feature version: 17 for `17.0.15`, 21 for `21-ea`, 8 for `1.8.0_452`."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def need_extra(modules: tuple[str, ...] | None = None) -> None:
    """Raise JobFailed if one of these modules of the extra `pipeline` is missing; SPARK_MODULES if not given."""
    missing = [name for name in modules or SPARK_MODULES if find_spec(name) is None]
    if missing:
        raise JobFailed(f"the data pipeline needs {', '.join(missing)}: {INSTALL_EXTRA}")


def why_no_spark(environment: Mapping[str, str]) -> str | None:
    """Return the reason why Spark cannot run, in one line; None if it can."""
    try:
        need_extra()
        find_java(environment)
    except JobFailed as error:
        return str(error)
    return None


def _candidates(environment: Mapping[str, str], system_directories: tuple[str, ...]) -> Iterator[str]:
    if environment.get("JAVA_HOME"):
        yield environment["JAVA_HOME"]
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        yield str(Path(on_path).resolve().parent.parent)
    homes = (
        str(home)
        for directory in system_directories
        for pattern in ("*", "*/Contents/Home")
        for home in sorted(Path(directory).glob(pattern))
    )
    found = [java for java in map(read_java, homes) if java is not None]
    yield from (java.home for java in sorted(found, key=lambda java: java.feature))


def _reported_version(home: str) -> str:
    command = [str(Path(home, "bin", "java")), "-version"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""
