"""Voter changes by the leader: requests, steps towards target voters, and completion of the voter record.

KIP-595 draft (AlterQuorum), KIP-853 (AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter), Raft thesis chapter 4. A voter
record takes effect when it is appended (hole 5). A record that adds or removes a voter is appended only once a record
of the leader's epoch and the previous voter record are committed (hole 7).
"""

from __future__ import annotations

from quorumd.errors import ErrorCode, RequestError
from quorumd.ids import ZERO_UUID, Endpoint, ReplicaKey
from quorumd.raft.effects import VoterChangeResult, VoterChangeToken
from quorumd.raft.events import AddVoter, RemoveVoter, SetTargetVoters, UpdateVoter, VoterChangeRequested
from quorumd.raft.fetch_service import complete_delayed_fetches
from quorumd.raft.membership import assignment_toward, next_assignment, stale_voters
from quorumd.raft.replica import Replica
from quorumd.raft.roles import Leader, PendingVoterChange, Progress, RoleState
from quorumd.raft.voter_proof import reset_proof, send_begin_quorum_epoch
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet, majority_value

CHECK_QUORUM_FACTOR = 1.5
"""A leader resigns after this number of fetch timeouts without fetches from a majority, as in Kafka (hole 14)."""


# Requests


def reject_voter_change(replica: Replica, state: RoleState, event: VoterChangeRequested) -> None:
    """Reject a voter change while not leading."""
    replica.effects.voter_change_results.append(not_leader(event.token))


def not_leader(token: VoterChangeToken) -> VoterChangeResult:
    return VoterChangeResult(
        token,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        "This node is not the leader of the quorum; retry on the leader.",
    )


def handle_voter_change(replica: Replica, leader: Leader, event: VoterChangeRequested) -> None:
    """Append the voter record for a request. The response waits until it is committed, or flushed if so requested."""
    change = event.change
    try:
        if leader.high_watermark < 0:
            raise RequestError(
                ErrorCode.REQUEST_TIMED_OUT,
                "The leader has not yet committed a record in its epoch; retry.",
            )
        if isinstance(change, SetTargetVoters):
            assignment = target_assignment(replica, leader, change)
        elif isinstance(change, UpdateVoter):
            assignment = endpoints_assignment(replica, leader, change)
        else:
            assignment = single_change_assignment(replica, leader, change)
    except RequestError as rejection:
        replica.effects.voter_change_results.append(
            VoterChangeResult(event.token, rejection.error, rejection.message)
        )
        return
    if assignment is None:
        replica.effects.voter_change_results.append(VoterChangeResult(event.token, ErrorCode.NONE))
        return
    ack_on_flush = isinstance(change, AddVoter) and not change.ack_when_committed
    leader.pending_changes.append(PendingVoterChange(event.token, replica.end.offset, not ack_on_flush))
    append_voters(replica, leader, assignment)


def target_assignment(replica: Replica, leader: Leader, change: SetTargetVoters) -> VoterAssignment | None:
    """The record that sets a new target, None if nothing changes. Raises RequestError.

    It does not change the current voters, so it may follow an uncommitted voter record (hole 35).
    """
    latest = latest_voters(replica)
    if change.ids is None:
        return VoterAssignment(latest.current) if latest.target is not None else None
    ids = tuple(sorted(change.ids))
    if not ids or ids[0] < 0 or len(set(ids)) != len(ids):
        raise RequestError(ErrorCode.INVALID_REQUEST, f"The target {list(ids)} must be distinct node ids.")
    known = {*replica.peers, *latest.current.ids}
    unknown = [node_id for node_id in ids if node_id not in known]
    if unknown:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"The addresses of nodes {unknown} are unknown; start them with bootstrap.servers first.",
        )
    ready, active = ready_replicas(replica, leader), active_voters(replica, leader)
    if stale_voters(latest.current, ids, ready, active):
        return VoterAssignment(latest.current, ids)
    return assignment_toward(latest.current, ids)


def single_change_assignment(
    replica: Replica, leader: Leader, change: AddVoter | RemoveVoter
) -> VoterAssignment | None:
    """The record that adds or removes the given voter (KIP-853). Raises RequestError."""
    latest = latest_voters(replica)
    if replica.voters.latest_offset >= leader.high_watermark:
        raise RequestError(
            ErrorCode.REQUEST_TIMED_OUT, "The previous voter change is not yet committed; retry."
        )
    if latest.target is not None:
        raise RequestError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"The voters are being reassigned to {list(latest.target)}; wait until that completes, or cancel it.",
        )
    if isinstance(change, RemoveVoter):
        found = latest.current.by_id(change.key.id)
        if found is None or found.key != change.key or len(latest.current.voters) == 1:
            raise RequestError(
                ErrorCode.VOTER_NOT_FOUND,
                f"{describe_key(change.key)} is not a voter, or is the only one, and cannot be removed.",
            )
        remaining = latest.current.without(change.key.id)
        if not remaining.is_majority(active_voters(replica, leader)):
            raise RequestError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"A majority of the remaining voters {list(remaining.ids)} must fetch; start them first.",
            )
        return VoterAssignment(remaining)
    voter = change.voter
    if voter.key.id < 0 or voter.key.directory_id == ZERO_UUID or not voter.endpoints:
        raise RequestError(
            ErrorCode.INVALID_REQUEST, "A voter needs a node id, a directory id and an endpoint."
        )
    if (known := latest.current.by_id(voter.key.id)) is not None:
        raise RequestError(
            ErrorCode.DUPLICATE_VOTER,
            f"Node {voter.key.id} is already a voter, with directory id {known.key.directory_id}; if that disk was "
            "replaced, remove that voter first, or set the target voters by id (AlterQuorum).",
        )
    observer = leader.observers.get(voter.key)
    if observer is None or not is_caught_up(replica, observer):
        raise RequestError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{describe_key(voter.key)} has not caught up with the leader; retry.",
        )
    return VoterAssignment(latest.current.with_voter(voter))


def endpoints_assignment(replica: Replica, leader: Leader, change: UpdateVoter) -> VoterAssignment | None:
    """The record with a voter's new endpoints, None if they are unchanged (KIP-853). Raises RequestError."""
    error = replica.fetch_error(change.epoch)
    if error is not ErrorCode.NONE:
        raise RequestError(error, f"The epoch is {replica.epoch}, not {change.epoch}.")
    latest, voter = latest_voters(replica), change.voter
    found = latest.current.by_id(voter.key.id)
    if found is None or not found.key.matches(voter.key):
        raise RequestError(ErrorCode.VOTER_NOT_FOUND, f"{describe_key(voter.key)} is not a voter.")
    if not voter.endpoints:
        raise RequestError(ErrorCode.INVALID_REQUEST, "A voter needs an endpoint.")
    if found.endpoints == voter.endpoints:
        return None
    return VoterAssignment(latest.current.with_voter(Voter(found.key, voter.endpoints)), latest.target)


def complete_voter_changes(replica: Replica, leader: Leader) -> None:
    """Complete the voter changes whose record is committed or, if `ack_on_commit` is unset, flushed locally."""
    waiting, leader.pending_changes = leader.pending_changes, []
    for pending in waiting:
        acked_offset = leader.high_watermark if pending.ack_on_commit else replica.flushed
        if acked_offset > pending.offset:
            replica.effects.voter_change_results.append(VoterChangeResult(pending.token, ErrorCode.NONE))
        else:
            leader.pending_changes.append(pending)


# Steps of a reassignment


def advance_voters(replica: Replica, leader: Leader) -> None:
    """Once the newest voter record is committed, append the next step towards the target, or fill in the record."""
    if not (leader.reassignment_in_progress or leader.voter_record_incomplete):
        return
    if replica.voters.latest_offset >= leader.high_watermark or replica.effects.append is not None:
        return
    latest = latest_voters(replica)
    step = next_assignment(
        latest, replica.id, ready_replicas(replica, leader), active_voters(replica, leader)
    )
    if step is None and leader.voter_record_incomplete:
        leader.voter_record_incomplete = False
        complete = complete_voter_set(replica, latest.current)
        step = VoterAssignment(complete, latest.target) if complete != latest.current else None
    if step is not None:
        append_voters(replica, leader, step)


def append_voters(replica: Replica, leader: Leader, assignment: VoterAssignment) -> None:
    """Append a voter record, apply it and send BeginQuorumEpoch to new voters (hole 34)."""
    before = frozenset(leader.voters)
    replica.append_control_records((assignment,))
    apply_voter_set(replica, leader)
    for node_id, progress in leader.voters.items():
        if node_id not in before:
            send_begin_quorum_epoch(replica, progress)
    complete_delayed_fetches(replica, leader)


def ready_replicas(replica: Replica, leader: Leader) -> dict[int, Voter]:
    """The observers that may become voters, by node id; of several log directories of a node the last to fetch."""
    ready: dict[int, Progress] = {}
    for key, progress in leader.observers.items():
        endpoints = replica.endpoints_of(key.id)
        if key.directory_id == ZERO_UUID or not endpoints or not is_caught_up(replica, progress):
            continue
        other = ready.get(key.id)
        if other is None or progress.last_fetch > other.last_fetch:
            ready[key.id] = progress
    return {
        node_id: Voter(progress.key, replica.endpoints_of(node_id)) for node_id, progress in ready.items()
    }


def active_voters(replica: Replica, leader: Leader) -> dict[int, int]:
    """Log end offsets of the voters that fetched within the fetch timeout, this leader included.

    A voter set without a majority among them could neither be committed nor replaced.
    """
    oldest = replica.now - replica.settings.fetch_timeout_ms
    offsets = {
        node_id: progress.end_offset
        for node_id, progress in leader.voters.items()
        if progress.has_fetched and progress.last_fetch >= oldest
    }
    if leader.in_voter_set:
        offsets[replica.id] = replica.end.offset
    return offsets


def is_caught_up(replica: Replica, progress: Progress) -> bool:
    """Whether a replica reached the leader's log end offset within the last fetch timeout (hole 8)."""
    return replica.now - progress.last_caught_up <= replica.settings.fetch_timeout_ms


# Voter state


def apply_voter_set(replica: Replica, leader: Leader) -> None:
    """Apply the newest voter set. A removed voter keeps its Progress as an observer; that of a new voter is reset."""
    before = leader.voters
    leader.in_voter_set = replica.voter_set.includes(replica.identity)
    leader.voters = {}
    for voter in replica.voter_set.voters:
        key = voter.key
        if key.id == replica.id:
            continue
        known = before.get(key.id)
        if known is not None and known.key.matches(key):
            del before[key.id]
        else:
            known = leader.observers.pop(key, None) or Progress(key, replica.now)
            reset_proof(known)
        known.key = key
        leader.voters[key.id] = known
    for removed in before.values():
        leader.observers[removed.key] = removed
    leader.reassignment_in_progress = latest_voters(replica).target is not None
    # A majority of the new set may have been silent for longer than one of the previous set.
    leader.check_quorum_deadline = min(leader.check_quorum_deadline, check_quorum_deadline(replica, leader))


def check_quorum_deadline(replica: Replica, leader: Leader) -> float:
    """When this leader resigns unless more voters fetch (KIP-996)."""
    limit = CHECK_QUORUM_FACTOR * replica.settings.fetch_timeout_ms
    return last_majority_fetch(leader, replica.now) + limit


def last_majority_fetch(leader: Leader, now: float) -> float:
    """The time since which a majority of the voters, this leader included, has fetched."""
    times = [progress.last_fetch for progress in leader.voters.values()]
    if leader.in_voter_set:
        times.append(now)
    return majority_value(times)


def complete_voter_set(replica: Replica, voters: VoterSet) -> VoterSet:
    """`voters` with directory ids where they were missing, and current endpoints, as far as these are known."""
    return VoterSet(tuple(complete_voter(replica, voter) for voter in voters.voters))


def complete_voter(replica: Replica, voter: Voter) -> Voter:
    key = voter.key
    if key.directory_id == ZERO_UUID:
        state = replica.state
        progress = state.voters.get(key.id) if isinstance(state, Leader) else None
        fetched_from = progress.observed_directory_id if progress is not None else ZERO_UUID
        key = (
            ReplicaKey(key.id, fetched_from) if fetched_from != ZERO_UUID else replica.discovered_key(key.id)
        )
    return Voter(key, latest_endpoints(replica, key, voter.endpoints))


def latest_endpoints(
    replica: Replica, key: ReplicaKey, recorded: tuple[Endpoint, ...]
) -> tuple[Endpoint, ...]:
    """A voter's current endpoints. Those of a record with several listeners are kept: discovery reports only one."""
    if len(recorded) > 1:
        return recorded
    known_endpoints = replica.endpoints_of(key.id) if replica.discovered_key(key.id) == key else ()
    if not recorded or not known_endpoints:
        return recorded or replica.endpoints_of(key.id)
    return (Endpoint(recorded[0].name, known_endpoints[0].host, known_endpoints[0].port),)


def latest_voters(replica: Replica) -> VoterAssignment:
    """The newest voter record; a leader's log always has one."""
    latest = replica.voters.latest
    assert latest is not None
    return latest


def describe_key(key: ReplicaKey) -> str:
    return f"node {key.id} with directory id {key.directory_id}"
