"""What is handled alike in most roles."""

from __future__ import annotations

from quorumd.ids import ZERO_UUID
from quorumd.raft.events import (
    Flushed,
    FoundingPermitted,
    LeaderHeard,
    PeerAnswered,
    PeerDiscovered,
    PeerFailed,
    Propose,
    ReadAsked,
    ReplayBegan,
    ReplayEnded,
    ShutDown,
    StoodStill,
    StorageFree,
    StorageFull,
)
from quorumd.raft.replica import BrokenPromise, Peer, Replica
from quorumd.raft.roles import Follower, Leader, RoleState
from quorumd.raft.transitions import knows_leader, observe


def answered(replica: Replica, state: RoleState, event: PeerAnswered) -> None:
    """An answer that this role did not wait for still tells leader and epoch."""
    observe(replica, event.response.epoch, event.response.leader_id)


def ignored(replica: Replica, state: RoleState, event: PeerFailed) -> None:
    """Nobody waits for that answer any more."""


def end_answered(replica: Replica, state: RoleState, event: PeerAnswered) -> None:
    """A successor knows that it may campaign."""
    replica.farewells -= 1
    answered(replica, state, event)


def end_failed(replica: Replica, state: RoleState, event: PeerFailed) -> None:
    """Whoever does not hear it finds out by its fetch timeout: EndQuorumEpoch is best effort (KIP-595)."""
    replica.farewells -= 1


def leader_heard(replica: Replica, state: RoleState, event: LeaderHeard) -> None:
    """Hearsay: good for finding a leader, too weak to contradict what is known."""
    contradicts = knows_leader(replica) and event.leader_id != replica.saved.leader_id
    if event.epoch > replica.epoch or not contradicts:
        observe(replica, event.epoch, event.leader_id)


def peer_discovered(replica: Replica, state: RoleState, event: PeerDiscovered) -> None:
    """Remember an address. A directory id once known is not forgotten for a source that does not tell it."""
    key = event.key
    if key.directory_id == ZERO_UUID:
        key = replica.discovered_key(key.id)
    replica.peers[key.id] = Peer(key, event.endpoint)


def founding_permitted(replica: Replica, state: RoleState, event: FoundingPermitted) -> None:
    """Take over who founds, unless a quorum or its log has been found meanwhile."""
    if replica.is_bootstrapping and replica.end.offset == 0:
        replica.founders = event.voters


def flushed(replica: Replica, state: RoleState, event: Flushed) -> None:
    replica.flushed = event.end_offset


def proposed_to_non_leader(replica: Replica, state: RoleState, event: Propose) -> None:
    raise BrokenPromise(f"a batch was proposed to a replica that is {state.role.value}")


def read_asked_of_non_leader(replica: Replica, state: RoleState, event: ReadAsked) -> None:
    replica.effects.reads_failed.append(event.token)


def shut_down(replica: Replica, state: RoleState, event: ShutDown) -> None:
    """From now on no campaigning and no serving; votes are still given, they let others go on sooner."""
    replica.shutting_down = True


def stood_still(replica: Replica, state: RoleState, event: StoodStill) -> None:
    """Whoever seems silent gets the time that this node lacked."""
    forgiven = replica.forgive(event.duration_ms)
    if isinstance(state, Follower):
        state.fetch_deadline += forgiven
    elif isinstance(state, Leader):
        state.check_quorum_at += forgiven
    else:
        state.election_deadline += forgiven


def replay_began(replica: Replica, state: RoleState, event: ReplayBegan) -> None:
    replica.replaying = True


def replay_ended(replica: Replica, state: RoleState, event: ReplayEnded) -> None:
    replica.replaying = False


def storage_full(replica: Replica, state: RoleState, event: StorageFull) -> None:
    """What the refused append should have brought is not there: forget it."""
    replica.storage_full = True
    replica.voters.truncate_to(replica.end.offset)
    replica.committed = min(replica.committed, replica.end.offset)


def storage_free(replica: Replica, state: RoleState, event: StorageFree) -> None:
    replica.storage_full = False
