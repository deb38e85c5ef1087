"""Prospective and candidate: asking for pre-votes (KIP-996), then for votes (Raft paper 5.2)."""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch, ReplicaKey
from quorumd.raft import other
from quorumd.raft.events import PeerAnswered, PeerFailed, ShutDown, StorageFull, TimerFired
from quorumd.raft.leader import become_leader
from quorumd.raft.messages import VoteRequest, VoteResponse
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.replica import Replica
from quorumd.raft.roles import Ballot, Candidate, Follower, Prospective
from quorumd.raft.transitions import become_unattached, fetch_from_leader, knows_leader, observe
from quorumd.raft.voters import majority


def become_prospective(replica: Replica) -> None:
    """Find out whether an election could be won before an epoch is spent on it."""
    state = Prospective(replica.election_timeout(), Ballot(own_vote(replica)))
    replica.enter(state, replica.saved)
    ask_all(replica, state)
    count(replica, state)


def become_candidate(replica: Replica) -> None:
    """Vote for itself in the next epoch. The requests leave once that is saved."""
    state = Candidate(replica.election_timeout(), Ballot(own_vote(replica)))
    if replica.end.offset == 0:
        replica.catching_up = False  # bootstraps the quorum, so it replaces nobody
    replica.enter(state, QuorumState(replica.epoch + 1, NO_NODE, replica.identity))
    ask_all(replica, state)
    count(replica, state)


def own_vote(replica: Replica) -> list[int]:
    """Who is no voter any more needs a majority of the others."""
    return [replica.id] if replica.voter_set.includes(replica.identity) else []


def ask_all(replica: Replica, state: Prospective | Candidate) -> None:
    for voter in replica.voter_set.voters:
        if voter.key.id != replica.id:
            ask(replica, state, voter.key)


def ask(replica: Replica, state: Prospective | Candidate, voter: ReplicaKey) -> None:
    pre_vote = isinstance(state, Prospective)
    last = OffsetAndEpoch(replica.end.offset, replica.end.epoch)
    request = VoteRequest(replica.epoch, replica.identity, voter, last, pre_vote)
    state.ballot.asked[voter.id] = request
    state.ballot.retry_at.pop(voter.id, None)
    if voter.id in state.ballot.unreachable:
        state.ballot.unreachable.remove(voter.id)
    replica.send_after_flush(voter.id, request)


def vote_answered(replica: Replica, state: Prospective | Candidate, event: PeerAnswered) -> None:
    """Count a vote or a refusal; an answer to an earlier ballot only tells epoch and leader."""
    response = event.response
    assert isinstance(response, VoteResponse)
    observe(replica, response.epoch, response.leader_id)
    ballot = state.ballot
    if replica.state is not state or ballot.asked.get(event.peer) is not event.request:
        return
    del ballot.asked[event.peer]
    if response.error is not ErrorCode.NONE or response.epoch < replica.epoch:
        ask_later(replica, ballot, event.peer)
    elif response.granted:
        ballot.granted.append(event.peer)
    else:
        ballot.refused.append(event.peer)
    count(replica, state)


def vote_failed(replica: Replica, state: Prospective | Candidate, event: PeerFailed) -> None:
    """No answer is asked for again. A peer that knows no pre-votes cannot refuse one: it counts as granted."""
    ballot = state.ballot
    if ballot.asked.get(event.peer) is not event.request:
        return
    del ballot.asked[event.peer]
    if event.refused:
        ballot.unreachable.append(event.peer)
    if event.unsupported and isinstance(state, Prospective):
        ballot.granted.append(event.peer)
    else:
        ask_later(replica, ballot, event.peer)
    count(replica, state)


def ask_later(replica: Replica, ballot: Ballot, peer: int) -> None:
    attempts = ballot.attempts.get(peer, 0)
    ballot.attempts[peer] = attempts + 1
    ballot.retry_at[peer] = replica.retry_after(attempts)


def count(replica: Replica, state: Prospective | Candidate) -> None:
    """Won, lost already (KIP-595: gridlocked elections), or still open.

    Voters that cannot be reached count as lost only beside one that refused: while nobody refuses, they may just
    not be up yet.
    """
    ballot = state.ballot
    needed = majority(len(replica.voter_set.voters))
    hopeless = len(ballot.refused) + len(ballot.unreachable) if ballot.refused else 0
    if len(ballot.granted) >= needed:
        if isinstance(state, Prospective):
            become_candidate(replica)
        elif replica.may_lead:
            become_leader(replica, tuple(sorted(state.ballot.granted)))
    elif len(replica.voter_set.voters) - hopeless < needed:
        lose(replica, state)


def lose(replica: Replica, state: Prospective | Candidate) -> None:
    """Wait a random time before the next try, so that candidates do not block each other for ever."""
    if isinstance(state, Candidate):
        if not state.backing_off:
            state.backing_off = True
            state.election_deadline = replica.election_backoff()
    else:
        step_back(replica)


def step_back(replica: Replica) -> None:
    """Give up a pre-vote: back to the leader of this epoch, who may be alive after all, or to none."""
    retry_at = replica.election_backoff()
    if knows_leader(replica) and replica.saved.leader_id != replica.id:
        # It looks for the others until this leader answers: all of them may have moved.
        leader = Follower(replica.saved.leader_id, retry_at, replica.now, attempts=1)
        replica.enter(leader, replica.saved)
        fetch_from_leader(replica, leader)
    else:
        become_unattached(replica, replica.epoch, election_deadline=retry_at)


def shut_down(replica: Replica, state: Prospective, event: ShutDown) -> None:
    replica.shutting_down = True
    step_back(replica)


def storage_full(replica: Replica, state: Prospective, event: StorageFull) -> None:
    other.storage_full(replica, state, event)
    step_back(replica)


def timer_fired(replica: Replica, state: Prospective | Candidate, event: TimerFired) -> None:
    """The election took too long, the wait after a lost one is over, or a failed request is due again."""
    if replica.now >= state.election_deadline:
        if isinstance(state, Prospective):
            step_back(replica)
        elif not state.backing_off:
            lose(replica, state)
        elif replica.may_campaign:
            become_prospective(replica)
        else:
            state.election_deadline = replica.election_timeout()
        return
    if isinstance(state, Candidate) and state.backing_off:
        return
    for voter in replica.voter_set.voters:
        if state.ballot.retry_at.get(voter.key.id, replica.now + 1) <= replica.now:
            ask(replica, state, voter.key)
