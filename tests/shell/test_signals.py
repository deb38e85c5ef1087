"""What signals do to a daemon: a line each, and only those end it that are meant to."""

from __future__ import annotations

import signal

import pytest

from tests.support.processes.daemons import Cluster, wait_for


def _said(cluster: Cluster, text: str) -> int:
    return cluster[1].output.read_text().count(text)


def test_the_signals_of_operators_leave_a_line_and_the_daemon_running(single: Cluster) -> None:
    for number in (signal.SIGHUP, signal.SIGUSR2):
        single[1].signal(number)
        wait_for("the line", lambda name=number.name: _said(single, f"{name}: nothing to do; "))
    for count, number in enumerate((signal.SIGUSR1, signal.SIGQUIT), start=1):
        single[1].signal(number)
        wait_for("the state", lambda count=count: _said(single, "state: leader in epoch ") == count)
        assert _said(single, "Current thread 0x") == count
    child = single[1].child
    assert child is not None
    assert child.poll() is None
    single[1].signal(signal.SIGTERM)
    assert single[1].wait() == 0


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (signal.SIGALRM, "SIGALRM: the process ends at once"),
        (signal.SIGXCPU, "SIGXCPU: the process ends at once"),
        (signal.SIGSEGV, "Fatal Python error: Segmentation fault"),
        (signal.SIGABRT, "Fatal Python error: Aborted"),
    ],
)
def test_a_fatal_signal_leaves_a_line(single: Cluster, number: signal.Signals, line: str) -> None:
    single[1].signal(number)
    assert single[1].wait() == -number
    assert _said(single, line) == 1
