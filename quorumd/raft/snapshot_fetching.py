"""The follower's side of snapshots: fetched piece by piece, checked whole, taken in place of the log (KIP-630).

While a snapshot is fetched, nothing else is. Its bytes are kept by the caller, so a fetch goes on where it was
after a new leader or a restart, if that leader has the same snapshot.
"""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch
from quorumd.raft.effects import SnapshotChunk
from quorumd.raft.events import PeerRequestFailed, ResponseReceived, SnapshotChecked
from quorumd.raft.messages import SnapshotRequest, SnapshotResponse
from quorumd.raft.replica import InvariantViolation, Replica
from quorumd.raft.roles import Follower, RoleState, Unattached
from quorumd.raft.transitions import fetch_from_leader, observe
from quorumd.raft.voters import VoterAssignment, VoterHistory


def start_snapshot_fetch(replica: Replica, state: Follower, snapshot: OffsetAndEpoch) -> None:
    """The leader says that its log does not reach back to the own one: fetch what came before.

    Not while another one is checked, nor one that brings nothing: then records are asked for again in a moment,
    which keeps both sides in touch. Raises InvariantViolation for one that would take back what was committed.
    """
    ensure_covers_committed(replica, snapshot)
    if replica.unverified_snapshot is None and is_ahead(snapshot, replica.end):
        state.snapshot = snapshot
        send_snapshot_fetch(replica, state, snapshot, replica.log.fetched_bytes(snapshot))
    else:
        schedule_next_fetch(replica, state)


def send_snapshot_fetch(replica: Replica, state: Follower, snapshot: OffsetAndEpoch, position: int) -> None:
    limit = replica.settings.snapshot_max_bytes
    state.fetch_sent = replica.now
    state.snapshot_fetch = SnapshotRequest(replica.identity, replica.epoch, snapshot, position, limit)
    replica.send(state.leader_id, state.snapshot_fetch)


def handle_snapshot_response(replica: Replica, state: Follower, event: ResponseReceived) -> None:
    """Keep what came and ask for the next piece; fetch records again where the snapshot is not to be had."""
    response, request = event.response, event.request
    assert isinstance(response, SnapshotResponse)
    assert isinstance(request, SnapshotRequest)
    observe(replica, response.epoch, response.leader_id)
    if replica.state is not state or request is not state.snapshot_fetch:
        return
    state.snapshot_fetch = None
    if response.epoch < replica.epoch:
        retry_fetch_later(replica, state)
    elif response.error is ErrorCode.NONE and is_expected_chunk(request, response):
        apply_chunk(replica, state, request, response)
    elif response.error is ErrorCode.POSITION_OUT_OF_RANGE and request.position > 0:
        # What was here of it is no beginning of the leader's, or was whole when this node went down.
        send_snapshot_fetch(replica, state, request.snapshot, 0)
    elif response.error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE):
        on_leader_lost(replica, state)
    else:
        state.snapshot = None
        retry_fetch_later(replica, state)


def is_expected_chunk(request: SnapshotRequest, response: SnapshotResponse) -> bool:
    """Whether the answer is a piece of what was asked for, and not an empty one that leads nowhere."""
    same = (response.snapshot, response.position) == (request.snapshot, request.position)
    end = response.position + len(response.data)
    return same and (end == response.size or (bool(response.data) and end < response.size))


def apply_chunk(
    replica: Replica, state: Follower, request: SnapshotRequest, response: SnapshotResponse
) -> None:
    """Hand a fetched chunk to the caller, and fetch the next one or wait until the whole snapshot is verified."""
    state.record_success(replica.now, replica.fetch_timeout())
    replica.stall_grace_ms = 0.0
    end = request.position + len(response.data)
    replica.effects.snapshot_chunk = SnapshotChunk(
        request.snapshot, request.position, response.data, response.size
    )
    if end < response.size:
        send_snapshot_fetch(replica, state, request.snapshot, end)
    else:
        replica.unverified_snapshot, state.snapshot = request.snapshot, None
        schedule_next_fetch(replica, state)


def handle_snapshot_failure(replica: Replica, state: Follower, event: PeerRequestFailed) -> None:
    if event.request is not state.snapshot_fetch:
        return
    state.snapshot_fetch = None
    if event.refused:
        on_leader_lost(replica, state)
    else:
        retry_fetch_later(replica, state)


def handle_snapshot_checked(replica: Replica, state: RoleState, event: SnapshotChecked) -> None:
    """A whole snapshot, or none: take it in place of the log if it still brings anything.

    Whoever leads now: a snapshot has only what is committed. Who campaigns leaves it, votes for the old log count.
    """
    if replica.unverified_snapshot == event.snapshot:
        replica.unverified_snapshot = None
    if event.voters is None:
        if isinstance(state, Follower):
            restart_snapshot_fetch_later(replica, state, event.snapshot)
    elif isinstance(state, Follower | Unattached) and is_ahead(event.snapshot, replica.end):
        install(replica, event.snapshot, event.voters)
        if isinstance(state, Follower):
            state.snapshot = state.snapshot_fetch = None
            fetch_from_leader(replica, state)


def restart_snapshot_fetch_later(replica: Replica, state: Follower, snapshot: OffsetAndEpoch) -> None:
    """Its bytes are gone. The disk may be full and stay so: not at once."""
    if state.snapshot == snapshot:
        state.snapshot = state.snapshot_fetch = None
    state.fetch_at = replica.now + replica.settings.retry_backoff_max_ms


def is_ahead(snapshot: OffsetAndEpoch, end: OffsetAndEpoch) -> bool:
    """Whether a snapshot is of more than a log that ends at `end` has, or of a later epoch."""
    return (snapshot.epoch, snapshot.offset) > (end.epoch, end.offset)


def ensure_covers_committed(replica: Replica, snapshot: OffsetAndEpoch) -> None:
    """Raises InvariantViolation for a snapshot of less than what is committed."""
    if snapshot.offset < replica.committed:
        raise InvariantViolation(
            f"a snapshot that ends at {snapshot.offset} is below the high watermark {replica.committed}"
        )


def install(replica: Replica, snapshot: OffsetAndEpoch, voters: VoterAssignment) -> None:
    """The snapshot takes the place of the log: all below its end is committed. Raises InvariantViolation for one that
    would take back what was committed."""
    ensure_covers_committed(replica, snapshot)
    replica.effects.reset_to_snapshot = snapshot
    replica.end = snapshot
    replica.flushed = snapshot.offset
    replica.voters = VoterHistory([(snapshot.offset - 1, voters)])
    replica.downgraded = False
    replica.commit(snapshot.offset)
    if replica.is_recorded_voter:
        replica.catching_up = False


def schedule_next_fetch(replica: Replica, state: Follower) -> None:
    """Ask the leader now and then, so that neither side gives the other up."""
    state.fetch_at = replica.now + replica.settings.fetch_max_wait_ms


def retry_fetch_later(replica: Replica, state: Follower) -> None:
    state.fetch_at = replica.retry_after(state.attempts)
    state.attempts += 1


def on_leader_lost(replica: Replica, state: Follower) -> None:
    """The leader is gone for certain: wait only long enough not to collide with the other followers."""
    if not state.leader_lost:
        state.leader_lost = True
        wait = replica.randrange(replica.max_jitter_ms)
        state.fetch_deadline = min(state.fetch_deadline, replica.now + wait)
    retry_fetch_later(replica, state)
