"""The effects of one step. The package docstring has their order and the contract with the caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch
from quorumd.raft.messages import Reply, Request, Response
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.voters import VoterAssignment


@dataclass(slots=True)
class Send:
    """A request to a peer. Completes as ResponseReceived or PeerRequestFailed."""

    peer: int
    request: Request


@dataclass(slots=True)
class Respond:
    """The response to a RequestReceived."""

    reply: Reply
    response: Response


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """Control record 2: the leader of the epoch, the voters, the voters that granted their vote."""

    leader_id: int
    voters: tuple[int, ...]
    granting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KRaftVersion:
    """Control record 5: the level of the feature kraft.version; 1 means voters are in the log (KIP-853)."""

    level: int


@dataclass(slots=True)
class ControlBatch:
    """Control records to append in order as one batch in the engine's epoch, one offset each.

    A VoterAssignment becomes control record 6 (KRaftVoters); the caller adds the cluster id.
    """

    records: tuple[LeaderChange | KRaftVersion | VoterAssignment, ...]


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """A refused request to elect or follow a leader, for logs and metrics.

    `kind`: such as "pre-vote". `sender`: the node id in the request; `peer`: the address that it came from.
    """

    kind: str
    sender: int
    peer: str
    epoch: int
    reason: str


ReadToken = Callable[[bool], None]
"""Identifies a read. Opaque to the engine; the node calls it with whether the read may be served."""


@dataclass(slots=True)
class ReadReady:
    """A read that may be served from a state that has applied everything below `offset`."""

    token: ReadToken
    offset: int


@dataclass(slots=True)
class VoterChangeResult:
    """The result of a VoterChangeRequested. `message` explains an error and is "" without one."""

    token: VoterChangeToken
    error: ErrorCode
    message: str = ""


VoterChangeToken = Callable[[VoterChangeResult], None]
"""Identifies a voter change. Opaque to the engine; the node calls it with the result."""


@dataclass(slots=True)
class SnapshotChunk:
    """Bytes of a snapshot to store at `position`. Once `position + len(data)` equals `size`, the caller verifies the
    snapshot and steps SnapshotChecked. Bytes of other unfinished snapshots may be deleted."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes
    size: int


@dataclass(slots=True)
class Effects:
    """Everything that the caller performs for one step; the contract in `quorumd.raft` has the order."""

    save: QuorumState | None = None
    truncate_to: int | None = None
    append: bytes | ControlBatch | None = None
    """Encoded batches (leader: one data batch; follower: as fetched), or control records to encode."""
    append_end_offset: int = -1
    """The log end offset after `append`, if that is set."""
    send: list[Send | Respond] = field(default_factory=list)
    send_after_flush: list[Send | Respond] = field(default_factory=list)
    new_high_watermark: int | None = None
    """The new high watermark if it advanced: records below it may be applied."""
    record_needed: bool = False
    """Reads can only be confirmed by offset (see `read_index`): propose any record unless one is about to be."""
    reads_ready: list[ReadReady] = field(default_factory=list)
    reads_failed: list[ReadToken] = field(default_factory=list)
    voter_change_results: list[VoterChangeResult] = field(default_factory=list)
    snapshot_chunk: SnapshotChunk | None = None
    reset_to_snapshot: OffsetAndEpoch | None = None
    """Replace the whole log with the verified snapshot: the log is then empty and starts at the snapshot's end.
    Set instead of `truncate_to`; `LogView` shows it at once, and it is durable before the next step."""
    refused: RequestRefused | None = None
    """The request of a candidate or leader that this step refused."""
    leadership_changed: bool = False
    """Whether the step changed role, epoch or leader."""
    fatal: str | None = None
    """An invariant violation (two leaders in an epoch, truncation below the high watermark): stop, keep the files."""
