"""The session of all Spark tests is quiet, on loopback and uses this Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from quorumd.errors import InputIncomplete, JobFailed
from quorumd.pipeline.spark.failures import failure_of
from tests.support.text import shows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


JAVA_DIES = """
import os, sys
from quorumd.errors import JobFailed
from quorumd.pipeline.spark.session import spark_session
try:
    with spark_session("local[1]", "small") as session:
        java = session.sparkContext._gateway.proc
        java.kill()
        session.range(1).count()
except JobFailed as error:
    print(error)
print(java.returncode, {"JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"} & set(os.environ))
"""


INTERRUPTED = """
import signal, threading
from pyspark import java_gateway
from quorumd.pipeline.spark.session import spark_session
processes = []
class Popen(java_gateway.Popen):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        processes.append(self)
        signal.raise_signal(signal.SIGINT)
java_gateway.Popen = Popen
try:
    with spark_session("local[1]", "small"):
        print("started")
except KeyboardInterrupt:
    print(processes[0].returncode is not None)
"""


def test_session_listens_on_loopback_only(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") == conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


def test_spark_ml_adds_no_extensions(spark: SparkSession) -> None:
    registry: Any = getattr(spark._jvm, "org.apache.spark.sql.catalyst.analysis.FunctionRegistry$")
    functions = getattr(registry, "MODULE$").internal().listFunction().mkString(" ")
    assert "collect_top_k" in functions
    assert "array_to_vector" not in functions


def test_times_are_utc(spark: SparkSession) -> None:
    assert spark.sql("select string(timestamp_millis(0)) as epoch").toArrow()["epoch"][0].as_py() == (
        "1970-01-01 00:00:00"
    )


def test_jobs_reuse_the_workers_of_queries(spark: SparkSession) -> None:
    """Others would import everything again, and keep their memory until the session ends."""

    def parent(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"parent": pa.array([os.getppid()], pa.int32())})

    of_query = spark.range(1).mapInArrow(parent, "parent INT").toArrow()["parent"].to_pylist()
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: os.getppid()).collect() == of_query


def test_workers_run_driver_python(spark: SparkSession) -> None:
    def executable(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    rows = spark.range(1).mapInArrow(executable, "python STRING").toArrow()
    assert set(rows["python"].to_pylist()) == {sys.executable}


def test_quorumd_error_in_worker_keeps_its_class(spark: SparkSession) -> None:
    def damaged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise InputIncomplete("00000000000000000000.log, position 512: CRC differs")
        yield

    with pytest.raises(PySparkException) as raised:
        spark.range(1).mapInArrow(damaged, "id BIGINT").collect()
    failure = failure_of(raised.value, None)
    assert type(failure) is InputIncomplete
    assert str(failure) == "00000000000000000000.log, position 512: CRC differs"


def test_failed_job_is_reported_in_one_line(spark: SparkSession) -> None:
    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("no such thing")
        yield

    with pytest.raises(PySparkException) as raised:
        spark.range(1).mapInArrow(broken, "id BIGINT").collect()
    failure = failure_of(raised.value, None)
    assert type(failure) is JobFailed
    assert str(failure) == "ValueError: no such thing"


def test_invalid_query_is_reported_in_one_line(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as raised:
        spark.sql("select nothing from nowhere").collect()
    assert "nowhere" in str(failure_of(raised.value, None))
    assert "\n" not in str(failure_of(raised.value, None))


def run(program: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a program with its own session, and temporary files in `directory`."""
    environment = {
        name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "XDG_CACHE_HOME")
    }
    environment |= {"TMPDIR": str(directory), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900)


def test_session_is_cleaned_up_after_java_dies(tmp_path: Path) -> None:
    done = run(JAVA_DIES, tmp_path)
    (log,) = tmp_path.glob("quorumd-spark-*")
    failure, end = done.stdout.splitlines()
    assert shows(failure, "Java process ended", log)
    assert end == "-9 set()"
    assert done.stderr == ""


def test_interrupt_during_java_start_leaves_no_process(tmp_path: Path) -> None:
    done = run(INTERRUPTED, tmp_path)
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert list(tmp_path.glob("quorumd-spark-*")) == []
