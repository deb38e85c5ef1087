"""The persistent state of a replica besides its log (Raft paper figure 2)."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.ids import NO_NODE, ReplicaKey


class QuorumState(NamedTuple):
    """The epoch, and the leader and the vote in it; durable before any message that depends on it is sent.

    `voted` is kept when the leader of the epoch becomes known (hole 13): a vote is never changed within an epoch.
    """

    epoch: int = 0
    leader_id: int = NO_NODE
    voted: ReplicaKey | None = None
    catching_up: bool = False
    """Whether the log directory may replace a lost one: it was empty when the replica first started, and since then
    the replica has neither taken part in the first bootstrap nor caught up with a leader (hole 40)."""
