"""The roles of a replica, the transitions between them, and the state of each role.

    start --> UNATTACHED | FOLLOWER | RESIGNED     (from the saved state)

    within one epoch
        UNATTACHED  --> UNATTACHED (granted its vote), PROSPECTIVE (election timeout), FOLLOWER (leader found)
        PROSPECTIVE --> UNATTACHED (granted its vote, or pre-vote lost), FOLLOWER (leader found, or pre-vote lost)
        CANDIDATE   --> LEADER (majority), PROSPECTIVE (lost, after backoff), FOLLOWER (leader found)
        FOLLOWER    --> PROSPECTIVE (fetch timeout, leader resigned), UNATTACHED (may not campaign, faulty leader)
        LEADER      --> RESIGNED (shutdown, full disk, no fetches from a majority, removed from the voters)
    with a higher epoch
        any         --> UNATTACHED, FOLLOWER
        PROSPECTIVE --> CANDIDATE (majority of pre-votes)

An observer is UNATTACHED or FOLLOWER, unless it was a voter until recently. A leader never follows in the epoch that
it led, and the epoch never decreases. Based on KIP-595, with the states that KIP-996 and Kafka added later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import inf

from quorumd.ids import ZERO_UUID, KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.raft.effects import VoterChangeToken
from quorumd.raft.messages import BeginEpochRequest, FetchRequest, Reply, SnapshotRequest, VoteRequest
from quorumd.raft.read_index import ReadRounds


class Role(Enum):
    # Enum's own hash is interpreted Python, and every event is dispatched through a dict keyed by role.
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
    """Knows no leader of its epoch, or left it; looks for a leader by fetching from random nodes."""

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
    """One round of vote or pre-vote requests. `granted` begins with the replica's own vote if it is a voter."""

    granted: list[int]
    rejected: list[int] = field(default_factory=list)
    unreachable: list[int] = field(default_factory=list)
    """Voters that refused the last connection."""
    in_flight: dict[int, VoteRequest] = field(default_factory=dict)
    retry_at: dict[int, float] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Prospective:
    """Requests pre-votes in its current epoch (KIP-996). Not persisted."""

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
    """Voted for itself in a new epoch. After a lost election it backs off in this role and epoch (hole 15)."""

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
    """When the leader counts as failed unless a fetch succeeds before."""
    fetch_at: float
    fetch: FetchRequest | None = None
    attempts: int = 0
    last_success: float = -inf
    fetch_sent: float = -inf
    """When the latest fetch, of records or of a snapshot chunk, was sent."""
    leader_confirmed_at: float = -inf
    """When the last fetch that the leader served was sent: it led at that time or later."""
    leader_high_watermark: int = -1
    """The high watermark in the last response."""
    leader_lost: bool = False
    """The leader refused a connection, resigned or is shutting down: pre-votes may be granted at once."""
    read_round: int = 0
    token: int = 0
    """From the leader's BeginEpochRequest."""
    snapshot: OffsetAndEpoch | None = None
    """The snapshot being fetched in place of records."""
    snapshot_fetch: SnapshotRequest | None = None
    """The FetchSnapshot request in flight."""

    @property
    def role(self) -> Role:
        return Role.FOLLOWER

    @property
    def fetch_in_flight(self) -> bool:
        """Whether a request to the leader is in flight."""
        return self.fetch is not None or self.snapshot_fetch is not None

    @property
    def deadline(self) -> float:
        return min(self.fetch_deadline, inf if self.fetch_in_flight else self.fetch_at)

    def record_success(self, now: float, fetch_deadline: float) -> None:
        """Record that the leader served a fetch."""
        self.last_success = now
        self.leader_confirmed_at = self.fetch_sent
        self.fetch_deadline = fetch_deadline
        self.leader_lost = False
        self.attempts = 0


@dataclass(slots=True)
class Resigned:
    """Led this epoch and appends nothing more in it. Not persisted, but a leader restarts in this role.

    Looks for the next leader from `fetch_at` on, and keeps its epoch meanwhile: a newer one would reach the replicas
    that fetch from this one, and disturb their election.
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
    """The leader's view of one other replica."""

    key: ReplicaKey
    last_fetch: float
    """When it last fetched; until then, when the leader began to record its progress."""
    has_fetched: bool = False
    """Whether it has fetched in this epoch."""
    end_offset: int = -1
    last_caught_up: float = -inf
    """When it last had everything up to the leader's log end offset (KIP-595, DescribeQuorum)."""
    leader_end_at_last_fetch: int = -1
    read_round: int = 0
    """The newest read round in which it is known to have fetched."""
    supports_read_rounds: bool = True
    """Whether its fetches carry a read round."""
    observed_directory_id: KafkaUuid = ZERO_UUID
    """The directory id in its fetches, recorded while its key has none."""
    begin_request: BeginEpochRequest | None = None
    """The BeginQuorumEpoch request in flight to it."""
    begin_epoch_attempts: int = 0
    knows_tokens: bool | None = None
    """Whether the node at its address returns tokens (`voter_proof`); None until it has responded."""
    proof_requested_at: float = -inf


@dataclass(init=False, slots=True)
class DelayedFetch:
    """A fetch that waits for records (long poll)."""

    reply: Reply
    request: FetchRequest
    deadline: float

    def __init__(self, reply: Reply, request: FetchRequest, deadline: float) -> None:
        self.reply = reply
        self.request = request
        self.deadline = deadline


@dataclass(slots=True)
class PendingVoterChange:
    """A voter change whose record is appended, and whose response waits for the commit or flush of the record."""

    token: VoterChangeToken
    offset: int
    ack_on_commit: bool
    """False: respond as soon as the record is flushed locally."""


FetchKey = tuple[ReplicaKey, bool]
"""The fetching replica, and whether the fetch counts as a voter's."""


@dataclass(slots=True)
class Leader:
    """Leads its epoch: the progress of other replicas, and the requests that wait for records or for a commit."""

    epoch_start: int
    """Offset of the first record of this epoch."""
    in_voter_set: bool
    """False while this leader is being removed: it then does not count itself in majorities."""
    voters: dict[int, Progress]
    """The other voters by node id."""
    check_quorum_deadline: float
    begin_epoch_deadline: float
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    observers_checked_at: float = -inf
    """When silent observers were last removed because there were too many."""
    high_watermark: int = -1
    """-1 until a record of this epoch is durable on a majority (hole 31)."""
    reads: ReadRounds = field(default_factory=ReadRounds)
    token: int = 0
    """The token of this epoch, which proves that a fetch is from a voter (`voter_proof`)."""
    delayed: dict[FetchKey, DelayedFetch] = field(default_factory=dict)
    delayed_consumers: list[DelayedFetch] = field(default_factory=list)
    next_delay_expiry: float = inf
    """No delayed fetch expires before this."""
    voter_record_incomplete: bool = True
    """Whether a directory id or endpoint in the voter record may be missing or out of date."""
    reassignment_in_progress: bool = False
    """Whether the newest voter record has target voters."""
    pending_changes: list[PendingVoterChange] = field(default_factory=list)

    @property
    def role(self) -> Role:
        return Role.LEADER

    @property
    def deadline(self) -> float:
        # Read after every event: mypyc compiles the minimum of two values.
        return min(min(self.check_quorum_deadline, self.begin_epoch_deadline), self.next_delay_expiry)


RoleState = Unattached | Prospective | Candidate | Leader | Follower | Resigned
