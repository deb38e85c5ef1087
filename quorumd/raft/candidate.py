"""The prospective and candidate roles: request pre-votes (KIP-996), then votes (Raft paper 5.2)."""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch, ReplicaKey
from quorumd.raft import defaults
from quorumd.raft.events import (
    PeerRequestFailed,
    ResponseReceived,
    ShutdownRequested,
    StorageFull,
    TimerFired,
)
from quorumd.raft.leader import become_leader
from quorumd.raft.messages import VoteRequest, VoteResponse
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.replica import Replica
from quorumd.raft.roles import Ballot, Candidate, Follower, Prospective
from quorumd.raft.transitions import become_unattached, fetch_from_leader, knows_leader, observe
from quorumd.raft.voters import majority


def become_prospective(replica: Replica) -> None:
    """Request pre-votes, to learn whether an election can be won before the epoch is raised for it."""
    state = Prospective(replica.election_timeout(), Ballot(own_vote(replica)))
    replica.transition_to(state, replica.saved)
    request_votes(replica, state)
    tally_votes(replica, state)


def become_candidate(replica: Replica) -> None:
    """Vote for this replica in the next epoch. The requests are sent once the vote is saved."""
    state = Candidate(replica.election_timeout(), Ballot(own_vote(replica)))
    if replica.end.offset == 0:
        replica.catching_up = False  # It bootstraps the quorum, so its disk replaces no other.
    replica.transition_to(state, QuorumState(replica.epoch + 1, NO_NODE, replica.identity))
    request_votes(replica, state)
    tally_votes(replica, state)


def own_vote(replica: Replica) -> list[int]:
    """The replica's own vote, or none if it was removed and needs a majority of the others."""
    return [replica.id] if replica.voter_set.includes(replica.identity) else []


def request_votes(replica: Replica, state: Prospective | Candidate) -> None:
    for voter in replica.voter_set.voters:
        if voter.key.id != replica.id:
            request_vote(replica, state, voter.key)


def request_vote(replica: Replica, state: Prospective | Candidate, voter: ReplicaKey) -> None:
    pre_vote = isinstance(state, Prospective)
    last = OffsetAndEpoch(replica.end.offset, replica.end.epoch)
    request = VoteRequest(replica.epoch, replica.identity, voter, last, pre_vote)
    state.ballot.in_flight[voter.id] = request
    state.ballot.retry_at.pop(voter.id, None)
    if voter.id in state.ballot.unreachable:
        state.ballot.unreachable.remove(voter.id)
    replica.send_after_flush(voter.id, request)


def handle_vote_response(replica: Replica, state: Prospective | Candidate, event: ResponseReceived) -> None:
    """Count a granted or rejected vote. A response to an earlier ballot only updates epoch and leader."""
    response = event.response
    assert isinstance(response, VoteResponse)
    observe(replica, response.epoch, response.leader_id, event.peer)
    ballot = state.ballot
    if replica.state is not state or ballot.in_flight.get(event.peer) is not event.request:
        return
    del ballot.in_flight[event.peer]
    if response.error is not ErrorCode.NONE or response.epoch < replica.epoch:
        retry_later(replica, ballot, event.peer)
    elif response.granted:
        ballot.granted.append(event.peer)
    else:
        ballot.rejected.append(event.peer)
    tally_votes(replica, state)


def handle_vote_failure(replica: Replica, state: Prospective | Candidate, event: PeerRequestFailed) -> None:
    """Retry the request later. A peer that does not support pre-votes counts as granting one."""
    ballot = state.ballot
    if ballot.in_flight.get(event.peer) is not event.request:
        return
    del ballot.in_flight[event.peer]
    if event.refused:
        ballot.unreachable.append(event.peer)
    if event.unsupported and isinstance(state, Prospective):
        ballot.granted.append(event.peer)
    else:
        retry_later(replica, ballot, event.peer)
    tally_votes(replica, state)


def retry_later(replica: Replica, ballot: Ballot, peer: int) -> None:
    attempts = ballot.attempts.get(peer, 0)
    ballot.attempts[peer] = attempts + 1
    ballot.retry_at[peer] = replica.retry_after(attempts)


def tally_votes(replica: Replica, state: Prospective | Candidate) -> None:
    """Act on a ballot that is won, or that cannot be won any longer (KIP-595, gridlocked elections).

    Unreachable voters count as lost only if another voter rejected the request: if none did, they may still be
    starting.
    """
    ballot = state.ballot
    needed = majority(len(replica.voter_set.voters))
    lost_votes = len(ballot.rejected) + len(ballot.unreachable) if ballot.rejected else 0
    if len(ballot.granted) >= needed:
        if isinstance(state, Prospective):
            become_candidate(replica)
        elif replica.may_lead:
            become_leader(replica, tuple(sorted(state.ballot.granted)))
    elif len(replica.voter_set.voters) - lost_votes < needed:
        on_election_lost(replica, state)


def on_election_lost(replica: Replica, state: Prospective | Candidate) -> None:
    """Back off for a random time before the next election, so that candidates do not block each other."""
    if isinstance(state, Candidate):
        if not state.backing_off:
            state.backing_off = True
            state.election_deadline = replica.election_backoff()
    else:
        abandon_pre_vote(replica)


def abandon_pre_vote(replica: Replica) -> None:
    """Return from a pre-vote to the leader of this epoch, which may still be alive, or to unattached."""
    retry_at = replica.election_backoff()
    if knows_leader(replica) and replica.saved.leader_id != replica.id:
        # With one attempt counted, discovery continues until this leader responds: all addresses may have changed.
        leader = Follower(replica.saved.leader_id, retry_at, replica.now, attempts=1)
        replica.transition_to(leader, replica.saved)
        fetch_from_leader(replica, leader)
    else:
        become_unattached(replica, replica.epoch, election_deadline=retry_at)


def handle_shutdown(replica: Replica, state: Prospective, event: ShutdownRequested) -> None:
    replica.shutting_down = True
    abandon_pre_vote(replica)


def handle_storage_full(replica: Replica, state: Prospective, event: StorageFull) -> None:
    defaults.handle_storage_full(replica, state, event)
    abandon_pre_vote(replica)


def handle_timer(replica: Replica, state: Prospective | Candidate, event: TimerFired) -> None:
    """Handle the end of an election or of its backoff, or retry failed requests."""
    if replica.now >= state.election_deadline:
        if isinstance(state, Prospective):
            abandon_pre_vote(replica)
        elif not state.backing_off:
            on_election_lost(replica, state)
        elif replica.may_campaign:
            become_prospective(replica)
        else:
            state.election_deadline = replica.election_timeout()
        return
    if isinstance(state, Candidate) and state.backing_off:
        return
    for voter in replica.voter_set.voters:
        if state.ballot.retry_at.get(voter.key.id, replica.now + 1) <= replica.now:
            request_vote(replica, state, voter.key)
