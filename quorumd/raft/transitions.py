"""Transitions from any role: into a newer epoch, and to follower.

`become_prospective` and `become_candidate` are in `candidate`, `become_leader` and `resign` in `leader`.
"""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch, ReplicaKey
from quorumd.raft.effects import RequestRefused, VoterChangeResult
from quorumd.raft.messages import NO_TOKEN, FetchResponse
from quorumd.raft.newer_epochs import reachable_epoch, trusts
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.replica import InvariantViolation, Replica
from quorumd.raft.roles import Candidate, Follower, Leader, Prospective, Role, Unattached


def become_unattached(
    replica: Replica, epoch: int, voted: ReplicaKey | None = None, election_deadline: float | None = None
) -> None:
    """Enter `epoch` without a known leader, or stay in the current epoch after voting for `voted`.

    A granted vote restarts the election timer (Raft paper 5.2). A newer epoch does not: otherwise a peer that cannot
    win would keep electable replicas from campaigning.
    """
    old = replica.state
    deadline = replica.election_timeout() if election_deadline is None else election_deadline
    if voted is None and election_deadline is None and isinstance(old, Unattached | Prospective | Candidate):
        deadline = min(deadline, old.election_deadline)
    saved = QuorumState(epoch, NO_NODE, voted)
    if epoch == replica.epoch:
        saved = QuorumState(epoch, replica.saved.leader_id, voted or replica.saved.voted)
    replica.transition_to(Unattached(deadline, replica.retry_after(0)), saved)
    on_leadership_lost(replica, old)


def become_follower(replica: Replica, leader_id: int, epoch: int, token: int = NO_TOKEN) -> None:
    """Follow `leader_id` and fetch from it at once, with the token from its BeginQuorumEpoch if there was one.

    A vote in the same epoch is kept (hole 13).
    """
    old = replica.state
    voted = replica.saved.voted if epoch == replica.epoch else None
    replica.failed_elections = 0
    state = Follower(leader_id, replica.fetch_timeout(), replica.now, token=token)
    replica.transition_to(state, QuorumState(epoch, leader_id, voted))
    fetch_from_leader(replica, state)
    on_leadership_lost(replica, old)


def leave_faulty_leader(replica: Replica, end: OffsetAndEpoch, reason: str) -> None:
    """Undo the effects of a faulty response on the log, which ended at `end` before, and stop following its sender.

    The replica searches for a leader, and follows the same one again if that is still the leader of the epoch. Raises
    InvariantViolation if the replica is not a follower: the fault is then in a snapshot of an earlier leader.
    """
    effects = replica.effects
    effects.append = effects.truncate_to = effects.reset_to_snapshot = effects.snapshot_chunk = None
    replica.voters.truncate_to(end.offset)
    state = replica.state
    if not isinstance(state, Follower):
        raise InvariantViolation(reason)
    effects.refused = RequestRefused("response", state.leader_id, "?", replica.epoch, reason)
    become_unattached(replica, replica.epoch)


def fetch_from_leader(replica: Replica, state: Follower) -> None:
    wait = replica.settings.fetch_max_wait_ms
    state.fetch_sent = replica.now
    state.fetch = replica.fetch_from(
        state.leader_id, max_wait_ms=wait, read_round=state.read_round, token=state.token
    )


def observe(replica: Replica, epoch: int, leader_id: int, source: int) -> None:
    """Apply the leader and epoch in a response of `source` (KIP-595), if that node is trusted (`newer_epochs`).

    Raises InvariantViolation for a second leader in the current epoch.
    """
    if trusts(replica, source):
        enter_reported_epoch(replica, epoch, leader_id)


def enter_reported_epoch(replica: Replica, epoch: int, leader_id: int) -> None:
    """Apply a leader and epoch as `observe` does, whatever their source."""
    if epoch > replica.epoch:
        if leader_id == NO_NODE and replica.is_blank:
            return  # The sender may be a founder, and discovery must find this replica blank.
        reachable = reachable_epoch(replica, epoch)
        if reachable < epoch:
            if reachable > replica.epoch:
                become_unattached(replica, reachable)
        elif leader_id in (NO_NODE, replica.id):  # Its own id if this node led before it lost its state.
            become_unattached(replica, epoch)
        else:
            become_follower(replica, leader_id, epoch)
    elif epoch == replica.epoch and leader_id != NO_NODE:
        ensure_single_leader(replica, leader_id)
        role = replica.state.role
        searching = role in (Role.UNATTACHED, Role.CANDIDATE)
        if leader_id != replica.id and (
            searching or (role is Role.PROSPECTIVE and not knows_leader(replica))
        ):
            become_follower(replica, leader_id, epoch)


def knows_leader(replica: Replica) -> bool:
    """Whether the leader of the current epoch is known, alive or not."""
    return replica.saved.leader_id != NO_NODE


def ensure_single_leader(replica: Replica, leader_id: int) -> None:
    """Raise InvariantViolation if another leader of the current epoch is known (Raft paper 5.2, election safety)."""
    known = replica.saved.leader_id
    if known != NO_NODE and known != leader_id:
        raise InvariantViolation(f"two leaders in epoch {replica.epoch}: {known} and {leader_id}")


def on_leadership_lost(replica: Replica, old: object) -> None:
    """Fail the reads, voter changes and delayed fetches that a former leader has not completed."""
    if not isinstance(old, Leader):
        return
    replica.effects.reads_failed += old.reads.drain()
    replica.effects.voter_change_results += [
        VoterChangeResult(
            pending.token,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            "The leader changed before the voter record was committed; describe the quorum to see its voters.",
        )
        for pending in old.pending_changes
    ]
    for delayed in [*old.delayed.values(), *old.delayed_consumers]:
        error = replica.fetch_error(delayed.request.epoch)
        if error is ErrorCode.NONE:
            raise InvariantViolation(f"lost leadership of epoch {replica.epoch} but still leads it")
        replica.respond(delayed.reply, FetchResponse(error, replica.leader_id, replica.epoch))
