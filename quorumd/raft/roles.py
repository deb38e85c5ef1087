"""The roles of a replica, which may follow which, and what each remembers while it lasts.

    start --> UNATTACHED | FOLLOWER | RESIGNED     (what the saved state says)

    within one epoch
        UNATTACHED  --> UNATTACHED (gave its vote), PROSPECTIVE (election timeout), FOLLOWER (leader found)
        PROSPECTIVE --> UNATTACHED (gave its vote, or pre-vote lost), FOLLOWER (leader found, or pre-vote lost)
        CANDIDATE   --> LEADER (majority), PROSPECTIVE (lost, after back-off), FOLLOWER (leader found)
        FOLLOWER    --> PROSPECTIVE (leader silent), UNATTACHED (leader silent and it may not campaign)
        LEADER      --> RESIGNED (shutdown, full disk, no majority fetches, no voter any more)
    with a higher epoch
        any         --> UNATTACHED, FOLLOWER
        PROSPECTIVE --> CANDIDATE (majority of pre-votes)

Observers are UNATTACHED or FOLLOWER. A leader never follows in its own epoch, an epoch never falls. The source is
KIP-595 with the states that KIP-996 and shipped Kafka added.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Any

from quorumd.ids import ZERO_UUID, KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.raft.messages import BeginEpochRequest, FetchRequest, SnapshotRequest, VoteRequest
from quorumd.raft.read_index import ReadRounds


class Role(Enum):
    # Enum hashes by name, in Python; roles key the table that every event goes through.
    __hash__ = object.__hash__

    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


SAME_EPOCH_TRANSITIONS: dict[Role, tuple[Role, ...]] = {
    Role.UNATTACHED: (Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER),
    Role.PROSPECTIVE: (Role.UNATTACHED, Role.FOLLOWER),
    Role.CANDIDATE: (Role.LEADER, Role.PROSPECTIVE, Role.FOLLOWER),
    Role.LEADER: (Role.RESIGNED,),
    Role.FOLLOWER: (Role.PROSPECTIVE, Role.UNATTACHED),
    Role.RESIGNED: (),
}

HIGHER_EPOCH_TRANSITIONS: dict[Role, tuple[Role, ...]] = {
    Role.UNATTACHED: (Role.UNATTACHED, Role.FOLLOWER),
    Role.PROSPECTIVE: (Role.UNATTACHED, Role.FOLLOWER, Role.CANDIDATE),
    Role.CANDIDATE: (Role.UNATTACHED, Role.FOLLOWER),
    Role.LEADER: (Role.UNATTACHED, Role.FOLLOWER),
    Role.FOLLOWER: (Role.UNATTACHED, Role.FOLLOWER),
    Role.RESIGNED: (Role.UNATTACHED, Role.FOLLOWER),
}


@dataclass(slots=True)
class Unattached:
    """Knows an epoch and no leader to fetch from; asks around by fetching from anybody."""

    election_deadline: float
    fetch_at: float
    fetch: FetchRequest | None = None
    attempts: int = 0

    @property
    def role(self) -> Role:
        return Role.UNATTACHED

    @property
    def deadline(self) -> float:
        return min(self.election_deadline, inf if self.fetch else self.fetch_at)


@dataclass(slots=True)
class Ballot:
    """One round of asking the other voters for their (pre-)votes; `granted` begins with the own, if it counts."""

    granted: list[int]
    rejected: list[int] = field(default_factory=list)
    unreachable: list[int] = field(default_factory=list)
    """Nobody listened at their address when they were asked last."""
    in_flight: dict[int, VoteRequest] = field(default_factory=dict)
    retry_at: dict[int, float] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Prospective:
    """Asks for pre-votes at its current epoch (KIP-996). Nothing of it is saved."""

    election_deadline: float
    ballot: Ballot

    @property
    def role(self) -> Role:
        return Role.PROSPECTIVE

    @property
    def deadline(self) -> float:
        return min(self.election_deadline, min(self.ballot.retry_at.values(), default=inf))


@dataclass(slots=True)
class Candidate:
    """Voted for itself in a new epoch. After it lost it waits out its back-off here, vote kept (hole 15)."""

    election_deadline: float
    ballot: Ballot
    backing_off: bool = False

    @property
    def role(self) -> Role:
        return Role.CANDIDATE

    @property
    def deadline(self) -> float:
        if self.backing_off:
            return self.election_deadline
        return min(self.election_deadline, min(self.ballot.retry_at.values(), default=inf))


@dataclass(slots=True)
class Follower:
    """Fetches from the leader of its epoch, one fetch at a time."""

    leader_id: int
    fetch_deadline: float
    """Without a successful fetch until then the leader counts as dead."""
    fetch_at: float
    fetch: FetchRequest | None = None
    attempts: int = 0
    last_success: float = -inf
    fetch_sent: float = -inf
    """When the fetch, of records or of a piece of a snapshot, was sent that waits for its response or had it last."""
    leader_confirmed_at: float = -inf
    """When the fetch was sent that the leader served last: it led at that time or later."""
    leader_high_watermark: int = -1
    """As of the last response."""
    leader_lost: bool = False
    """The leader refused a connection, resigned or is shutting down: pre-votes may be granted at once."""
    read_round: int = 0
    snapshot: OffsetAndEpoch | None = None
    """Fetched in place of records."""
    snapshot_fetch: SnapshotRequest | None = None
    """Asks for a piece of it."""

    @property
    def role(self) -> Role:
        return Role.FOLLOWER

    @property
    def fetch_in_flight(self) -> bool:
        """Whether the leader was asked and has not answered yet."""
        return self.fetch is not None or self.snapshot_fetch is not None

    @property
    def deadline(self) -> float:
        return min(self.fetch_deadline, inf if self.fetch_in_flight else self.fetch_at)

    def record_success(self, now: float, fetch_deadline: float) -> None:
        """The leader has answered and served."""
        self.last_success = now
        self.leader_confirmed_at = self.fetch_sent
        self.fetch_deadline = fetch_deadline
        self.leader_lost = False
        self.attempts = 0


@dataclass(slots=True)
class Resigned:
    """Led this epoch and will write nothing more in it; memory only, a restart of a leader comes back here.

    Looks for the next leader from `fetch_at` on, without leaving the epoch: that would take those along who fetch
    here, while they are about to elect.
    """

    election_deadline: float
    fetch_at: float = inf
    fetch: FetchRequest | None = None
    attempts: int = 0

    @property
    def role(self) -> Role:
        return Role.RESIGNED

    @property
    def deadline(self) -> float:
        return min(self.election_deadline, inf if self.fetch else self.fetch_at)


@dataclass(slots=True)
class Progress:
    """What the leader knows of one other replica."""

    key: ReplicaKey
    last_fetch: float
    """When it last fetched; for a voter that never did, when the leader took office."""
    has_fetched: bool = False
    """Whether it has fetched in this epoch."""
    end_offset: int = -1
    last_caught_up: float = -inf
    """When it last had all that the leader had (KIP-595, DescribeQuorum)."""
    leader_end_at_last_fetch: int = -1
    read_round: int = 0
    """The newest round that it is known to have fetched in."""
    supports_read_rounds: bool = True
    """Whether its fetches can say so."""
    observed_directory_id: KafkaUuid = ZERO_UUID
    """What its fetches call themselves, where the voter record has no directory id yet."""
    begin_request: BeginEpochRequest | None = None
    """The BeginQuorumEpoch that is under way to it."""
    begin_epoch_attempts: int = 0


@dataclass(slots=True)
class DelayedFetch:
    """A fetch that waits for something to answer with."""

    reply: Any
    request: FetchRequest
    deadline: float


@dataclass(slots=True)
class PendingVoterChange:
    """A request for other voters whose record is in the log and not committed yet."""

    token: Any
    offset: int
    ack_on_commit: bool
    """False: it is answered as soon as the record is durable here."""


@dataclass(slots=True)
class Leader:
    """Times are monotonic milliseconds."""

    epoch_start: int
    """Offset of the first record of this epoch."""
    in_voter_set: bool
    """A leader that is no voter (any more) does not count itself."""
    voters: dict[int, Progress]
    """The other voters by node id."""
    check_quorum_deadline: float
    begin_epoch_deadline: float
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    high_watermark: int = -1
    """-1 until a record of this epoch is on a majority (hole 31)."""
    reads: ReadRounds = field(default_factory=ReadRounds)
    delayed: dict[ReplicaKey, DelayedFetch] = field(default_factory=dict)
    delayed_consumers: list[DelayedFetch] = field(default_factory=list)
    next_delay_expiry: float = inf
    """No parked fetch is due before this."""
    voter_record_incomplete: bool = True
    """Something was learned that may complete the voter record (directory ids, endpoints)."""
    reassignment_in_progress: bool = False
    """Whether the newest voter record has a target."""
    pending_changes: list[PendingVoterChange] = field(default_factory=list)

    @property
    def role(self) -> Role:
        return Role.LEADER

    @property
    def deadline(self) -> float:
        return min(self.check_quorum_deadline, self.begin_epoch_deadline, self.next_delay_expiry)


RoleState = Unattached | Prospective | Candidate | Leader | Follower | Resigned
