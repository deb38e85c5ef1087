"""Real daemons in real processes: a cluster of them in a folder, started, hurt and stopped by process id."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.error import HTTPError
from urllib.request import urlopen

from quorumd.cli.initial_features import bootstrap_content
from quorumd.cli.local_cluster import format_nodes
from tests.support.processes.requests import Quorum, Refused, leader_known, quorum
from tests.support.processes.wire import Wire

T = TypeVar("T")

LOG_FOLDER = "__cluster_metadata-0"
TIMING = {
    "quorum.fetch.timeout.ms": 30_000,
    "quorum.election.timeout.ms": 1000,
    "quorum.request.timeout.ms": 30_000,
    "broker.session.timeout.ms": 120_000,
}
"""Nobody loses its leadership or its session because the machine stands still for seconds.

A leader that is killed or stopped is replaced at once all the same: it refuses connections, or hands over. Tests
in which a node falls silent ask for `QUICK` timing.
"""
QUICK = "quorum.fetch.timeout.ms=2000\nquorum.request.timeout.ms=2000\n"
"""Kafka's defaults: who is not heard of for two seconds is taken for gone."""
PATIENCE_S = 300.0
"""For what takes milliseconds: shared machines stop for tens of seconds when their disk does."""
ASKED_S = 5.0
"""How long one that may be frozen is given to answer before another one is asked."""

_next_port = 20_000 + os.getpid() * 64 % 10_000


def free_port() -> int:
    """A loopback port nobody listens on, below the range that outgoing connections take theirs from."""
    global _next_port
    while True:
        _next_port += 1
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", _next_port))
                return _next_port
            except OSError:
                continue


def wait_for(what: str, condition: Callable[[], T], seconds: float = PATIENCE_S) -> T:
    """Poll until `condition` is truthy and return that; OSError counts as not yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if value := condition():
                return value
        except OSError:
            pass
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        time.sleep(0.01)


def run_quorumd(
    *arguments: str | Path, timeout: float = PATIENCE_S, **options: object
) -> subprocess.CompletedProcess[str]:
    """One `quorumd` command to its end."""
    command = [sys.executable, "-m", "quorumd", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)  # type: ignore[call-overload, no-any-return] # options of subprocess


class Daemon:
    """One node: its properties file, data folder, output and, while it runs, its process.

    Without `voters` it knows only what `extra` says: bootstrap.servers, say.
    """

    def __init__(
        self, folder: Path, node_id: int, port: int, voters: dict[int, int], extra: str = ""
    ) -> None:
        folder.mkdir(parents=True)
        self.node_id = node_id
        self.port = port
        self.http_port = free_port()
        self.data = folder / "data"
        self.output = folder / "daemon.log"
        self.config = folder / "node.properties"
        self.voters = voters
        self.child: subprocess.Popen[bytes] | None = None
        self.configure(extra)
        if set(voters) == {node_id}:
            format_nodes({node_id: (self.data, voters[node_id])})

    def configure(self, extra: str = "") -> None:
        """Write the properties file; `extra` goes before `TIMING`."""
        timing = "".join(f"{key}={value}\n" for key, value in TIMING.items() if f"{key}=" not in extra)
        voters = ",".join(f"{voter}@127.0.0.1:{port}" for voter, port in self.voters.items())
        self.config.write_text(
            f"node.id={self.node_id}\n"
            f"listeners=CONTROLLER://127.0.0.1:{self.port}\n"
            f"log.dirs={self.data}\n"
            + (f"quorum.voters={voters}\n" if voters else "")
            + f"metrics.listener=127.0.0.1:{self.http_port}\n"
            f"{timing}"
            f"{extra}"
        )

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.port)

    @property
    def log_folder(self) -> Path:
        return self.data / LOG_FOLDER

    @property
    def pid(self) -> int:
        assert self.child is not None
        return self.child.pid

    @property
    def runs(self) -> bool:
        return self.child is not None and self.child.poll() is None

    def connect(self) -> Wire:
        return Wire(self.address)

    def format(self, *arguments: str) -> None:
        result = run_quorumd("format", "--config", self.config, *arguments)
        assert result.returncode == 0, result.stderr

    def start(
        self, environment: dict[str, str] | None = None, limits: Callable[[], None] | None = None
    ) -> None:
        with self.output.open("ab") as output:
            self.child = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "quorumd",
                    "start",
                    "--config",
                    str(self.config),
                    "--format-if-needed",
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                preexec_fn=limits,
            )

    def signal(self, number: signal.Signals) -> None:
        assert self.child is not None
        self.child.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait until the process is gone."""
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self, seconds: float = PATIENCE_S) -> int:
        """The exit code, once the process has ended."""
        assert self.child is not None
        return self.child.wait(seconds)

    def stop(self) -> None:
        """Whatever state it is in, it does not run afterwards."""
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(signal.SIGCONT)
            self.child.terminate()
            try:
                self.child.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()

    def said(self) -> str:
        """All that it printed so far."""
        return self.output.read_text(errors="replace")

    def asked(self) -> Quorum | None:
        """What it says of the quorum, None while it does not answer."""
        try:
            with Wire(self.address, timeout=ASKED_S) as wire:
                return quorum(wire)
        except OSError:
            return None

    def follows(self) -> int:
        """The node that it takes for the leader, -1 for none. Raises OSError while it does not answer."""
        with Wire(self.address, timeout=ASKED_S) as wire:
            return leader_known(wire)

    def told(self) -> Quorum:
        """As `asked`, once it answers."""
        return wait_for(f"node {self.node_id} to answer", self.asked)


def readyz(daemon: Daemon) -> tuple[int, str]:
    """Status code and body of a daemon's /readyz."""
    try:
        with urlopen(f"http://127.0.0.1:{daemon.http_port}/readyz", timeout=30) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


class Cluster:
    """Voters 1 to `size` on loopback; more than one begin with the features of `release`."""

    def __init__(self, folder: Path, size: int = 3, extra: str = "", release: str | None = None) -> None:
        ports = {node_id: free_port() for node_id in range(1, size + 1)}
        self.daemons = {
            node_id: Daemon(folder / f"node-{node_id}", node_id, port, ports, extra)
            for node_id, port in ports.items()
        }
        if size > 1:
            nodes = {daemon.node_id: (daemon.data, daemon.port) for daemon in self}
            format_nodes(nodes, bootstrap_content(release))

    def __getitem__(self, node_id: int) -> Daemon:
        return self.daemons[node_id]

    def __iter__(self) -> Iterator[Daemon]:
        return iter(self.daemons.values())

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [daemon.address for daemon in self.daemons.values()]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    def cluster_id(self) -> str:
        """What meta.properties of the nodes agrees on, once all know it."""
        files = [daemon.data / "meta.properties" for daemon in self.daemons.values()]

        def known() -> str | None:
            lines = [line for file in files for line in file.read_text().splitlines()]
            ids = [line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id=")]
            return ids[0] if len(ids) == len(files) and len(set(ids)) == 1 else None

        return wait_for("the nodes to agree on a cluster id", known)

    def start(self) -> None:
        for daemon in self.daemons.values():
            daemon.start()
        self.leader()

    def stop(self) -> None:
        for daemon in self.daemons.values():
            daemon.stop()

    def heal(self) -> None:
        """Start again whatever does not run, and wait until all have everything."""
        for daemon in self.daemons.values():
            if daemon.child is None or daemon.child.poll() is not None:
                daemon.start()
        self.wait_until_level()

    def leader(self, besides: int = -1, seconds: float = PATIENCE_S) -> Daemon:
        """The node that says it leads and has a high watermark, other than `besides`."""

        def look() -> Daemon | None:
            best: tuple[int, Daemon] | None = None
            for daemon in self.daemons.values():
                if daemon.node_id == besides or daemon.child is None or daemon.child.poll() is not None:
                    continue
                told = daemon.asked()
                if told and told.error == 0 and told.leader == daemon.node_id and told.high_watermark >= 0:
                    best = max(best or (told.epoch, daemon), (told.epoch, daemon), key=lambda pair: pair[0])
            return best[1] if best else None

        try:
            return wait_for("a leader", look, seconds)
        except AssertionError as failure:
            states = [f"node {d.node_id}: exit code {d.child and d.child.poll()}, {d.asked()}" for d in self]
            raise AssertionError(f"{failure}; {'; '.join(states)}") from None

    def leader_says(self) -> Quorum:
        """What the leader says of the quorum, once there is one."""

        def ask() -> Quorum | None:
            told = self.leader().asked()
            return told if told is not None and told.high_watermark >= 0 else None

        return wait_for("what the leader says of the quorum", ask)

    def at_leader(self, action: Callable[[Wire], T]) -> T:
        """What `action` comes to at the leader, whoever leads; again while it is refused or gets no answer."""

        def attempt() -> tuple[T] | None:
            try:
                with self.leader().connect() as wire:
                    return (action(wire),)
            except Refused:
                return None

        return wait_for("the leader to do it", attempt)[0]

    def others(self, daemon: Daemon) -> list[Daemon]:
        return [other for other in self.daemons.values() if other is not daemon]

    def wait_until_level(self, seconds: float = PATIENCE_S) -> int:
        """Wait until every node, voter or not, knows who leads and holds all that one has, all of it committed; the
        high watermark. A node that has just been killed may still count as holding it: so each is asked itself."""

        def level() -> int | None:
            told = self.leader_says()
            held = {told.replicas.get(node_id) for node_id in self.daemons}
            if held != {told.high_watermark} or any(each.follows() != told.leader for each in self):
                return None
            return told.high_watermark

        return wait_for("all nodes to catch up", level, seconds)
