"""Three nodes change from PLAINTEXT to TLS one after the other, while clients write."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.processes.daemons import QUICK, Daemon, wait_for
from tests.support.processes.ports import free_port
from tests.support.processes.secured import HOST, SecuredCluster, is_ready
from tests.support.processes.wire import TlsWire
from tests.support.processes.workload import Workload, lost_writes
from tests.support.security.certificates import Certificates

PLAIN_ONLY = ("CONTROLLER",)
BOTH, SECURE_FIRST = ("CONTROLLER", "SECURE"), ("SECURE", "CONTROLLER")
SECURE_ONLY = ("SECURE",)


class ChangingCluster(SecuredCluster):
    """Nodes that listen on CONTROLLER without, and on SECURE with TLS, as `configure` says."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, extra=QUICK)
        self.certificates = Certificates(directory / "certificates")
        self.secure_ports = {daemon.node_id: free_port() for daemon in self}
        for daemon in self:
            self.certificates.issue(f"node-{daemon.node_id}")
        self.certificates.issue("client")
        self.context = ssl.create_default_context(cafile=str(self.certificates.trusted))
        self.context.load_cert_chain(self.certificates.directory / "client.pem")

    def configure(self, daemon: Daemon, names: tuple[str, ...]) -> None:
        """Give a node these listeners; it connects to others by the first one."""
        ports = {"CONTROLLER": daemon.port, "SECURE": self.secure_ports[daemon.node_id]}
        listeners = ",".join(f"{name}://{HOST}:{ports[name]}" for name in names)
        daemon.configure(
            f"{QUICK}listeners={listeners}\ncontroller.listener.names={','.join(names)}\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,SECURE:SSL\n"
            f"ssl.client.auth=required\n{self.certificates.properties(f'node-{daemon.node_id}')}"
        )

    def change(self, load: Workload, names: tuple[str, ...]) -> None:
        """Restart one node after the other with these listeners, the leader last, while writes go on."""
        leader = self.leader()
        for daemon in sorted(self, key=lambda each: each is leader):
            daemon.stop()
            self.configure(daemon, names)
            daemon.start()
            wait_for(f"node {daemon.node_id} to be ready", partial(is_ready, daemon))
            before = load.acknowledged
            wait_for("writes to go on", lambda before=before: load.acknowledged > before + 20)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ChangingCluster]:
    cluster = ChangingCluster(tmp_path)
    try:
        for daemon in cluster:
            cluster.configure(daemon, PLAIN_ONLY)
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def test_quorum_changes_to_tls_without_downtime(cluster: ChangingCluster) -> None:
    secure = [(HOST, port) for port in cluster.secure_ports.values()]
    with Workload(cluster.addresses) as plain:
        cluster.change(plain, BOTH)
        with Workload(secure, connect=partial(TlsWire, context=cluster.context)) as encrypted:
            cluster.change(encrypted, SECURE_FIRST)
            assert plain.acknowledged
            cluster.change(encrypted, SECURE_ONLY)
    first = cluster.leader()
    first.kill()
    cluster.leader(first.node_id)
    first.start()
    cluster.await_ready()
    for load in (plain, encrypted):
        for daemon in cluster:
            wait_for("all writes to be there", lambda load=load, daemon=daemon: not missing(load, daemon))


def missing(load: Workload, daemon: Daemon) -> dict[str, list[int]]:
    """Acknowledged writes that the log of a node lacks."""
    return lost_writes(load, daemon.partition_directory, 2**62)
