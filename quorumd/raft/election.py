"""Vote rules: who gets this replica's vote or pre-vote, and why not.

Raft paper 5.2 (at most one vote per epoch, saved before it is given) and 5.4.1 (never for a log older than the own);
KIP-996 (pre-votes); KIP-853 (directory ids). Membership is no ground for a refusal: right after a voter was added
or removed the own log may not say so yet (hole 10). What is refused besides:

    * An own voter record, or the request, names another directory id for this node: its vote was cast from a
      disk that is gone, so this is not that voter (hole 40).
    * A candidate without records wants to found a quorum. It gets a vote only of a replica that may found one with
      it (FoundingPermitted): both are named, by directory id, in the same set of founders (hole 24). A blank replica
      does not even adopt its epoch: an epoch is a sign of an existing quorum.
    * A node that began with an empty log may be a voter whose disk was replaced before the log knew its
      directory id. Until it has caught up it votes only in a first bootstrap, or when it is asked by the
      directory id it has: a log that names this folder has all that this folder ever acknowledged (hole 40).
"""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, ZERO_UUID, ReplicaKey
from quorumd.raft.effects import VoteRefused
from quorumd.raft.events import RequestReceived
from quorumd.raft.messages import VoteRequest, VoteResponse
from quorumd.raft.replica import Replica
from quorumd.raft.roles import Follower, Role, RoleState
from quorumd.raft.transitions import become_unattached, knows_leader


def handle_vote_request(replica: Replica, state: RoleState, event: RequestReceived) -> None:
    """Answer a vote or pre-vote. A higher epoch is adopted first, whatever the answer: a stock Kafka peer drops an
    answer of a lower epoch and asks again without pause."""
    request = event.request
    assert isinstance(request, VoteRequest)
    if is_malformed(request):
        reject_vote(replica, event, ErrorCode.INVALID_REQUEST, "the request is malformed")
    elif request.epoch < replica.epoch:
        reject_vote(replica, event, ErrorCode.FENCED_LEADER_EPOCH, "its epoch is over")
    else:
        if request.epoch > replica.epoch:
            if replica.is_blank and request.last.offset == 0:
                replica.respond(event.reply, VoteResponse(ErrorCode.NONE, NO_NODE, request.epoch, False))
                return
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
    replica.effects.vote_refused = VoteRefused(request.candidate, request.epoch, request.pre_vote, reason)
    replica.respond(event.reply, VoteResponse(error, replica.leader_id, replica.epoch, False))


def grant_vote(replica: Replica, event: RequestReceived, request: VoteRequest) -> None:
    if request.last.offset == 0:
        replica.catching_up = False  # takes part in the first bootstrap, so it is no replacement for anybody
    if replica.saved.voted is None:
        become_unattached(replica, replica.epoch, request.candidate)
    replica.respond_after_flush(event.reply, VoteResponse(ErrorCode.NONE, NO_NODE, replica.epoch, True))


def is_malformed(request: VoteRequest) -> bool:
    """A candidate bumped its epoch beyond that of its last record; who asks for a pre-vote did not yet."""
    last = request.last
    if last.offset < 0 or last.epoch < 0 or request.candidate.id < 0:
        return True
    return last.epoch > request.epoch if request.pre_vote else last.epoch >= request.epoch


def rejection_reason(replica: Replica, request: VoteRequest) -> str | None:
    """Why `request`, of the own epoch, is not granted; None if it is."""
    if request.candidate.id == replica.id:
        return "the candidate has this node's id"
    if request.voter.id != NO_NODE and not request.voter.matches(replica.identity):
        return "another replica was asked"
    reason = (
        pre_vote_rejection_reason(replica)
        if request.pre_vote
        else vote_rejection_reason(replica, request.candidate)
    )
    return reason or trust_rejection_reason(replica, request) or stale_log_rejection_reason(replica, request)


def pre_vote_rejection_reason(replica: Replica) -> str | None:
    """KIP-996: whoever has a live leader refuses, so that nobody disturbs a quorum that works."""
    if replica.state.role is Role.LEADER:
        return "leads this epoch"
    if isinstance(replica.state, Follower) and has_live_leader(replica, replica.state):
        return "follows a live leader"
    return None


def has_live_leader(replica: Replica, state: Follower) -> bool:
    """Whether the leader answered a fetch within the fetch timeout and gave no sign of leaving since."""
    return not state.leader_lost and replica.now - state.last_success < replica.settings.fetch_timeout_ms


def vote_rejection_reason(replica: Replica, candidate: ReplicaKey) -> str | None:
    """One vote an epoch, and none in an epoch that has a leader."""
    if knows_leader(replica):
        return "this epoch has a leader"
    voted = replica.saved.voted
    if voted is None:
        return None
    same = voted.id == candidate.id and voted.directory_id in (ZERO_UUID, candidate.directory_id)
    return None if same else "voted for another"


def trust_rejection_reason(replica: Replica, request: VoteRequest) -> str | None:
    """Why a vote of this replica could break a promise that it cannot remember; None if it may vote."""
    own = replica.voter_set.by_id(replica.id)
    if own is not None and not own.key.matches(replica.identity):
        return "the voter of this id had another disk"
    addressed_by_directory = (
        request.voter.directory_id != ZERO_UUID
    )  # and it matches, or it was refused before
    if replica.is_bootstrapping and request.last.offset == 0:
        founders = replica.founders
        if not (founders.includes(request.candidate) and founders.includes(replica.identity)):
            return "no permission to found a quorum with the candidate"
    elif replica.catching_up and not addressed_by_directory:
        return "not caught up yet"
    return None


def stale_log_rejection_reason(replica: Replica, request: VoteRequest) -> str | None:
    return None if request.last.is_at_least(replica.end) else "the own log is newer"
