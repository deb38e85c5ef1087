"""Logins between nodes once faults have ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster

RENEWED: Final = "nodes renew their logins in time"
SESSIONS: Final = 1.5
"""A node that fetches renews its login within this number of sessions."""


def require_renewals(cluster: Cluster, run_until: Callable[[float], None]) -> None:
    """Require that no login fails, and no connection outlives its login, while the logins of all nodes expire.

    Raises InvariantViolation.
    """
    options = cluster.options.peer_logins
    if not options.mechanism:
        return
    before = _failures(cluster)
    run_until(cluster.heap.now_ms + SESSIONS * options.session_ms)
    for key, count in _failures(cluster).items():
        if count > before.get(key, 0):
            text = (
                f"node {key[0]} refused {count - before.get(key, 0)} logins or requests with an expired login"
            )
            raise InvariantViolation(RENEWED, text)


def _failures(cluster: Cluster) -> dict[tuple[int, int], int]:
    """Return the number of failed authentications at each running node, by id and incarnation."""
    return {
        (machine.node_id, machine.incarnation): machine.node.statistics.failed_authentications
        for machine in cluster.running()
        if machine.node is not None
    }
