"""What is handled alike in most roles."""

from __future__ import annotations

from quorumd.ids import ZERO_UUID
from quorumd.raft.events import (
    FlushCompleted,
    FoundingPermitted,
    LeaderReported,
    PeerDiscovered,
    PeerRequestFailed,
    Propose,
    ReadRequested,
    ReplayCompleted,
    ReplayStarted,
    ResponseReceived,
    ShutdownRequested,
    StallDetected,
    StorageAvailable,
    StorageFull,
)
from quorumd.raft.replica import InvariantViolation, Peer, Replica
from quorumd.raft.roles import Follower, Leader, RoleState
from quorumd.raft.transitions import knows_leader, observe


def observe_response(replica: Replica, state: RoleState, event: ResponseReceived) -> None:
    """An answer that this role did not wait for still tells leader and epoch."""
    observe(replica, event.response.epoch, event.response.leader_id)


def ignore_failure(replica: Replica, state: RoleState, event: PeerRequestFailed) -> None:
    """Nobody waits for that answer any more."""


def handle_end_response(replica: Replica, state: RoleState, event: ResponseReceived) -> None:
    """A successor knows that it may campaign."""
    replica.pending_end_acks -= 1
    observe_response(replica, state, event)


def handle_end_failure(replica: Replica, state: RoleState, event: PeerRequestFailed) -> None:
    """Whoever does not hear it finds out by its fetch timeout: EndQuorumEpoch is best effort (KIP-595)."""
    replica.pending_end_acks -= 1


def handle_leader_reported(replica: Replica, state: RoleState, event: LeaderReported) -> None:
    """Hearsay: good for finding a leader, too weak to contradict what is known."""
    contradicts = knows_leader(replica) and event.leader_id != replica.saved.leader_id
    if event.epoch > replica.epoch or not contradicts:
        observe(replica, event.epoch, event.leader_id)


def handle_peer_discovered(replica: Replica, state: RoleState, event: PeerDiscovered) -> None:
    """Remember an address. A directory id once known is not forgotten for a source that does not tell it."""
    key = event.key
    if key.directory_id == ZERO_UUID:
        key = replica.discovered_key(key.id)
    replica.peers[key.id] = Peer(key, event.endpoint)


def handle_founding_permitted(replica: Replica, state: RoleState, event: FoundingPermitted) -> None:
    """Take over who founds, unless a quorum or its log has been found meanwhile."""
    if replica.is_bootstrapping and replica.end.offset == 0:
        replica.founders = event.voters


def handle_flush(replica: Replica, state: RoleState, event: FlushCompleted) -> None:
    replica.flushed = event.end_offset


def reject_proposal(replica: Replica, state: RoleState, event: Propose) -> None:
    raise InvariantViolation(f"a batch was proposed to a replica that is {state.role.value}")


def reject_read(replica: Replica, state: RoleState, event: ReadRequested) -> None:
    replica.effects.reads_failed.append(event.token)


def handle_shutdown(replica: Replica, state: RoleState, event: ShutdownRequested) -> None:
    """From now on no campaigning and no serving; votes are still given, they let others go on sooner."""
    replica.shutting_down = True


def handle_stall(replica: Replica, state: RoleState, event: StallDetected) -> None:
    """Whoever seems silent gets the time that this node lacked."""
    grace_ms = replica.extend_grace(event.duration_ms)
    if isinstance(state, Follower):
        state.fetch_deadline += grace_ms
    elif isinstance(state, Leader):
        state.check_quorum_deadline += grace_ms
    else:
        state.election_deadline += grace_ms


def handle_replay_started(replica: Replica, state: RoleState, event: ReplayStarted) -> None:
    replica.replaying = True


def handle_replay_completed(replica: Replica, state: RoleState, event: ReplayCompleted) -> None:
    replica.replaying = False


def handle_storage_full(replica: Replica, state: RoleState, event: StorageFull) -> None:
    """What the refused append should have brought is not there: forget it."""
    replica.storage_full = True
    replica.voters.truncate_to(replica.end.offset)
    replica.committed = min(replica.committed, replica.end.offset)


def handle_storage_available(replica: Replica, state: RoleState, event: StorageAvailable) -> None:
    replica.storage_full = False
