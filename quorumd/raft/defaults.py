"""The default event handlers, which most roles share."""

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
from quorumd.raft.transitions import enter_reported_epoch, knows_leader, observe


def observe_response(replica: Replica, state: RoleState, event: ResponseReceived) -> None:
    """Apply the leader and epoch of a response that the current role did not wait for."""
    observe(replica, event.response.epoch, event.response.leader_id, event.peer)


def ignore_failure(replica: Replica, state: RoleState, event: PeerRequestFailed) -> None:
    """Ignore a failed request whose response no longer matters."""


def handle_end_response(replica: Replica, state: RoleState, event: ResponseReceived) -> None:
    """Count a voter's acknowledgement of EndQuorumEpoch."""
    replica.pending_end_acks -= 1
    observe_response(replica, state, event)


def handle_end_failure(replica: Replica, state: RoleState, event: PeerRequestFailed) -> None:
    """Do not retry: a voter that misses EndQuorumEpoch campaigns after its fetch timeout (KIP-595)."""
    replica.pending_end_acks -= 1


def handle_leader_reported(replica: Replica, state: RoleState, event: LeaderReported) -> None:
    """Apply a reported leader of a newer epoch, or of this epoch if it does not contradict the known leader.

    A report that is not trusted is applied only while the log has no voters.
    """
    contradicts = knows_leader(replica) and event.leader_id != replica.saved.leader_id
    is_trusted = event.is_trusted or replica.is_bootstrapping
    if is_trusted and (event.epoch > replica.epoch or not contradicts):
        enter_reported_epoch(replica, event.epoch, event.leader_id)


def handle_peer_discovered(replica: Replica, state: RoleState, event: PeerDiscovered) -> None:
    """Record an address. A report without a directory id does not erase a known one."""
    key = event.key
    if key.directory_id == ZERO_UUID:
        key = replica.discovered_key(key.id)
    replica.peers[key.id] = Peer(key, event.endpoint)


def handle_founding_permitted(replica: Replica, state: RoleState, event: FoundingPermitted) -> None:
    """Store the founders if the log is still empty."""
    if replica.is_bootstrapping and replica.end.offset == 0:
        replica.founders = event.voters


def handle_flush(replica: Replica, state: RoleState, event: FlushCompleted) -> None:
    replica.flushed = event.end_offset


def reject_proposal(replica: Replica, state: RoleState, event: Propose) -> None:
    """Raise InvariantViolation: the caller proposes only to a leader."""
    raise InvariantViolation(f"a batch was proposed to a replica in the role {state.role.value}")


def reject_read(replica: Replica, state: RoleState, event: ReadRequested) -> None:
    replica.effects.reads_failed.append(event.token)


def handle_shutdown(replica: Replica, state: RoleState, event: ShutdownRequested) -> None:
    """Stop campaigning and serving fetches. Votes are still granted, so that a successor is elected sooner."""
    replica.shutting_down = True


def handle_stall(replica: Replica, state: RoleState, event: StallDetected) -> None:
    """Extend the timeouts for peers by the time for which this node was stalled, within `Replica.extend_grace`."""
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
    """Undo what the failed append has already changed in memory: voter records and the high watermark."""
    replica.storage_full = True
    replica.voters.truncate_to(replica.end.offset)
    replica.committed = min(replica.committed, replica.end.offset)


def handle_storage_available(replica: Replica, state: RoleState, event: StorageAvailable) -> None:
    replica.storage_full = False
