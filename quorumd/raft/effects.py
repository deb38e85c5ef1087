"""What the engine wants done: one value a step. See the package docstring for the order and the promises."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch, ReplicaKey
from quorumd.raft.messages import Request, Response
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.voters import VoterAssignment


@dataclass(slots=True)
class Send:
    """A request to a peer. Comes back as ResponseReceived or PeerRequestFailed."""

    peer: int
    request: Request


@dataclass(slots=True)
class Respond:
    """The answer to a RequestReceived."""

    reply: Any
    response: Response


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """Control record 2: who leads this epoch, who votes, who granted."""

    leader_id: int
    voters: tuple[int, ...]
    granting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KRaftVersion:
    """Control record 5: the quorum's own feature level; 1 means voters are in the log (KIP-853)."""

    level: int


@dataclass(slots=True)
class ControlBatch:
    """Control records to append as one batch of the engine's epoch, in this order, one offset each.

    A VoterAssignment becomes control record 6 (KRaftVoters); the caller adds the cluster id.
    """

    records: tuple[LeaderChange | KRaftVersion | VoterAssignment, ...]


@dataclass(frozen=True, slots=True)
class VoteRefused:
    """Which candidate did not get a vote or pre-vote in which epoch, and why."""

    candidate: ReplicaKey
    epoch: int
    pre_vote: bool
    reason: str


@dataclass(slots=True)
class ReadReady:
    """A read that may be answered from a state that has applied everything below `offset`."""

    token: Any
    offset: int


@dataclass(slots=True)
class VoterChangeResult:
    """What came of a VoterChangeRequested. `message` says why not, "" for an error-free one."""

    token: Any
    error: ErrorCode
    message: str = ""


@dataclass(slots=True)
class SnapshotChunk:
    """Bytes of a snapshot to keep, next to those that came before. Once `position + len(data)` is `size` the
    caller checks the whole and steps SnapshotChecked. Bytes of other snapshots need not be kept any longer."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes
    size: int


@dataclass(slots=True)
class Effects:
    """What one step wants done; the contract in `quorumd.raft` gives the order."""

    save: QuorumState | None = None
    truncate_to: int | None = None
    append: bytes | ControlBatch | None = None
    """Encoded batches (leader: one data batch; follower: as fetched), or control records to encode."""
    append_end_offset: int = -1
    """The log's end offset after `append`, where one is set."""
    send: list[Send | Respond] = field(default_factory=list)
    send_after_flush: list[Send | Respond] = field(default_factory=list)
    new_high_watermark: int | None = None
    """The high watermark, where it advanced: records below it may be applied."""
    record_needed: bool = False
    """Reads wait for a voter that only a record appended since can prove them by (see `reads`): propose one of any
    kind, unless some are about to be."""
    reads_ready: list[ReadReady] = field(default_factory=list)
    reads_failed: list[Any] = field(default_factory=list)
    voter_change_results: list[VoterChangeResult] = field(default_factory=list)
    snapshot_chunk: SnapshotChunk | None = None
    reset_to_snapshot: OffsetAndEpoch | None = None
    """Replace the whole log by the snapshot that was checked: it is empty then and begins at its end offset.
    Takes the place of `truncate_to`; `LogView` shows it at once, and it is durable before the next step."""
    vote_refused: VoteRefused | None = None
    """A vote or pre-vote that this step refused."""
    leadership_changed: bool = False
    """Role, epoch or leader differ from before the step."""
    fatal: str | None = None
    """A broken promise (two leaders in an epoch, truncation below the high watermark): stop, keep the files."""
