"""The unattached and resigned roles: no leader to fetch from."""

from __future__ import annotations

from math import inf

from quorumd.raft import defaults
from quorumd.raft.candidate import become_prospective
from quorumd.raft.events import (
    FoundingPermitted,
    PeerDiscovered,
    PeerRequestFailed,
    ReplayCompleted,
    ResponseReceived,
    TimerFired,
)
from quorumd.raft.messages import FetchResponse
from quorumd.raft.replica import LAST_EPOCH, Replica
from quorumd.raft.roles import Resigned, Unattached
from quorumd.raft.transitions import become_unattached, observe


def handle_timer(replica: Replica, state: Unattached, event: TimerFired) -> None:
    if replica.now >= state.election_deadline:
        if replica.may_campaign:
            become_prospective(replica)
            return
        state.election_deadline = replica.election_timeout()
    if state.fetch is None and replica.now >= state.fetch_at:
        search_leader(replica, state)


def search_leader(replica: Replica, state: Unattached | Resigned) -> None:
    """Fetch from a random node. The response has the leader, which may be that node.

    Every other attempt, from the first on, goes to a voter: the leader usually is one, and voters learn of a new
    leader first. The others go to any node, since the voters in the local log may be long gone.
    """
    peers = replica.known_peers()
    if state.attempts % 2 == 0:
        voters = replica.voter_set.ids
        peers = [peer for peer in peers if peer in voters] or peers
    if peers:
        state.fetch = replica.fetch_from(peers[replica.randrange(len(peers))], max_wait_ms=0)
    else:
        state.fetch_at = inf


def handle_fetch_response(replica: Replica, state: Unattached | Resigned, event: ResponseReceived) -> None:
    response = event.response
    assert isinstance(response, FetchResponse)
    observe(replica, response.epoch, response.leader_id, event.peer)
    if replica.state is state:
        retry_leader_search(replica, state, event)


def retry_leader_search(
    replica: Replica, state: Unattached | Resigned, event: ResponseReceived | PeerRequestFailed
) -> None:
    if event.request is state.fetch:
        state.fetch = None
        state.fetch_at = replica.retry_after(state.attempts)
        state.attempts += 1


def handle_peer_discovered(replica: Replica, state: Unattached, event: PeerDiscovered) -> None:
    defaults.handle_peer_discovered(replica, state, event)
    state.fetch_at = min(state.fetch_at, replica.now)


def handle_replay_completed(replica: Replica, state: Unattached, event: ReplayCompleted) -> None:
    """Campaign soon: the quorum may have been without a leader while its voters replayed their logs."""
    defaults.handle_replay_completed(replica, state, event)
    wait = 0 if replica.is_sole_voter else replica.randrange(replica.settings.election_timeout_ms)
    state.election_deadline = min(state.election_deadline, replica.now + wait)


def handle_founding_permitted(
    replica: Replica, state: Unattached | Resigned, event: FoundingPermitted
) -> None:
    """Campaign soon: a new cluster has no leader to wait for."""
    defaults.handle_founding_permitted(replica, state, event)
    if replica.is_sole_voter:
        state.election_deadline = replica.now
    elif replica.epoch == 0 and replica.is_voter:
        wait = replica.randrange(replica.max_jitter_ms)
        state.election_deadline = min(state.election_deadline, replica.now + wait)


def handle_resigned_timer(replica: Replica, state: Resigned, event: TimerFired) -> None:
    """Enter the next epoch after the election timeout, in order to campaign, or search for the successor.

    A removed voter enters it too, although it cannot campaign: no other replica can lead the epoch that it led.
    """
    if replica.shutting_down or replica.epoch >= LAST_EPOCH:
        state.election_deadline = inf
    elif replica.now >= state.election_deadline:
        deadline = replica.now if replica.is_sole_voter else None
        become_unattached(replica, replica.epoch + 1, election_deadline=deadline)
        return
    if state.fetch is None and replica.now >= state.fetch_at:
        search_leader(replica, state)
