"""What Spark is set to, for a laptop as for a cluster. Pure: from master, profile and the user's own settings.

small   seconds of work: a quick compiler and a simple collector, two partitions a shuffle
thin    Python workers do the work, however much it is: quick compiler and simple collector all the same, and no code
        generated for the few rows that they hand over
big     minutes of work: the full compiler, four partitions a core
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
    # Python tasks wait for the kernel's delayed acknowledgements on loopback TCP: 59 ms a task, 27 ms without.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": "4m",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}
ON_LOOPBACK = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
TRUSTING_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Java looks at every cell of every batch that Python gives, once whether it is null and once for what it is. A third
of that is Arrow's checks whether the batch is still there and holds the cell: the batch is pyarrow's own, Spark has
compared its schema, and asks for what is not null only."""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
NO_GENERATED_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"


def settings(
    master: str, profile: str, conf: Mapping[str, str], java_options: Sequence[str] = ()
) -> dict[str, str]:
    """Spark's configuration. What `conf` says goes before all else; its Java options come behind those here."""
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
    """Java's options to use a class-data archive if there is one, or to make one."""
    if record_to is not None:
        return (f"-XX:ArchiveClassesAtExit={record_to}",)
    return ("-Xshare:auto", f"-XX:SharedArchiveFile={archive}") if archive is not None else ()


def environment(
    present: Mapping[str, str], java: Java, master: str, conf: Mapping[str, str], local_python: Path
) -> dict[str, str]:
    """Variables that Spark's scripts and its Java process must find.

    Spark takes `python3` of PATH for its workers unless told otherwise: not the one with quorumd in it. Workers on
    this machine run `local_python` (session.python_of_workers), others what the user says or what this process runs.
    """
    workers = str(local_python)
    if not is_local(master):
        workers = conf.get("spark.pyspark.python") or present.get("PYSPARK_PYTHON") or sys.executable
    found = {
        "JAVA_HOME": java.home,
        "PYSPARK_PYTHON": workers,
        # Spark starts it to look for data sources of other packages, which none of the jobs here needs.
        "PYSPARK_DRIVER_PYTHON": os.devnull,
        # A thread for each core in each worker, though there is a worker for each core.
        "OPENBLAS_NUM_THREADS": present.get("OPENBLAS_NUM_THREADS", "1"),
        # The one that starts Spark's scripts: a small Java that prints a command line and ends.
        "SPARK_LAUNCHER_OPTS": QUICK_JAVA,
    }
    if stays_here(master):
        found["SPARK_LOCAL_IP"] = LOOPBACK
    return found


def is_local(master: str) -> bool:
    """All of Spark in one process of this machine."""
    return _LOCAL.match(master) is not None


def stays_here(master: str) -> bool:
    """Nothing of it needs to be reached from another machine."""
    return is_local(master) or _LOOPBACK_MASTER.match(master) is not None


def cores(master: str) -> int:
    """How many tasks a local master runs at a time: 2 of `local[2]`, all of this machine for `local[*]`."""
    match = re.match(r"local\[(\d+)", master)
    if match:
        return int(match[1])
    return len(os.sched_getaffinity(0)) if "*" in master else 1
