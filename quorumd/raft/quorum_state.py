"""The persistent state of a voter besides its log (Raft paper figure 2)."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.ids import NO_NODE, ReplicaKey


class QuorumState(NamedTuple):
    """The quorum state, flushed before any message that depends on it is sent.

    `voted` is kept when the leader of the epoch becomes known (hole 13); it changes only with the epoch.
    """

    epoch: int = 0
    leader_id: int = NO_NODE
    voted: ReplicaKey | None = None
    catching_up: bool = False
    """The log directory started empty and may replace a lost one: the replica took no part in the first bootstrap and
    has not caught up with a leader since (hole 40)."""
