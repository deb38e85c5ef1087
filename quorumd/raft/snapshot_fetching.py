"""The follower's side of snapshots: fetched piece by piece, checked whole, taken in place of the log (KIP-630).

While a snapshot is fetched, nothing else is. Its bytes are kept by the caller, so a fetch goes on where it was
after a new leader, if that has the same snapshot.
"""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch
from quorumd.raft.effects import SnapshotPart
from quorumd.raft.events import PeerAnswered, PeerFailed, SnapshotChecked
from quorumd.raft.messages import SnapshotRequest, SnapshotResponse
from quorumd.raft.replica import BrokenPromise, Replica
from quorumd.raft.roles import Follower, Role, RoleState
from quorumd.raft.transitions import fetch_from_leader, observe
from quorumd.raft.voters import VoterAssignment, VoterHistory


def begin_snapshot(replica: Replica, state: Follower, snapshot: OffsetAndEpoch) -> None:
    """The leader says that its log does not reach back to the own one: fetch what came before."""
    state.snapshot = snapshot
    ask_for_piece(replica, state, snapshot, replica.log.fetched_bytes(snapshot))


def ask_for_piece(replica: Replica, state: Follower, snapshot: OffsetAndEpoch, position: int) -> None:
    limit = replica.settings.snapshot_max_bytes
    state.piece = SnapshotRequest(replica.identity, replica.epoch, snapshot, position, limit)
    replica.send(state.leader_id, state.piece)


def piece_answered(replica: Replica, state: Follower, event: PeerAnswered) -> None:
    """Keep what came and ask for the next piece; fetch records again where the snapshot is not to be had."""
    response, asked = event.response, event.request
    assert isinstance(response, SnapshotResponse)
    assert isinstance(asked, SnapshotRequest)
    observe(replica, response.epoch, response.leader_id)
    if replica.state is not state or asked is not state.piece:
        return
    state.piece = None
    if response.epoch < replica.epoch:
        fetch_later(replica, state)
    elif response.error is ErrorCode.NONE and fits(asked, response):
        take(replica, state, asked, response)
    elif response.error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE):
        lose_leader(replica, state)
    else:
        state.snapshot = None
        fetch_later(replica, state)


def fits(asked: SnapshotRequest, response: SnapshotResponse) -> bool:
    """Whether the answer is a piece of what was asked for. The position may have gone back to the beginning: then
    more was here than the snapshot has."""
    same = (response.snapshot, response.position) == (asked.snapshot, asked.position)
    end = response.position + len(response.data)
    return same and (end == response.size or (bool(response.data) and end < response.size))


def take(replica: Replica, state: Follower, asked: SnapshotRequest, response: SnapshotResponse) -> None:
    state.contact(replica.now, replica.fetch_timeout())
    end = asked.position + len(response.data)
    replica.effects.snapshot_part = SnapshotPart(asked.snapshot, asked.position, response.data, response.size)
    if end < response.size:
        ask_for_piece(replica, state, asked.snapshot, end)
    else:
        state.is_checking = True


def piece_failed(replica: Replica, state: Follower, event: PeerFailed) -> None:
    if event.request is not state.piece:
        return
    state.piece = None
    if event.refused:
        lose_leader(replica, state)
    else:
        fetch_later(replica, state)


def snapshot_checked(replica: Replica, state: RoleState, event: SnapshotChecked) -> None:
    """A whole snapshot, or none: take it in place of the log if it still brings anything."""
    follower = state if isinstance(state, Follower) and state.snapshot == event.snapshot else None
    if follower is not None:
        follower.snapshot, follower.is_checking = None, False
    waits = follower is not None or state.role is Role.UNATTACHED
    if event.voters is not None and waits and is_ahead(event.snapshot, replica.end):
        install(replica, event.snapshot, event.voters)
        if follower is not None:
            fetch_from_leader(replica, follower)
    elif follower is not None:
        fetch_later(replica, follower)


def is_ahead(snapshot: OffsetAndEpoch, end: OffsetAndEpoch) -> bool:
    """Whether a snapshot is of more than a log that ends at `end` has, or of a later epoch."""
    return (snapshot.epoch, snapshot.offset) > (end.epoch, end.offset)


def install(replica: Replica, snapshot: OffsetAndEpoch, voters: VoterAssignment) -> None:
    """The snapshot takes the place of the log: all below its end is committed. Raises BrokenPromise for one that
    would take back what was committed."""
    if snapshot.offset < replica.committed:
        raise BrokenPromise(
            f"a snapshot that ends at {snapshot.offset} is below the high watermark {replica.committed}"
        )
    replica.effects.restart_at = snapshot
    replica.end = snapshot
    replica.flushed = snapshot.offset
    replica.voters = VoterHistory([(snapshot.offset - 1, voters)])
    replica.downgraded = False
    replica.commit(snapshot.offset)
    if replica.voters_name_us:
        replica.catching_up = False


def fetch_later(replica: Replica, state: Follower) -> None:
    state.fetch_at = replica.retry_after(state.attempts)
    state.attempts += 1


def lose_leader(replica: Replica, state: Follower) -> None:
    """The leader is gone for certain: wait only long enough not to collide with the other followers."""
    if not state.lost:
        state.lost = True
        wait = replica.below(replica.short_wait_ms)
        state.fetch_deadline = min(state.fetch_deadline, replica.now + wait)
    fetch_later(replica, state)
