"""Daemons in their own processes, and clusters of daemons, in a directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.error import HTTPError
from urllib.request import urlopen

from quorumd.cli.format.initial_features import bootstrap_content
from quorumd.cli.local_cluster import format_nodes
from tests.support.processes.ports import free_port
from tests.support.processes.requests import Quorum, Refused, leader_known, quorum
from tests.support.processes.wire import Wire

T = TypeVar("T")

PARTITION_DIRECTORY = "__cluster_metadata-0"
TIMING = {
    "quorum.fetch.timeout.ms": 30_000,
    "quorum.election.timeout.ms": 1000,
    "quorum.request.timeout.ms": 30_000,
    "broker.session.timeout.ms": 120_000,
}
"""Timeouts with which a machine that stalls for seconds costs no node its leadership or session.

A killed or stopped leader is still replaced at once, because it refuses connections or hands over. Tests in which a
node stops responding use `QUICK` timing.
"""
QUICK = "quorum.fetch.timeout.ms=2000\nquorum.request.timeout.ms=2000\n"
"""Kafka's default timeouts: a node that does not respond for two seconds counts as lost."""
PATIENCE_S = 300.0
"""Timeout of operations that take milliseconds: shared machines stall for tens of seconds with their disk."""
RESPONSE_TIMEOUT_S = 5.0
"""Timeout of a request to a node that may be frozen."""


def wait_for(what: str, condition: Callable[[], T], seconds: float = PATIENCE_S) -> T:
    """Poll until `condition` returns a truthy value, and return it; OSError counts as false."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if value := condition():
                return value
        except OSError:
            pass
        assert time.monotonic() < deadline, f"timed out after {seconds} s waiting for {what}"
        time.sleep(0.01)


def run_quorumd(
    *arguments: str | Path, timeout: float = PATIENCE_S, **options: object
) -> subprocess.CompletedProcess[str]:
    """Run a `quorumd` command to its end."""
    command = [sys.executable, "-m", "quorumd", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)  # type: ignore[call-overload, no-any-return] # options of subprocess


class Daemon:
    """One node: its properties file, data directory, output and, while it runs, its process.

    Without `voters` it knows other nodes only from `extra`, for example from bootstrap.servers.
    """

    def __init__(
        self, directory: Path, node_id: int, port: int, voters: dict[int, int], extra: str = ""
    ) -> None:
        directory.mkdir(parents=True)
        self.node_id = node_id
        self.port = port
        self.http_port = free_port()
        self.data = directory / "data"
        self.output = directory / "daemon.log"
        self.config = directory / "node.properties"
        self.voters = voters
        self.child: subprocess.Popen[bytes] | None = None
        self.configure(extra)
        if set(voters) == {node_id}:
            format_nodes({node_id: (self.data, voters[node_id])})

    def configure(self, extra: str = "") -> None:
        """Write the properties file; `extra` may override `listeners`, `log.dirs` and the timeouts of `TIMING`."""
        given = {line.partition("=")[0] for line in extra.splitlines()}
        defaults = {"listeners": f"CONTROLLER://127.0.0.1:{self.port}", "log.dirs": str(self.data), **TIMING}
        others = "".join(f"{key}={value}\n" for key, value in defaults.items() if key not in given)
        voters = ",".join(f"{voter}@127.0.0.1:{port}" for voter, port in self.voters.items())
        self.config.write_text(
            f"node.id={self.node_id}\n"
            + (f"quorum.voters={voters}\n" if voters else "")
            + f"metrics.listener=127.0.0.1:{self.http_port}\n"
            f"{others}"
            f"{extra}"
        )

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.port)

    @property
    def partition_directory(self) -> Path:
        return self.data / PARTITION_DIRECTORY

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
        """Kill the process with SIGKILL, and wait until it has ended."""
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self, seconds: float = PATIENCE_S) -> int:
        """Wait for the end of the process and return its exit code."""
        assert self.child is not None
        return self.child.wait(seconds)

    def stop(self) -> None:
        """Terminate the process, also if it is stopped by a signal, and kill it if it does not end."""
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(signal.SIGCONT)
            self.child.terminate()
            try:
                self.child.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()

    def log_text(self) -> str:
        """Return all output of the process so far."""
        return self.output.read_text(errors="replace")

    def describe_quorum(self) -> Quorum | None:
        """Return the quorum as the node describes it, None while it does not respond."""
        try:
            with Wire(self.address, timeout=RESPONSE_TIMEOUT_S) as wire:
                return quorum(wire)
        except OSError:
            return None

    def follows(self) -> int:
        """Return the leader that the node reports, -1 for none. Raises OSError while the node does not respond."""
        with Wire(self.address, timeout=RESPONSE_TIMEOUT_S) as wire:
            return leader_known(wire)

    def await_quorum(self) -> Quorum:
        """Wait for a response of `describe_quorum`."""
        return wait_for(f"node {self.node_id} to respond", self.describe_quorum)


def readyz(daemon: Daemon) -> tuple[int, str]:
    """Return status code and body of a daemon's /readyz."""
    try:
        with urlopen(f"http://127.0.0.1:{daemon.http_port}/readyz", timeout=30) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


class BrokerDaemon(Daemon):
    """A broker of the quorum of `voters`, which may be a voter itself; by default it is the only voter."""

    def __init__(
        self, directory: Path, node_id: int = 1, voters: dict[int, int] | None = None, extra: str = ""
    ) -> None:
        voters = voters or {node_id: free_port()}
        is_voter = node_id in voters
        port = voters[node_id] if is_voter else free_port()
        self.clients = free_port() if is_voter else port
        """The port of the listener for clients."""
        super().__init__(directory, node_id, port, voters, extra)

    def configure(self, extra: str = "") -> None:
        roles = ["broker"]
        listeners = [f"PLAINTEXT://127.0.0.1:{self.clients}"]
        if self.node_id in self.voters:
            roles.append("controller")
            listeners.append(f"CONTROLLER://127.0.0.1:{self.port}")
        super().configure(
            f"process.roles={','.join(roles)}\n"
            f"listeners={','.join(listeners)}\n"
            f"controller.listener.names=CONTROLLER\n{extra}"
        )

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.clients}"

    def start_and_wait(self) -> None:
        """Start, and return when clients are served."""
        self.start()
        wait_for("the broker to serve clients", lambda: "serves clients" in self.log_text(), PATIENCE_S)


class Cluster:
    """Voters 1 to `size` on loopback. Unless there is only one, they are formatted with the features of `release`."""

    def __init__(self, directory: Path, size: int = 3, extra: str = "", release: str | None = None) -> None:
        ports = {node_id: free_port() for node_id in range(1, size + 1)}
        self.daemons = {
            node_id: Daemon(directory / f"node-{node_id}", node_id, port, ports, extra)
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
        """Wait until meta.properties of all nodes has the same cluster id, and return it."""
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
        """Restart the nodes that do not run, and wait until all have caught up."""
        for daemon in self.daemons.values():
            if daemon.child is None or daemon.child.poll() is not None:
                daemon.start()
        self.wait_until_level()

    def leader(self, besides: int = -1, seconds: float = PATIENCE_S) -> Daemon:
        """Wait for a node other than `besides` that reports itself as leader with a high watermark."""

        def find() -> Daemon | None:
            best: tuple[int, Daemon] | None = None
            for daemon in self.daemons.values():
                if daemon.node_id == besides or daemon.child is None or daemon.child.poll() is not None:
                    continue
                seen = daemon.describe_quorum()
                if seen and seen.error == 0 and seen.leader == daemon.node_id and seen.high_watermark >= 0:
                    best = max(best or (seen.epoch, daemon), (seen.epoch, daemon), key=lambda pair: pair[0])
            return best[1] if best else None

        try:
            return wait_for("a leader", find, seconds)
        except AssertionError as failure:
            states = [
                f"node {d.node_id}: exit code {d.child and d.child.poll()}, {d.describe_quorum()}"
                for d in self
            ]
            raise AssertionError(f"{failure}; {'; '.join(states)}") from None

    def leader_quorum(self) -> Quorum:
        """Wait for a leader, and return the quorum as the leader describes it."""

        def describe() -> Quorum | None:
            seen = self.leader().describe_quorum()
            return seen if seen is not None and seen.high_watermark >= 0 else None

        return wait_for("the leader to describe the quorum", describe)

    def at_leader(self, action: Callable[[Wire], T]) -> T:
        """Run `action` at the current leader, and repeat it while it is refused or gets no response."""

        def attempt() -> tuple[T] | None:
            try:
                with self.leader().connect() as wire:
                    return (action(wire),)
            except Refused:
                return None

        return wait_for("an action at the leader", attempt)[0]

    def others(self, daemon: Daemon) -> list[Daemon]:
        return [other for other in self.daemons.values() if other is not daemon]

    def wait_until_level(self, seconds: float = PATIENCE_S) -> int:
        """Wait until every node has the whole log, all of it committed, and knows the leader; return the high
        watermark.

        Every node is queried, too, since the leader may still list the progress of a node that was just killed.
        """

        def level() -> int | None:
            seen = self.leader_quorum()
            held = {seen.replicas.get(node_id) for node_id in self.daemons}
            if held != {seen.high_watermark} or any(each.follows() != seen.leader for each in self):
                return None
            return seen.high_watermark

        return wait_for("all nodes to catch up", level, seconds)
