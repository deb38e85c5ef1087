"""The follower's side of FetchSnapshot: fetch in chunks, verify, replace the log (KIP-630).

A follower fetches either records or a snapshot. The caller stores the bytes, so that the fetch of a snapshot
continues after a restart or under a new leader that has the same snapshot.
"""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch
from quorumd.raft.effects import SnapshotChunk
from quorumd.raft.events import PeerRequestFailed, ResponseReceived, SnapshotChecked
from quorumd.raft.messages import SnapshotRequest, SnapshotResponse
from quorumd.raft.replica import PeerFault, Replica
from quorumd.raft.roles import Follower, RoleState, Unattached
from quorumd.raft.transitions import fetch_from_leader, observe
from quorumd.raft.voters import VoterAssignment, VoterHistory


def start_snapshot_fetch(replica: Replica, state: Follower, snapshot: OffsetAndEpoch) -> None:
    """Fetch the snapshot that the leader named, because its log starts above the end of the local log.

    While another snapshot is being verified, or if this one is not ahead of the log, records are fetched instead,
    after a wait. Raises PeerFault if the snapshot ends below the high watermark.
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
    state.snapshot_fetch = SnapshotRequest(
        replica.identity, replica.epoch, snapshot, position, limit, state.token
    )
    replica.send(state.leader_id, state.snapshot_fetch)


def handle_snapshot_response(replica: Replica, state: Follower, event: ResponseReceived) -> None:
    """Store the chunk and request the next one. If the leader does not have the snapshot, fetch records again."""
    response, request = event.response, event.request
    assert isinstance(response, SnapshotResponse)
    assert isinstance(request, SnapshotRequest)
    observe(replica, response.epoch, response.leader_id, event.peer)
    if replica.state is not state or request is not state.snapshot_fetch:
        return
    state.snapshot_fetch = None
    if response.epoch < replica.epoch:
        retry_fetch_later(replica, state)
    elif response.error is ErrorCode.NONE and is_expected_chunk(request, response):
        apply_chunk(replica, state, request, response)
    elif response.error is ErrorCode.POSITION_OUT_OF_RANGE and request.position > 0:
        # The stored bytes are not a prefix of the leader's snapshot, or this node stopped before it verified them.
        send_snapshot_fetch(replica, state, request.snapshot, 0)
    elif response.error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE):
        on_leader_lost(replica, state)
    else:
        state.snapshot = None
        retry_fetch_later(replica, state)


def is_expected_chunk(request: SnapshotRequest, response: SnapshotResponse) -> bool:
    """Whether the response has the requested bytes, and at least one unless the snapshot is complete."""
    same = (response.snapshot, response.position) == (request.snapshot, request.position)
    end = response.position + len(response.data)
    return same and (end == response.size or (bool(response.data) and end < response.size))


def apply_chunk(
    replica: Replica, state: Follower, request: SnapshotRequest, response: SnapshotResponse
) -> None:
    """Pass a fetched chunk to the caller, then fetch the next one, or wait until the whole snapshot is verified."""
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
    """Replace the log with a verified snapshot that is still ahead of it; fetch again later if it was corrupt.

    It does not matter whether the leader is still the one that sent it: a snapshot has only committed records. A
    campaigning replica ignores the snapshot, since it requested votes for the log that it has.
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
    """Fetch again after a backoff, since the disk may still be full."""
    if state.snapshot == snapshot:
        state.snapshot = state.snapshot_fetch = None
    state.fetch_at = replica.now + replica.settings.retry_backoff_max_ms


def is_ahead(snapshot: OffsetAndEpoch, end: OffsetAndEpoch) -> bool:
    """Whether a snapshot ends in a later epoch than `end`, or at a higher offset of the same epoch."""
    return (snapshot.epoch, snapshot.offset) > (end.epoch, end.offset)


def ensure_covers_committed(replica: Replica, snapshot: OffsetAndEpoch) -> None:
    """Raise PeerFault for a snapshot that ends below the high watermark."""
    if snapshot.offset < replica.committed:
        raise PeerFault(
            f"the snapshot ends at offset {snapshot.offset}, below the high watermark {replica.committed}"
        )


def install(replica: Replica, snapshot: OffsetAndEpoch, voters: VoterAssignment) -> None:
    """Replace the log with the snapshot and commit everything below its end.

    Raises PeerFault if the snapshot ends below the high watermark.
    """
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
    """Fetch again after the maximum wait of a fetch, to stay in contact with the leader."""
    state.fetch_at = replica.now + replica.settings.fetch_max_wait_ms


def retry_fetch_later(replica: Replica, state: Follower) -> None:
    state.fetch_at = replica.retry_after(state.attempts)
    state.attempts += 1


def on_leader_lost(replica: Replica, state: Follower) -> None:
    """Campaign soon, since the leader is gone, after a random wait so that followers do not campaign together."""
    if not state.leader_lost:
        state.leader_lost = True
        wait = replica.randrange(replica.max_jitter_ms)
        state.fetch_deadline = min(state.fetch_deadline, replica.now + wait)
    retry_fetch_later(replica, state)
