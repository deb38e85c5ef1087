"""Derives Spark's settings from the master, a profile and the user's settings. Pure.

small   seconds of work: only the quick JIT compiler, the serial collector, two partitions per shuffle
thin    any amount of work, done by Python workers: only the quick JIT compiler, the serial collector, no code
        generation for the few rows that workers return, four partitions per core
big     minutes of work: all JIT compilers, four partitions per core
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorumd.pipeline.spark.java import Java

LOOPBACK = "127.0.0.1"
_LOCAL = re.compile(r"local(\[|$)")
_LOOPBACK_MASTER = re.compile(r"spark://(127\.[\d.]+|localhost|\[::1\])(:|$)")

ALWAYS = {
    "spark.app.name": "quorumd",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # On loopback TCP, delayed acknowledgements slow Python tasks down: 59 ms per task, 27 ms without TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": "4m",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    # Otherwise only tasks of queries set it, and jobs cannot reuse their workers: modules are imported twice.
    "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1",
}
ON_LOOPBACK = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
TRUSTING_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Java reads every cell of every batch from Python twice, for null and for its value. A third of that time is
spent in Arrow's checks of bounds and null, redundant here: pyarrow made the batch, and Spark has compared its
schema and reads only values that are not null."""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
NO_GENERATED_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"


def settings(
    master: str, profile: str, conf: Mapping[str, str], java_options: Sequence[str] = ()
) -> dict[str, str]:
    """Return Spark's configuration. `conf` takes precedence; its Java options are appended."""
    found = dict(ALWAYS)
    if stays_here(master):
        found |= ON_LOOPBACK
    options = ["-Duser.timezone=UTC", TRUSTING_ARROW, *java_options]
    if profile != "big":
        options.append(QUICK_JAVA)
    if profile == "thin":
        found |= NO_GENERATED_CODE
    if profile == "small":
        found |= {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    else:
        found["spark.driver.memory"] = "2g"
        if is_local(master):
            found["spark.sql.shuffle.partitions"] = str(4 * cores(master))
    found |= conf
    options.append(conf.get(JAVA_OPTIONS, ""))
    return found | {
        "spark.master": master,
        JAVA_OPTIONS: " ".join(filter(None, options)),
        EXECUTOR_OPTIONS: " ".join(filter(None, (TRUSTING_ARROW, conf.get(EXECUTOR_OPTIONS, "")))),
    }


def archive_options(archive: Path | None, record_to: Path | None) -> tuple[str, ...]:
    """Return Java options to use a class-data archive, if given, or to create one."""
    if record_to is not None:
        return (f"-XX:ArchiveClassesAtExit={record_to}",)
    return ("-Xshare:auto", f"-XX:SharedArchiveFile={archive}") if archive is not None else ()


def environment(
    present: Mapping[str, str], java: Java, master: str, conf: Mapping[str, str], local_python: Path
) -> dict[str, str]:
    """Return environment variables for Spark's scripts and its Java process.

    By default, Spark runs workers with `python3` from PATH, which may lack quorumd. Workers on this machine run
    `local_python` (session.python_of_workers), others the user's choice or the Python of this process.
    """
    workers = str(local_python)
    if not is_local(master):
        workers = conf.get("spark.pyspark.python") or present.get("PYSPARK_PYTHON") or sys.executable
    found = {
        "JAVA_HOME": java.home,
        "PYSPARK_PYTHON": workers,
        # Spark runs it to discover data sources of other packages, which no job here needs.
        "PYSPARK_DRIVER_PYTHON": os.devnull,
        # By default, each worker starts a thread per core, although there is a worker per core.
        "OPENBLAS_NUM_THREADS": present.get("OPENBLAS_NUM_THREADS", "1"),
        # For the short-lived Java process with which Spark's scripts build a command line.
        "SPARK_LAUNCHER_OPTS": QUICK_JAVA,
    }
    if stays_here(master):
        found["SPARK_LOCAL_IP"] = LOOPBACK
    return found


def is_local(master: str) -> bool:
    """Return True if all of Spark runs in one process on this machine."""
    return _LOCAL.match(master) is not None


def stays_here(master: str) -> bool:
    """Return True if no other machine needs to connect to the driver."""
    return is_local(master) or _LOOPBACK_MASTER.match(master) is not None


def cores(master: str) -> int:
    """Return the number of concurrent tasks of a local master: 2 for `local[2]`, all cores for `local[*]`."""
    match = re.match(r"local\[(\d+)", master)
    if match:
        return int(match[1])
    return len(os.sched_getaffinity(0)) if "*" in master else 1
