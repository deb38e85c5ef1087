"""Effects of signals on a daemon: one log line each, and only fatal ones end it."""

from __future__ import annotations

import signal

import pytest

from tests.support.processes.daemons import Cluster, wait_for


def _count(cluster: Cluster, text: str) -> int:
    return cluster[1].output.read_text().count(text)


def test_signals_of_operators_are_logged_and_do_not_stop_the_daemon(single: Cluster) -> None:
    for number, line in (
        (signal.SIGHUP, "SIGHUP: reading certificates, "),
        (signal.SIGUSR2, "SIGUSR2: nothing to do; "),
    ):
        single[1].signal(number)
        wait_for("the log line", lambda line=line: _count(single, line))
    for count, number in enumerate((signal.SIGUSR1, signal.SIGQUIT), start=1):
        single[1].signal(number)
        wait_for("the state", lambda count=count: _count(single, "state: leader in epoch ") == count)
        assert _count(single, "Current thread 0x") == count
    child = single[1].child
    assert child is not None
    assert child.poll() is None
    single[1].signal(signal.SIGTERM)
    assert single[1].wait() == 0


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (signal.SIGALRM, "SIGALRM: terminating immediately"),
        (signal.SIGXCPU, "SIGXCPU: terminating immediately"),
        (signal.SIGSEGV, "Fatal Python error: Segmentation fault"),
        (signal.SIGABRT, "Fatal Python error: Aborted"),
    ],
)
def test_fatal_signal_is_logged(single: Cluster, number: signal.Signals, line: str) -> None:
    single[1].signal(number)
    assert single[1].wait() == -number
    assert _count(single, line) == 1
