"""Which fetches count as a voter's progress and contact (hole 44).

A fetch acknowledges records, and anyone who reaches the leader can send one in a voter's name. Therefore:

    * The leader draws a random token for its epoch. BeginQuorumEpoch carries it to the address of each voter, and
      only a fetch that returns the token counts. Others are served as those of an observer.
    * A voter that fetches without the token gets BeginQuorumEpoch at once: it found the leader by itself, has
      restarted, or another client uses its name.
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
    """Draw the token of an epoch; NO_TOKEN if this node behaves like a stock controller."""
    return 1 + replica.randrange(MAX_TOKEN) if replica.settings.epoch_tokens else NO_TOKEN


def is_proven(replica: Replica, leader: Leader, voter: Progress, event: RequestReceived) -> bool:
    """Whether a fetch in the name of a voter is from that voter."""
    request = event.request
    assert isinstance(request, FetchRequest | SnapshotRequest)
    if request.token == leader.token:
        return True
    if voter.knows_tokens is not False:
        return False
    return event.is_authenticated or replica.settings.unauthenticated_stock_voters


def request_proof(replica: Replica, voter: Progress) -> None:
    """Send the token to a voter that fetches without it, at most once per backoff."""
    if (
        voter.begin_request is None
        and replica.now >= voter.proof_requested_at + replica.settings.retry_backoff_ms
    ):
        voter.proof_requested_at = replica.now
        send_begin_quorum_epoch(replica, voter)


def send_begin_quorum_epoch(replica: Replica, progress: Progress) -> None:
    """Send BeginQuorumEpoch to a voter. The sender adds this node's endpoints: the record may have stale ones."""
    leader = replica.state
    token = leader.token if isinstance(leader, Leader) else NO_TOKEN
    progress.begin_request = BeginEpochRequest(replica.id, replica.epoch, progress.key, token=token)
    replica.send(progress.key.id, progress.begin_request)


def reset_proof(voter: Progress) -> None:
    """Make the progress of an observer that of a new voter: what it fetched before proves nothing."""
    voter.end_offset = -1
    voter.read_round = 0
