"""Newer epochs: which messages raise the epoch of this replica, and how far (hole 43).

Epochs are saved and never decrease. A newer epoch therefore deposes a live leader, and after the last one, which is
an int32, no election would be possible. Requests need not be authenticated, so they are restricted:

    * A replica with a live leader enters a newer epoch only at the request of a voter recorded in its log that names
      this cluster or its own directory id. A removed voter counts as recorded: if it is alone in a newer epoch, it
      can follow the leader again only in a later one. The request of any other candidate or leader is refused until
      the leader is lost, although it may be a voter that this replica's log does not have yet (hole 10).
    * Also without a live leader, only a recorded voter can report itself or another node as leader, and other
      candidates raise the epoch at most once per election timeout, which leaves the voters time to elect a leader. A
      replica without voters in its log trusts the nodes that it was configured to find.
    * One message raises the epoch by at most MAX_EPOCH_STEP. A replica that is further behind needs several responses
      from the nodes among which it searches for a leader.
    * No replica enters an epoch above LAST_EPOCH.
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
"""The number of elections that a replica may miss: about one per second for a day."""


def reachable_epoch(replica: Replica, epoch: int) -> int:
    """The epoch to enter on a message with `epoch`; the current one if no newer one may be entered."""
    return max(replica.epoch, min(epoch, replica.epoch + MAX_EPOCH_STEP, LAST_EPOCH))


def newer_epoch_refusal(
    replica: Replica, event: RequestReceived, sender: ReplicaKey, epoch: int
) -> str | None:
    """The reason not to enter the newer `epoch` of a request; None to enter it."""
    if reachable_epoch(replica, epoch) < epoch:
        return "its epoch is too far ahead"
    is_voter = is_known_voter(replica, sender)
    if not has_live_leader(replica):
        if not is_voter and replica.now < replica.nonvoter_epoch_at + replica.settings.election_timeout_ms:
            return "it is not a recorded voter, and another such node has just raised the epoch"
        return None
    if not is_voter:
        return "it is not a recorded voter, and the leader is alive"
    if not event.names_cluster and sender.directory_id == ZERO_UUID:
        return "it names neither the cluster nor its directory id, and the leader is alive"
    return None


def is_known_voter(replica: Replica, sender: ReplicaKey) -> bool:
    """Whether `sender` is or was a voter according to the local log, or is one of the founders."""
    founder = replica.founders.by_id(sender.id)
    is_founder = founder is not None and founder.key.matches(sender)
    return is_founder or replica.voters.has_recorded(sender)


def trusts(replica: Replica, node_id: int) -> bool:
    """Whether to apply the epochs and leaders that `node_id` reports. A log without voters has nothing to protect."""
    return replica.is_bootstrapping or is_known_voter(replica, ReplicaKey(node_id, ZERO_UUID))


def record_newer_epoch(replica: Replica, sender: ReplicaKey) -> None:
    """Record that the epoch is raised at the request of `sender`."""
    if not is_known_voter(replica, sender):
        replica.nonvoter_epoch_at = replica.now


def has_live_leader(replica: Replica) -> bool:
    """Whether this replica leads and a majority fetched within the fetch timeout, or its leader served a fetch within
    that time and has neither resigned nor refused a connection since."""
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
