"""Daemons whose listeners require credentials. Tests observe them through their HTTP endpoints."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from quorumd.cli import metrics_view
from quorumd.config import load
from tests.support.processes.daemons import Cluster, Daemon, readyz, run_quorumd, wait_for
from tests.support.processes.ports import free_port
from tests.support.security.certificates import Certificates

HOST = "127.0.0.1"
EXAMPLE = Path(__file__).parents[3] / "config/three-nodes-secure"
NODES = (1, 2, 3)
ADMIN = "SCRAM-SHA-512=[name=admin,password=admin-secret]"


class SecuredCluster(Cluster):
    """A cluster that tests observe through its metrics."""

    def start(self) -> None:
        for daemon in self:
            daemon.start()
        self.await_ready()

    def await_ready(self) -> None:
        """Wait until every node reports itself as ready."""
        for daemon in self:
            wait_for(f"node {daemon.node_id} to be ready", partial(is_ready, daemon))

    def leader(self, besides: int = -1, seconds: float = 300.0) -> Daemon:
        def find() -> Daemon | None:
            views = {d.node_id: metrics_view.fetch(HOST, d.http_port) for d in self if d.runs}
            leads = [node for node, view in views.items() if view is not None and view.role == "leader"]
            return self[leads[0]] if len(leads) == 1 and leads[0] != besides else None

        return wait_for("a leader", find, seconds)


def is_ready(daemon: Daemon) -> bool:
    """Whether the readiness probe succeeds."""
    return readyz(daemon)[0] == 200


class SecureExample(SecuredCluster):
    """The nodes of config/three-nodes-secure with other ports and directories, and the user admin."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.certificates = Certificates(directory)
        ports = {node: free_port() for node in NODES}
        self.daemons = {node: Daemon(directory / str(node), node, ports[node], ports) for node in NODES}
        for daemon in self:
            self.certificates.issue(f"node-{daemon.node_id}")
            own = self.adapted(f"{daemon.node_id}.properties")
            daemon.config.write_text(f"{own}connections.max.reauth.ms=2s\n")
            daemon.data = Path(load(str(daemon.config)).data_directory)
            daemon.format("--add-scram", ADMIN)
        self.client_file = directory / "client.properties"
        self.client_file.write_text(self.adapted("client.properties"))

    def adapted(self, name: str) -> str:
        text = (EXAMPLE / name).read_text()
        for daemon in self:
            text = text.replace(f"{HOST}:{9191 + daemon.node_id}", f"{HOST}:{daemon.port}")
            text = text.replace(f"{HOST}:{9291 + daemon.node_id}", f"{HOST}:{daemon.http_port}")
        return text.replace("run/three-nodes-secure", str(self.directory))

    def quorumd(self, *arguments: str) -> str:
        """Run a command as the user admin."""
        client = ("--bootstrap-server", self.bootstrap, "--command-config", self.client_file)
        done = run_quorumd(*arguments, *client)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def set_quota(self, user: str) -> None:
        self.quorumd("quotas", "set", "producer_byte_rate=1", "--user", user)
