"""A process of Kafka's own server, started from a properties file."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.interop.stock_tools.tools import KAFKA, StockTools
from tests.support.processes.daemons import PATIENCE_S

HEAP = ("-Xms64M", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class KafkaProcess:
    """A Kafka controller or broker: its properties file, its output and, while it runs, its process."""

    def __init__(self, tools: StockTools, config: Path, output: Path) -> None:
        self.output = output
        self._config = config
        self._tools = tools
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        with self.output.open("ab") as output:
            command = self._tools.command(KAFKA, self._config, java=HEAP)
            self._child = subprocess.Popen(command, stdout=output, stderr=output)

    def end(self, number: signal.Signals) -> None:
        """Send a signal and wait until the process has ended."""
        assert self._child is not None
        self._child.send_signal(number)
        self._child.wait(PATIENCE_S)

    def kill(self) -> None:
        """Kill the process, and wait until it has ended."""
        self.end(signal.SIGKILL)

    def stop(self) -> None:
        """Kill the process if it runs."""
        if self.runs:
            self.kill()
