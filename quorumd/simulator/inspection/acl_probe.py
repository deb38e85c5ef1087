"""Looks at the ACLs of a node when it has applied records or rolled records back."""

from __future__ import annotations

from quorumd.simulator.checkers.acl_index import AclIndexHasEveryAcl
from quorumd.simulator.cluster import Machine


class AclProbe:
    """Passes the ACL index of a node to its checker. Only reads nodes, and does not affect a run."""

    def __init__(self) -> None:
        self._checker = AclIndexHasEveryAcl()
        self._seen: dict[int, tuple[int, int]] = {}

    def look(self, machine: Machine) -> None:
        """Check a machine after one of its events. Raises InvariantViolation."""
        node = machine.node
        if node is None:
            return
        image = node.state_machine.image
        # Every change of the image changes its hash, so that an index that a rollback has missed is found at once.
        seen = machine.incarnation, image.hash
        if self._seen.get(machine.node_id) != seen:
            self._seen[machine.node_id] = seen
            self._checker.look(machine.node_id, image.security.acls)
