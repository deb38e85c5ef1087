"""The events that `RaftEngine.step` accepts."""

from __future__ import annotations

from dataclasses import dataclass

from quorumd.ids import Endpoint, OffsetAndEpoch, ReplicaKey
from quorumd.raft.effects import ReadToken, VoterChangeToken
from quorumd.raft.messages import Reply, Request, Response
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet


@dataclass(init=False, slots=True)
class RequestReceived:
    """A peer sent a request. `reply`: see `messages`.

    `names_cluster`: whether the request has the id of this cluster, or that id is not known yet. `peer`: the address
    that it came from, for logs.
    """

    reply: Reply
    request: Request
    names_cluster: bool
    peer: str
    is_authenticated: bool

    def __init__(
        self,
        reply: Reply,
        request: Request,
        names_cluster: bool = True,
        peer: str = "?",
        is_authenticated: bool = False,
    ) -> None:
        self.reply = reply
        self.request = request
        self.names_cluster = names_cluster
        self.peer = peer
        self.is_authenticated = is_authenticated


@dataclass(init=False, slots=True)
class ResponseReceived:
    """A peer responded to a request of this node."""

    peer: int
    request: Request
    response: Response

    def __init__(self, peer: int, request: Request, response: Response) -> None:
        self.peer = peer
        self.request = request
        self.response = response


@dataclass(slots=True)
class PeerRequestFailed:
    """A request of this node got no usable response: timeout, lost connection or undecodable response.

    `unsupported`: the peer does not support the request (a pre-vote then counts as granted).
    `refused`: the peer's address refused the connection, so its process is gone. A follower does not wait for the
    fetch timeout of such a leader; it requests pre-votes after a short random wait.
    """

    peer: int
    request: Request
    unsupported: bool = False
    refused: bool = False


@dataclass(slots=True)
class LeaderReported:
    """Another node reported the leader (Metadata). Applied only to a higher epoch, or to the current one while it has
    no known leader."""

    leader_id: int
    epoch: int
    is_trusted: bool = True
    """Whether the report is from a configured address or that of a voter."""


@dataclass(slots=True)
class PeerDiscovered:
    """The address of a node became known or changed."""

    key: ReplicaKey
    endpoint: Endpoint


@dataclass(init=False, slots=True)
class FlushCompleted:
    """Everything below `end_offset` is durable, and so is every `save` from before the flush began."""

    end_offset: int

    def __init__(self, end_offset: int) -> None:
        self.end_offset = end_offset


@dataclass(init=False, slots=True)
class Propose:
    """Append one encoded data batch. Only for a leader (`engine.is_leader`); the batch's base offset is the log end
    offset and its epoch the engine's."""

    batch: bytes
    end_offset: int

    def __init__(self, batch: bytes, end_offset: int) -> None:
        self.batch = batch
        self.end_offset = end_offset


@dataclass(slots=True)
class ReadRequested:
    """A linearizable read. `Effects.reads_ready` returns the token with the offset that must be applied first,
    `Effects.reads_failed` returns it if this node does not lead or stops leading."""

    token: ReadToken


@dataclass(frozen=True, slots=True)
class SetTargetVoters:
    """AlterQuorum: make these node ids the voters, one change per record; None cancels a reassignment."""

    ids: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class AddVoter:
    """AddRaftVoter (KIP-853)."""

    voter: Voter
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    """RemoveRaftVoter (KIP-853)."""

    key: ReplicaKey


@dataclass(frozen=True, slots=True)
class UpdateVoter:
    """UpdateRaftVoter (KIP-853): a voter's endpoints changed. `epoch` is the sender's."""

    voter: Voter
    epoch: int


VoterChange = SetTargetVoters | AddVoter | RemoveVoter | UpdateVoter


@dataclass(slots=True)
class VoterChangeRequested:
    """A request to change the voters. `Effects.voter_change_results` returns the token once the first voter record is
    committed or the request is rejected; it does not wait for the end of a reassignment."""

    token: VoterChangeToken
    change: VoterChange


@dataclass(frozen=True, slots=True)
class FoundingPermitted:
    """No existing quorum was discovered: these replicas, this one included, may elect the first leader. The caller
    saves them with the vote. No effect once the log has a voter record."""

    voters: VoterSet


@dataclass(slots=True)
class SnapshotChecked:
    """The caller has verified a completely fetched snapshot (`Effects.snapshot_chunk`).

    `voters` is the VoterAssignment in it, None if it was corrupt or the disk was full and its bytes are deleted.
    """

    snapshot: OffsetAndEpoch
    voters: VoterAssignment | None


@dataclass(slots=True)
class TimerFired:
    """`engine.deadline` has passed."""


@dataclass(slots=True)
class StallDetected:
    """This node was busy or stopped for `duration_ms` and read nothing, so silent peers may be alive."""

    duration_ms: float


@dataclass(slots=True)
class ReplayStarted:
    """The node is applying committed records after a start. Until `ReplayCompleted` it votes and follows but does not
    campaign: other nodes may be ready to lead sooner."""


@dataclass(slots=True)
class ReplayCompleted:
    """The node has applied the committed records, see `ReplayStarted`."""


@dataclass(slots=True)
class ShutdownRequested:
    """Shut down gracefully: a leader resigns with EndQuorumEpoch. See `RaftEngine.handover_complete`."""


@dataclass(slots=True)
class StorageFull:
    """An append failed because the disk is full: a leader resigns, and no election starts until StorageAvailable."""


@dataclass(slots=True)
class StorageAvailable:
    """The disk has free space again."""


Event = (
    RequestReceived
    | ResponseReceived
    | PeerRequestFailed
    | LeaderReported
    | PeerDiscovered
    | FlushCompleted
    | Propose
    | ReadRequested
    | VoterChangeRequested
    | FoundingPermitted
    | SnapshotChecked
    | TimerFired
    | StallDetected
    | ReplayStarted
    | ReplayCompleted
    | ShutdownRequested
    | StorageFull
    | StorageAvailable
)
