"""Converts exceptions of Spark to one-line errors of quorumd.

An error of quorumd raised in a Python worker or during planning arrives as text within an exception of Spark; its
class is restored.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from quorumd import errors
from quorumd.errors import ConfigError, InputIncomplete, JobFailed, QuorumdError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

_RAISED = re.compile(r"^\s*(?:[\w.]+\.)?([A-Z]\w+): (.+)$")
_TRACEBACK = re.compile(r"^\s*(Traceback|File |at |During handling|The above exception|\^|==|JVM stacktrace)")
_DEATH = re.compile(
    r"All masters are unresponsive|java\.lang\.OutOfMemoryError.*|There is insufficient memory.*"
    r"|Error occurred during init.*\n.*|SIG[A-Z]+ \(0x\w+\)"
)


def failure_of(error: BaseException, log: Path | None, java_ended: bool = False) -> QuorumdError:
    """Convert an exception of PySpark or Py4J: its cause in one line, and the path of Spark's log."""
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    where = f" (Spark's log: {log})" if log is not None else ""
    text = str(error)
    if isinstance(error, Py4JJavaError):
        text = str(error.java_exception)
    ours = raised_by_quorumd(text.splitlines())
    if ours is not None:
        return ours
    if "JAVA_GATEWAY_EXITED" in text:
        return JobFailed(f"Spark's Java process did not start{_cause_of_death(log)}{where}")
    if java_ended or isinstance(error, Py4JNetworkError | ConnectionError):
        return JobFailed(f"Spark's Java process ended{_cause_of_death(log)}{where}")
    if "stopped SparkContext" in text:
        return JobFailed(f"Spark stopped{_cause_of_death(log)}{where}")
    if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
        return JobFailed(f"Spark: {first_line(text)}{where}")
    return JobFailed(f"{first_line(text)}{where}")


def raised_by_quorumd(lines: Iterable[str]) -> QuorumdError | None:
    """Return the last error of quorumd in Spark's output, such as `InputIncomplete: /srv/n1 holds no log`."""
    for line in reversed(list(lines)):
        match = _RAISED.match(line)
        kind = getattr(errors, match[1], None) if match else None
        if match and isinstance(kind, type) and issubclass(kind, QuorumdError):
            return kind(match[2])
        if match and match[1] == "FileNotFoundError":
            return InputIncomplete(match[2])
    return None


def first_line(text: str) -> str:
    """Return the first line of a message of Spark, without stack traces of Python and Java."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        raised = [line for line in lines if _RAISED.match(line) and not _TRACEBACK.match(line)]
        lines = raised[-1:] or lines
    messages = [line for line in lines if not _TRACEBACK.match(line)]
    return messages[0].rstrip(";") if messages else "the job failed"


def checked_query(session: SparkSession, query: str) -> DataFrame:
    """Analyze a query of the user. Raises ConfigError for invalid SQL or unknown names."""
    from pyspark.errors import AnalysisException

    try:
        return session.sql(query)
    except AnalysisException as error:
        raise ConfigError(f"invalid query: {first_line(str(error))}") from None


def _cause_of_death(log: Path | None) -> str:
    if log is None:
        return ""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    match = _DEATH.search(text)
    return f": {' '.join(match[0].split())}" if match else ""
