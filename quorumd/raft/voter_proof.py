"""Which fetches count as a voter's progress and contact (hole 44).

A voter's fetch acknowledges records, and any client that can connect to the leader can send one with the voter's id.
Therefore:

    * The leader draws a random token for its epoch. BeginQuorumEpoch carries it to the address of each voter, and
      only a fetch that returns the token counts. Any other fetch is served like an observer's.
    * A fetch with a voter's id but without the token makes the leader send BeginQuorumEpoch to the voter at once: the
      voter may have found the leader by itself or have restarted, unless another client uses its id.
    * The response to BeginQuorumEpoch shows whether the node at that address knows tokens. The fetches of a stock
      controller count without one if its connection is authenticated or the settings permit it.
"""

from __future__ import annotations

from typing import Final

from quorumd.raft.events import RequestReceived
from quorumd.raft.messages import NO_TOKEN, BeginEpochRequest, FetchRequest, SnapshotRequest
from quorumd.raft.replica import Replica
from quorumd.raft.roles import Leader, Progress

MAX_TOKEN: Final = 1 << 62


def new_token(replica: Replica) -> int:
    """Draw the token of an epoch, a secret 62-bit number; NO_TOKEN if this node behaves like a stock controller."""
    return 1 + replica.randrange(MAX_TOKEN) if replica.settings.epoch_tokens else NO_TOKEN


def is_proven(replica: Replica, leader: Leader, voter: Progress, event: RequestReceived) -> bool:
    """Whether a fetch with the id of `voter` counts as a fetch of that voter."""
    request = event.request
    assert isinstance(request, FetchRequest | SnapshotRequest)
    if request.token == leader.token:
        return True
    if voter.knows_tokens is not False:
        return False
    return event.is_authenticated or replica.settings.unauthenticated_stock_voters


def request_proof(replica: Replica, voter: Progress) -> None:
    """Send the token to a voter whose id was used without it, at most once per `retry_backoff_ms`."""
    if (
        voter.begin_request is None
        and replica.now >= voter.proof_requested_at + replica.settings.retry_backoff_ms
    ):
        voter.proof_requested_at = replica.now
        send_begin_quorum_epoch(replica, voter)


def send_begin_quorum_epoch(replica: Replica, progress: Progress) -> None:
    """Send BeginQuorumEpoch to a voter. The caller adds the endpoints, which may be stale in the voter record."""
    leader = replica.state
    token = leader.token if isinstance(leader, Leader) else NO_TOKEN
    progress.begin_request = BeginEpochRequest(replica.id, replica.epoch, progress.key, token=token)
    replica.send(progress.key.id, progress.begin_request)


def reset_proof(voter: Progress) -> None:
    """Reset the progress of a replica that becomes a voter: its fetches as an observer were not proven."""
    voter.end_offset = -1
    voter.read_round = 0
