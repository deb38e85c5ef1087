"""The state that one replica keeps between events, and the operations that every role uses on it.

`Replica` makes no decisions. It holds the state shared by all roles, collects the effects of the current step and
checks each role transition against the tables in `roles`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, ZERO_UUID, Endpoint, OffsetAndEpoch, ReplicaKey
from quorumd.raft.effects import ControlBatch, Effects, KRaftVersion, LeaderChange, Respond, Send
from quorumd.raft.log_view import LogView
from quorumd.raft.membership import count_changed_voters
from quorumd.raft.messages import FetchRequest, Reply, Request, Response
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import HIGHER_EPOCH_TRANSITIONS, SAME_EPOCH_TRANSITIONS, Role, RoleState, Unattached
from quorumd.raft.settings import RaftSettings
from quorumd.raft.voters import VoterAssignment, VoterHistory, VoterSet

MAX_EPOCH = 2**31 - 1
"""Epochs are int32 in every message and batch."""
LAST_EPOCH = MAX_EPOCH - (1 << 20)
"""No replica enters a later epoch (`newer_epochs`): those above are left for an operator who repairs the quorum."""


class InvariantViolation(Exception):
    """A condition that the protocol rules out: a bug, a faulty peer or a disk that lost flushed data."""


class PeerFault(Exception):
    """A response that no correct peer sends. The engine undoes its effects and stops following its sender."""


@dataclass(slots=True)
class Peer:
    """The address of another node, from discovery or configuration."""

    key: ReplicaKey
    endpoint: Endpoint


def reported_leader(state: RoleState, saved: QuorumState) -> int:
    """The leader that a replica in `state` reports to peers and clients: NO_NODE unless it leads or follows."""
    return saved.leader_id if state.role is Role.FOLLOWER or state.role is Role.LEADER else NO_NODE


class Replica:
    """The state of one replica. Role modules read its attributes; roles change only through `transition_to`."""

    __slots__ = (
        "catching_up",
        "committed",
        "downgraded",
        "effects",
        "end",
        "failed_elections",
        "flushed",
        "founders",
        "identity",
        "log",
        "nonvoter_epoch_at",
        "now",
        "peers",
        "pending_end_acks",
        "randrange",
        "replaying",
        "saved",
        "settings",
        "shutting_down",
        "stall_grace_ms",
        "state",
        "storage_full",
        "unverified_snapshot",
        "voters",
    )

    def __init__(
        self,
        settings: RaftSettings,
        identity: ReplicaKey,
        saved: QuorumState,
        log: LogView,
        voters: VoterHistory,
        randrange: Callable[[int], int],
    ) -> None:
        self.settings = settings
        self.identity = identity
        self.log = log
        self.voters = voters
        self.randrange = randrange
        self.now = 0.0
        self.effects = Effects()
        self.state: RoleState = Unattached(0.0, 0.0)
        self.end = OffsetAndEpoch(log.end_offset, log.last_epoch)
        """The log end during this step, with the appends so far: `log` shows them only after the step."""
        self.flushed = 0
        """The flushed end offset of the local log. 0 until the first flush completes."""
        self.committed = log.start_offset or -1
        """The highest high watermark that this replica has known, -1 for none. At first the log start offset: records
        below it are in a snapshot, and therefore committed."""
        self.peers: dict[int, Peer] = {}
        self.failed_elections = 0
        self.storage_full = False
        self.shutting_down = False
        self.replaying = False
        """Whether the node is still applying committed records after a start; it does not campaign meanwhile."""
        self.stall_grace_ms = 0.0
        """By how much timeouts for peers were extended in this role, because this node was stalled."""
        self.nonvoter_epoch_at = -inf
        """When a candidate that is not a recorded voter last raised the epoch (`newer_epochs`)."""
        self.pending_end_acks = 0
        """Number of voters that have not yet responded to the EndQuorumEpoch of this shutdown."""
        self.downgraded = False
        """Whether the leader reported that this replica is not a voter (NOT_FOLLOWER, KIP-595); overrides the log."""
        self.catching_up = log.end_offset == 0 and (saved.epoch == 0 or saved.catching_up)
        """Started with an empty log, so this may be a voter whose disk was replaced (hole 40; see `election`)."""
        self.saved = saved._replace(catching_up=self.catching_up)
        self.founders = VoterSet()
        """The replicas, this one included, that may elect the first leader; empty before FoundingPermitted."""
        self.unverified_snapshot: OffsetAndEpoch | None = None
        """The fetched snapshot that the caller is verifying, in any role. Until SnapshotChecked no other snapshot is
        fetched, since the caller may be reading its bytes."""

    # Identity

    @property
    def id(self) -> int:
        return self.identity.id

    @property
    def epoch(self) -> int:
        return self.saved.epoch

    @property
    def leader_id(self) -> int:
        """The leader that is reported to peers and clients (`reported_leader`)."""
        return reported_leader(self.state, self.saved)

    @property
    def voter_set(self) -> VoterSet:
        """The newest voter set of the local log; before there is one, the founders."""
        latest = self.voters.latest
        return latest.current if latest is not None else self.founders

    def endpoints_of(self, node_id: int) -> tuple[Endpoint, ...]:
        peer = self.peers.get(node_id)
        return (peer.endpoint,) if peer is not None else ()

    @property
    def is_voter(self) -> bool:
        return not self.downgraded and self.voter_set.includes(self.identity)

    @property
    def is_sole_voter(self) -> bool:
        """Whether this replica is the only voter, and needs no other vote to be elected."""
        return self.voter_set.ids == (self.id,) and self.is_voter

    @property
    def is_recorded_voter(self) -> bool:
        """Whether the voter set has this node with this directory id, and not only its node id."""
        own = self.voter_set.by_id(self.id)
        return own is not None and own.key == self.identity

    @property
    def is_bootstrapping(self) -> bool:
        """Whether the local log has no voter record yet."""
        return self.voters.latest is None

    @property
    def is_blank(self) -> bool:
        """Whether this replica has no record, no epoch and no permission to bootstrap a quorum."""
        return self.end.offset == 0 and self.epoch == 0 and self.is_bootstrapping and not self.founders.voters

    @property
    def may_still_be_voter(self) -> bool:
        """Whether this replica is a voter by the local log (hole 10), or its removal is not known to be committed.

        If the other voters lack the record of the removal, this replica may be the only one that can win an election
        (Raft thesis 4.2.2). Pre-votes keep it from disrupting voters that have a leader.
        """
        if self.voter_set.includes(self.identity):
            return True
        return self.voters.removal_offset(self.identity) >= max(0, self.committed)

    @property
    def may_campaign(self) -> bool:
        """Whether this replica may start an election."""
        if not self.may_still_be_voter or not self.may_lead or self.replaying or self.epoch >= LAST_EPOCH:
            return False
        return not (self.catching_up and self.end.offset > 0)

    @property
    def may_lead(self) -> bool:
        return not self.storage_full and not self.shutting_down

    # Effects of the current step

    def send(self, peer: int, request: Request) -> None:
        self.effects.send.append(Send(peer, request))

    def send_after_flush(self, peer: int, request: Request) -> None:
        self.effects.send_after_flush.append(Send(peer, request))

    def respond(self, reply: Reply, response: Response) -> None:
        self.effects.send.append(Respond(reply, response))

    def respond_after_flush(self, reply: Reply, response: Response) -> None:
        self.effects.send_after_flush.append(Respond(reply, response))

    def transition_to(self, state: RoleState, saved: QuorumState) -> None:
        """Change role and save `saved`. Raises InvariantViolation for a transition that `roles` does not allow."""
        before, old = self.state.role, self.saved
        allowed = SAME_EPOCH_TRANSITIONS if saved.epoch == old.epoch else HIGHER_EPOCH_TRANSITIONS
        if saved.epoch < old.epoch or state.role not in allowed[before]:
            raise InvariantViolation(
                f"invalid transition from {before.value} in epoch {old.epoch} to {state.role.value} in epoch "
                f"{saved.epoch}"
            )
        if saved.epoch == old.epoch and old.voted is not None and saved.voted != old.voted:
            raise InvariantViolation(
                f"the vote in epoch {old.epoch} changes from {old.voted} to {saved.voted}"
            )
        if saved.epoch > old.epoch:
            self.downgraded = False
        self.state = state
        self.stall_grace_ms = 0.0
        self.save(saved)

    def save(self, saved: QuorumState) -> None:
        if saved.catching_up != self.catching_up:
            saved = saved._replace(catching_up=self.catching_up)
        if saved != self.saved:
            self.saved = saved
            self.effects.save = saved

    def append_control_records(
        self, records: tuple[LeaderChange | KRaftVersion | VoterAssignment, ...]
    ) -> None:
        """Append control records in the current epoch; a voter set among them takes effect at once."""
        for position, record in enumerate(records):
            if isinstance(record, VoterAssignment):
                self.apply_voters(self.end.offset + position, record)
        self.append(ControlBatch(records), OffsetAndEpoch(self.end.offset + len(records), self.epoch))

    def apply_voters(self, offset: int, assignment: VoterAssignment) -> None:
        """Let the voter record at `offset` take effect.

        Raises PeerFault if it changes more than one voter: the old and the new set could then have disjoint
        majorities (Raft thesis 4.1, hole 5).
        """
        latest = self.voters.latest
        if latest is not None and count_changed_voters(latest.current, assignment.current) > 1:
            raise PeerFault(
                f"the voter record at offset {offset} changes more than one voter: from {latest.current.ids} to "
                f"{assignment.current.ids}"
            )
        self.voters.append(offset, assignment)

    def append(self, batches: bytes | ControlBatch, end: OffsetAndEpoch) -> None:
        self.effects.append = batches
        self.effects.append_end_offset = end.offset
        self.end = end

    def commit(self, high_watermark: int) -> None:
        """Advance the high watermark; a lower value than the current one is ignored (hole 32)."""
        if high_watermark > self.committed:
            self.committed = high_watermark
            self.effects.new_high_watermark = high_watermark

    def fetch_from(self, peer: int, *, max_wait_ms: int, read_round: int = 0, token: int = 0) -> FetchRequest:
        """Fetch from `peer` at the log end offset. Sent after the flush, since it acknowledges all records below."""
        request = FetchRequest(
            self.identity,
            self.epoch,
            self.end.offset,
            self.end.epoch,
            max_wait_ms,
            self.settings.fetch_max_bytes,
            self.is_voter,
            self.committed,
            read_round,
            token,
        )
        self.send_after_flush(peer, request)
        return request

    # Random waits

    def election_timeout(self) -> float:
        """Now + a random wait in [T, 2T), which makes split votes rare (Raft paper 5.2)."""
        timeout = self.settings.election_timeout_ms
        return self.now + timeout + self.randrange(max(1, timeout))

    def fetch_timeout(self) -> float:
        """Now + the fetch timeout and a random jitter.

        A leader responds to all its followers at the same time: without jitter they would campaign at the same time
        and split the vote.
        """
        return self.now + self.settings.fetch_timeout_ms + self.randrange(self.max_jitter_ms)

    @property
    def max_jitter_ms(self) -> int:
        """Upper bound of the random waits that keep replicas from campaigning at the same time."""
        return max(1, self.settings.election_timeout_ms // 4)

    def extend_grace(self, duration_ms: float) -> float:
        """Return by how much to extend the timeouts for peers after a stall of this node.

        Between two contacts with peers the sum is at most one fetch timeout, so that a node that is stalled again and
        again still detects failed peers.
        """
        grace_ms = max(0.0, min(duration_ms, self.settings.fetch_timeout_ms - self.stall_grace_ms))
        self.stall_grace_ms += grace_ms
        return grace_ms

    def election_backoff(self) -> float:
        """Now + the wait after a failed election, at most `election_backoff_max_ms`.

        The wait is 100 ms times a random integer below 2^failures, plus less than 50 ms.
        """
        self.failed_elections += 1
        step = self.randrange(2 << min(20, self.failed_elections - 1))
        return self.now + min(100 * step + self.randrange(50), self.settings.election_backoff_max_ms)

    def retry_after(self, attempts: int) -> float:
        """Now + the exponential backoff after `attempts` earlier failures, with a jitter of 20 % (KIP-580)."""
        wait = min(self.settings.retry_backoff_max_ms, self.settings.retry_backoff_ms << min(attempts, 20))
        return self.now + wait * 4 // 5 + self.randrange(max(1, wait * 2 // 5))

    # Responses to peers

    def fetch_error(self, epoch: int) -> ErrorCode:
        """The error for a fetch in `epoch`; NONE if this replica leads that epoch."""
        if self.shutting_down:
            return ErrorCode.BROKER_NOT_AVAILABLE
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.state.role is Role.LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def known_peers(self) -> list[int]:
        """Sorted ids of all other nodes with a known address."""
        ids = {voter.key.id for voter in self.voter_set.voters if voter.endpoints} | set(self.peers)
        return sorted(ids - {self.id})

    def discovered_key(self, node_id: int) -> ReplicaKey:
        """The replica key of a node according to discovery, with a zero directory id if that is unknown."""
        if node_id == self.id:
            return self.identity
        peer = self.peers.get(node_id)
        return peer.key if peer is not None else ReplicaKey(node_id, ZERO_UUID)
