"""Leading: taking office, the high watermark, check-quorum, leaving. Serving fetches is in `fetch_service`, who
votes in `voter_changes`.

Raft paper 5.3 and 5.4.2, KIP-595, KIP-996 (check-quorum), KIP-853 (directory ids in voter records).
"""

from __future__ import annotations

from math import inf

from quorumd.ids import NO_NODE, ZERO_UUID, OffsetAndEpoch, ReplicaKey
from quorumd.raft import other
from quorumd.raft.effects import KRaftVersion, LeaderChange
from quorumd.raft.events import (
    Flushed,
    PeerAnswered,
    PeerAsked,
    PeerDiscovered,
    PeerFailed,
    Propose,
    ReadAsked,
    ShutDown,
    StorageFull,
    TimerFired,
)
from quorumd.raft.fetch_service import (
    answer_due,
    answer_or_park,
    confirm_reads,
    record_fetch,
    refuse,
    release_for_high_watermark,
    release_replicas,
    release_voters,
    serve_consumer,
)
from quorumd.raft.messages import EndRequest, FetchRequest, LeaderResponse
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.replica import BrokenPromise, Replica
from quorumd.raft.roles import Leader, Resigned
from quorumd.raft.transitions import leave_leadership, observe
from quorumd.raft.voter_changes import (
    CHECK_QUORUM_FACTOR,
    announce,
    answer_changes,
    check_quorum_at,
    discovered,
    follow_voter_set,
    improve_voters,
)
from quorumd.raft.voters import VoterAssignment, reached_by_majority

# Taking office


def become_leader(replica: Replica, granting: tuple[int, ...]) -> None:
    """Append the first record of the epoch: nothing older commits before it does (Raft paper 5.4.2).

    The first leader ever appends the founders as the voter set with it, in one batch, so that either both
    are in a log or none. LeaderChange comes first, as stock readers expect of an epoch's first batch.
    """
    timeout = replica.settings.fetch_timeout_ms
    leader = Leader(
        epoch_start=replica.end.offset,
        in_voter_set=True,
        voters={},
        check_quorum_at=replica.now + CHECK_QUORUM_FACTOR * timeout,
        begin_at=replica.now + timeout // 2,
    )
    replica.failed_elections = 0
    replica.enter(leader, QuorumState(replica.epoch, replica.id, replica.saved.voted))
    change = LeaderChange(replica.id, replica.voter_set.ids, granting)
    if replica.is_bootstrapping:
        replica.append_control(
            (change, KRaftVersion(1), VoterAssignment(discovered(replica, replica.voter_set)))
        )
    else:
        replica.append_control((change,))
    follow_voter_set(replica, leader)
    for progress in leader.voters.values():
        announce(replica, progress)
    advance_high_watermark(replica, leader)


def announce_to_silent(replica: Replica, leader: Leader) -> None:
    """Repeat BeginQuorumEpoch to voters that do not fetch, for ever (KIP-595)."""
    interval = replica.settings.fetch_timeout_ms // 2
    leader.begin_at = replica.now + interval
    for progress in leader.voters.values():
        silent = not progress.fetched or replica.now - progress.last_fetch >= interval
        if silent and progress.begin is None:
            announce(replica, progress)


def begin_answered(replica: Replica, leader: Leader, event: PeerAnswered) -> None:
    response = event.response
    assert isinstance(response, LeaderResponse)
    observe(replica, response.epoch, response.leader_id)
    progress = leader.voters.get(event.peer)
    if replica.state is leader and progress is not None and progress.begin is event.request:
        progress.begin = None
        progress.begin_attempts = 0


def begin_failed(replica: Replica, leader: Leader, event: PeerFailed) -> None:
    progress = leader.voters.get(event.peer)
    if progress is not None and progress.begin is event.request:
        progress.begin = None
        leader.begin_at = min(leader.begin_at, replica.retry_after(progress.begin_attempts))
        progress.begin_attempts += 1


# Committing


def propose(replica: Replica, leader: Leader, event: Propose) -> None:
    if event.end_offset <= replica.end.offset:
        raise BrokenPromise(
            f"proposed batch ends at {event.end_offset}, the log already at {replica.end.offset}"
        )
    replica.append(event.batch, OffsetAndEpoch(event.end_offset, replica.epoch))
    release_replicas(replica, leader)


def flushed(replica: Replica, leader: Leader, event: Flushed) -> None:
    replica.flushed = event.end_offset
    advance_high_watermark(replica, leader)
    if leader.pending_changes:
        answer_changes(replica, leader)
    look_after_voters(replica, leader)


def advance_high_watermark(replica: Replica, leader: Leader) -> None:
    """Commit what a majority has durably, if a record of this epoch is among it (Raft paper 5.4.2, figure 8;
    hole 31). The own log counts as far as it is flushed (hole 38), and only while this leader is a voter."""
    offsets = [progress.end_offset for progress in leader.voters.values()]
    if leader.in_voter_set:
        offsets.append(min(replica.flushed, replica.end.offset))
    reached = reached_by_majority(offsets)
    if reached > leader.epoch_start and reached > leader.high_watermark:
        leader.high_watermark = reached
        replica.commit(reached)
        if leader.pending_changes:
            answer_changes(replica, leader)
        release_for_high_watermark(replica, leader)
        confirm_reads(replica, leader)


def look_after_voters(replica: Replica, leader: Leader) -> None:
    """What follows from a commit, a fetch or an address for who votes: the next voter record, or, once it is
    committed that this leader is no voter, its end (Raft thesis 4.2.2, hole 9)."""
    if leader.in_voter_set:
        improve_voters(replica, leader)
    elif replica.voters.latest_offset < leader.high_watermark:
        # Nobody announces the next leader to it, and what clients ask of it waits until it knows who that is.
        resign(replica, leader, look_at=replica.retry_after(0))


def peer_discovered(replica: Replica, leader: Leader, event: PeerDiscovered) -> None:
    other.peer_discovered(replica, leader, event)
    leader.pin_wanted = True
    look_after_voters(replica, leader)


# Fetches and reads


def fetch_asked(replica: Replica, leader: Leader, event: PeerAsked) -> None:
    """A fetch may commit records, and it may tell the directory id of a voter; its answer shows both."""
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
        if progress.directory_seen != ZERO_UUID and progress.key.directory_id == ZERO_UUID:
            leader.pin_wanted = True
        confirm_reads(replica, leader)
    look_after_voters(replica, leader)
    if replica.state is leader:
        answer_or_park(replica, leader, event)
    else:
        refuse(replica, replica.state, event)


def read_asked(replica: Replica, leader: Leader, event: ReadAsked) -> None:
    leader.reads.ask(event.token, leader.high_watermark, replica.end.offset)
    confirm_reads(replica, leader)
    if leader.reads.waiting:
        release_voters(replica, leader)


# Leaving


def timer_fired(replica: Replica, leader: Leader, event: TimerFired) -> None:
    """Check the quorum (KIP-996), announce again to voters that do not fetch, answer what was parked."""
    if replica.now >= leader.check_quorum_at:
        leader.check_quorum_at = check_quorum_at(replica, leader)
        if replica.now >= leader.check_quorum_at:
            resign(replica, leader)
            return
        replica.forgiven_ms = 0.0
    if replica.now >= leader.begin_at:
        announce_to_silent(replica, leader)
    if replica.now >= leader.parked_until:
        answer_due(replica, leader)


def resign(replica: Replica, leader: Leader, look_at: float = inf) -> None:
    """Write nothing more in this epoch and say so to the voters, the fullest log first (KIP-595). From `look_at` on,
    ask around who leads next."""
    replica.enter(Resigned(replica.election_timeout(), look_at), replica.saved)
    leave_leadership(replica, leader)
    progress = sorted(leader.voters.values(), key=lambda p: (-p.end_offset, p.key.id))
    say_goodbye(replica, tuple(p.key for p in progress))


def say_goodbye(replica: Replica, successors: tuple[ReplicaKey, ...]) -> None:
    for successor in successors:
        replica.send(successor.id, EndRequest(replica.id, replica.epoch, replica.id, successors))


def shut_down(replica: Replica, leader: Leader, event: ShutDown) -> None:
    """Hand over: the best successor campaigns at once, this replica stays resigned."""
    replica.shutting_down = True
    replica.farewells = len(leader.voters)
    resign(replica, leader)


def storage_full(replica: Replica, leader: Leader, event: StorageFull) -> None:
    """A leader that cannot append makes way for one that can."""
    other.storage_full(replica, leader, event)
    resign(replica, leader)
