"""The quorum's RPCs as flat values.

On the wire they are nested in topics and partitions and differ between versions. `quorumd.node` converts them, and
checks the cluster id and the partition before the engine receives a request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint, OffsetAndEpoch, ReplicaKey
from quorumd.raft.voters import VoterAssignment

NO_READ_ROUND = -1
"""The `read_round` of Kafka's Fetch, which has no such field (`read_index`)."""
NO_TOKEN = 0
"""The token in messages of Kafka controllers, which have no such field (`voter_proof`)."""


@dataclass(slots=True)
class VoteRequest:
    """Vote (key 52). `epoch` is the candidate's new epoch, or in a pre-vote (KIP-996) its current one."""

    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey
    """The voter that the request is addressed to; id NO_NODE if the version lacks it."""
    last: OffsetAndEpoch
    """The candidate's log end offset and last epoch; (0, 0) for an empty log."""
    pre_vote: bool


@dataclass(slots=True)
class VoteResponse:
    error: ErrorCode
    leader_id: int
    epoch: int
    granted: bool


@dataclass(slots=True)
class BeginEpochRequest:
    """BeginQuorumEpoch (key 53), from the new leader to a voter."""

    leader_id: int
    epoch: int
    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    """The leader's endpoints."""
    boot_timestamp: int = 0
    """When the leader's process started, in Unix milliseconds; 0 from a Kafka controller."""
    token: int = NO_TOKEN
    """The token that the voter's fetches must return (`voter_proof`); NO_TOKEN from a Kafka controller."""


@dataclass(slots=True)
class EndEpochRequest:
    """EndQuorumEpoch (key 54), from a leader that resigned."""

    leader_id: int
    epoch: int
    sender_id: int
    successors: tuple[ReplicaKey, ...]
    """The other voters by descending log end offset: the preferred successor first."""


@dataclass(slots=True)
class LeaderResponse:
    """The response to BeginEpochRequest and EndEpochRequest."""

    error: ErrorCode
    leader_id: int
    epoch: int
    knows_tokens: bool = False
    """Whether the responder returns the token of the BeginEpochRequest in its fetches."""


@dataclass(init=False, slots=True)
class FetchRequest:
    """FetchQuorumRecords (private key 1001) or Kafka's Fetch (key 1) of the metadata log.

    A fetch at `offset` acknowledges that all records below it are durable on the replica. `last_epoch` is the epoch
    of the record before `offset`.
    """

    replica: ReplicaKey
    """Id NO_NODE for a consumer, which is served up to the high watermark."""
    epoch: int
    offset: int
    last_epoch: int
    max_wait_ms: int
    max_bytes: int
    is_follower: bool
    """Whether the sender considers itself a voter (the draft's IsFollower); False in Kafka's Fetch."""
    known_high_watermark: int
    """The sender's high watermark (Fetch v18): the leader responds soon once its own is higher. The maximum if the
    sender does not need that."""
    read_round: int
    """The `read_round` of the response that this fetch follows, as proof that it was sent later. NO_READ_ROUND in
    Kafka's Fetch."""
    token: int
    """The token of the leader's BeginEpochRequest; NO_TOKEN in Kafka's Fetch."""

    def __init__(
        self,
        replica: ReplicaKey,
        epoch: int,
        offset: int,
        last_epoch: int,
        max_wait_ms: int,
        max_bytes: int,
        is_follower: bool = False,
        known_high_watermark: int = (1 << 63) - 1,
        read_round: int = 0,
        token: int = NO_TOKEN,
    ) -> None:
        self.replica = replica
        self.epoch = epoch
        self.offset = offset
        self.last_epoch = last_epoch
        self.max_wait_ms = max_wait_ms
        self.max_bytes = max_bytes
        self.is_follower = is_follower
        self.known_high_watermark = known_high_watermark
        self.read_round = read_round
        self.token = token


@dataclass(init=False, slots=True)
class FetchResponse:
    """A fetch response. The leader's engine sets which records to read, and its caller adds them; the follower's
    caller sets the records that arrived."""

    error: ErrorCode
    leader_id: int
    epoch: int
    high_watermark: int
    log_start_offset: int
    diverging: OffsetAndEpoch | None
    """Set if the follower's log has diverged: the end of the leader's largest epoch <= `last_epoch`."""
    read_round: int
    read_start_offset: int
    """Leader: add whole batches from this offset on, -1 for none."""
    read_limit: int
    """Leader: the maximum number of bytes to add, but at least one batch."""
    read_max_offset: int
    """Leader: add only batches that end at or below this offset (for consumers), -1 for no bound."""
    records: bytes
    """Follower: the batches as received."""
    batches: tuple[FetchedBatch, ...]
    """Follower: the headers of the batches, which are contiguous, in order and have a valid CRC."""
    snapshot: OffsetAndEpoch | None
    """Set if the follower must fetch this snapshot first (`snapshot_service.required_snapshot`)."""

    def __init__(
        self,
        error: ErrorCode,
        leader_id: int,
        epoch: int,
        high_watermark: int = -1,
        log_start_offset: int = 0,
        diverging: OffsetAndEpoch | None = None,
        read_round: int = 0,
        read_start_offset: int = -1,
        read_limit: int = 0,
        read_max_offset: int = -1,
        records: bytes = b"",
        batches: tuple[FetchedBatch, ...] = (),
        snapshot: OffsetAndEpoch | None = None,
    ) -> None:
        self.error = error
        self.leader_id = leader_id
        self.epoch = epoch
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self.diverging = diverging
        self.read_round = read_round
        self.read_start_offset = read_start_offset
        self.read_limit = read_limit
        self.read_max_offset = read_max_offset
        self.records = records
        self.batches = batches
        self.snapshot = snapshot


@dataclass(init=False, slots=True)
class FetchedBatch:
    """The header of one fetched batch."""

    base_offset: int
    end_offset: int
    epoch: int
    position: int
    """Index of its first byte in FetchResponse.records."""
    voters: tuple[tuple[int, VoterAssignment], ...]
    """(offset, VoterAssignment) of each voter record in the batch."""

    def __init__(
        self,
        base_offset: int,
        end_offset: int,
        epoch: int,
        position: int,
        voters: tuple[tuple[int, VoterAssignment], ...] = (),
    ) -> None:
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.epoch = epoch
        self.position = position
        self.voters = voters


@dataclass(slots=True)
class SnapshotRequest:
    """FetchSnapshot (key 59): requests bytes of the leader's snapshot from `position` on (KIP-630)."""

    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    """The snapshot's end offset and last epoch."""
    position: int
    max_bytes: int
    token: int = NO_TOKEN
    """As in FetchRequest."""


@dataclass(slots=True)
class SnapshotResponse:
    """A FetchSnapshot response. The leader's engine sets what to read, and its caller adds size and bytes.

    The caller also detects SNAPSHOT_NOT_FOUND and POSITION_OUT_OF_RANGE, since the engine does not read files.
    """

    error: ErrorCode
    leader_id: int
    epoch: int
    snapshot: OffsetAndEpoch
    position: int = -1
    read_limit: int = 0
    """Leader: the maximum number of bytes to add from `position` on."""
    size: int = -1
    """Follower: the size of the whole snapshot in bytes."""
    data: bytes = b""
    """Follower: the bytes from `position` on, which may begin and end within a batch."""


Request = VoteRequest | BeginEpochRequest | EndEpochRequest | FetchRequest | SnapshotRequest
Response = VoteResponse | LeaderResponse | FetchResponse | SnapshotResponse

Reply = Callable[[Response], None]
"""Sends the response to one request. The engine only returns it, in `Respond`; the node calls it."""
