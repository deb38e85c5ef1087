"""The shipped systemd unit: the daemon needs no system call that it denies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shell.test_snapshots import EXTRA, PATIENT_S, configs, snapshots, write
from tests.support.processes.daemons import Cluster, Daemon, wait_for
from tests.support.processes.fixtures import without_traceback
from tests.support.processes.system_calls import LINUX, allowed_calls, filter_of

UNIT = (Path(__file__).resolve().parents[2] / "config/quorumd.service").read_text()


def is_filtered(daemon: Daemon) -> bool:
    return "Seccomp:\t2" in Path(f"/proc/{daemon.pid}/status").read_text()


@LINUX
@pytest.mark.parametrize("allows_priorities", [True, False], ids=["as shipped", "without priorities"])
def test_daemon_builds_snapshots_under_the_system_call_filter(
    tmp_path: Path, allows_priorities: bool
) -> None:
    unit = UNIT if allows_priorities else UNIT + "\nSystemCallFilter=~@resources\n"
    cluster = Cluster(tmp_path, size=1, extra=EXTRA)
    try:
        cluster[1].start(limits=filter_of(unit))
        cluster.leader()
        assert is_filtered(cluster[1])
        with without_traceback(cluster):
            write(cluster[1], 0, 60)
            wait_for("a snapshot", lambda: "quorumd.node: snapshot " in cluster[1].log_text(), PATIENT_S)
            assert snapshots(cluster[1])
            cluster[1].kill()
            cluster[1].start(limits=filter_of(unit))
            cluster.leader()
            assert len(configs(cluster[1])) == 60
        text = cluster[1].log_text()
        assert ("cannot lower its priority" in text) is not allows_priorities
    finally:
        cluster.stop()


@LINUX
def test_filter_denies_other_system_calls() -> None:
    allowed = allowed_calls(UNIT)
    assert "setpriority" in allowed
    assert "sched_setscheduler" in allowed
    assert "setrlimit" not in allowed
    assert "chroot" not in allowed
    program = "import os; os.nice(1)"
    denied = subprocess.run(
        [sys.executable, "-c", program],
        preexec_fn=filter_of(UNIT + "\nSystemCallFilter=~setpriority\n"),
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert "PermissionError" in denied.stderr
