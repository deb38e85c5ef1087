"""The RPCs of the quorum as flat values: what the engine sends, answers and is asked.

The wire nests these in topics and partitions and spreads them over several versions; `node/raft_wire` translates.
The cluster id is checked by the node before the engine is asked. `error` is an `ErrorCode`.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint, OffsetAndEpoch, ReplicaKey
from quorumd.raft.voters import VoterAssignment

NO_READ_ROUND = -1
"""Of a fetch that cannot carry a read round."""


@dataclass(slots=True)
class VoteRequest:
    """Vote (key 52). For a pre-vote (KIP-996) `epoch` is the current epoch of the asker, else the bumped one."""

    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey
    """Who is asked; id NO_NODE where the version does not carry it."""
    last: OffsetAndEpoch
    """Log END offset of the candidate and the epoch of its last record; (0, 0) for an empty log."""
    pre_vote: bool


@dataclass(slots=True)
class VoteResponse:
    error: ErrorCode
    leader_id: int
    epoch: int
    granted: bool


@dataclass(slots=True)
class BeginEpochRequest:
    """BeginQuorumEpoch (key 53): the new leader announces itself to a voter."""

    leader_id: int
    epoch: int
    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    """Where the leader is reached."""
    boot_timestamp: int = 0
    """Unix ms of the leader's start; 0 from a stock leader."""


@dataclass(slots=True)
class EndEpochRequest:
    """EndQuorumEpoch (key 54): the leader will not lead this epoch any longer."""

    leader_id: int
    epoch: int
    sender_id: int
    successors: tuple[ReplicaKey, ...]
    """Preferred first: by descending replicated offset."""


@dataclass(slots=True)
class LeaderResponse:
    """The answer to BeginEpochRequest and EndEpochRequest."""

    error: ErrorCode
    leader_id: int
    epoch: int


@dataclass(slots=True)
class FetchRequest:
    """FetchQuorumRecords (private key 1001) or stock Fetch (key 1) of the metadata log.

    Fetching at `offset` says: everything below is durable here, with `last_epoch` that of the record before it.
    """

    replica: ReplicaKey
    """id NO_NODE: a consumer, served up to the high watermark."""
    epoch: int
    offset: int
    last_epoch: int
    max_wait_ms: int
    max_bytes: int
    is_follower: bool = False
    """Whether the sender believes itself to be a voter (draft's IsFollower); stock Fetch cannot say: False."""
    known_high_watermark: int = (1 << 63) - 1
    """Answer soon once ours is higher (Fetch v18); the maximum where the sender does not care."""
    read_round: int = 0
    """The `read_round` of the answer that this fetch follows: proof that it was sent after that answer. NO_READ_ROUND
    where the sender cannot say (stock Fetch)."""


@dataclass(slots=True)
class FetchResponse:
    """Both sides of a fetch: the leader says what to read, the follower's caller adds what came."""

    error: ErrorCode
    leader_id: int
    epoch: int
    high_watermark: int = -1
    log_start_offset: int = 0
    diverging: OffsetAndEpoch | None = None
    """Set when the position fetched from is not in the leader's log: the end of the largest epoch <= last_epoch."""
    read_round: int = 0
    read_start_offset: int = -1
    """Leader's side: the caller adds whole batches from this offset, -1 for none."""
    read_limit: int = 0
    """Leader's side: at most this many bytes (but at least one batch)."""
    read_max_offset: int = -1
    """Leader's side: only batches that end at or below this offset, -1 for no bound (consumers)."""
    records: bytes = b""
    """Follower's side: the batches as they came."""
    batches: tuple[FetchedBatch, ...] = ()
    """Follower's side: their headers, CRC checked, contiguous, in order."""
    snapshot: OffsetAndEpoch | None = None
    """Set when the leader's log does not reach back to the position fetched from: fetch this snapshot first."""


@dataclass(slots=True)
class FetchedBatch:
    """What the engine needs to know of one batch that a leader sent."""

    base_offset: int
    end_offset: int
    epoch: int
    position: int
    """Where it begins in FetchResponse.records."""
    voters: tuple[tuple[int, VoterAssignment], ...] = ()
    """(offset, VoterAssignment) of each voter record in it."""


@dataclass(slots=True)
class SnapshotRequest:
    """FetchSnapshot (key 59): the bytes of one of the leader's snapshots from `position` on (KIP-630)."""

    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    """By the position of the log that it ends at."""
    position: int
    max_bytes: int


@dataclass(slots=True)
class SnapshotResponse:
    """Both sides of FetchSnapshot: the leader says what may be read, its caller adds size and bytes.

    The caller also finds SNAPSHOT_NOT_FOUND and POSITION_OUT_OF_RANGE: the engine does not know the files.
    """

    error: ErrorCode
    leader_id: int
    epoch: int
    snapshot: OffsetAndEpoch
    position: int = -1
    read_limit: int = 0
    """Leader's side: at most this many bytes from `position`."""
    size: int = -1
    """Follower's side: bytes of the whole snapshot."""
    data: bytes = b""
    """Follower's side: the bytes from `position` on; they may begin and end within a batch."""


Request = VoteRequest | BeginEpochRequest | EndEpochRequest | FetchRequest | SnapshotRequest
Response = VoteResponse | LeaderResponse | FetchResponse | SnapshotResponse
