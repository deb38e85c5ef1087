"""The events that `RaftEngine.step` accepts."""

from __future__ import annotations

from dataclasses import dataclass

from quorumd.ids import Endpoint, OffsetAndEpoch, ReplicaKey
from quorumd.raft.effects import ReadToken, VoterChangeToken
from quorumd.raft.messages import Reply, Request, Response
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet


@dataclass(init=False, slots=True)
class RequestReceived:
    """A peer sent a request, to which `reply` sends the response.

    `names_cluster`: whether the request has the id of this cluster, or that id is not known yet. `peer`: the address
    that it came from, for logs. `is_authenticated`: whether its connection has a principal (TLS or SASL).
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

    `unsupported`: the peer does not support the request; a pre-vote then counts as granted.
    `refused`: the peer's address refused the connection, so its process is gone. If the peer was the leader, its
    followers request pre-votes after a short random wait instead of the fetch timeout.
    """

    peer: int
    request: Request
    unsupported: bool = False
    refused: bool = False


@dataclass(slots=True)
class LeaderReported:
    """Another node reported the leader (Metadata). Ignored in a lower epoch, and in the current one if its leader is
    known."""

    leader_id: int
    epoch: int
    is_trusted: bool = True
    """Whether the report is from a configured address or from that of a voter."""


@dataclass(slots=True)
class PeerDiscovered:
    """The address of a node became known or changed."""

    key: ReplicaKey
    endpoint: Endpoint


@dataclass(init=False, slots=True)
class FlushCompleted:
    """Everything below `end_offset` is durable, and so is every `save` that preceded the flush."""

    end_offset: int

    def __init__(self, end_offset: int) -> None:
        self.end_offset = end_offset


@dataclass(init=False, slots=True)
class Propose:
    """Append one encoded data batch, which starts at the log end offset, ends at `end_offset` and has the engine's
    epoch. Only a leader accepts it (`RaftEngine.is_leader`)."""

    batch: bytes
    end_offset: int

    def __init__(self, batch: bytes, end_offset: int) -> None:
        self.batch = batch
        self.end_offset = end_offset


@dataclass(slots=True)
class ReadRequested:
    """A linearizable read. `Effects.reads_ready` returns the token, with the offset up to which the state must be
    applied first; `Effects.reads_failed` returns it if this node does not lead or stops leading."""

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
    """False: respond as soon as the leader has flushed the voter record."""


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
    """A request to change the voters. `Effects.voter_change_results` returns the token with an error, or once the
    first voter record is committed (`AddVoter.ack_when_committed`); it does not wait for the end of a
    reassignment."""

    token: VoterChangeToken
    change: VoterChange


@dataclass(frozen=True, slots=True)
class FoundingPermitted:
    """No existing quorum was discovered: these replicas, this one included, may elect the first leader. The caller
    saves them with the vote. Ignored unless the log is empty."""

    voters: VoterSet


@dataclass(slots=True)
class SnapshotChecked:
    """The caller has verified a completely fetched snapshot (`Effects.snapshot_chunk`).

    `voters` is the VoterAssignment in it. None if it is corrupt or the disk is full: it must be fetched again.
    """

    snapshot: OffsetAndEpoch
    voters: VoterAssignment | None


@dataclass(slots=True)
class TimerFired:
    """`engine.deadline` has passed."""


@dataclass(slots=True)
class StallDetected:
    """This node was busy or suspended for `duration_ms` and read nothing, so peers that seem silent may be alive."""

    duration_ms: float


@dataclass(slots=True)
class ReplayStarted:
    """The node applies committed records after a start. Until `ReplayCompleted` it votes and follows but does not
    campaign, since other nodes may be ready to lead sooner."""


@dataclass(slots=True)
class ReplayCompleted:
    """The node has applied the committed records and may campaign (see `ReplayStarted`)."""


@dataclass(slots=True)
class ShutdownRequested:
    """Shut down gracefully: a leader resigns and sends EndQuorumEpoch. See `RaftEngine.handover_complete`."""


@dataclass(slots=True)
class StorageFull:
    """An append failed because the disk is full: a leader resigns, and this replica does not campaign until
    StorageAvailable."""


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
