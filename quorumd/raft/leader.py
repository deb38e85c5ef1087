"""The leader: election, the high watermark, check-quorum, resignation. `fetch_service` serves fetches,
`voter_changes` changes the voters.

Raft paper 5.3 and 5.4.2, KIP-595, KIP-996 (check-quorum), KIP-853 (directory ids in voter records).
"""

from __future__ import annotations

from math import inf

from quorumd.ids import NO_NODE, ZERO_UUID, OffsetAndEpoch, ReplicaKey
from quorumd.raft import defaults
from quorumd.raft.effects import KRaftVersion, LeaderChange
from quorumd.raft.events import (
    FlushCompleted,
    PeerDiscovered,
    PeerRequestFailed,
    Propose,
    ReadRequested,
    RequestReceived,
    ResponseReceived,
    ShutdownRequested,
    StorageFull,
    TimerFired,
)
from quorumd.raft.fetch_service import (
    complete_delayed_fetches,
    complete_expired_fetches,
    complete_unproven_fetch,
    complete_voter_fetches,
    confirm_reads,
    on_high_watermark_advanced,
    record_fetch,
    reject_fetch,
    respond_or_delay,
    serve_consumer,
)
from quorumd.raft.messages import EndEpochRequest, FetchRequest, LeaderResponse
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.replica import InvariantViolation, Replica
from quorumd.raft.roles import Leader, Resigned
from quorumd.raft.transitions import observe, on_leadership_lost
from quorumd.raft.voter_changes import (
    CHECK_QUORUM_FACTOR,
    advance_voters,
    apply_voter_set,
    check_quorum_deadline,
    complete_voter_changes,
    complete_voter_set,
)
from quorumd.raft.voter_proof import new_token, send_begin_quorum_epoch
from quorumd.raft.voters import VoterAssignment, majority_value

# Election


def become_leader(replica: Replica, granting: tuple[int, ...]) -> None:
    """Start leading: append the first record of the epoch, without which nothing is committed (Raft paper 5.4.2).

    The first leader of a quorum appends the founders as the voter set in the same batch, so that a log has both
    records or neither. LeaderChange is the first record, as Kafka's readers expect at the start of an epoch.
    """
    timeout = replica.settings.fetch_timeout_ms
    leader = Leader(
        epoch_start=replica.end.offset,
        in_voter_set=True,
        voters={},
        check_quorum_deadline=replica.now + CHECK_QUORUM_FACTOR * timeout,
        begin_epoch_deadline=replica.now + timeout // 2,
        token=new_token(replica),
    )
    replica.failed_elections = 0
    replica.transition_to(leader, QuorumState(replica.epoch, replica.id, replica.saved.voted))
    change = LeaderChange(replica.id, replica.voter_set.ids, granting)
    if replica.is_bootstrapping:
        replica.append_control_records(
            (change, KRaftVersion(1), VoterAssignment(complete_voter_set(replica, replica.voter_set)))
        )
    else:
        replica.append_control_records((change,))
    apply_voter_set(replica, leader)
    for progress in leader.voters.values():
        send_begin_quorum_epoch(replica, progress)


def resend_begin_quorum_epoch(replica: Replica, leader: Leader) -> None:
    """Send BeginQuorumEpoch again to voters that do not fetch (KIP-595)."""
    interval = replica.settings.fetch_timeout_ms // 2
    leader.begin_epoch_deadline = replica.now + interval
    for progress in leader.voters.values():
        silent = not progress.has_fetched or replica.now - progress.last_fetch >= interval
        if silent and progress.begin_request is None:
            send_begin_quorum_epoch(replica, progress)


def handle_begin_response(replica: Replica, leader: Leader, event: ResponseReceived) -> None:
    """Record whether the voter returns tokens, and complete its delayed fetches that do not count yet."""
    response = event.response
    assert isinstance(response, LeaderResponse)
    observe(replica, response.epoch, response.leader_id, event.peer)
    progress = leader.voters.get(event.peer)
    if replica.state is leader and progress is not None and progress.begin_request is event.request:
        progress.begin_request = None
        progress.begin_epoch_attempts = 0
        progress.knows_tokens = response.knows_tokens
        complete_unproven_fetch(replica, leader, progress)


def handle_begin_failure(replica: Replica, leader: Leader, event: PeerRequestFailed) -> None:
    progress = leader.voters.get(event.peer)
    if progress is not None and progress.begin_request is event.request:
        progress.begin_request = None
        leader.begin_epoch_deadline = min(
            leader.begin_epoch_deadline, replica.retry_after(progress.begin_epoch_attempts)
        )
        progress.begin_epoch_attempts += 1


# High watermark


def handle_proposal(replica: Replica, leader: Leader, event: Propose) -> None:
    if event.end_offset <= replica.end.offset:
        raise InvariantViolation(
            f"the proposed batch ends at {event.end_offset}, not above the log end offset {replica.end.offset}"
        )
    replica.append(event.batch, OffsetAndEpoch(event.end_offset, replica.epoch))
    complete_delayed_fetches(replica, leader)


def handle_flush(replica: Replica, leader: Leader, event: FlushCompleted) -> None:
    replica.flushed = event.end_offset
    advance_high_watermark(replica, leader)
    if leader.pending_changes:
        complete_voter_changes(replica, leader)
    update_voters(replica, leader)


def advance_high_watermark(replica: Replica, leader: Leader) -> None:
    """Commit the records that a majority has flushed, once a record of this epoch is among them.

    Raft paper 5.4.2 and figure 8 (hole 31). The local log counts up to its flushed end (hole 38), and only while this
    leader is a voter.
    """
    offsets = [progress.end_offset for progress in leader.voters.values()]
    if leader.in_voter_set:
        offsets.append(min(replica.flushed, replica.end.offset))
    majority_offset = majority_value(offsets)
    if majority_offset > leader.epoch_start and majority_offset > leader.high_watermark:
        leader.high_watermark = majority_offset
        replica.commit(majority_offset)
        if leader.pending_changes:
            complete_voter_changes(replica, leader)
        on_high_watermark_advanced(replica, leader)
        confirm_reads(replica, leader)


def update_voters(replica: Replica, leader: Leader) -> None:
    """Append the next voter record if one is due, or resign once this leader's removal is committed (Raft thesis
    4.2.2, hole 9)."""
    if leader.in_voter_set:
        advance_voters(replica, leader)
    elif replica.voters.latest_offset < leader.high_watermark:
        # The next leader sends no BeginQuorumEpoch to a removed voter, and clients wait until this node knows it.
        resign(replica, leader, find_leader_at=replica.retry_after(0))


def handle_peer_discovered(replica: Replica, leader: Leader, event: PeerDiscovered) -> None:
    defaults.handle_peer_discovered(replica, leader, event)
    leader.voter_record_incomplete = True
    update_voters(replica, leader)


# Fetches and reads


def handle_fetch_request(replica: Replica, leader: Leader, event: RequestReceived) -> None:
    """Record a fetch, then respond: the response has the high watermark and voter record that result from it."""
    request = event.request
    assert isinstance(request, FetchRequest)
    if request.replica.id == NO_NODE:
        serve_consumer(replica, leader, event)
        return
    progress = record_fetch(replica, leader, event)
    if progress is None:
        return
    if leader.voters.get(progress.key.id) is progress:
        advance_high_watermark(replica, leader)
        if progress.observed_directory_id != ZERO_UUID and progress.key.directory_id == ZERO_UUID:
            leader.voter_record_incomplete = True
        confirm_reads(replica, leader)
    update_voters(replica, leader)
    if replica.state is leader:
        respond_or_delay(replica, leader, event, progress)
    else:
        reject_fetch(replica, replica.state, event)


def handle_read_request(replica: Replica, leader: Leader, event: ReadRequested) -> None:
    leader.reads.add(event.token, leader.high_watermark, replica.end.offset)
    confirm_reads(replica, leader)
    if leader.reads.waiting:
        complete_voter_fetches(replica, leader)


# Resignation


def handle_timer(replica: Replica, leader: Leader, event: TimerFired) -> None:
    """Resign without a majority (check-quorum, KIP-996); resend BeginQuorumEpoch; complete expired fetches."""
    if replica.now >= leader.check_quorum_deadline:
        leader.check_quorum_deadline = check_quorum_deadline(replica, leader)
        if replica.now >= leader.check_quorum_deadline:
            resign(replica, leader)
            return
        replica.stall_grace_ms = 0.0
    if replica.now >= leader.begin_epoch_deadline:
        resend_begin_quorum_epoch(replica, leader)
    if replica.now >= leader.next_delay_expiry:
        complete_expired_fetches(replica, leader)


def resign(replica: Replica, leader: Leader, find_leader_at: float = inf) -> None:
    """Stop leading, and send EndQuorumEpoch with the voters as successors by descending log end offset (KIP-595).

    The replica looks for the next leader from `find_leader_at` on.
    """
    replica.transition_to(Resigned(replica.election_timeout(), find_leader_at), replica.saved)
    on_leadership_lost(replica, leader)
    progress = sorted(leader.voters.values(), key=lambda p: (-p.end_offset, p.key.id))
    send_end_quorum_epoch(replica, tuple(p.key for p in progress))


def send_end_quorum_epoch(replica: Replica, successors: tuple[ReplicaKey, ...]) -> None:
    for successor in successors:
        replica.send(successor.id, EndEpochRequest(replica.id, replica.epoch, replica.id, successors))


def handle_shutdown(replica: Replica, leader: Leader, event: ShutdownRequested) -> None:
    """Resign. The preferred successor campaigns at once, and this replica stays resigned."""
    replica.shutting_down = True
    replica.pending_end_acks = len(leader.voters)
    resign(replica, leader)


def handle_storage_full(replica: Replica, leader: Leader, event: StorageFull) -> None:
    """Resign, so that a replica that can append is elected."""
    defaults.handle_storage_full(replica, leader, event)
    resign(replica, leader)
