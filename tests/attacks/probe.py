"""Commit one write after the other, and measure what delays commits: `python -m tests.attacks.probe host:port ...`.

The probe runs in its own process, so that the attacks do not share its interpreter. It reads lines from its standard
input: "mark PID ..." starts an interval, with the processes of the nodes or 0 for a node that does not run, and
"report" prints the measurements of the interval as JSON.

A busy machine delays commits as well. So besides the time without a commit the probe measures the processor time that
a node used while a request waited for its response: for the commits, and for small requests that are sent to every
node all the time. During this processor time other clients occupied the node's event loop.
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
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest

TICK_S = 0.001
TIMEOUT_S = 1.0
GREETING_PAUSE_S = 0.002
ERROR_AT = 10
"""The position of the error code: after the correlation id, tags, throttle time and number of results."""


@dataclass(slots=True)
class Interval:
    """The measurements of an interval."""

    commits: int = 0
    stall_ms: float = 0.0
    """The longest time without a commit."""
    machine_ms: float = 0.0
    """The longest delay of this process after a sleep of one millisecond: the part of the machine in a stall."""
    commit_cpu_ms: float = 0.0
    """The maximum processor time that the leader used between a write and its response."""
    wait_cpu_ms: float = 0.0
    """The maximum processor time that any node used between a small request and its response."""
    elections: int = 0
    """How often the node that committed writes changed."""


class Node:
    """A connection to a node, which also measures the processor time of the node's process."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._clock: int | None = None
        self._socket: socket.socket | None = None

    def set_process(self, pid: int) -> None:
        """Set the id of the node's process, or 0 if the node does not run."""
        # The identifier of the CPU clock of another process, see clock_getcpuclockid(3).
        self._clock = ~pid << 3 | 2 if pid else None

    def request(self, frame: bytes) -> tuple[bytes, float]:
        """Return the response to a request, and the processor time in ms that the node used until then."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = self._cpu_s()
        self._socket.sendall(frame)
        (size,) = struct.unpack(">i", self._read(4))
        response = self._read(size)
        return response, (self._cpu_s() - began) * 1000

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _cpu_s(self) -> float:
        return 0.0 if self._clock is None else time.clock_gettime(self._clock)

    def _read(self, length: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < length:
            chunk = self._socket.recv(length - len(data))
            if not chunk:
                raise ConnectionResetError
            data += chunk
        return data


class Probe:
    """Sends writes to the leader, and small requests to every node."""

    def __init__(self, addresses: list[tuple[str, int]]) -> None:
        self._writers = [Node(address) for address in addresses]
        self._greeters = [Node(address) for address in addresses]
        self._turn = 0
        self._frames = [write_request("attack-probe", 20, fill) for fill in "xy"]
        self._committed_at = -1
        self._last = time.monotonic()
        self.interval = Interval()

    def mark(self, pids: list[int]) -> None:
        """Start an interval."""
        for node, pid in zip(self._writers + self._greeters, pids * 2, strict=True):
            node.set_process(pid)
        self.interval = Interval()
        self._last = time.monotonic()

    def report(self) -> Interval:
        """Return the measurements so far; `stall_ms` includes the time since the last commit."""
        self.interval.stall_ms = max(self.interval.stall_ms, (time.monotonic() - self._last) * 1000)
        return self.interval

    def start(self) -> None:
        """Start the threads that measure everything except commits."""
        for measure, argument in (
            (self._watch_machine, None),
            *((self._greet, each) for each in self._greeters),
        ):
            Thread(target=measure, args=(argument,), daemon=True).start()

    def write(self) -> None:
        """Commit one write, or choose the next node if it fails."""
        node, interval = self._writers[self._turn], self.interval
        self._frames.reverse()
        try:
            response, cpu_ms = node.request(self._frames[0])
            (error,) = struct.unpack_from(">h", response, ERROR_AT)
        except OSError:
            error = -1
        if error:
            node.close()
            self._turn = (self._turn + 1) % len(self._writers)
            time.sleep(TICK_S)
            return
        now = time.monotonic()
        interval.commits += 1
        interval.stall_ms = max(interval.stall_ms, (now - self._last) * 1000)
        interval.commit_cpu_ms = max(interval.commit_cpu_ms, cpu_ms)
        self._last = now
        if self._committed_at not in (-1, self._turn):
            interval.elections += 1
        self._committed_at = self._turn

    def _greet(self, node: Node) -> None:
        """Send small requests to a node, one after the other."""
        _, frame = ClientConnection("attack-probe").request(ApiVersionsRequest("probe", "1"), 3)
        while True:
            interval = self.interval
            try:
                _, cpu_ms = node.request(frame)
                interval.wait_cpu_ms = max(interval.wait_cpu_ms, cpu_ms)
            except OSError:
                node.close()
            time.sleep(GREETING_PAUSE_S)

    def _watch_machine(self, _: None) -> None:
        """Measure how late a sleep ends."""
        while True:
            began = time.monotonic()
            time.sleep(TICK_S)
            late_ms = (time.monotonic() - began - TICK_S) * 1000
            self.interval.machine_ms = max(self.interval.machine_ms, late_ms)


def main() -> None:
    """Probe the nodes at `host:port ...` until the standard input ends."""
    addresses = [(host, int(port)) for host, _, port in (each.rpartition(":") for each in sys.argv[1:])]
    probe = Probe(addresses)
    probe.start()
    while True:
        probe.write()
        if select.select([sys.stdin], [], [], 0)[0]:
            lines = os.read(0, 4096)
            if not lines:
                return
            for command, *pids in map(bytes.split, lines.splitlines()):
                if command == b"mark":
                    probe.mark(list(map(int, pids)))
                else:
                    print(json.dumps(asdict(probe.report())), flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
