"""The follower's side of snapshots: fetched piece by piece, checked whole, taken in place of the log (KIP-630).

While a snapshot is fetched, nothing else is. Its bytes are kept by the caller, so a fetch goes on where it was
after a new leader or a restart, if that leader has the same snapshot.
"""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch
from quorumd.raft.effects import SnapshotPart
from quorumd.raft.events import PeerAnswered, PeerFailed, SnapshotChecked
from quorumd.raft.messages import SnapshotRequest, SnapshotResponse
from quorumd.raft.replica import BrokenPromise, Replica
from quorumd.raft.roles import Follower, RoleState, Unattached
from quorumd.raft.transitions import fetch_from_leader, observe
from quorumd.raft.voters import VoterAssignment, VoterHistory


def begin_snapshot(replica: Replica, state: Follower, snapshot: OffsetAndEpoch) -> None:
    """The leader says that its log does not reach back to the own one: fetch what came before.

    Not while another one is checked, nor one that brings nothing: then records are asked for again in a moment,
    which keeps both sides in touch. Raises BrokenPromise for one that would take back what was committed.
    """
    forbid_below_committed(replica, snapshot)
    if replica.checking is None and is_ahead(snapshot, replica.end):
        state.snapshot = snapshot
        ask_for_piece(replica, state, snapshot, replica.log.fetched_bytes(snapshot))
    else:
        stay_in_touch(replica, state)


def ask_for_piece(replica: Replica, state: Follower, snapshot: OffsetAndEpoch, position: int) -> None:
    limit = replica.settings.snapshot_max_bytes
    state.fetch_sent = replica.now
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
    elif response.error is ErrorCode.POSITION_OUT_OF_RANGE and asked.position > 0:
        # What was here of it is no beginning of the leader's, or was whole when this node went down.
        ask_for_piece(replica, state, asked.snapshot, 0)
    elif response.error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE):
        lose_leader(replica, state)
    else:
        state.snapshot = None
        fetch_later(replica, state)


def fits(asked: SnapshotRequest, response: SnapshotResponse) -> bool:
    """Whether the answer is a piece of what was asked for, and not an empty one that leads nowhere."""
    same = (response.snapshot, response.position) == (asked.snapshot, asked.position)
    end = response.position + len(response.data)
    return same and (end == response.size or (bool(response.data) and end < response.size))


def take(replica: Replica, state: Follower, asked: SnapshotRequest, response: SnapshotResponse) -> None:
    state.contact(replica.now, replica.fetch_timeout())
    replica.forgiven_ms = 0.0
    end = asked.position + len(response.data)
    replica.effects.snapshot_part = SnapshotPart(asked.snapshot, asked.position, response.data, response.size)
    if end < response.size:
        ask_for_piece(replica, state, asked.snapshot, end)
    else:
        replica.checking, state.snapshot = asked.snapshot, None
        stay_in_touch(replica, state)


def piece_failed(replica: Replica, state: Follower, event: PeerFailed) -> None:
    if event.request is not state.piece:
        return
    state.piece = None
    if event.refused:
        lose_leader(replica, state)
    else:
        fetch_later(replica, state)


def snapshot_checked(replica: Replica, state: RoleState, event: SnapshotChecked) -> None:
    """A whole snapshot, or none: take it in place of the log if it still brings anything.

    Whoever leads now: a snapshot has only what is committed. Who campaigns leaves it, votes for the old log count.
    """
    if replica.checking == event.snapshot:
        replica.checking = None
    if event.voters is None:
        if isinstance(state, Follower):
            begin_anew_later(replica, state, event.snapshot)
    elif isinstance(state, Follower | Unattached) and is_ahead(event.snapshot, replica.end):
        install(replica, event.snapshot, event.voters)
        if isinstance(state, Follower):
            state.snapshot = state.piece = None
            fetch_from_leader(replica, state)


def begin_anew_later(replica: Replica, state: Follower, snapshot: OffsetAndEpoch) -> None:
    """Its bytes are gone. The disk may be full and stay so: not at once."""
    if state.snapshot == snapshot:
        state.snapshot = state.piece = None
    state.fetch_at = replica.now + replica.settings.retry_backoff_max_ms


def is_ahead(snapshot: OffsetAndEpoch, end: OffsetAndEpoch) -> bool:
    """Whether a snapshot is of more than a log that ends at `end` has, or of a later epoch."""
    return (snapshot.epoch, snapshot.offset) > (end.epoch, end.offset)


def forbid_below_committed(replica: Replica, snapshot: OffsetAndEpoch) -> None:
    """Raises BrokenPromise for a snapshot of less than what is committed."""
    if snapshot.offset < replica.committed:
        raise BrokenPromise(
            f"a snapshot that ends at {snapshot.offset} is below the high watermark {replica.committed}"
        )


def install(replica: Replica, snapshot: OffsetAndEpoch, voters: VoterAssignment) -> None:
    """The snapshot takes the place of the log: all below its end is committed. Raises BrokenPromise for one that
    would take back what was committed."""
    forbid_below_committed(replica, snapshot)
    replica.effects.restart_at = snapshot
    replica.end = snapshot
    replica.flushed = snapshot.offset
    replica.voters = VoterHistory([(snapshot.offset - 1, voters)])
    replica.downgraded = False
    replica.commit(snapshot.offset)
    if replica.voters_name_us:
        replica.catching_up = False


def stay_in_touch(replica: Replica, state: Follower) -> None:
    """Ask the leader now and then, so that neither side gives the other up."""
    state.fetch_at = replica.now + replica.settings.fetch_max_wait_ms


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
