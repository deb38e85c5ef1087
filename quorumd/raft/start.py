"""The role of a replica when its process starts, from the saved state (KIP-595, "Start procedure")."""

from __future__ import annotations

from quorumd.ids import NO_NODE
from quorumd.raft.leader import send_end_quorum_epoch
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.replica import Replica
from quorumd.raft.roles import Resigned, Unattached
from quorumd.raft.transitions import become_follower


def restore_role(replica: Replica) -> None:
    """Resume in the saved epoch, or in the last epoch of the log if that is higher.

    A leader restarts resigned, since it could otherwise append different records at an (offset, epoch) that it has
    already used (hole 12). A candidate keeps its vote but does not resume its candidacy: it may already have won.
    """
    saved = replica.saved
    if replica.end.epoch > saved.epoch:
        replica.save(QuorumState(replica.end.epoch))
    elif saved.leader_id == replica.id:
        replica.state = Resigned(replica.now if replica.is_sole_voter else replica.election_timeout())
        if replica.is_voter:
            send_end_quorum_epoch(
                replica, tuple(v.key for v in replica.voter_set.voters if v.key.id != replica.id)
            )
        return
    replica.state = Unattached(replica.election_timeout(), replica.now)
    if saved.leader_id != NO_NODE and saved.epoch == replica.epoch:
        become_follower(replica, saved.leader_id, saved.epoch)
    elif replica.is_sole_voter:
        replica.state.election_deadline = replica.now
