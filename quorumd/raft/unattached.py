"""Unattached and resigned: an epoch in which this replica has no leader to fetch from."""

from __future__ import annotations

from math import inf

from quorumd.raft import other
from quorumd.raft.candidate import become_prospective
from quorumd.raft.events import (
    FoundingPermitted,
    PeerAnswered,
    PeerDiscovered,
    PeerFailed,
    ReplayEnded,
    TimerFired,
)
from quorumd.raft.messages import FetchResponse
from quorumd.raft.replica import LAST_EPOCH, Replica
from quorumd.raft.roles import Resigned, Unattached
from quorumd.raft.transitions import become_unattached, observe


def timer_fired(replica: Replica, state: Unattached, event: TimerFired) -> None:
    if replica.now >= state.election_deadline:
        if replica.may_campaign:
            become_prospective(replica)
            return
        state.election_deadline = replica.election_timeout()
    if state.fetch is None and replica.now >= state.fetch_at:
        look_for_leader(replica, state)


def look_for_leader(replica: Replica, state: Unattached | Resigned) -> None:
    """Fetch from somebody: the answer says who leads, and if it was the leader it costs nothing.

    Every other time, the first one included, from one of the voters: the leader is among them, and the others hear of
    it first. In between from anybody, as the voters that the own log knows may be long gone.
    """
    peers = replica.known_peers()
    if state.attempts % 2 == 0:
        voters = replica.voter_set.ids
        peers = [peer for peer in peers if peer in voters] or peers
    if peers:
        state.fetch = replica.fetch_from(peers[replica.below(len(peers))], max_wait_ms=0)
    else:
        state.fetch_at = inf


def fetch_answered(replica: Replica, state: Unattached | Resigned, event: PeerAnswered) -> None:
    response = event.response
    assert isinstance(response, FetchResponse)
    observe(replica, response.epoch, response.leader_id)
    if replica.state is state:
        look_again_later(replica, state, event)


def look_again_later(
    replica: Replica, state: Unattached | Resigned, event: PeerAnswered | PeerFailed
) -> None:
    if event.request is state.fetch:
        state.fetch = None
        state.fetch_at = replica.retry_after(state.attempts)
        state.attempts += 1


def peer_discovered(replica: Replica, state: Unattached, event: PeerDiscovered) -> None:
    other.peer_discovered(replica, state, event)
    state.fetch_at = min(state.fetch_at, replica.now)


def replay_ended(replica: Replica, state: Unattached, event: ReplayEnded) -> None:
    """There may have been no leader for long: an election is due, and whoever is ready first may win it."""
    other.replay_ended(replica, state, event)
    wait = 0 if replica.is_sole_voter else replica.below(replica.settings.election_timeout_ms)
    state.election_deadline = min(state.election_deadline, replica.now + wait)


def founding_permitted(replica: Replica, state: Unattached | Resigned, event: FoundingPermitted) -> None:
    """At the first start of a cluster there is no leader to wait for: elect one."""
    other.founding_permitted(replica, state, event)
    if replica.is_sole_voter:
        state.election_deadline = replica.now
    elif replica.epoch == 0 and replica.is_voter:
        wait = replica.below(replica.short_wait_ms)
        state.election_deadline = min(state.election_deadline, replica.now + wait)


def resigned_timer_fired(replica: Replica, state: Resigned, event: TimerFired) -> None:
    """No successor showed up: the next epoch is free for all, this replica included. Who may not campaign, as it is
    no voter any more, disturbs nobody there: it alone could lead the epoch before."""
    if replica.shutting_down or replica.epoch == LAST_EPOCH:
        state.election_deadline = inf
    elif replica.now >= state.election_deadline:
        deadline = replica.now if replica.is_sole_voter else None
        become_unattached(replica, replica.epoch + 1, election_deadline=deadline)
        return
    if state.fetch is None and replica.now >= state.fetch_at:
        look_for_leader(replica, state)
