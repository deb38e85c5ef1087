"""The engine: its dispatch table and read-only properties. The package docstring has the contract with the caller."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch, ReplicaKey
from quorumd.raft import (
    candidate,
    defaults,
    election,
    fetch_service,
    follower,
    leader,
    snapshot_fetching,
    snapshot_service,
    unattached,
    voter_changes,
)
from quorumd.raft.description import QuorumDescription, describe
from quorumd.raft.effects import Effects
from quorumd.raft.events import (
    Event,
    FlushCompleted,
    FoundingPermitted,
    LeaderReported,
    PeerDiscovered,
    PeerRequestFailed,
    Propose,
    ReadRequested,
    ReplayCompleted,
    ReplayStarted,
    RequestReceived,
    ResponseReceived,
    ShutdownRequested,
    SnapshotChecked,
    StallDetected,
    StorageAvailable,
    StorageFull,
    TimerFired,
    VoterChangeRequested,
)
from quorumd.raft.log_view import LogView
from quorumd.raft.messages import (
    NO_TOKEN,
    BeginEpochRequest,
    EndEpochRequest,
    FetchRequest,
    SnapshotRequest,
    VoteRequest,
)
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.replica import InvariantViolation, PeerFault, Replica, reported_leader
from quorumd.raft.roles import Follower, Leader, Role
from quorumd.raft.settings import RaftSettings
from quorumd.raft.start import restore_role
from quorumd.raft.transitions import leave_faulty_leader
from quorumd.raft.voters import VoterAssignment, VoterHistory, VoterSet

Handler = Callable[[Replica, Any, Any], None]
"""Handles an event in a role: (replica, the role's state, the event)."""

Kind = type[Any] | tuple[type[Any], type[Any]]
"""The type of an event, with that of the request if the event is about a message to or from a peer."""


def all_roles(handler: Handler) -> dict[Role, Handler]:
    return dict.fromkeys(Role, handler)


PEER_EVENTS = (RequestReceived, ResponseReceived, PeerRequestFailed)
CAMPAIGNING = (Role.PROSPECTIVE, Role.CANDIDATE)
LEADERLESS = (Role.UNATTACHED, Role.RESIGNED)

HANDLERS: dict[Kind, dict[Role, Handler]] = {
    (RequestReceived, VoteRequest): all_roles(election.handle_vote_request),
    (RequestReceived, BeginEpochRequest): all_roles(follower.handle_begin_request),
    (RequestReceived, EndEpochRequest): all_roles(follower.handle_end_request),
    (RequestReceived, FetchRequest): all_roles(fetch_service.reject_fetch)
    | {Role.LEADER: leader.handle_fetch_request},
    (ResponseReceived, VoteRequest): all_roles(defaults.observe_response)
    | dict.fromkeys(CAMPAIGNING, candidate.handle_vote_response),
    (ResponseReceived, BeginEpochRequest): all_roles(defaults.observe_response)
    | {Role.LEADER: leader.handle_begin_response},
    (ResponseReceived, EndEpochRequest): all_roles(defaults.handle_end_response),
    (ResponseReceived, FetchRequest): all_roles(defaults.observe_response)
    | {Role.FOLLOWER: follower.handle_fetch_response}
    | dict.fromkeys(LEADERLESS, unattached.handle_fetch_response),
    (PeerRequestFailed, VoteRequest): all_roles(defaults.ignore_failure)
    | dict.fromkeys(CAMPAIGNING, candidate.handle_vote_failure),
    (PeerRequestFailed, BeginEpochRequest): all_roles(defaults.ignore_failure)
    | {Role.LEADER: leader.handle_begin_failure},
    (PeerRequestFailed, EndEpochRequest): all_roles(defaults.handle_end_failure),
    (PeerRequestFailed, FetchRequest): all_roles(defaults.ignore_failure)
    | {Role.FOLLOWER: follower.handle_fetch_failure}
    | dict.fromkeys(LEADERLESS, unattached.retry_leader_search),
    (RequestReceived, SnapshotRequest): all_roles(snapshot_service.reject_snapshot_request)
    | {Role.LEADER: fetch_service.handle_snapshot_request},
    (ResponseReceived, SnapshotRequest): all_roles(defaults.observe_response)
    | {Role.FOLLOWER: snapshot_fetching.handle_snapshot_response},
    (PeerRequestFailed, SnapshotRequest): all_roles(defaults.ignore_failure)
    | {Role.FOLLOWER: snapshot_fetching.handle_snapshot_failure},
    SnapshotChecked: all_roles(snapshot_fetching.handle_snapshot_checked),
    TimerFired: {
        Role.UNATTACHED: unattached.handle_timer,
        Role.PROSPECTIVE: candidate.handle_timer,
        Role.CANDIDATE: candidate.handle_timer,
        Role.LEADER: leader.handle_timer,
        Role.FOLLOWER: follower.handle_timer,
        Role.RESIGNED: unattached.handle_resigned_timer,
    },
    LeaderReported: all_roles(defaults.handle_leader_reported),
    PeerDiscovered: all_roles(defaults.handle_peer_discovered)
    | {Role.UNATTACHED: unattached.handle_peer_discovered, Role.LEADER: leader.handle_peer_discovered},
    FoundingPermitted: all_roles(defaults.handle_founding_permitted)
    | dict.fromkeys(LEADERLESS, unattached.handle_founding_permitted),
    FlushCompleted: all_roles(defaults.handle_flush) | {Role.LEADER: leader.handle_flush},
    Propose: all_roles(defaults.reject_proposal) | {Role.LEADER: leader.handle_proposal},
    ReadRequested: all_roles(defaults.reject_read) | {Role.LEADER: leader.handle_read_request},
    VoterChangeRequested: all_roles(voter_changes.reject_voter_change)
    | {Role.LEADER: voter_changes.handle_voter_change},
    StallDetected: all_roles(defaults.handle_stall),
    ReplayStarted: all_roles(defaults.handle_replay_started),
    ReplayCompleted: all_roles(defaults.handle_replay_completed)
    | {Role.UNATTACHED: unattached.handle_replay_completed},
    ShutdownRequested: all_roles(defaults.handle_shutdown)
    | {Role.LEADER: leader.handle_shutdown, Role.PROSPECTIVE: candidate.handle_shutdown},
    StorageFull: all_roles(defaults.handle_storage_full)
    | {
        Role.LEADER: leader.handle_storage_full,
        Role.FOLLOWER: follower.handle_storage_full,
        Role.PROSPECTIVE: candidate.handle_storage_full,
    },
    StorageAvailable: all_roles(defaults.handle_storage_available),
}


class RaftEngine:
    """One replica of the log as a deterministic state machine.

    `saved`, `log` and `voters` are the state found on disk; from then on the engine updates `voters`.
    `randrange(bound)` returns a uniform integer in [0, bound), which must be secret if the bound is above 2^32
    (`voter_proof`); it is the only source of randomness. Times are monotonic milliseconds.
    """

    __slots__ = ("_replica",)

    def __init__(
        self,
        settings: RaftSettings,
        identity: ReplicaKey,
        saved: QuorumState,
        log: LogView,
        voters: VoterHistory,
        randrange: Callable[[int], int],
    ) -> None:
        self._replica = Replica(settings, identity, saved, log, voters, randrange)

    def start(self, now: float) -> Effects:
        """Restore the role from the saved state. Call once, before the first `step`."""
        return self._run(now, restore_role, self._replica)

    def step(self, event: Event, now: float) -> Effects:
        """Handle one event. `now` never decreases from one step to the next."""
        replica = self._replica
        kind: Kind = type(event)
        if isinstance(event, PEER_EVENTS):
            kind = (type(event), type(event.request))
        return self._run(now, HANDLERS[kind][replica.state.role], replica, replica.state, event)

    def _run(self, now: float, handler: Callable[..., None], *arguments: object) -> Effects:
        replica = self._replica
        replica.now = now
        replica.end = OffsetAndEpoch(replica.log.end_offset, replica.log.last_epoch)
        effects = replica.effects = Effects()
        state, saved, end = replica.state, replica.saved, replica.end
        try:
            try:
                handler(*arguments)
            except PeerFault as fault:
                leave_faulty_leader(replica, end, str(fault))
        except InvariantViolation as violation:
            return Effects(fatal=str(violation))
        if replica.state is not state or replica.saved is not saved:
            before = (state.role, saved.epoch, reported_leader(state, saved))
            effects.leadership_changed = before != (replica.state.role, replica.epoch, replica.leader_id)
        return effects

    def __repr__(self) -> str:
        replica = self._replica
        return (
            f"RaftEngine(node {replica.id}, {self.role_name} of epoch {replica.epoch}, leader {replica.leader_id}, "
            f"log end {replica.log.end_offset}, high watermark {self.high_watermark})"
        )

    @property
    def role(self) -> Role:
        return self._replica.state.role

    @property
    def role_name(self) -> str:
        """The role as the metric `current-state` names it (KIP-595, KIP-996)."""
        replica = self._replica
        if replica.state.role in (Role.UNATTACHED, Role.FOLLOWER) and not replica.is_voter:
            return "observer"
        if replica.state.role is Role.UNATTACHED and replica.saved.voted is not None:
            return "voted"
        return replica.state.role.value

    @property
    def epoch(self) -> int:
        return self._replica.epoch

    @property
    def leader_id(self) -> int:
        """The leader of `epoch`, NO_NODE while this replica neither leads nor follows."""
        return self._replica.leader_id

    @property
    def voted(self) -> ReplicaKey | None:
        """The candidate that this replica voted for in `epoch`."""
        return self._replica.saved.voted

    @property
    def is_leader(self) -> bool:
        return self._replica.state.role is Role.LEADER

    @property
    def epoch_token(self) -> int:
        """The token that voters' fetches return to this leader; NO_TOKEN if it does not lead."""
        state = self._replica.state
        return state.token if isinstance(state, Leader) else NO_TOKEN

    @property
    def is_voter(self) -> bool:
        """Whether the newest voter set of the local log, or before that the founders, include this replica."""
        return self._replica.is_voter

    @property
    def high_watermark(self) -> int:
        """The high watermark, -1 while unknown, as to a leader without a committed record of its epoch (hole 31)."""
        state = self._replica.state
        return state.high_watermark if isinstance(state, Leader) else self._replica.committed

    @property
    def leader_high_watermark(self) -> int:
        """The high watermark last received from the leader, possibly above the local log end; -1 while unknown."""
        state = self._replica.state
        return state.leader_high_watermark if isinstance(state, Follower) else self.high_watermark

    def contact_ms(self, now: float) -> float:
        """Milliseconds since the last known contact with the quorum.

        Leader: since a majority of the voters, itself included, fetched. Follower: since it sent the last fetch that
        the leader served. inf without a leader, or if the leader refused a connection or resigned.
        """
        state = self._replica.state
        if isinstance(state, Leader):
            return now - voter_changes.last_majority_fetch(state, now)
        if isinstance(state, Follower) and not state.leader_lost:
            return now - state.leader_confirmed_at
        return inf

    @property
    def contact_limit_ms(self) -> int:
        """The largest `contact_ms` in a healthy quorum; the leader may delay the response to a follower's fetch."""
        settings = self._replica.settings
        return settings.fetch_timeout_ms + (0 if self.is_leader else settings.fetch_max_wait_ms)

    @property
    def voters(self) -> VoterAssignment:
        """The newest VoterAssignment in the local log, committed or not; an empty one before the first."""
        return self._replica.voters.latest or VoterAssignment(VoterSet())

    @property
    def is_blank(self) -> bool:
        """Whether this replica has no state of any quorum and no permission to bootstrap one."""
        return self._replica.is_blank

    @property
    def log_is_empty(self) -> bool:
        """Whether the log has neither records nor a snapshot."""
        return self._replica.log.end_offset == 0

    @property
    def founders(self) -> VoterSet:
        """The replicas that may elect the first leader, from FoundingPermitted."""
        return self._replica.founders

    @property
    def voters_offset(self) -> int:
        """Offset of the voter record that `voters` comes from; -1 before the first."""
        return self._replica.voters.latest_offset

    def voters_before(self, offset: int) -> VoterAssignment:
        """The newest VoterAssignment below `offset` in the local log; an empty one if there is none."""
        return self._replica.voters.value_before(offset) or VoterAssignment(VoterSet())

    def voters_offset_before(self, offset: int) -> int:
        """The offset of the record that `voters_before` returns, -1 if there is none."""
        return self._replica.voters.offset_before(offset)

    @property
    def has_uncommitted_voters(self) -> bool:
        """Leader: whether the newest voter record is uncommitted. False in other roles."""
        state = self._replica.state
        return isinstance(state, Leader) and self._replica.voters.latest_offset >= state.high_watermark

    @property
    def deadline(self) -> float:
        """The time at which to step TimerFired, inf for never."""
        return self._replica.state.deadline

    @property
    def leader_epoch_start(self) -> int:
        """Leader: the offset of the first record of its epoch; -1 in other roles."""
        state = self._replica.state
        return state.epoch_start if isinstance(state, Leader) else -1

    @property
    def handover_complete(self) -> bool:
        """Whether, after ShutdownRequested, this replica has finished its handover.

        It does not wait until it has voted: a successor that needed its vote could not commit without it either.
        """
        replica = self._replica
        return replica.shutting_down and (replica.leader_id != NO_NODE or replica.pending_end_acks <= 0)

    def should_probe_leader(self, now: float) -> bool:
        """Whether to send Metadata requests to other nodes to find the leader.

        A leader without contact to a majority may have been replaced (KIP-595; hole 14), and a replica without a
        responsive leader may have stale addresses of all others.
        """
        replica = self._replica
        state = replica.state
        if isinstance(state, Leader):
            return now - voter_changes.last_majority_fetch(state, now) >= replica.settings.fetch_timeout_ms
        if isinstance(state, Follower):
            return state.leader_lost or state.attempts > 0
        return True

    def accepts_leader(self, event: RequestReceived, now: float) -> bool:
        """Whether this replica accepts the leader that sent a BeginQuorumEpoch request."""
        request, replica = event.request, self._replica
        assert isinstance(request, BeginEpochRequest)
        replica.now = now
        return follower.announcement_error(replica, event, request) is ErrorCode.NONE

    def describe(self, now: float) -> QuorumDescription:
        return describe(self._replica, now)
