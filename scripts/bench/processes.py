"""Processes of a benchmark: free ports, start, wait, resident memory, stop by process id."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO

from quorumd.cli.local_cluster import is_free

PORTS_BELOW_EPHEMERAL = range(20_000, 32_000)


class BenchError(Exception):
    """The benchmark cannot continue. The text has the cause, and where to find the details."""


_first = os.getpid() * 64 % len(PORTS_BELOW_EPHEMERAL)
_ports: Iterator[int] = chain(PORTS_BELOW_EPHEMERAL[_first:], PORTS_BELOW_EPHEMERAL[:_first])
"""Candidate ports, from a start that differs between concurrent benchmarks and tests."""


def free_ports(count: int) -> list[int]:
    """Return `count` free loopback ports below the range of ephemeral ports. Raises BenchError."""
    found: list[int] = []
    for port in filter(is_free, _ports):
        found.append(port)
        if len(found) == count:
            return found
    raise BenchError(f"fewer than {count} free ports in {PORTS_BELOW_EPHEMERAL}")


def resident_mib(pid: int) -> float:
    """Return the current resident memory of a process (VmRSS); 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


class Process:
    """A child process whose output goes to a file; `environment` defaults to the environment of this process."""

    def __init__(
        self, command: list[str], output: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = output.stem
        self.output = output
        self._sink: IO[bytes] = output.open("ab")
        self._child = subprocess.Popen(command, env=environment, stdout=self._sink, stderr=subprocess.STDOUT)

    @property
    def pid(self) -> int:
        return self._child.pid

    def check_alive(self) -> None:
        """Raise BenchError, with the last lines of the output, if the process has ended."""
        if (code := self._child.poll()) is not None:
            tail = "\n".join(self.output.read_text(errors="replace").splitlines()[-15:])
            raise BenchError(f"{self.name} ended with exit code {code}; the end of {self.output}:\n{tail}")

    def resident_mib(self) -> float:
        """Return the current resident memory (VmRSS)."""
        if found := resident_mib(self.pid):
            return found
        raise BenchError(f"no VmRSS in /proc/{self.pid}/status: {self.name} has ended")

    def cpu_seconds(self) -> float:
        """Return the user and system time of the process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def core_wait_seconds(self) -> float:
        """Return the time for which the first thread was runnable so far but had no core."""
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9

    def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        self._child.kill()
        self._child.wait()
        self._sink.close()

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL after ten seconds."""
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            try:
                self._child.wait(10)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        self._sink.close()


def children_cpu_seconds() -> float:
    """Return the user and system time of all ended children of this process and their ended descendants."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def wait_until(
    what: str, condition: Callable[[], bool], processes: list[Process], seconds: float = 30
) -> None:
    """Poll `condition` until it holds. Raises BenchError when a process ends, or after the timeout."""
    deadline = time.monotonic() + seconds
    while not condition():
        for process in processes:
            process.check_alive()
        if time.monotonic() > deadline:
            raise BenchError(f"timed out after {seconds:.0f} s waiting for {what}")
        time.sleep(0.02)
