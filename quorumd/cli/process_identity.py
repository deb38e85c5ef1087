"""Identity of a process: its id and when it started, since the system reuses ids.

A reused id belongs to a process that started later. The arguments of a process do not identify it: any process may
have the arguments of a daemon.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_ENDED: Final = ("Z", "X")
"""States of a process that has ended but may not have been reaped yet."""
_STARTED_FIELD: Final = 19
"""The position of the start time after the name of the program in /proc/PID/stat (proc_pid_stat(5))."""


class ProcessIdentity(NamedTuple):
    """A process."""

    pid: int
    started: str
    """The boot of the machine and the time since then, or a date on systems without /proc (macOS)."""

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """The process that has this id now; None if there is none, it has ended, or is another user's."""
        started = _started(pid) if _BOOT.exists() else _started_by_ps(pid)
        return None if started is None else cls(pid, started)

    @property
    def is_running(self) -> bool:
        return ProcessIdentity.of(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        with suppress(ProcessLookupError):
            if not hasattr(os, "pidfd_open"):
                if self.is_running:
                    os.kill(self.pid, number)
                return
            # The descriptor refers to one process, even if its id is reused after the check.
            descriptor = os.pidfd_open(self.pid)
            try:
                if self.is_running:
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)


def _started(pid: int) -> str | None:
    process = Path(f"/proc/{pid}")
    try:
        if process.stat().st_uid != os.getuid():
            return None
        # The name, in parentheses, may contain spaces and parentheses.
        state, *fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
        boot = _BOOT.read_text().strip()
    except (OSError, ValueError):
        return None
    return None if state in _ENDED else f"{boot} {fields[_STARTED_FIELD - 1]}"


def _started_by_ps(pid: int) -> str | None:
    command = ["ps", "-o", "uid=,state=,lstart=", "-p", str(pid)]
    listing = subprocess.run(
        command, capture_output=True, check=False, text=True, env={"LC_ALL": "C"} | os.environ
    )
    owner, state, *started = listing.stdout.split() or ["", ""]
    is_ours = owner == str(os.getuid()) and state[:1] not in _ENDED
    return " ".join(started) if is_ours and started else None
