"""Newer epochs: which messages raise the epoch of this replica, and how far (hole 43).

Epochs never decrease and are saved, so a newer one deposes a live leader, and the last int32 would leave none for
another election. Requests are not authenticated, and therefore:

    * A replica with a live leader enters a newer epoch only at the request of a voter in its log that names this
      cluster. That voter may have been removed while it was alone in the newer epoch; it can follow the leader again
      only in a later one. Any other candidate or leader waits until the leader is lost; right after a voter change
      it may be a voter that this replica's log does not show yet (hole 10).
    * Without a live leader, too, only a voter in the log makes itself or another node known as leader, and other
      candidates raise the epoch at most once per election timeout, in which the voters can elect a leader. A replica
      without voters in its log trusts the nodes that it was configured to find.
    * One message raises the epoch by at most MAX_EPOCH_STEP. A replica that is further behind needs several responses
      of the nodes that it searches for a leader.
    * No epoch above LAST_EPOCH is entered.
"""

from __future__ import annotations

from typing import Final

from quorumd.ids import ZERO_UUID, ReplicaKey
from quorumd.raft.effects import RequestRefused
from quorumd.raft.events import RequestReceived
from quorumd.raft.replica import LAST_EPOCH, Replica
from quorumd.raft.roles import Follower, Leader
from quorumd.raft.voter_changes import last_majority_fetch

MAX_EPOCH_STEP: Final = 100_000
"""Elections that a replica may miss at once: one per second for a day."""


def reachable_epoch(replica: Replica, epoch: int) -> int:
    """The epoch to enter for a message with the newer `epoch`; the current one if none may be entered."""
    return max(replica.epoch, min(epoch, replica.epoch + MAX_EPOCH_STEP, LAST_EPOCH))


def newer_epoch_refusal(
    replica: Replica, event: RequestReceived, sender: ReplicaKey, epoch: int
) -> str | None:
    """The reason not to enter the newer `epoch` of a request; None to enter it."""
    if reachable_epoch(replica, epoch) < epoch:
        return "its epoch is too far ahead"
    is_voter = is_known_voter(replica, sender)
    if not has_live_leader(replica):
        if not is_voter and replica.now < replica.stranger_epoch_at + replica.settings.election_timeout_ms:
            return "it is not a recorded voter, and another one that is not has just raised the epoch"
        return None
    if not is_voter:
        return "it is not a recorded voter, and the leader is alive"
    if not event.names_cluster and sender.directory_id == ZERO_UUID:
        return "it names neither the cluster nor its directory id, and the leader is alive"
    return None


def is_known_voter(replica: Replica, sender: ReplicaKey) -> bool:
    """Whether `sender` is or was a voter by this replica's log, or founds the quorum."""
    founder = replica.founders.by_id(sender.id)
    is_founder = founder is not None and founder.key.matches(sender)
    return is_founder or replica.voters.has_recorded(sender)


def trusts(replica: Replica, node_id: int) -> bool:
    """Whether epochs and leaders that this node reports are followed. A log without voters has nothing to protect."""
    return replica.is_bootstrapping or is_known_voter(replica, ReplicaKey(node_id, ZERO_UUID))


def record_newer_epoch(replica: Replica, sender: ReplicaKey) -> None:
    """Record that the epoch is about to be raised for `sender`."""
    if not is_known_voter(replica, sender):
        replica.stranger_epoch_at = replica.now


def has_live_leader(replica: Replica) -> bool:
    """Whether this replica leads with contact to a majority, or its leader served a fetch within the fetch timeout
    and has not left since."""
    state, timeout_ms = replica.state, replica.settings.fetch_timeout_ms
    if isinstance(state, Leader):
        return replica.now - last_majority_fetch(state, replica.now) < timeout_ms
    return (
        isinstance(state, Follower)
        and not state.leader_lost
        and replica.now - state.last_success < timeout_ms
    )


def report_refusal(replica: Replica, event: RequestReceived, kind: str, sender: int, reason: str) -> None:
    """Record a refused request for logs and metrics."""
    request = event.request
    replica.effects.refused = RequestRefused(kind, sender, event.peer, request.epoch, reason)
