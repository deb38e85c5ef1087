"""Signal handling of the daemon. Signals that end the process leave a trace, except SIGKILL and real-time signals.

    SIGTERM, SIGINT     graceful shutdown; a second one stops at once (see `daemon`)
    SIGUSR1, SIGQUIT    log the node's state and print the stacks of all threads
    SIGHUP              read certificates, keys and tokens again; properties are read only when a node starts
    SIGUSR2             log that there is nothing to do
    SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT     print the stacks, then end the process as by default
    others that end a process (SIGALRM, SIGXCPU, ...)     log a line, then end the process as by default

Ending at once loses nothing: acknowledged records are durable. The stacks are printed even if the event thread hangs.
With `log.format=json` they are the field `stacks` of one event, as long as another Python thread can still run.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import TYPE_CHECKING

from quorumd.runtime.stacks import StackLog

if TYPE_CHECKING:
    from quorumd.node.node import Node

logger = logging.getLogger("quorumd.daemon")

_stack_descriptors = [2]
"""The descriptors to which stacks can be printed. The last one is used."""

REPORT_SIGNALS = (signal.SIGUSR1, signal.SIGQUIT)
IGNORED_SIGNALS = (signal.SIGHUP, signal.SIGUSR2)
FATAL_SIGNALS = tuple(
    signal.Signals[name]
    for name in (
        "SIGALRM",
        "SIGVTALRM",
        "SIGPROF",
        "SIGXCPU",
        "SIGSYS",
        "SIGTRAP",
        "SIGIO",
        "SIGPWR",
        "SIGSTKFLT",
    )
    if name in signal.Signals.__members__
)


def install(log_format: str) -> None:
    """Handle signals while a node starts, before its event loop runs."""
    if sys.stderr is sys.__stderr__:
        faulthandler.enable(all_threads=True)
    for number in FATAL_SIGNALS:
        signal.signal(number, lambda number, frame: _terminate(number))
    for number in IGNORED_SIGNALS:
        signal.signal(number, lambda number, frame: _log_ignored_signal(number))
    for number in REPORT_SIGNALS:
        signal.signal(number, lambda number, frame: logger.info("the node is starting"))
    if log_format == "json":
        _stack_descriptors.append(StackLog().descriptor)
    _print_stacks()


def attach(loop: AbstractEventLoop, state: Callable[[], str], reload: Callable[[], None]) -> None:
    """Handle signals in the event loop, between its callbacks.

    `state()` returns the line to log on SIGUSR1 and SIGQUIT; `reload()` reads key material again.
    """
    loop.add_signal_handler(signal.SIGUSR2, _log_ignored_signal, signal.SIGUSR2)
    loop.add_signal_handler(signal.SIGHUP, _reload, reload)
    for number in REPORT_SIGNALS:
        faulthandler.unregister(number)
        loop.add_signal_handler(number, lambda: logger.info("%s", state()))
    _print_stacks()


def describe_state(node: Node) -> str:
    """The node's state in one line for the log."""
    engine, log = node.engine, node.log
    leader = f"leader {engine.leader_id}" if engine.leader_id >= 0 else "no leader known"
    voters = ",".join(map(str, engine.voters.current.ids)) or "not known"
    return (
        f"state: {engine.role_name} in epoch {engine.epoch}, {leader}, voters {voters}, "
        f"log from {log.start_offset} to {log.end_offset}, high watermark {engine.high_watermark}, "
        f"{node.statistics.connections_open} connections"
    )


def _print_stacks() -> None:
    # In C, so that the stacks are printed even if a thread hangs; the previous handler runs too.
    for number in REPORT_SIGNALS:
        faulthandler.register(number, _stack_descriptors[-1], all_threads=True, chain=True)


def _log_ignored_signal(number: int) -> None:
    logger.info(
        "%s: nothing to do; properties are read when a node starts, SIGUSR1 logs its state",
        signal.Signals(number).name,
    )


def _reload(reload: Callable[[], None]) -> None:
    logger.info("SIGHUP: reading certificates, keys and tokens again; properties are read when a node starts")
    reload()


def _terminate(number: int) -> None:
    logger.error("%s: terminating immediately; acknowledged records are durable", signal.Signals(number).name)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
