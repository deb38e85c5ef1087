"""A cluster of daemon processes on the loopback interface of this machine.

    <folder>/cluster.json               number of nodes and base port
    <folder>/node-<i>/quorumd.properties
    <folder>/node-<i>/data/             the data folder
    <folder>/node-<i>/daemon.log        the daemon's output
    <folder>/node-<i>/pid               the last started process; ignored unless it is still this node's daemon

Node i listens on base_port + i and serves metrics on base_port + 100 + i. In a cluster with brokers it also serves
clients on base_port + 200 + i. All state is in the folder: every
process that opens it sees the same cluster.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from quorumd.errors import ConfigError, QuorumdError

HOST = "127.0.0.1"
METRICS_PORT_OFFSET = 100
CLIENT_PORT_OFFSET = 200
MAX_REPLICATION_FACTOR = 3
"""Of the topics of coordinators, in a cluster with as many brokers."""
STOP_TIMEOUT_S = 10.0


class AddressInUse(QuorumdError):
    """Another process listens on an address of a node."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The content of `cluster.json`."""

    nodes: int
    base_port: int
    brokers: bool = False
    """Whether every node is a broker too."""


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One node: its id, ports and files."""

    id: int
    folder: Path
    port: int
    metrics_port: int
    client_port: int
    """The port for clients of the cluster: that of the broker, or of the quorum without brokers."""

    @property
    def config(self) -> Path:
        return self.folder / "quorumd.properties"

    @property
    def log(self) -> Path:
        return self.folder / "daemon.log"

    @property
    def pid_file(self) -> Path:
        return self.folder / "pid"

    def pid(self) -> int | None:
        """The process id of this node; None if it is not running or its pid file is stale."""
        try:
            pid = int(self.pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if _is_daemon_of(pid, self.config) else None

    def log_tail(self, lines: int = 8) -> list[str]:
        """The last lines of the daemon's output."""
        try:
            return self.log.read_text(errors="replace").splitlines()[-lines:]
        except FileNotFoundError:
            return []


class LocalCluster:
    """A local cluster and its folder."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self.folder = folder.resolve()
        self.layout = layout
        self.nodes = [
            LocalNode(
                i,
                self.folder / f"node-{i}",
                port,
                port + METRICS_PORT_OFFSET,
                port + CLIENT_PORT_OFFSET if layout.brokers else port,
            )
            for i in range(layout.nodes)
            for port in (layout.base_port + i,)
        ]

    @classmethod
    def open(cls, folder: Path) -> LocalCluster:
        """The existing cluster in this folder. Raises ConfigError if there is none."""
        file = folder / "cluster.json"
        try:
            stored = json.loads(file.read_text())
            brokers = bool(stored.get("brokers", False))
            return cls(folder, Layout(int(stored["nodes"]), int(stored["base_port"]), brokers))
        except FileNotFoundError:
            raise ConfigError(
                f"{folder}: no cluster in this folder; create one with `quorumd cluster up --dir {folder}`"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigError(
                f"{file}: not written by `quorumd cluster up`; remove the file and run that command"
            ) from None

    @classmethod
    def open_or_plan(
        cls,
        folder: Path,
        nodes: int | None = None,
        base_port: int | None = None,
        brokers: bool | None = None,
    ) -> LocalCluster:
        """The cluster in this folder, or the one that `create` would create. None stands for the existing value or
        the default. Raises ConfigError if the folder holds a cluster with other values: its log would not fit.
        """
        if not (folder / "cluster.json").exists():
            return cls(folder, Layout(nodes or 3, base_port or 9192, bool(brokers)))
        existing = cls.open(folder)
        if brokers and not existing.layout.brokers:
            raise ConfigError(
                f"{folder}: the cluster in this folder has no brokers; omit --brokers, or choose another --dir"
            )
        wanted = Layout(
            nodes or existing.layout.nodes, base_port or existing.layout.base_port, existing.layout.brokers
        )
        if wanted != existing.layout:
            raise ConfigError(
                f"{folder}: the cluster in this folder has {existing.layout.nodes} nodes from port "
                f"{existing.layout.base_port}; omit --nodes and --base-port, or choose another --dir"
            )
        return existing

    @property
    def is_new(self) -> bool:
        """Whether no node has a data folder yet."""
        return not any((node.folder / "data").exists() for node in self.nodes)

    def check_is_new(self) -> None:
        """Raises ConfigError for an existing cluster, whose initial features can no longer be chosen."""
        if not self.is_new:
            raise ConfigError(
                f"{self.folder}: the cluster already exists; omit --release-version and --feature, use "
                "`quorumd features upgrade` or `downgrade` instead, or choose another --dir"
            )

    def create(self, bootstrap: bytes | None = None) -> None:
        """Write the properties files and `cluster.json` unless they exist. If all nodes are new, format them to
        found a quorum together with the initial records `bootstrap`; a node that lost its folder later joins the
        others."""
        if self.is_new:
            data_folders = {node.id: (node.folder / "data", node.port) for node in self.nodes}
            format_nodes(data_folders, bootstrap)
        for node in self.nodes:
            node.folder.mkdir(parents=True, exist_ok=True)
            if not node.config.exists():
                node.config.write_text(self.properties(node))
        (self.folder / "cluster.json").write_text(json.dumps(asdict(self.layout)) + "\n")

    @property
    def bootstrap(self) -> str:
        """All nodes as `host:port,...`, for clients."""
        return ",".join(f"{HOST}:{node.client_port}" for node in self.nodes)

    def properties(self, node: LocalNode) -> str:
        """The content of one node's properties file."""
        voters = ",".join(f"{other.id}@{HOST}:{other.port}" for other in self.nodes)
        listeners = f"listeners=CONTROLLER://{HOST}:{node.port}"
        if self.layout.brokers:
            replicas = min(len(self.nodes), MAX_REPLICATION_FACTOR)
            listeners = (
                "process.roles=broker,controller\n"
                f"{listeners},PLAINTEXT://{HOST}:{node.client_port}\n"
                "controller.listener.names=CONTROLLER\n"
                "# A killed broker is fenced, and may come back, sooner than usual; groups start at once.\n"
                "broker.session.timeout.ms=3s\n"
                "broker.heartbeat.interval.ms=500ms\n"
                "group.initial.rebalance.delay.ms=0ms\n"
                "offsets.topic.num.partitions=10\n"
                "transaction.state.log.num.partitions=10\n"
                f"offsets.topic.replication.factor={replicas}\n"
                f"transaction.state.log.replication.factor={replicas}\n"
                f"transaction.state.log.min.isr={min(replicas, 2)}"
            )
        return (
            f"# Node {node.id} of a cluster on loopback, written by `quorumd cluster up`.\n"
            f"node.id={node.id}\n"
            f"{listeners}\n"
            f"quorum.voters={voters}\n"
            f"log.dirs={node.folder / 'data'}\n"
            f"metrics.listener={HOST}:{node.metrics_port}\n"
        )

    def start(self, node: LocalNode) -> subprocess.Popen[bytes]:
        """Start a stopped node, detached: it outlives this process and its terminal."""
        from quorumd.config.environment import without_overrides

        with node.log.open("ab") as log:
            command = [
                sys.executable,
                "-m",
                "quorumd",
                "start",
                "--config",
                str(node.config),
                "--format-if-needed",
            ]
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                # An override such as QUORUMD_NODE_ID would apply to every node.
                env=without_overrides(os.environ),
            )
        node.pid_file.write_text(f"{process.pid}\n")
        return process

    def check_addresses(self, nodes: Iterable[LocalNode]) -> None:
        """Raises AddressInUse if one of these nodes could not bind its ports."""
        for node in nodes:
            for port in dict.fromkeys((node.port, node.metrics_port, node.client_port)):
                if not is_free(port):
                    raise AddressInUse(
                        f"{HOST}:{port}, an address of node {node.id}, is in use by another process; "
                        f"stop that process or choose another --base-port"
                    )

    def stop(self, report: Callable[[str], None]) -> list[LocalNode]:
        """Stop every running node and return them; a node that does not stop in time is killed."""
        running = [(node, pid) for node in self.nodes if (pid := node.pid()) is not None]
        for _, pid in running:
            _signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while any(node.pid() is not None for node, _ in running) and time.monotonic() < deadline:
            time.sleep(0.02)
        for node, pid in running:
            if node.pid() == pid:
                report(
                    f"node {node.id} (pid {pid}) did not stop within {STOP_TIMEOUT_S:.0f} s and was killed"
                )
                _signal(pid, signal.SIGKILL)
            node.pid_file.unlink(missing_ok=True)
        return [node for node, _ in running]


def format_nodes(nodes: Mapping[int, tuple[Path, int]], bootstrap: bytes | None = None) -> None:
    """Format the data folders of local nodes, given with their ports, like `quorumd format --initial-controllers`:
    the nodes found one quorum with the initial records `bootstrap`. Raises StorageError."""
    from quorumd.log.meta_properties import format_folder
    from quorumd.log.quorum_state_file import Founder
    from quorumd.runtime.disk import OsDisk
    from quorumd.runtime.entropy import SystemEntropy

    founders = [Founder(node_id, SystemEntropy().uuid(), HOST, port) for node_id, (_, port) in nodes.items()]
    disk = OsDisk(lambda callback: None)
    try:
        for founder in founders:
            format_folder(
                disk,
                str(nodes[founder.voter_id][0]),
                node_id=founder.voter_id,
                directory_id=founder.directory_id,
                founders=founders,
                bootstrap=bootstrap,
            )
    finally:
        disk.close()


def is_free(port: int) -> bool:
    """Whether a listener could bind this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _is_daemon_of(pid: int, config: Path) -> bool:
    """Whether `pid` is a daemon started from this properties file: process ids are reused."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return False
        arguments = _arguments_from_ps(pid)
    return b"start" in arguments and os.fsencode(config) in arguments


def _arguments_from_ps(pid: int) -> list[bytes]:
    """The arguments of a process without /proc (macOS); paths with spaces are not recognised."""
    listing = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, check=False
    )
    return listing.stdout.split()
