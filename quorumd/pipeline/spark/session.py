"""A Spark context or session that is quiet, on loopback, quick to start, and leaves nothing behind."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Literal

from quorumd.errors import JobFailed
from quorumd.output_files import open_for_appending
from quorumd.pipeline.spark.class_archive import archive_for
from quorumd.pipeline.spark.failures import failure_of
from quorumd.pipeline.spark.java import find_java, need_extra
from quorumd.pipeline.spark.settings import archive_options, environment, settings

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway, JavaObject, JVMView
    from pyspark import SparkConf
    from pyspark import SparkContext as SparkContext
    from pyspark.sql import SparkSession as SparkSession

Handler = Callable[[int, FrameType | None], object] | int | None
"""A handler of signals, as the module `signal` returns and takes it."""
Profile = Literal["small", "thin", "big"]
STOP_TIMEOUT_S = 180.0
"""The limit for the Java process to end before it is killed: it takes a second, or 30 s to write an archive."""

WANTED_LATER = ("pyarrow", "quorumd.pipeline.scan.batches")
"""Modules that take half a second to import and are needed once there is a session."""

FORKED_S = 0.1
"""The time after which the Java process has been forked."""

ENDING_S = 0.3
"""If the Java process ends within this time after an error, its end is the cause of the error."""


@contextmanager
def spark_session(
    master: str = "local[*]",
    profile: Profile = "big",
    conf: Mapping[str, str] | None = None,
    log: Path | None = None,
    record_classes_to: Path | None = None,
) -> Iterator[SparkSession]:
    """Run the block with a session that has the source `quorumd`; see spark_context."""
    with spark_context(master, profile, conf, log, record_classes_to) as context:
        yield session_of(context)


@contextmanager
def spark_context(
    master: str = "local[*]",
    profile: Profile = "big",
    conf: Mapping[str, str] | None = None,
    log: Path | None = None,
    record_classes_to: Path | None = None,
) -> Iterator[SparkContext]:
    """Run the block with a context; its Java process and Python workers end with it.

    Jobs of a context start in half the time of queries of a session, which need many more Java classes.
    `profile` selects settings (settings.settings): small for seconds of work, big for minutes, thin for minutes of
    Python workers. `conf` takes precedence. Output of Java and the workers goes to the file `log`; by default to a
    temporary file, kept only if a job fails. `record_classes_to` creates a class-data archive of the session (see
    warm); otherwise an existing archive is used. Spark's errors in the block are converted to errors of quorumd.

    Raises JobFailed if Java or a package is missing, Spark does not start, or a job fails, and the errors of the
    pipeline in workers (InputIncomplete, ConfigError, ...). A process can have one context at a time.
    """
    need_extra()
    java = find_java(os.environ)
    conf = conf or {}
    file = log if log is not None else _temporary_log()
    keep = log is not None
    try:
        with (
            _log_for_appending(file) as sink,
            tempfile.TemporaryDirectory(prefix="quorumd-spark-", ignore_cleanup_errors=True) as scratch,
            _environment(environment(os.environ, java, master, conf, python_of_workers(Path(scratch)))),
        ):
            # Spark creates this directory in the working directory even if no table is saved.
            own = {"spark.sql.warehouse.dir": scratch}
            archive = archive_options(archive_for(java, os.environ), record_classes_to)
            yield from _run(settings(master, profile, conf, archive) | own, sink, file)
    except JobFailed:
        keep = True
        raise
    finally:
        if not keep:
            file.unlink(missing_ok=True)


def _run(conf: Mapping[str, str], sink: int, file: Path) -> Iterator[SparkContext]:
    from py4j.protocol import Py4JError
    from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
    from pyspark.errors import PySparkException

    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        # They print a stack trace if Java ends first; the command reports that once.
        server.handle_error = _ignore  # type: ignore[assignment, method-assign]  # for any kind of server
    # This logger prints each failure again, as 10 kB of JSON on stderr.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    logging.getLogger().addFilter(_not_of_py4j)
    interrupt = signal.getsignal(signal.SIGINT)
    gateway: JavaGateway | None = None
    try:
        with _delayed_interrupts(), _importing(WANTED_LATER):
            gateway = _start_java(conf, sink)
        context = _start_context(gateway, conf)
        # PySpark's handler calls Java, which may be ending as well.
        _handle_interrupts(interrupt)
        yield context
    except (PySparkException, Py4JError, ConnectionError) as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            # PySpark's clean-up called Java, which the same signal may have ended.
            raise error.__context__ from None
        raise failure_of(error, file, gateway is not None and _has_ended(gateway.proc)) from error
    finally:
        if gateway is not None:
            _stop(gateway)
        logging.getLogger().removeFilter(_not_of_py4j)
        _handle_interrupts(interrupt)


def _handle_interrupts(handler: Handler) -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def _ignore(server: object, request: object, client_address: object) -> None:
    """Ignore an error on a connection of accumulators: only Spark's own metrics use them."""


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Drop Py4J's stack traces after an interrupt or the end of Java, which it logs to the root logger."""
    return Path(record.pathname).parent.name != "py4j"


def _start_java(conf: Mapping[str, str], sink: int) -> JavaGateway:
    from pyspark import java_gateway

    launch: Callable[..., JavaGateway] = java_gateway.launch_gateway
    return launch(_spark_conf(conf), {"stdout": sink, "stderr": sink})


@contextmanager
def _delayed_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the block is done: a half-started Java process would have no owner and never end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received:
        raise KeyboardInterrupt


@contextmanager
def _importing(modules: tuple[str, ...]) -> Iterator[None]:
    """Import modules while a process starts. Errors surface where the modules are used."""

    def load() -> None:
        for module in modules:
            with suppress(ImportError):
                import_module(module)

    # No other thread should hold a lock when this process forks.
    ahead = threading.Timer(FORKED_S, load)
    ahead.start()
    try:
        yield
    finally:
        ahead.join()


def _start_context(gateway: JavaGateway, conf: Mapping[str, str]) -> SparkContext:
    from pyspark import SparkContext

    return SparkContext(gateway=gateway, conf=_spark_conf(conf))


def session_of(context: SparkContext) -> SparkSession:
    """Create the session of a context, with the source `quorumd`."""
    from pyspark.sql import SparkSession

    from quorumd.pipeline.source.data_source import QuorumdSource

    has_own = context.getConf().contains("spark.sql.extensions")
    session = SparkSession(context, None if has_own else _without_extensions(context))
    session.dataSource.register(QuorumdSource)
    return session


def _without_extensions(context: SparkContext) -> JavaObject | None:
    """Create the Java session without extensions that jars add to every session; None if this Spark does it
    otherwise.

    Spark's machine learning adds two functions, which cost a second at startup, because they need Scala's
    reflection.
    """
    from py4j.protocol import Py4JError

    jvm: JVMView = context._jvm
    sql, none, nothing = jvm.org.apache.spark.sql, jvm.scala.Option.empty(), jvm.PythonUtils.toScalaMap({})
    spark_context = context._jsc.sc()
    try:
        return sql.classic.SparkSession(
            spark_context, none, none, sql.SparkSessionExtensions(), nothing, nothing
        )
    except Py4JError:
        return None


def _spark_conf(conf: Mapping[str, str]) -> SparkConf:
    from pyspark import SparkConf

    return SparkConf(loadDefaults=False).setAll(list(conf.items()))


def _stop(gateway: JavaGateway) -> None:
    """End the context, its session if any, and its Java process, in any state."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    process: subprocess.Popen[bytes] = gateway.proc
    # Pending calls below fail once the Java process is gone.
    late = threading.Timer(STOP_TIMEOUT_S, process.kill)
    late.daemon = True
    late.start()
    try:
        # The public methods would call Java.
        running = SparkSession._instantiatedSession or SparkContext._active_spark_context
        if running is not None:
            with warnings.catch_warnings():
                # Spark warns if Java is gone, which is reported as an error elsewhere.
                warnings.simplefilter("ignore")
                running.stop()
    except (Py4JError, OSError):
        # Java has already ended or does not respond.
        pass
    finally:
        SparkContext._gateway = None
        SparkContext._jvm = None
        if process.stdin is not None:
            # Spark's gateway ends when its standard input is closed.
            process.stdin.close()
        process.wait()
        late.cancel()
        # Last: closing a connection that another thread reads from would block until Java closes it.
        gateway.shutdown()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait briefly: an error may arrive before the process that caused it has ended."""
    try:
        process.wait(ENDING_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def python_of_workers(scratch: Path) -> Path:
    """Create a Python executable for local workers that imports the same modules as this process, including
    PySpark.

    Spark puts a zip archive of PySpark first on the path of workers. It has no compiled modules, so each worker
    process would spend half a second compiling them.
    """
    script = scratch / "python"
    path = os.pathsep.join(entry for entry in sys.path if entry)
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {shlex.quote(sys.executable)} "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o700)
    return script


def _temporary_log() -> Path:
    handle, name = tempfile.mkstemp(prefix="quorumd-spark-", suffix=".log")
    os.close(handle)
    return Path(name)


@contextmanager
def _log_for_appending(file: Path) -> Iterator[int]:
    try:
        handle = open_for_appending(file)
    except OSError as error:
        raise JobFailed(f"Spark's log {file} cannot be written: {error.strerror}") from None
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set these variables while the block runs: there is no other way to configure Spark's scripts and workers."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
