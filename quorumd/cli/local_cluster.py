"""A cluster of daemon processes on the loopback interface of this machine.

    <directory>/cluster.json               number of nodes and base port
    <directory>/node-<i>/quorumd.properties
    <directory>/node-<i>/data/             the log directory
    <directory>/node-<i>/daemon.log        the daemon's output
    <directory>/node-<i>/pid               the last started process
    <directory>/node-<i>/pid.started       when it started, see `process_identity`
    <directory>/security/                  keys and client properties of a secure cluster, see `local_security`

Node i listens on base_port + i and serves metrics on base_port + 100 + i. In a cluster with brokers, or a secure one,
it also serves clients on base_port + 200 + i; secure brokers replicate on base_port + 300 + i. All state is in the
directory: every process that opens it sees the same cluster. Files have mode 0600, and directories 0700.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from quorumd.cli.local_security import LocalSecurity
from quorumd.cli.private_files import UMASK, append, make_directory, private_umask, write
from quorumd.cli.process_identity import ProcessIdentity
from quorumd.errors import ConfigError, ExitCode, QuorumdError

if TYPE_CHECKING:
    from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

HOST = "127.0.0.1"
METRICS_PORT_OFFSET = 100
CLIENT_PORT_OFFSET = 200
REPLICATION_PORT_OFFSET = 300
MAX_REPLICATION_FACTOR = 3
"""The replication factor of the coordinators' topics, in a cluster with at least as many brokers."""
STOP_TIMEOUT_S = 10.0


InitialRecords = Callable[[Sequence["UserScramCredentialRecord"]], bytes | None]
"""(SCRAM credentials) -> the content of bootstrap.checkpoint, None for the default."""


def default_content(credentials: Sequence[UserScramCredentialRecord]) -> bytes | None:
    """The newest features, and credentials if there are any."""
    from quorumd.cli.format.initial_features import bootstrap_content

    return bootstrap_content(credentials=credentials) if credentials else None


class AddressInUse(QuorumdError):
    """Another process listens on an address of a node."""

    exit_code = ExitCode.ADDRESS_UNAVAILABLE


@dataclass(frozen=True, slots=True)
class Layout:
    """The content of `cluster.json`."""

    nodes: int
    base_port: int
    brokers: bool = False
    """Whether every node is a broker too."""
    secure: bool = False
    """Whether the cluster has TLS, SASL and an authorizer."""


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One node: its id, ports and files."""

    id: int
    directory: Path
    port: int
    metrics_port: int
    client_port: int
    """The port for clients: the broker's, or the quorum's in a cluster without brokers and security."""
    replication_port: int
    """The port at which brokers replicate: `client_port`, unless the brokers are secure."""

    @property
    def config(self) -> Path:
        return self.directory / "quorumd.properties"

    @property
    def log(self) -> Path:
        return self.directory / "daemon.log"

    @property
    def pid_file(self) -> Path:
        return self.directory / "pid"

    @property
    def started_file(self) -> Path:
        return self.directory / "pid.started"

    def record(self, pid: int) -> None:
        """Record the process of this node, which the caller has started."""
        process = ProcessIdentity.of(pid)
        write(self.started_file, f"{'' if process is None else process.started}\n")
        write(self.pid_file, f"{pid}\n")

    def process(self) -> ProcessIdentity | None:
        """The process of this node; None if it is not running or its pid file is stale."""
        try:
            started = self.started_file.read_text(errors="replace").strip()
            recorded = ProcessIdentity(int(self.pid_file.read_text(errors="replace")), started)
        except (FileNotFoundError, ValueError):
            return None
        return recorded if recorded.is_running else None

    def pid(self) -> int | None:
        """The id of `process()`."""
        process = self.process()
        return None if process is None else process.pid

    def log_tail(self, lines: int = 8) -> list[str]:
        """The last lines of the daemon's output."""
        try:
            return self.log.read_text(errors="replace").splitlines()[-lines:]
        except FileNotFoundError:
            return []


class LocalCluster:
    """A local cluster and its directory."""

    def __init__(self, directory: Path, layout: Layout) -> None:
        self.directory = directory.resolve()
        self.layout = layout
        self.security = LocalSecurity(self.directory, layout.nodes) if layout.secure else None
        self.nodes = [self._node(i, layout.base_port + i) for i in range(layout.nodes)]

    def _node(self, node_id: int, port: int) -> LocalNode:
        layout = self.layout
        client_port = port + CLIENT_PORT_OFFSET if layout.brokers or layout.secure else port
        replication_port = port + REPLICATION_PORT_OFFSET if layout.brokers and layout.secure else client_port
        directory = self.directory / f"node-{node_id}"
        return LocalNode(node_id, directory, port, port + METRICS_PORT_OFFSET, client_port, replication_port)

    @classmethod
    def open(cls, directory: Path) -> LocalCluster:
        """The existing cluster in this directory. Raises ConfigError if there is none."""
        file = directory / "cluster.json"
        try:
            stored = json.loads(file.read_text())
            brokers, secure = bool(stored.get("brokers", False)), bool(stored.get("secure", False))
            return cls(directory, Layout(int(stored["nodes"]), int(stored["base_port"]), brokers, secure))
        except FileNotFoundError:
            raise ConfigError(
                f"{directory}: no cluster in this directory; create one with `quorumd cluster up --dir {directory}`"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigError(
                f"{file}: not written by `quorumd cluster up`; remove the file and run that command"
            ) from None

    @classmethod
    def open_or_plan(
        cls,
        directory: Path,
        nodes: int | None = None,
        base_port: int | None = None,
        brokers: bool | None = None,
        secure: bool | None = None,
    ) -> LocalCluster:
        """The cluster in this directory, or the one that `create` would create. None stands for the existing value or
        the default. Raises ConfigError if the directory has a cluster with other values, which cannot be changed.
        """
        if not (directory / "cluster.json").exists():
            return cls(directory, Layout(nodes or 3, base_port or 9192, bool(brokers), bool(secure)))
        existing = cls.open(directory)
        if secure and not existing.layout.secure:
            raise ConfigError(
                f"{directory}: the cluster in this directory is not secure; omit --secure, or choose another --dir"
            )
        if brokers and not existing.layout.brokers:
            raise ConfigError(
                f"{directory}: the cluster in this directory has no brokers; omit --brokers, or choose another --dir"
            )
        wanted = replace(
            existing.layout,
            nodes=nodes or existing.layout.nodes,
            base_port=base_port or existing.layout.base_port,
        )
        if wanted != existing.layout:
            raise ConfigError(
                f"{directory}: the cluster in this directory has {existing.layout.nodes} nodes from port "
                f"{existing.layout.base_port}; omit --nodes and --base-port, or choose another --dir"
            )
        return existing

    @property
    def is_new(self) -> bool:
        """Whether no node has a log directory yet."""
        return not any((node.directory / "data").exists() for node in self.nodes)

    def check_is_new(self) -> None:
        """Raise ConfigError if the cluster exists: its initial features can no longer be chosen."""
        if not self.is_new:
            raise ConfigError(
                f"{self.directory}: the cluster already exists; omit --release-version and --feature, use "
                "`quorumd features upgrade` or `downgrade` instead, or choose another --dir"
            )

    def create(self, initial: InitialRecords = default_content) -> None:
        """Write the properties files and `cluster.json` unless they exist. If all nodes are new, format them to
        found a quorum together with the `initial` records; a node that lost its directory later joins the others."""
        is_new = self.is_new
        for directory in (self.directory, *(node.directory for node in self.nodes)):
            make_directory(directory)
        if is_new:
            credentials = [self.security.create()] if self.security is not None else []
            data_directories = {node.id: (node.directory / "data", node.port) for node in self.nodes}
            with private_umask():
                format_nodes(data_directories, initial(credentials))
        for node in self.nodes:
            if not node.config.exists():
                write(node.config, self.properties(node))
        write(self.directory / "cluster.json", json.dumps(asdict(self.layout)) + "\n")

    @property
    def bootstrap(self) -> str:
        """All nodes as `host:port,...`, for clients."""
        return ",".join(f"{HOST}:{node.client_port}" for node in self.nodes)

    def properties(self, node: LocalNode) -> str:
        """The content of one node's properties file."""
        voters = ",".join(f"{other.id}@{HOST}:{other.port}" for other in self.nodes)
        listeners = f"listeners=CONTROLLER://{HOST}:{node.port}"
        if node.client_port != node.port:
            clients = "CLIENTS" if self.layout.secure else "PLAINTEXT"
            listeners += f",{clients}://{HOST}:{node.client_port}"
        if node.replication_port != node.client_port:
            listeners += (
                f",REPLICATION://{HOST}:{node.replication_port}\ninter.broker.listener.name=REPLICATION"
            )
        if self.layout.brokers:
            listeners = f"{listeners}\n{self._broker_properties()}"
        elif self.layout.secure:
            listeners += "\ncontroller.listener.names=CONTROLLER,CLIENTS"
        return (
            f"# Node {node.id} of a cluster on loopback, written by `quorumd cluster up`.\n"
            f"node.id={node.id}\n"
            f"{listeners}\n"
            f"quorum.voters={voters}\n"
            f"log.dirs={node.directory / 'data'}\n"
            f"metrics.listener={HOST}:{node.metrics_port}\n"
            f"{self.security.properties(node.id) if self.security is not None else ''}"
        )

    def _broker_properties(self) -> str:
        replicas = min(len(self.nodes), MAX_REPLICATION_FACTOR)
        return (
            "process.roles=broker,controller\n"
            "controller.listener.names=CONTROLLER\n"
            "# A killed broker is fenced, and may rejoin, sooner than by default; groups start at once.\n"
            "broker.session.timeout.ms=3s\n"
            "broker.heartbeat.interval.ms=500ms\n"
            "group.initial.rebalance.delay.ms=0ms\n"
            "offsets.topic.num.partitions=10\n"
            "transaction.state.log.num.partitions=10\n"
            f"offsets.topic.replication.factor={replicas}\n"
            f"transaction.state.log.replication.factor={replicas}\n"
            f"transaction.state.log.min.isr={min(replicas, 2)}"
        )

    def start(self, node: LocalNode) -> subprocess.Popen[bytes]:
        """Start a stopped node, detached: it outlives this process and its terminal."""
        from quorumd.config.environment import without_overrides

        with append(node.log) as log:
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
                umask=UMASK,
                # An override such as QUORUMD_NODE_ID would apply to every node.
                env=without_overrides(os.environ),
            )
        node.record(process.pid)
        return process

    def check_addresses(self, nodes: Iterable[LocalNode]) -> None:
        """Raise AddressInUse if one of these nodes could not bind its ports."""
        for node in nodes:
            ports = (node.port, node.metrics_port, node.client_port, node.replication_port)
            for port in dict.fromkeys(ports):
                if not is_free(port):
                    raise AddressInUse(
                        f"{HOST}:{port}, an address of node {node.id}, is in use by another process; "
                        f"stop that process or choose another --base-port"
                    )

    def stop(self, report: Callable[[str], None]) -> list[LocalNode]:
        """Stop every running node and return them; a node that does not stop in time is killed."""
        running = [(node, process) for node in self.nodes if (process := node.process()) is not None]
        for _, process in running:
            process.send(signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while any(process.is_running for _, process in running) and time.monotonic() < deadline:
            time.sleep(0.02)
        for node, process in running:
            if process.is_running:
                report(
                    f"node {node.id} (pid {process.pid}) did not stop within {STOP_TIMEOUT_S:.0f} s and was killed"
                )
                process.send(signal.SIGKILL)
            for file in (node.pid_file, node.started_file):
                file.unlink(missing_ok=True)
        return [node for node, _ in running]


def format_nodes(nodes: Mapping[int, tuple[Path, int]], bootstrap: bytes | None = None) -> None:
    """Format the log directories of local nodes, given with their ports, like `quorumd format --initial-controllers`:
    the nodes found one quorum with the initial records `bootstrap`. Raises StorageError."""
    from quorumd.log.meta_properties import format_directory
    from quorumd.log.quorum_state_file import Founder
    from quorumd.runtime.disk import OsDisk
    from quorumd.runtime.entropy import SystemEntropy

    founders = [Founder(node_id, SystemEntropy().uuid(), HOST, port) for node_id, (_, port) in nodes.items()]
    disk = OsDisk(lambda callback: None)
    try:
        for founder in founders:
            format_directory(
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
