"""The fleet as a child process of the orchestrator."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.faults import Anomaly
from tests.chaos.fleet.history import FleetHistory
from tests.chaos.machine import Patience

CALM_S = 60.0
"""Time after healing within which every broker must be active and every replica in sync."""
LISTENING = "listens to signals"
"""The process prints this line once it handles signals."""


class FleetProcess:
    """A child process that runs the fleet; `history` is set by `stop`."""

    def __init__(self, directory: Path, addresses: list[tuple[str, int]], seed: int) -> None:
        self.history = FleetHistory()
        self._file, self._calm = directory / "fleet.jsonl", directory / "fleet.calm"
        self._output = directory / "fleet.log"
        command = [sys.executable, "-m", "tests.chaos.fleet", "--seed", str(seed)]
        command += ["--history", str(self._file), "--calm", str(self._calm)]
        command += [f"{host}:{port}" for host, port in addresses]
        with self._output.open("wb") as output:
            self._child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def so_far(self) -> FleetHistory:
        """Return the history so far."""
        return FleetHistory.read(self._file) if self._file.exists() else FleetHistory()

    def rest(self, patience: Patience) -> None:
        """Start no more actions, and wait until all brokers are active and all replicas in sync. Raises Anomaly."""
        self._wait_until(
            lambda: LISTENING in self._output.read_text(), patience, "the fleet did not start in time"
        )
        self._child.send_signal(signal.SIGUSR1)
        order = "not all brokers were active and in sync in time: see fleet.jsonl"
        self._wait_until(self._calm.exists, patience, order)

    def _wait_until(self, condition: Callable[[], bool], patience: Patience, otherwise: str) -> None:
        while not condition():
            if self._child.poll() is not None:
                raise Anomaly(f"the fleet ended with {self._child.returncode}: {self._output.read_text()}")
            if patience.is_over:
                raise Anomaly(otherwise)
            time.sleep(0.05)

    def stop(self) -> None:
        """End the process and read its history. Raises Anomaly if it failed."""
        self._child.terminate()
        code = self._child.wait(300)
        self.history = self.so_far()
        if code:
            raise Anomaly(f"the fleet ended with {code}: {self._output.read_text()}")


@contextmanager
def fleet_process(directory: Path, addresses: list[tuple[str, int]], seed: int) -> Iterator[FleetProcess]:
    """Start a fleet, and stop it at the end."""
    fleet = FleetProcess(directory, addresses, seed)
    try:
        yield fleet
    finally:
        fleet.stop()
