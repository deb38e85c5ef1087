"""Vote rules: which vote and pre-vote requests this replica grants.

Raft paper 5.2 (at most one vote per epoch, saved before it is granted) and 5.4.1 (never for a log older than the
local one); KIP-996 (pre-votes); KIP-853 (directory ids). Membership is not a reason to reject: right after a voter
change, the local log may not have it yet (hole 10). Further rules:

    * If this node's voter record, or the request, has another directory id for this node, the vote is rejected: that
      voter is another disk of this node, which may already have voted (hole 40).
    * A candidate without records bootstraps a quorum. Only a replica that may bootstrap one with it grants its vote
      (FoundingPermitted): both must be in this replica's set of founders, by directory id (hole 24). A blank replica
      does not even adopt the candidate's epoch, since an epoch indicates an existing quorum.
    * A node that started with an empty log may be a voter whose disk was replaced before the log recorded its
      directory id. Until it has caught up, it votes only in the first bootstrap, or if the request names its own
      directory id: a candidate whose log has that id has everything that this log directory ever acknowledged
      (hole 40).
"""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, ZERO_UUID, ReplicaKey
from quorumd.raft.events import RequestReceived
from quorumd.raft.messages import VoteRequest, VoteResponse
from quorumd.raft.newer_epochs import has_live_leader, newer_epoch_refusal, record_newer_epoch, report_refusal
from quorumd.raft.replica import Replica
from quorumd.raft.roles import Follower, Role, RoleState
from quorumd.raft.transitions import become_unattached, knows_leader


def handle_vote_request(replica: Replica, state: RoleState, event: RequestReceived) -> None:
    """Grant or reject a vote or pre-vote.

    A higher epoch is adopted first in either case, if that is permitted (`newer_epochs`). If not, the response has it
    nevertheless: a Kafka controller drops a response with a lower epoch and retries without backoff.
    """
    request = event.request
    assert isinstance(request, VoteRequest)
    if is_malformed(request):
        reject_vote(replica, event, ErrorCode.INVALID_REQUEST, "the request is malformed")
    elif request.epoch < replica.epoch:
        reject_vote(replica, event, ErrorCode.FENCED_LEADER_EPOCH, "the candidate's epoch is stale")
    else:
        if request.epoch > replica.epoch:
            if replica.is_blank and request.last.offset == 0:
                refusal: str | None = "neither this node nor the candidate has records"
            else:
                refusal = newer_epoch_refusal(replica, event, request.candidate, request.epoch)
            if refusal is not None:
                report_refusal(replica, event, kind_of(request), request.candidate.id, refusal)
                replica.respond(event.reply, VoteResponse(ErrorCode.NONE, NO_NODE, request.epoch, False))
                return
            record_newer_epoch(replica, request.candidate)
            become_unattached(replica, request.epoch)
        reason = rejection_reason(replica, request)
        if reason is not None:
            reject_vote(replica, event, ErrorCode.NONE, reason)
        elif request.pre_vote:
            replica.respond(event.reply, VoteResponse(ErrorCode.NONE, replica.leader_id, replica.epoch, True))
        else:
            grant_vote(replica, event, request)


def reject_vote(replica: Replica, event: RequestReceived, error: ErrorCode, reason: str) -> None:
    request = event.request
    assert isinstance(request, VoteRequest)
    report_refusal(replica, event, kind_of(request), request.candidate.id, reason)
    replica.respond(event.reply, VoteResponse(error, replica.leader_id, replica.epoch, False))


def kind_of(request: VoteRequest) -> str:
    """The kind of vote for `RequestRefused`."""
    return "pre-vote" if request.pre_vote else "vote"


def grant_vote(replica: Replica, event: RequestReceived, request: VoteRequest) -> None:
    if request.last.offset == 0:
        # It takes part in the first bootstrap, so its disk replaces no other.
        replica.catching_up = False
    if replica.saved.voted is None:
        become_unattached(replica, replica.epoch, request.candidate)
    replica.respond_after_flush(event.reply, VoteResponse(ErrorCode.NONE, NO_NODE, replica.epoch, True))


def is_malformed(request: VoteRequest) -> bool:
    """Whether a field is out of range. A candidate's epoch must be above that of its last record, in a pre-vote at
    least equal to it."""
    last = request.last
    if last.offset < 0 or last.epoch < 0 or request.candidate.id < 0:
        return True
    return last.epoch > request.epoch if request.pre_vote else last.epoch >= request.epoch


def rejection_reason(replica: Replica, request: VoteRequest) -> str | None:
    """The reason to reject `request`, whose epoch is the current one; None to grant it."""
    if request.candidate.id == replica.id:
        return "the candidate has this node's id"
    if request.voter.id != NO_NODE and not request.voter.matches(replica.identity):
        return "the request names another voter"
    reason = (
        pre_vote_rejection_reason(replica)
        if request.pre_vote
        else vote_rejection_reason(replica, request.candidate)
    )
    return reason or trust_rejection_reason(replica, request) or stale_log_rejection_reason(replica, request)


def pre_vote_rejection_reason(replica: Replica) -> str | None:
    """Reject while the leader is alive, so that a working quorum is not disrupted (KIP-996)."""
    if replica.state.role is Role.LEADER:
        return "this node leads the epoch"
    if isinstance(replica.state, Follower) and has_live_leader(replica):
        return "this node follows a live leader"
    return None


def vote_rejection_reason(replica: Replica, candidate: ReplicaKey) -> str | None:
    """Reject a second vote in an epoch, and any vote in an epoch that has a leader."""
    if knows_leader(replica):
        return "the epoch has a leader"
    voted = replica.saved.voted
    if voted is None:
        return None
    same = voted.id == candidate.id and voted.directory_id in (ZERO_UUID, candidate.directory_id)
    return None if same else "this node voted for another candidate"


def trust_rejection_reason(replica: Replica, request: VoteRequest) -> str | None:
    """The reason why a vote of this replica would be unsafe: it may have lost an earlier vote or acknowledged
    records, or may not bootstrap a quorum with the candidate. None if it may vote."""
    own = replica.voter_set.by_id(replica.id)
    if own is not None and not own.key.matches(replica.identity):
        return "the voter with this node's id has another directory id"
    # A directory id in the request is that of this replica, since the caller rejects any other.
    addressed_by_directory = request.voter.directory_id != ZERO_UUID
    if replica.is_bootstrapping and request.last.offset == 0:
        founders = replica.founders
        if not (founders.includes(request.candidate) and founders.includes(replica.identity)):
            return "this node may not bootstrap a quorum with the candidate"
    elif replica.catching_up and not addressed_by_directory:
        return "this node has not caught up"
    return None


def stale_log_rejection_reason(replica: Replica, request: VoteRequest) -> str | None:
    return None if request.last.is_at_least(replica.end) else "this node's log is newer"
