"""What a node tells its engine. `RaftEngine.step` takes exactly these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quorumd.ids import Endpoint, OffsetAndEpoch, ReplicaKey
from quorumd.raft.messages import Request, Response
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet


@dataclass(slots=True)
class RequestReceived:
    """A request came in. `reply` is handed back in `Answer`; the engine never looks into it."""

    reply: Any
    request: Request


@dataclass(slots=True)
class ResponseReceived:
    """A request of ours was answered."""

    peer: int
    request: Request
    response: Response


@dataclass(slots=True)
class PeerRequestFailed:
    """A request of ours got no usable answer: timeout, connection lost, or not decodable.

    `unsupported`: the peer does not speak this request (for a pre-vote: become candidate without it).
    `refused`: nobody listens at the peer's address, its process is gone; a follower need not wait for the fetch
    timeout of a leader that refused it (after a short random wait it asks for pre-votes).
    """

    peer: int
    request: Request
    unsupported: bool = False
    refused: bool = False


@dataclass(slots=True)
class LeaderReported:
    """A third party (Metadata of some node) says who leads. Adopted only for an epoch above ours, or for ours
    while we know no leader."""

    leader_id: int
    epoch: int


@dataclass(slots=True)
class PeerDiscovered:
    """The address of a node is known now, or changed."""

    key: ReplicaKey
    endpoint: Endpoint


@dataclass(slots=True)
class FlushCompleted:
    """Everything below `end_offset` is durable here, and every `save` before the flush began."""

    end_offset: int


@dataclass(slots=True)
class Propose:
    """Append one encoded data batch. Only to a leader (`engine.is_leader`): its base offset is the log's end
    offset, its epoch the engine's."""

    batch: bytes
    end_offset: int


@dataclass(slots=True)
class ReadRequested:
    """A linearizable read wants to know when the committed state is fresh enough: `reads_ready` hands the
    token back with the offset to have applied, `reads_failed` when this node lost leadership or leads none."""

    token: Any


@dataclass(frozen=True, slots=True)
class SetTargetVoters:
    """AlterQuorum: let the quorum become these node ids, one voter a record; None stays with who votes now."""

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
    """UpdateRaftVoter (KIP-853): a voter is reached elsewhere now. `epoch` is the sender's."""

    voter: Voter
    epoch: int


VoterChange = SetTargetVoters | AddVoter | RemoveVoter | UpdateVoter


@dataclass(slots=True)
class VoterChangeRequested:
    """Somebody wants other voters. `Effects.voter_change_results` hands the token back once it is known what came of
    it: when the record is committed, not when a reassignment has come to its end."""

    token: Any
    change: VoterChange


@dataclass(frozen=True, slots=True)
class FoundingPermitted:
    """No existing quorum could be discovered: these replicas, this one among them, may elect a first leader. The
    caller saves them with the vote. Without effect once the log names voters."""

    voters: VoterSet


@dataclass(slots=True)
class SnapshotChecked:
    """All bytes of a snapshot had come (`Effects.snapshot_chunk`) and the caller has checked them.

    `voters` is the VoterAssignment in it; None: it is not sound, or the disk had no room, and its bytes are gone.
    """

    snapshot: OffsetAndEpoch
    voters: VoterAssignment | None


@dataclass(slots=True)
class TimerFired:
    """`engine.deadline` has passed."""


@dataclass(slots=True)
class StallDetected:
    """This node was busy, or stopped, for so long and read nothing: that is not the silence of others."""

    duration_ms: float


@dataclass(slots=True)
class ReplayStarted:
    """After a start the node applies what it knows to be committed. Until `ReplayCompleted` it votes and follows, and
    does not campaign: others may be ready to decide sooner."""


@dataclass(slots=True)
class ReplayCompleted:
    """See `ReplayStarted`."""


@dataclass(slots=True)
class ShutdownRequested:
    """Leave gracefully: a leader hands over with EndQuorumEpoch. `engine.handover_complete` tells when it is done."""


@dataclass(slots=True)
class StorageFull:
    """The log refused an append for want of room: a leader resigns, nobody campaigns until StorageAvailable."""


@dataclass(slots=True)
class StorageAvailable:
    """There is room again."""


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
