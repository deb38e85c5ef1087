"""The leader's voters: what is asked of them, the steps towards a target, and keeping the voter record complete.

KIP-595 draft (AlterQuorum), KIP-853 (AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter), Raft thesis chapter 4. A voter
record counts from its append (hole 5). A record that changes who votes is only appended after a commit of the own
epoch and of the record before it (hole 7).
"""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID, Endpoint, ReplicaKey
from quorumd.raft.effects import VotersAnswer
from quorumd.raft.events import AddVoter, RemoveVoter, TargetVoters, UpdateVoter, VotersAsked
from quorumd.raft.fetch_service import release_replicas
from quorumd.raft.membership import next_assignment, stale_voters, towards
from quorumd.raft.messages import BeginRequest
from quorumd.raft.replica import Replica
from quorumd.raft.roles import Leader, PendingChange, Progress, RoleState
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet, reached_by_majority

CHECK_QUORUM_FACTOR = 1.5
"""A leader resigns after this many fetch timeouts without fetches of a majority, as in Kafka (hole 14)."""


class Refused(Exception):
    """Why a request for other voters is not carried out."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


# Requests


def refuse_voters(replica: Replica, state: RoleState, event: VotersAsked) -> None:
    """Only the leader changes voters."""
    replica.effects.voters_answered.append(not_leader(event.token))


def not_leader(token: object) -> VotersAnswer:
    return VotersAnswer(token, ErrorCode.NOT_LEADER_OR_FOLLOWER, "This node is not the leader of the quorum.")


def voters_asked(replica: Replica, leader: Leader, event: VotersAsked) -> None:
    """Append the record that was asked for; the answer waits until it is committed."""
    change = event.change
    try:
        if leader.high_watermark < 0:
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                "The leader has not committed anything in its epoch yet: try again.",
            )
        if isinstance(change, TargetVoters):
            wanted = with_target(replica, leader, change)
        elif isinstance(change, UpdateVoter):
            wanted = with_endpoints(replica, leader, change)
        else:
            wanted = with_one_changed(replica, leader, change)
    except Refused as refused:
        replica.effects.voters_answered.append(VotersAnswer(event.token, refused.error, refused.message))
        return
    if wanted is None:
        replica.effects.voters_answered.append(VotersAnswer(event.token, ErrorCode.NONE))
        return
    at_once = isinstance(change, AddVoter) and not change.ack_when_committed
    leader.pending_changes.append(PendingChange(event.token, replica.end.offset, not at_once))
    append_voters(replica, leader, wanted)


def with_target(replica: Replica, leader: Leader, change: TargetVoters) -> VoterAssignment | None:
    """Only the target changes, so this is allowed whatever is not committed yet (hole 35). None: nothing to do."""
    latest = newest(replica)
    if change.ids is None:
        return VoterAssignment(latest.current) if latest.target is not None else None
    ids = tuple(sorted(change.ids))
    if not ids or ids[0] < 0 or len(set(ids)) != len(ids):
        raise Refused(ErrorCode.INVALID_REQUEST, f"The target {list(ids)} is no set of node ids.")
    known = {*replica.peers, *latest.current.ids}
    unknown = [node_id for node_id in ids if node_id not in known]
    if unknown:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Nobody knows where the nodes {unknown} are reached: start them with bootstrap.servers first.",
        )
    ready, alive = ready_replicas(replica, leader), in_touch(replica, leader)
    if stale_voters(latest.current, ids, ready, alive):
        return VoterAssignment(latest.current, ids)
    return towards(latest.current, ids)


def with_one_changed(
    replica: Replica, leader: Leader, change: AddVoter | RemoveVoter
) -> VoterAssignment | None:
    """One voter more or less, as asked for by name (KIP-853)."""
    latest = newest(replica)
    if replica.voters.latest_offset >= leader.high_watermark:
        raise Refused(
            ErrorCode.REQUEST_TIMED_OUT, "Another change of the voters is not committed yet: try again."
        )
    if latest.target is not None:
        raise Refused(
            ErrorCode.REQUEST_TIMED_OUT,
            f"The voters are being reassigned to {list(latest.target)}: wait for its end, or cancel it.",
        )
    if isinstance(change, RemoveVoter):
        found = latest.current.by_id(change.key.id)
        if found is None or found.key != change.key or len(latest.current.voters) == 1:
            raise Refused(ErrorCode.VOTER_NOT_FOUND, f"{name(change.key)} is no voter that could be removed.")
        left = latest.current.without(change.key.id)
        if not left.is_majority(in_touch(replica, leader)):
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Of the voters {list(left.ids)} that would be left no majority fetches: start them first.",
            )
        return VoterAssignment(left)
    voter = change.voter
    if voter.key.id < 0 or voter.key.directory_id == ZERO_UUID or not voter.endpoints:
        raise Refused(ErrorCode.INVALID_REQUEST, "A voter has a node id, a directory id and an endpoint.")
    if (known := latest.current.by_id(voter.key.id)) is not None:
        raise Refused(
            ErrorCode.DUPLICATE_VOTER,
            f"Node {voter.key.id} is a voter already, with directory id {known.key.directory_id}: if that disk was "
            "replaced, remove this voter first, or ask for all voters by their ids (AlterQuorum).",
        )
    observer = leader.observers.get(voter.key)
    if observer is None or not is_caught_up(replica, observer):
        raise Refused(
            ErrorCode.REQUEST_TIMED_OUT, f"{name(voter.key)} has not caught up with the leader: try again."
        )
    return VoterAssignment(latest.current.with_voter(voter))


def with_endpoints(replica: Replica, leader: Leader, change: UpdateVoter) -> VoterAssignment | None:
    """A voter is reached elsewhere: who votes does not change."""
    error = replica.fetch_error(change.epoch)
    if error is not ErrorCode.NONE:
        raise Refused(error, f"The epoch is {replica.epoch}, not {change.epoch}.")
    latest, voter = newest(replica), change.voter
    found = latest.current.by_id(voter.key.id)
    if found is None or not found.key.matches(voter.key):
        raise Refused(ErrorCode.VOTER_NOT_FOUND, f"{name(voter.key)} is no voter.")
    if not voter.endpoints:
        raise Refused(ErrorCode.INVALID_REQUEST, "A voter has an endpoint.")
    if found.endpoints == voter.endpoints:
        return None
    return VoterAssignment(latest.current.with_voter(Voter(found.key, voter.endpoints)), latest.target)


def answer_changes(replica: Replica, leader: Leader) -> None:
    """Tell those who asked for a record that it is committed now, or, where they wait for no more, durable here."""
    waiting, leader.pending_changes = leader.pending_changes, []
    for pending in waiting:
        reached = leader.high_watermark if pending.until_committed else replica.flushed
        if reached > pending.offset:
            replica.effects.voters_answered.append(VotersAnswer(pending.token, ErrorCode.NONE))
        else:
            leader.pending_changes.append(pending)


# Steps that the leader makes by itself


def improve_voters(replica: Replica, leader: Leader) -> None:
    """Make the next step towards the target, or complete the record, once the newest voter record is committed."""
    if not (leader.reassigning or leader.pin_wanted):
        return
    if replica.voters.latest_offset >= leader.high_watermark or replica.effects.append is not None:
        return
    latest = newest(replica)
    step = next_assignment(latest, replica.id, ready_replicas(replica, leader), in_touch(replica, leader))
    if step is None and leader.pin_wanted:
        leader.pin_wanted = False
        complete = discovered(replica, latest.current)
        step = VoterAssignment(complete, latest.target) if complete != latest.current else None
    if step is not None:
        append_voters(replica, leader, step)


def append_voters(replica: Replica, leader: Leader, assignment: VoterAssignment) -> None:
    """Append a voter record and go by it from now on. Who votes newly is told who leads (hole 34)."""
    before = frozenset(leader.voters)
    replica.append_control((assignment,))
    follow_voter_set(replica, leader)
    for node_id, progress in leader.voters.items():
        if node_id not in before:
            announce(replica, progress)
    release_replicas(replica, leader)


def ready_replicas(replica: Replica, leader: Leader) -> dict[int, Voter]:
    """The observers that may become voters, by node id; of two folders of one node who fetched last."""
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


def in_touch(replica: Replica, leader: Leader) -> dict[int, int]:
    """Log end offsets of the voters that fetched within the fetch timeout, and of this leader. A record that left
    no majority of them could never be committed, nor taken back: the quorum would have ended itself."""
    oldest = replica.now - replica.settings.fetch_timeout_ms
    offsets = {
        node_id: progress.end_offset
        for node_id, progress in leader.voters.items()
        if progress.fetched and progress.last_fetch >= oldest
    }
    if leader.in_voter_set:
        offsets[replica.id] = replica.end.offset
    return offsets


def is_caught_up(replica: Replica, progress: Progress) -> bool:
    """Whether a replica had all that the leader had, within the fetch timeout (hole 8)."""
    return replica.now - progress.caught_up <= replica.settings.fetch_timeout_ms


# What is known of the voters


def follow_voter_set(replica: Replica, leader: Leader) -> None:
    """Take over the newest voter set. What is known of a replica is kept, whether it votes or not."""
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
        known.key = key
        leader.voters[key.id] = known
    for removed in before.values():
        leader.observers[removed.key] = removed
    latest = replica.voters.latest
    leader.reassigning = latest is not None and latest.target is not None
    # Those that stay may have been silent for longer than those that were a majority with them.
    leader.check_quorum_at = min(leader.check_quorum_at, check_quorum_at(replica, leader))


def check_quorum_at(replica: Replica, leader: Leader) -> float:
    """When this leader resigns unless more voters fetch (KIP-996)."""
    limit = CHECK_QUORUM_FACTOR * replica.settings.fetch_timeout_ms
    return majority_contact(leader, replica.now) + limit


def majority_contact(leader: Leader, now: float) -> float:
    """When a majority of the voters, this one counted, had last been in contact."""
    times = [progress.last_fetch for progress in leader.voters.values()]
    if leader.in_voter_set:
        times.append(now)
    return reached_by_majority(times)


def discovered(replica: Replica, voters: VoterSet) -> VoterSet:
    """`voters` with the directory ids and endpoints that are missing in it, or changed, and known by now."""
    return VoterSet(tuple(completed(replica, voter) for voter in voters.voters))


def completed(replica: Replica, voter: Voter) -> Voter:
    key = voter.key
    if key.directory_id == ZERO_UUID:
        state = replica.state
        progress = state.voters.get(key.id) if isinstance(state, Leader) else None
        fetched_from = progress.directory_seen if progress is not None else ZERO_UUID
        key = (
            ReplicaKey(key.id, fetched_from) if fetched_from != ZERO_UUID else replica.discovered_key(key.id)
        )
    return Voter(key, newest_endpoints(replica, key, voter.endpoints))


def newest_endpoints(
    replica: Replica, key: ReplicaKey, recorded: tuple[Endpoint, ...]
) -> tuple[Endpoint, ...]:
    """Where a voter says that it is reached now. A record that names several listeners is left alone: gossip
    tells of one."""
    if len(recorded) > 1:
        return recorded
    told = replica.endpoints_of(key.id) if replica.discovered_key(key.id) == key else ()
    if not recorded or not told:
        return recorded or replica.endpoints_of(key.id)
    return (Endpoint(recorded[0].name, told[0].host, told[0].port),)


def announce(replica: Replica, progress: Progress) -> None:
    """Tell a voter who leads (BeginQuorumEpoch). Where this node is, the sender adds: a record may have its former
    address."""
    progress.begin = BeginRequest(replica.id, replica.epoch, progress.key)
    replica.send(progress.key.id, progress.begin)


def newest(replica: Replica) -> VoterAssignment:
    """The newest voter record: a leader's log has one."""
    latest = replica.voters.latest
    assert latest is not None
    return latest


def name(key: ReplicaKey) -> str:
    return f"node {key.id} with directory id {key.directory_id}"
