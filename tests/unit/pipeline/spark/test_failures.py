from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkRuntimeError, PythonException

from quorumd.errors import ConfigError, InputIncomplete, JobFailed, RequestFailed
from quorumd.pipeline.spark.failures import failure_of
from tests.support.text import shows

IN_A_WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/srv/quorumd/pipeline/source/files.py", line 41, in read
    raise InputIncomplete(text)
quorumd.errors.InputIncomplete: /srv/n1/00000000000000000000.log: position 8192: CRC differs
"""
WHILE_PLANNING = """[PYTHON_DATA_SOURCE_ERROR] Failed to plan in Python: Traceback (most recent call last):
  File "/srv/pyspark/sql/worker/plan_data_source_read.py", line 222, in main
    partitions = reader.partitions()
  File "/srv/quorumd/pipeline/copies/log_files.py", line 77, in find_directory
quorumd.errors.ConfigError: 'x=/srv' is no ID=DIR
 SQLSTATE: 38000;
"""
BROKEN_CODE = """Traceback (most recent call last):
  File "/srv/mine.py", line 3, in fold
KeyError: 'isr'
"""
NO_TABLE = """[TABLE_OR_VIEW_NOT_FOUND] The table `nowhere` cannot be found. SQLSTATE: 42P01; line 1 pos 14;
'Project ['nothing]
+- 'UnresolvedRelation [nowhere], [], false
"""


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (PythonException(IN_A_WORKER), InputIncomplete, f"/srv/n1/{20 * '0'}.log: position 8192: CRC differs"),
        (AnalysisException(WHILE_PLANNING), ConfigError, "'x=/srv' is no ID=DIR"),
        (PythonException("RequestFailed: no node answered"), RequestFailed, "no node answered"),
    ],
)  # fmt: skip
def test_quorumd_errors_keep_their_class(error: Exception, kind: type[Exception], text: str) -> None:
    failure = failure_of(error, Path("/tmp/spark.log"))
    assert type(failure) is kind
    assert str(failure) == text


def test_missing_file_is_incomplete_input() -> None:
    text = f"{BROKEN_CODE.rsplit('KeyError')[0]}FileNotFoundError: [Errno 2] No such file or directory: '/srv/n1'"
    assert type(failure_of(PythonException(text), None)) is InputIncomplete


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (BROKEN_CODE, "KeyError: 'isr'"),
        (NO_TABLE, "[TABLE_OR_VIEW_NOT_FOUND] The table `nowhere` cannot be found. SQLSTATE: 42P01; line 1 pos 14"),
        ("", "the job failed"),
    ],
)  # fmt: skip
def test_other_errors_are_one_line_with_log(text: str, line: str) -> None:
    failure = failure_of(PythonException(text), Path("/tmp/spark.log"))
    assert type(failure) is JobFailed
    assert str(failure) == f"{line} (Spark's log: /tmp/spark.log)"


def test_dead_java_process_is_reported_with_cause(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text("26/01/01 WARN nothing\njava.lang.OutOfMemoryError: Java heap space\n\tat org.apache\n")
    failure = failure_of(Py4JNetworkError("Answer from Java side is empty"), log)
    assert shows(str(failure), "Java process ended", "java.lang.OutOfMemoryError: Java heap space", log)
    assert "org.apache" not in str(failure)


def test_dead_java_process_without_cause_is_reported(tmp_path: Path) -> None:
    failure = failure_of(ConnectionRefusedError(), tmp_path / "none")
    assert shows(str(failure), "Java process ended", tmp_path / "none")


def test_py4j_errors_are_converted() -> None:
    reason = "spark.x does not exist in the JVM"
    assert str(failure_of(Py4JError(reason), None)).endswith(reason)


def test_java_start_failure_is_reported_with_cause(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text("Error occurred during initialization of VM\nToo small maximum heap\n")
    error = PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
    assert shows(str(failure_of(error, log)), "did not start", "Too small maximum heap", log)


def test_unresponsive_master_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text("ERROR StandaloneSchedulerBackend: Reason: All masters are unresponsive! Giving up.\n")
    error = Py4JError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.")
    assert shows(str(failure_of(error, log)), "All masters are unresponsive", log)
