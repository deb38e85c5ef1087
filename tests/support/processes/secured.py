"""Daemons whose listeners need credentials: tests observe them at their HTTP endpoints."""

from __future__ import annotations

from functools import partial

from quorumd.cli import metrics_view
from tests.support.processes.daemons import Cluster, Daemon, readyz, wait_for

HOST = "127.0.0.1"


class SecuredCluster(Cluster):
    """Daemons that are observed by their metrics."""

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
