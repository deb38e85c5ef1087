"""The effects of one step. The package docstring has their order and the contract with the caller.

Values that are built for every commit, here and in `events`, `messages` and `roles`, have handwritten constructors:
mypyc does not compile those of a dataclass, and building these values would take two fifths of the engine's time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch
from quorumd.raft.messages import Reply, Request, Response
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.voters import VoterAssignment


@dataclass(init=False, slots=True)
class Send:
    """A request to a peer. Completes as ResponseReceived or PeerRequestFailed."""

    peer: int
    request: Request

    def __init__(self, peer: int, request: Request) -> None:
        self.peer = peer
        self.request = request


@dataclass(init=False, slots=True)
class Respond:
    """The response to a RequestReceived."""

    reply: Reply
    response: Response

    def __init__(self, reply: Reply, response: Response) -> None:
        self.reply = reply
        self.response = response


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """Control record 2: the leader of the epoch, the voters, and those that granted the leader their vote."""

    leader_id: int
    voters: tuple[int, ...]
    granting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KRaftVersion:
    """Control record 5: the level of the feature kraft.version; 1 means that the log has the voters (KIP-853)."""

    level: int


@dataclass(slots=True)
class ControlBatch:
    """Control records to append in this order as one batch in the engine's epoch, with one offset per record.

    A VoterAssignment becomes control record 6 (KRaftVoters), to which the caller adds the cluster id.
    """

    records: tuple[LeaderChange | KRaftVersion | VoterAssignment, ...]


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """A refused request to elect or follow a leader, or a response of a faulty leader; for logs and metrics.

    `kind`: "vote", "pre-vote", "BeginQuorumEpoch", "EndQuorumEpoch" or "response". `sender`: the node id in the
    request, or of the leader; `peer`: the address that it came from, "?" if unknown.
    """

    kind: str
    sender: int
    peer: str
    epoch: int
    reason: str


ReadToken = Callable[[bool], None]
"""Identifies a read. The engine only returns it; the node calls it with whether the read may be served."""


@dataclass(slots=True)
class ReadReady:
    """A read that may be served from a state that has applied everything below `offset`."""

    token: ReadToken
    offset: int


@dataclass(slots=True)
class VoterChangeResult:
    """The result of a VoterChangeRequested. `message` explains the error, "" if there is none."""

    token: VoterChangeToken
    error: ErrorCode
    message: str = ""


VoterChangeToken = Callable[[VoterChangeResult], None]
"""Identifies a voter change. The engine only returns it; the node calls it with the result."""


@dataclass(slots=True)
class SnapshotChunk:
    """Bytes of a snapshot to store at `position`. Once `position + len(data)` equals `size`, the caller verifies the
    snapshot and steps SnapshotChecked. It may delete the bytes of other incomplete snapshots."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes
    size: int


@dataclass(init=False, slots=True)
class Effects:
    """Everything that the caller performs for one step; the contract in `quorumd.raft` has the order."""

    save: QuorumState | None
    truncate_to: int | None
    """The new log end offset: records at or above it are removed."""
    append: bytes | ControlBatch | None
    """Encoded batches (leader: one data batch; follower: as fetched), or control records to encode."""
    append_end_offset: int
    """The log end offset after `append`, if that is set."""
    send: list[Send | Respond]
    send_after_flush: list[Send | Respond]
    new_high_watermark: int | None
    """The high watermark, if it advanced: records below it may be applied."""
    record_needed: bool
    """A waiting read can only be confirmed by a fetch above the log end (see `read_index`): propose a record, unless
    another one is about to be proposed."""
    reads_ready: list[ReadReady]
    reads_failed: list[ReadToken]
    voter_change_results: list[VoterChangeResult]
    snapshot_chunk: SnapshotChunk | None
    reset_to_snapshot: OffsetAndEpoch | None
    """Replace the whole log with the verified snapshot: the log is then empty and starts at the snapshot's end.
    Never set with `truncate_to`; `LogView` shows it at once, and it is durable before the next step."""
    refused: RequestRefused | None
    """The message of a candidate or leader that this step refused."""
    leadership_changed: bool
    """Whether the step changed role, epoch or leader."""
    fatal: str | None
    """A violated invariant, such as two leaders in one epoch: stop the process and keep its files."""

    def __init__(
        self,
        save: QuorumState | None = None,
        truncate_to: int | None = None,
        append: bytes | ControlBatch | None = None,
        append_end_offset: int = -1,
        send: list[Send | Respond] | None = None,
        send_after_flush: list[Send | Respond] | None = None,
        new_high_watermark: int | None = None,
        record_needed: bool = False,
        reads_ready: list[ReadReady] | None = None,
        reads_failed: list[ReadToken] | None = None,
        voter_change_results: list[VoterChangeResult] | None = None,
        snapshot_chunk: SnapshotChunk | None = None,
        reset_to_snapshot: OffsetAndEpoch | None = None,
        refused: RequestRefused | None = None,
        leadership_changed: bool = False,
        fatal: str | None = None,
    ) -> None:
        self.save = save
        self.truncate_to = truncate_to
        self.append = append
        self.append_end_offset = append_end_offset
        self.send = [] if send is None else send
        self.send_after_flush = [] if send_after_flush is None else send_after_flush
        self.new_high_watermark = new_high_watermark
        self.record_needed = record_needed
        self.reads_ready = [] if reads_ready is None else reads_ready
        self.reads_failed = [] if reads_failed is None else reads_failed
        self.voter_change_results = [] if voter_change_results is None else voter_change_results
        self.snapshot_chunk = snapshot_chunk
        self.reset_to_snapshot = reset_to_snapshot
        self.refused = refused
        self.leadership_changed = leadership_changed
        self.fatal = fatal
