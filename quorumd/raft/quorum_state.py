"""What a voter must not forget in a crash (Raft paper figure 2, "persistent state")."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.ids import NO_NODE, ReplicaKey


class QuorumState(NamedTuple):
    """Saved and flushed before anything that depends on it leaves the node.

    `voted` is kept when the leader of the epoch becomes known (hole 13): it changes only with the epoch.
    """

    epoch: int = 0
    leader_id: int = NO_NODE
    voted: ReplicaKey | None = None
    catching_up: bool = False
    """This folder began empty and has not shown since that it replaces no other: it took no part in the first
    bootstrap and has not caught up with a leader (hole 40). A restart must not forget either."""
