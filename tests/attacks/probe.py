"""Commits one write after the other, and measures the longest time without a commit: `python -m tests.attacks.probe`.

A process of its own, so that an attack costs it no processor time. It reads lines from its standard input: "mark"
begins an interval, "report" prints the measurements of the interval as JSON.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from threading import Thread

from quorumd.client.load import write_request

TICK_S = 0.001
TIMEOUT_S = 1.0
ERROR_AT = 10
"""After the correlation id, the tags, the throttle time and the number of results."""


@dataclass(slots=True)
class Interval:
    """`stall_ms`: the longest time without a commit. `machine_ms`: how late this process woke up from a sleep of a
    millisecond at worst, which is what the machine adds to any stall."""

    commits: int = 0
    stall_ms: float = 0.0
    machine_ms: float = 0.0
    elections: int = 0
    """How often the node that committed writes changed."""


class Probe:
    """Writes at whichever node leads. `run` never returns."""

    def __init__(self, addresses: list[tuple[str, int]]) -> None:
        self._addresses = addresses
        self._turn = 0
        self._socket: socket.socket | None = None
        self._buffer = b""
        self._frames = [write_request("attack-probe", 20, fill) for fill in "xy"]
        self._committed_at = -1
        self._last = time.monotonic()
        self.interval = Interval()

    def mark(self) -> None:
        """Begin an interval."""
        self.interval = Interval()
        self._last = time.monotonic()

    def report(self) -> Interval:
        """Return the interval so far, with the time since the last commit."""
        self.interval.stall_ms = max(self.interval.stall_ms, (time.monotonic() - self._last) * 1000)
        return self.interval

    def write(self) -> None:
        """Commit one write, or turn to the next node."""
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._addresses[self._turn], TIMEOUT_S)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._frames.reverse()
            self._socket.sendall(self._frames[0])
            response = self._read(self._read_size())
            (error,) = struct.unpack_from(">h", response, ERROR_AT)
        except OSError:
            error = -1
        if error:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            self._turn = (self._turn + 1) % len(self._addresses)
            time.sleep(TICK_S)
            return
        now = time.monotonic()
        self.interval.commits += 1
        self.interval.stall_ms = max(self.interval.stall_ms, (now - self._last) * 1000)
        self._last = now
        if self._committed_at not in (-1, self._turn):
            self.interval.elections += 1
        self._committed_at = self._turn

    def watch_machine(self) -> None:
        """Measure how late a sleep ends."""
        while True:
            began = time.monotonic()
            time.sleep(TICK_S)
            late_ms = (time.monotonic() - began - TICK_S) * 1000
            self.interval.machine_ms = max(self.interval.machine_ms, late_ms)

    def _read_size(self) -> int:
        (size,) = struct.unpack(">i", self._read(4))
        return int(size)

    def _read(self, length: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < length:
            chunk = self._socket.recv(length - len(data))
            if not chunk:
                raise ConnectionResetError
            data += chunk
        return data


def main() -> None:
    """Probe the nodes at `host:port ...` until the standard input ends."""
    addresses = [(host, int(port)) for host, _, port in (each.rpartition(":") for each in sys.argv[1:])]
    probe = Probe(addresses)
    Thread(target=probe.watch_machine, daemon=True).start()
    while True:
        probe.write()
        if select.select([sys.stdin], [], [], 0)[0]:
            lines = os.read(0, 4096)
            if not lines:
                return
            for line in lines.split():
                if line == b"mark":
                    probe.mark()
                else:
                    print(json.dumps(asdict(probe.report())), flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
