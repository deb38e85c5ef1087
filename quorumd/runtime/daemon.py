"""The process around one node: from settings to exit code."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from typing import Any

import uvloop

from quorumd import __version__, build
from quorumd.config import Settings
from quorumd.config.contradictions import exposure
from quorumd.errors import ConfigError, ExitCode, StorageError
from quorumd.ids import Endpoint
from quorumd.node.builder import start_node
from quorumd.node.node import Node
from quorumd.node.ports import NodePorts
from quorumd.observability.logs import configure_logging
from quorumd.observability.metrics import build_registry
from quorumd.runtime import signals
from quorumd.runtime.clock import LoopClock
from quorumd.runtime.connection_quotas import NetworkLimits
from quorumd.runtime.descriptors import raise_limit
from quorumd.runtime.disk import OsDisk
from quorumd.runtime.disk_operations import SWITCH_S
from quorumd.runtime.entropy import SystemEntropy
from quorumd.runtime.fault_injection import FlushFailingDisk, SkewedClock
from quorumd.runtime.http_endpoint import HttpEndpoint
from quorumd.runtime.memory import return_large_blocks
from quorumd.runtime.monitor import Monitor
from quorumd.runtime.network import TcpNetwork
from quorumd.runtime.notify import notify, watchdog_interval_s
from quorumd.runtime.security import NodeSecurity
from quorumd.runtime.topic_regexes import compile_regex

logger = logging.getLogger("quorumd.daemon")

REMEDIES: dict[int, str] = {
    ExitCode.FAILED: "this is a bug: nothing that was acknowledged is lost; start again and report the traceback",
    ExitCode.FLUSH_FAILED: "check the disk (kernel log, SMART), then start again: the log is recovered from the disk",
    ExitCode.ADDRESS_UNAVAILABLE: "stop the process that listens there, or choose another address",
    ExitCode.INVARIANT_VIOLATED: "keep a copy of the log directory of every node before anything is started again",
}
"""The remedy per exit code, for errors whose text has none."""

SHUTDOWN_TIMEOUT_S = 10.0
"""Timeout of a graceful shutdown. Acknowledged records are durable, so stopping at once loses nothing."""
BROKER_SHUTDOWN_TIMEOUT_S = 45.0
"""Timeout with the broker role: the controller moves leaderships away, and the logs of partitions are closed."""
GC_THRESHOLDS = (8_000, 2, 10_000)
"""Hardly any object is in a cycle, but requests in flight are thousands of objects, and partitions are millions. With
Python's defaults (700, 10, 10) garbage collection took a fifth of a loaded leader's time and a third of a start. A
collection takes about a microsecond per object in its generation. With these thresholds those of the two younger
generations take at most about 10 and 30 ms, and full ones, which take 1 s with a million partitions, are rare."""
CLOSE_TIMEOUT_S = 0.5
"""Timeout for sending the last responses before connections are aborted."""
ADDRESS_ERRORS = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)


def run(settings: Settings, on_ready: Callable[[Node], None] | None = None) -> int:
    """Run one node until it stops, and return its `ExitCode`. Errors are logged, not raised.

    `on_ready(node)` is called when the node is ready for the first time.
    """
    configure_logging(settings.log_level, settings.log_format)
    for warning in settings.warnings():
        logger.warning("%s", warning)
    # Until the node serves requests, a signal ends the process at once: recovery can be interrupted at any point.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signals.install(settings.log_format)
    return_large_blocks()
    loop = uvloop.new_event_loop()
    try:
        return Daemon(settings, loop, on_ready).run()
    except ConfigError as error:
        # For example unusable key material. `Daemon.run` reports the errors of the node itself.
        logger.error("cannot start: %s", error)
        return ExitCode.USAGE
    except KeyboardInterrupt:
        logger.info("stopped while starting")
        return ExitCode.DONE
    finally:
        loop.close()


def start_failure(error: Exception) -> tuple[int, str]:
    """The exit code and the text for an error that prevented the start."""
    if isinstance(error, ConfigError | StorageError):
        return error.exit_code, str(error)
    if isinstance(error, socket.gaierror) or (
        isinstance(error, OSError)
        and (error.errno in ADDRESS_ERRORS or (error.errno == errno.EACCES and not error.filename))
    ):
        return ExitCode.ADDRESS_UNAVAILABLE, error.strerror or str(error)
    if isinstance(error, OSError):
        return ExitCode.DATA_DIRECTORY, str(error)
    return ExitCode.FAILED, f"{type(error).__name__}: {error}"


def with_remedy(exit_code: int, text: str) -> str:
    """Append the remedy for `exit_code`, if there is one."""
    remedy = REMEDIES.get(exit_code)
    return f"{text}; {remedy}" if remedy else text


def addresses(endpoints: Iterable[Endpoint]) -> str:
    """Format endpoints as in `listeners`."""
    return ",".join(f"{each.name}://{each.host}:{each.port}" for each in endpoints)


class Daemon:
    """Runs one node with its ports, its HTTP endpoint and its signal handlers."""

    node: Node
    """Set by `run` before the event loop runs, so before any callback."""

    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        on_ready: Callable[[Node], None] | None = None,
    ) -> None:
        self._settings = settings
        self._on_ready = on_ready
        self._loop = loop
        self._exit_future: asyncio.Future[int] = loop.create_future()
        node_settings = settings.node_settings()
        self._descriptors = raise_limit(node_settings.max_connections)
        limits = NetworkLimits(
            node_settings.max_connections,
            node_settings.max_connections_per_host,
            node_settings.connections_max_idle_ms,
            node_settings.request_timeout_ms,
            self._descriptors,
            settings.connection_rates(),
        )
        self._security = NodeSecurity(settings.security(), loop, self._on_certificate_expiry)
        self._network = TcpNetwork(loop, limits, self._on_connection_rejected, self._security.tls)
        calls = loop.call_soon_threadsafe, loop.call_soon, loop.call_later
        self._disk = OsDisk(*calls)
        if settings.fail_flush_after:
            self._disk = FlushFailingDisk(settings.fail_flush_after, *calls)
        clock = SkewedClock(loop, settings.clock_offset_ms) if settings.clock_offset_ms else LoopClock(loop)
        self._node_settings = node_settings
        self._ports = NodePorts(
            clock, SystemEntropy(), self._disk, self._network, compile_regex, self._security.sasl
        )
        self._http: HttpEndpoint | None = None
        self._stop_requested = False
        self._shutdown_timeout_s = BROKER_SHUTDOWN_TIMEOUT_S if settings.is_broker else SHUTDOWN_TIMEOUT_S

    def run(self) -> int:
        """Start the node, run it until it has stopped, and return the exit code."""
        self._loop.set_exception_handler(self._on_exception)
        gc.set_threshold(*GC_THRESHOLDS)
        sys.setswitchinterval(SWITCH_S)
        exit_code = self._start()
        if exit_code is not None:
            self._loop.run_until_complete(self._network.close(0))
            return exit_code
        on_ready = self._on_ready
        report_ready = None if on_ready is None else lambda: on_ready(self.node)
        monitor = Monitor(self._loop, self.node, watchdog_interval_s(), on_ready=report_ready)
        if self._http is not None:
            registry = build_registry(self.node, monitor.sampled)
            self._http.start(registry, monitor.health, monitor.readiness)
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop)
        signals.attach(self._loop, lambda: signals.describe_state(self.node), self._security.reload)
        self._log_start()
        self._security.start()
        monitor.start()
        exit_code = self._loop.run_until_complete(self._exit_future)
        notify("STOPPING=1")
        monitor.stop()
        self._security.close()
        self._loop.run_until_complete(self._network.close(0 if exit_code else CLOSE_TIMEOUT_S))
        if self._http is not None:
            self._http.close()
        logger.info("stopped, exit code %d", exit_code)
        return exit_code

    def _start(self) -> int | None:
        """Start the node; return an exit code if that fails."""
        settings = self._settings
        try:
            if settings.metrics_listener is not None:
                self._http = HttpEndpoint(settings.metrics_listener, self._descriptors)
        except OSError as error:
            return self._start_failed(
                error, "metrics.listener={}:{}".format(*settings.metrics_listener or ())
            )
        try:
            self._check_data_directory()
            self.node = start_node(self._node_settings, self._ports, self._on_node_stopped)
        except Exception as error:
            return self._start_failed(error, f"listeners={addresses(settings.listeners)}")
        return None

    def _check_data_directory(self) -> None:
        directory = self._node_settings.data_directory
        if not os.path.isdir(directory):
            raise StorageError(
                f"the directory {directory} does not exist: run `quorumd format` with this file, "
                "or start with --format-if-needed"
            )

    def _start_failed(self, error: Exception, address: str) -> int:
        exit_code, text = start_failure(error)
        if exit_code == ExitCode.ADDRESS_UNAVAILABLE:
            text = f"{address}: {text}"
        traceback = error if exit_code == ExitCode.FAILED else None
        logger.error("cannot start: %s", with_remedy(exit_code, text), exc_info=traceback)
        return exit_code

    def _log_start(self) -> None:
        node, settings = self.node, self._settings
        voters = ",".join(map(str, node.engine.voters.current.ids or node.settings.bootstrap_voters))
        bound = [each._replace(port=node.bound_port(each.name)) for each in settings.listeners]
        logger.info(
            "quorumd %s (%s): node %d of cluster %s serves %s, voters %s, data in %s, %s",
            __version__,
            build.description(),
            self._settings.node_id,
            node.cluster_id or "(not known yet)",
            addresses(bound),
            voters or "(not known yet)",
            node.settings.data_directory,
            node.recovery_report,
        )
        warning = exposure(settings)
        if warning is not None:
            logger.warning("%s", warning)
        if self._http is not None and self._settings.metrics_listener is not None:
            host = self._settings.metrics_listener[0]
            logger.info("http://%s:%d/metrics, /healthz, /readyz", host, self._http.port)

    def _stop(self) -> None:
        if self._stop_requested:
            logger.warning("second stop signal: stopping at once")
            self._exit_with(ExitCode.DONE)
            return
        self._stop_requested = True
        logger.info("stopping: handing over leadership and closing the log; a second signal stops at once")
        notify("STOPPING=1", "STATUS=handing over leadership and closing the log")
        self._loop.call_later(self._shutdown_timeout_s, self._on_stop_timeout)
        self.node.shut_down()

    def _on_stop_timeout(self) -> None:
        if not self._exit_future.done():
            logger.warning(
                "graceful shutdown took longer than %.0f s: stopping at once", self._shutdown_timeout_s
            )
            self._exit_with(ExitCode.DONE)

    def _on_node_stopped(self, exit_code: int, reason: str) -> None:
        if exit_code != ExitCode.DONE:
            logger.error("%s", with_remedy(exit_code, reason))
        self._exit_with(exit_code)

    def _on_certificate_expiry(self, listener: str, expires_s: float) -> None:
        self.node.statistics.certificate_expiry_s[listener] = expires_s

    def _on_connection_rejected(self) -> None:
        self.node.statistics.connections_refused += 1

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Stop after an exception in a callback, which may have left the node in an inconsistent state.

        An OSError of a transport, outside the node's callbacks, is only logged.
        """
        error = context.get("exception")
        message = context.get("message", "")
        if error is None or (isinstance(error, OSError) and "call failed" not in message):
            logger.error("%s: %s", message, error)
            return
        logger.error("%s", with_remedy(ExitCode.FAILED, message), exc_info=error)
        self._exit_with(ExitCode.FAILED)

    def _exit_with(self, exit_code: int) -> None:
        if not self._exit_future.done():
            self._exit_future.set_result(exit_code)
