"""The engine: one event in, one Effects out. Here is only who handles what; see the package docstring."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch, ReplicaKey
from quorumd.raft import (
    candidate,
    election,
    fetch_service,
    follower,
    leader,
    other,
    snapshot_fetching,
    snapshot_service,
    unattached,
    voter_changes,
)
from quorumd.raft.description import QuorumDescription, describe
from quorumd.raft.effects import Effects
from quorumd.raft.events import (
    Event,
    Flushed,
    FoundingPermitted,
    LeaderHeard,
    PeerAnswered,
    PeerAsked,
    PeerDiscovered,
    PeerFailed,
    Propose,
    ReadAsked,
    ReplayBegan,
    ReplayEnded,
    ShutDown,
    SnapshotChecked,
    StoodStill,
    StorageFree,
    StorageFull,
    TimerFired,
    VotersAsked,
)
from quorumd.raft.log_view import LogView
from quorumd.raft.messages import BeginRequest, EndRequest, FetchRequest, SnapshotRequest, VoteRequest
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.replica import BrokenPromise, Replica, told_leader
from quorumd.raft.roles import Follower, Leader, Role
from quorumd.raft.settings import RaftSettings
from quorumd.raft.start import begin_role
from quorumd.raft.voters import VoterAssignment, VoterHistory, VoterSet

Handler = Callable[[Replica, Any, Any], None]
"""Handles an event in a role: (memory, the role's state, the event)."""

Kind = type[Any] | tuple[type[Any], type[Any]]
"""The type of an event; for what comes from peers also the type of the request."""


def in_every_role(handler: Handler) -> dict[Role, Handler]:
    return dict.fromkeys(Role, handler)


FROM_PEERS = (PeerAsked, PeerAnswered, PeerFailed)
CAMPAIGNING = (Role.PROSPECTIVE, Role.CANDIDATE)
LOOKING = (Role.UNATTACHED, Role.RESIGNED)

HANDLERS: dict[Kind, dict[Role, Handler]] = {
    (PeerAsked, VoteRequest): in_every_role(election.vote_asked),
    (PeerAsked, BeginRequest): in_every_role(follower.begin_asked),
    (PeerAsked, EndRequest): in_every_role(follower.end_asked),
    (PeerAsked, FetchRequest): in_every_role(fetch_service.refuse) | {Role.LEADER: leader.fetch_asked},
    (PeerAnswered, VoteRequest): in_every_role(other.answered)
    | dict.fromkeys(CAMPAIGNING, candidate.vote_answered),
    (PeerAnswered, BeginRequest): in_every_role(other.answered) | {Role.LEADER: leader.begin_answered},
    (PeerAnswered, EndRequest): in_every_role(other.end_answered),
    (PeerAnswered, FetchRequest): in_every_role(other.answered)
    | {Role.FOLLOWER: follower.fetch_answered}
    | dict.fromkeys(LOOKING, unattached.fetch_answered),
    (PeerFailed, VoteRequest): in_every_role(other.ignored)
    | dict.fromkeys(CAMPAIGNING, candidate.vote_failed),
    (PeerFailed, BeginRequest): in_every_role(other.ignored) | {Role.LEADER: leader.begin_failed},
    (PeerFailed, EndRequest): in_every_role(other.end_failed),
    (PeerFailed, FetchRequest): in_every_role(other.ignored)
    | {Role.FOLLOWER: follower.fetch_failed}
    | dict.fromkeys(LOOKING, unattached.look_again_later),
    (PeerAsked, SnapshotRequest): in_every_role(snapshot_service.refuse_snapshot)
    | {Role.LEADER: fetch_service.snapshot_asked},
    (PeerAnswered, SnapshotRequest): in_every_role(other.answered)
    | {Role.FOLLOWER: snapshot_fetching.piece_answered},
    (PeerFailed, SnapshotRequest): in_every_role(other.ignored)
    | {Role.FOLLOWER: snapshot_fetching.piece_failed},
    SnapshotChecked: in_every_role(snapshot_fetching.snapshot_checked),
    TimerFired: {
        Role.UNATTACHED: unattached.timer_fired,
        Role.PROSPECTIVE: candidate.timer_fired,
        Role.CANDIDATE: candidate.timer_fired,
        Role.LEADER: leader.timer_fired,
        Role.FOLLOWER: follower.timer_fired,
        Role.RESIGNED: unattached.resigned_timer_fired,
    },
    LeaderHeard: in_every_role(other.leader_heard),
    PeerDiscovered: in_every_role(other.peer_discovered)
    | {Role.UNATTACHED: unattached.peer_discovered, Role.LEADER: leader.peer_discovered},
    FoundingPermitted: in_every_role(other.founding_permitted)
    | dict.fromkeys(LOOKING, unattached.founding_permitted),
    Flushed: in_every_role(other.flushed) | {Role.LEADER: leader.flushed},
    Propose: in_every_role(other.proposed_to_non_leader) | {Role.LEADER: leader.propose},
    ReadAsked: in_every_role(other.read_asked_of_non_leader) | {Role.LEADER: leader.read_asked},
    VotersAsked: in_every_role(voter_changes.refuse_voters) | {Role.LEADER: voter_changes.voters_asked},
    StoodStill: in_every_role(other.stood_still),
    ReplayBegan: in_every_role(other.replay_began),
    ReplayEnded: in_every_role(other.replay_ended) | {Role.UNATTACHED: unattached.replay_ended},
    ShutDown: in_every_role(other.shut_down)
    | {Role.LEADER: leader.shut_down, Role.PROSPECTIVE: candidate.shut_down},
    StorageFull: in_every_role(other.storage_full)
    | {
        Role.LEADER: leader.storage_full,
        Role.FOLLOWER: follower.storage_full,
        Role.PROSPECTIVE: candidate.storage_full,
    },
    StorageFree: in_every_role(other.storage_free),
}


class RaftEngine:
    """One replica of the log as a state machine of events.

    `saved`, `log` and `voters` are what was found on disk; the engine keeps `voters` up to date from then on.
    `below(bound)` is a uniform integer in [0, bound), the only chance in here. Times are monotonic milliseconds.
    """

    __slots__ = ("_replica",)

    def __init__(
        self,
        settings: RaftSettings,
        identity: ReplicaKey,
        saved: QuorumState,
        log: LogView,
        voters: VoterHistory,
        below: Callable[[int], int],
    ) -> None:
        self._replica = Replica(settings, identity, saved, log, voters, below)

    def start(self, now: float) -> Effects:
        """Take up the role that the saved state says. Once, before the first `step`."""
        return self._run(now, begin_role, self._replica)

    def step(self, event: Event, now: float) -> Effects:
        """Handle one event. `now` never falls from one step to the next."""
        replica = self._replica
        kind: Kind = type(event)
        if isinstance(event, FROM_PEERS):
            kind = (type(event), type(event.request))
        return self._run(now, HANDLERS[kind][replica.state.role], replica, replica.state, event)

    def _run(self, now: float, handler: Callable[..., None], *arguments: object) -> Effects:
        replica = self._replica
        replica.now = now
        replica.end = OffsetAndEpoch(replica.log.end_offset, replica.log.last_epoch)
        effects = replica.effects = Effects()
        state, saved = replica.state, replica.saved
        try:
            handler(*arguments)
        except BrokenPromise as broken:
            return Effects(fatal=str(broken))
        if replica.state is not state or replica.saved is not saved:
            before = (state.role, saved.epoch, told_leader(state, saved))
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
        """Who leads `epoch`, NO_NODE while this replica neither leads nor follows."""
        return self._replica.leader_id

    @property
    def voted(self) -> ReplicaKey | None:
        """Whom this replica voted for in `epoch`."""
        return self._replica.saved.voted

    @property
    def is_leader(self) -> bool:
        return self._replica.state.role is Role.LEADER

    @property
    def is_voter(self) -> bool:
        """Whether the newest voter set of the own log, or the founders before that, have this replica."""
        return self._replica.is_voter

    @property
    def high_watermark(self) -> int:
        """Records below it are committed; -1 where unknown, as it is to a new leader (hole 31)."""
        state = self._replica.state
        return state.high_watermark if isinstance(state, Leader) else self._replica.committed

    @property
    def leader_high_watermark(self) -> int:
        """The high watermark of the leader as far as this replica knows, its own log may end below it; -1 where that
        is not known."""
        state = self._replica.state
        return state.leader_high_watermark if isinstance(state, Follower) else self.high_watermark

    def contact_ms(self, now: float) -> float:
        """Leader: since a majority of the voters has fetched. Follower: since the fetch was sent that its leader
        served last. inf without a leader, and once that refuses or leaves."""
        state = self._replica.state
        if isinstance(state, Leader):
            return now - voter_changes.majority_contact(state, now)
        if isinstance(state, Follower) and not state.lost:
            return now - state.served
        return inf

    @property
    def contact_limit_ms(self) -> int:
        """The longest `contact_ms` of a replica whose quorum works: a follower's fetch may wait for records."""
        settings = self._replica.settings
        return settings.fetch_timeout_ms + (0 if self.is_leader else settings.fetch_max_wait_ms)

    @property
    def voters(self) -> VoterAssignment:
        """The newest VoterAssignment of the own log, committed or not; an empty one before the first."""
        return self._replica.voters.latest or VoterAssignment(VoterSet())

    @property
    def is_blank(self) -> bool:
        """Whether this replica has nothing of any quorum and no permission to found one."""
        return self._replica.is_blank

    @property
    def log_is_empty(self) -> bool:
        """Whether there is no record, nor a snapshot of any."""
        return self._replica.log.end_offset == 0

    @property
    def founders(self) -> VoterSet:
        """Who may elect a first leader, by FoundingPermitted."""
        return self._replica.founders

    @property
    def voters_offset(self) -> int:
        """Offset of the voter record that `voters` is from; -1 before the first."""
        return self._replica.voters.latest_offset

    def voters_below(self, offset: int) -> VoterAssignment:
        """The newest VoterAssignment below `offset` of the own log; an empty one where there is none."""
        return self._replica.voters.below(offset) or VoterAssignment(VoterSet())

    def voters_offset_below(self, offset: int) -> int:
        """The offset of the record that `voters_below` gives, -1 where there is none."""
        return self._replica.voters.offset_below(offset)

    @property
    def has_uncommitted_voters(self) -> bool:
        """Leader: whether the newest voter record is not committed yet; False in other roles."""
        state = self._replica.state
        return isinstance(state, Leader) and self._replica.voters.latest_offset >= state.high_watermark

    @property
    def deadline(self) -> float:
        """When to step TimerFired; inf for never."""
        return self._replica.state.deadline

    @property
    def leader_epoch_start(self) -> int:
        """Leader: the offset of the first record of its epoch; -1 in other roles."""
        state = self._replica.state
        return state.epoch_start if isinstance(state, Leader) else -1

    @property
    def handed_over(self) -> bool:
        """After ShutDown: this replica has nothing left to do for the quorum.

        Its vote is not waited for: a successor that needed it would have no majority without this node anyway.
        """
        replica = self._replica
        return replica.shutting_down and (replica.leader_id != NO_NODE or replica.farewells <= 0)

    def wants_leader_probe(self, now: float) -> bool:
        """Whether others should be asked who leads (Metadata): a leader cut off from its majority may be a zombie
        (KIP-595; hole 14), and a replica without a leader that answers may have old addresses of all others."""
        replica = self._replica
        state = replica.state
        if isinstance(state, Leader):
            return now - voter_changes.majority_contact(state, now) >= replica.settings.fetch_timeout_ms
        if isinstance(state, Follower):
            return state.lost or state.attempts > 0
        return True

    def accepts_leader(self, announced: BeginRequest) -> bool:
        """Whether this replica will follow, or follows, a leader that announces itself so."""
        return follower.announcement_error(self._replica, announced) is ErrorCode.NONE

    def describe(self, now: float) -> QuorumDescription:
        return describe(self._replica, now)
