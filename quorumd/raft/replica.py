"""What one replica remembers between events, and the verbs that every role uses on it.

`Replica` decides nothing by itself: it keeps the memory of all roles, collects the effects of the step that is
running, and checks each change of role against the table in `roles`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, ZERO_UUID, Endpoint, OffsetAndEpoch, ReplicaKey
from quorumd.raft.effects import ControlBatch, Effects, KRaftVersion, LeaderChange, Respond, Send
from quorumd.raft.log_view import LogView
from quorumd.raft.membership import count_changed_voters
from quorumd.raft.messages import FetchRequest, Request, Response
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import HIGHER_EPOCH_TRANSITIONS, SAME_EPOCH_TRANSITIONS, Role, RoleState, Unattached
from quorumd.raft.settings import RaftSettings
from quorumd.raft.voters import VoterAssignment, VoterHistory, VoterSet

MAX_EPOCH = 2**31 - 1
"""Epochs are int32 in every message and batch. No quorum gets there by elections; a stray request can say it."""


class InvariantViolation(Exception):
    """Something that the protocol rules out has happened: a bug, or a peer or disk that broke its promise."""


@dataclass(slots=True)
class Peer:
    """The address of another node, as gossip or configuration gave it."""

    key: ReplicaKey
    endpoint: Endpoint


def reported_leader(state: RoleState, saved: QuorumState) -> int:
    """The leader that a replica in `state` names; who lost its leader names none."""
    return saved.leader_id if state.role is Role.FOLLOWER or state.role is Role.LEADER else NO_NODE


class Replica:
    """One replica's memory. Public attributes are read by the role modules; roles change only through `enter`."""

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
        """The own log's end as of this moment of the step: `log` shows appends only after the step."""
        self.flushed = 0
        """What is durable of the own log. 0 at start: the first flush tells."""
        self.committed = log.start_offset or -1
        """The largest high watermark this replica ever knew, -1 for none. Never falls. What is before the start of
        the log is in a snapshot, which has only what is committed."""
        self.peers: dict[int, Peer] = {}
        self.failed_elections = 0
        self.storage_full = False
        self.shutting_down = False
        self.replaying = False
        """Does not campaign: it has yet to apply what it knows to be committed."""
        self.stall_grace_ms = 0.0
        """How much longer the others may be silent in this role, since this node stood still itself."""
        self.pending_end_acks = 0
        """Voters that have not answered the EndQuorumEpoch of this shutdown yet."""
        self.downgraded = False
        """The leader says that this node is no voter (NOT_FOLLOWER), whatever the own log says (KIP-595)."""
        self.catching_up = log.end_offset == 0 and (saved.epoch == 0 or saved.catching_up)
        """Began with an empty log, so this may be a voter whose disk was replaced. See `election` (hole 40)."""
        self.saved = saved._replace(catching_up=self.catching_up)
        self.founders = VoterSet()
        """Who may elect a first leader, this replica among them; empty without permission (FoundingPermitted)."""
        self.unverified_snapshot: OffsetAndEpoch | None = None
        """The snapshot that has come whole and that the caller looks at, whatever the role is meanwhile. Until
        SnapshotChecked its bytes belong to the caller: nothing is fetched that would touch them."""

    # Who we are

    @property
    def id(self) -> int:
        return self.identity.id

    @property
    def epoch(self) -> int:
        return self.saved.epoch

    @property
    def leader_id(self) -> int:
        """Who leads this epoch and can be fetched from, as far as we know: what others are told."""
        return reported_leader(self.state, self.saved)

    @property
    def voter_set(self) -> VoterSet:
        """The newest voter set of the own log; before there is one, those who may found a quorum."""
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
        """Whether there is nobody to wait for before an election."""
        return self.voter_set.ids == (self.id,) and self.is_voter

    @property
    def is_recorded_voter(self) -> bool:
        """Whether the newest voter record of the own log names this very folder."""
        own = self.voter_set.by_id(self.id)
        return own is not None and own.key == self.identity

    @property
    def is_bootstrapping(self) -> bool:
        """Whether no leader ever wrote a voter set, as far as the own log knows."""
        return self.voters.latest is None

    @property
    def is_blank(self) -> bool:
        """Whether this replica has nothing of any quorum and no permission to found one: no record, no epoch."""
        return self.end.offset == 0 and self.epoch == 0 and self.is_bootstrapping and not self.founders.voters

    @property
    def may_still_be_voter(self) -> bool:
        """Whether the own log says "voter", whatever a leader said (hole 10), or its removal is not known to be
        committed: those who stay may lack that record and would not get this node's vote, nor win without it
        (Raft thesis 4.2.2). Pre-votes keep it from disturbing those who have a leader."""
        if self.voter_set.includes(self.identity):
            return True
        return self.voters.removal_offset(self.identity) >= max(0, self.committed)

    @property
    def may_campaign(self) -> bool:
        """Whether an election timeout leads to an election."""
        if not self.may_still_be_voter or not self.may_lead or self.replaying or self.epoch == MAX_EPOCH:
            return False
        return not (self.catching_up and self.end.offset > 0)

    @property
    def may_lead(self) -> bool:
        return not self.storage_full and not self.shutting_down

    # What we do in this step

    def send(self, peer: int, request: Request) -> None:
        self.effects.send.append(Send(peer, request))

    def send_after_flush(self, peer: int, request: Request) -> None:
        self.effects.send_after_flush.append(Send(peer, request))

    def respond(self, reply: Any, response: Response) -> None:
        self.effects.send.append(Respond(reply, response))

    def respond_after_flush(self, reply: Any, response: Response) -> None:
        self.effects.send_after_flush.append(Respond(reply, response))

    def transition_to(self, state: RoleState, saved: QuorumState) -> None:
        """Change role, and with it perhaps what is saved. Raises InvariantViolation for what `roles` does "
        "not allow."""
        before, old = self.state.role, self.saved
        allowed = SAME_EPOCH_TRANSITIONS if saved.epoch == old.epoch else HIGHER_EPOCH_TRANSITIONS
        if saved.epoch < old.epoch or state.role not in allowed[before]:
            raise InvariantViolation(
                f"from {before.value} in epoch {old.epoch} to {state.role.value} in {saved.epoch}"
            )
        if saved.epoch == old.epoch and old.voted is not None and saved.voted != old.voted:
            raise InvariantViolation(f"vote of epoch {old.epoch} changed from {old.voted} to {saved.voted}")
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
        """Append control records of the own epoch; a voter set among them counts from now on."""
        for position, record in enumerate(records):
            if isinstance(record, VoterAssignment):
                self.apply_voters(self.end.offset + position, record)
        self.append(ControlBatch(records), OffsetAndEpoch(self.end.offset + len(records), self.epoch))

    def apply_voters(self, offset: int, assignment: VoterAssignment) -> None:
        """Go by a voter record from now on. Raises InvariantViolation for one that changes more than one voter: two
        majorities that do not meet could come of it (Raft thesis 4.1, hole 5)."""
        latest = self.voters.latest
        if latest is not None and count_changed_voters(latest.current, assignment.current) > 1:
            raise InvariantViolation(
                f"the voter record at offset {offset} leads from {latest.current.ids} to "
                f"{assignment.current.ids}: more than one voter at once"
            )
        self.voters.append(offset, assignment)

    def append(self, batches: bytes | ControlBatch, end: OffsetAndEpoch) -> None:
        self.effects.append = batches
        self.effects.append_end_offset = end.offset
        self.end = end

    def commit(self, high_watermark: int) -> None:
        """Records below `high_watermark` are committed; a lower one than known is ignored (hole 32)."""
        if high_watermark > self.committed:
            self.committed = high_watermark
            self.effects.new_high_watermark = high_watermark

    def fetch_from(self, peer: int, *, max_wait_ms: int, read_round: int = 0) -> FetchRequest:
        """Ask `peer` for what follows the own log. It leaves after the flush: it says what is durable here."""
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
        )
        self.send_after_flush(peer, request)
        return request

    # Random waits

    def election_timeout(self) -> float:
        """Now + a uniform wait in [T, 2T) (Raft paper 5.2: split votes are rare)."""
        timeout = self.settings.election_timeout_ms
        return self.now + timeout + self.randrange(max(1, timeout))

    def fetch_timeout(self) -> float:
        """Now + the fetch timeout and a random part: a leader answers its followers at the same moments, and
        without it they would all give it up at the same moment and split the vote."""
        return self.now + self.settings.fetch_timeout_ms + self.randrange(self.max_jitter_ms)

    @property
    def max_jitter_ms(self) -> int:
        """The bound of random waits that only keep several replicas from campaigning at once."""
        return max(1, self.settings.election_timeout_ms // 4)

    def extend_grace(self, duration_ms: float) -> float:
        """How much of the time for which this node stood still others get: in all no more than a fetch timeout until
        they are heard of, so that somebody who is gone is found out by a node that is always busy, too."""
        grace_ms = max(0.0, min(duration_ms, self.settings.fetch_timeout_ms - self.stall_grace_ms))
        self.stall_grace_ms += grace_ms
        return grace_ms

    def election_backoff(self) -> float:
        """Now + the wait after a failed election: 100 ms times a random part of 2^failures, bounded."""
        self.failed_elections += 1
        step = self.randrange(2 << min(20, self.failed_elections - 1))
        return self.now + min(100 * step + self.randrange(50), self.settings.election_backoff_max_ms)

    def retry_after(self, attempts: int) -> float:
        """Now + exponential back-off with a jitter of a fifth (KIP-580); `attempts` have failed before."""
        wait = min(self.settings.retry_backoff_max_ms, self.settings.retry_backoff_ms << min(attempts, 20))
        return self.now + wait * 4 // 5 + self.randrange(max(1, wait * 2 // 5))

    # What others are told

    def fetch_error(self, epoch: int) -> ErrorCode:
        """Why a fetch at `epoch` is not served by this replica; NONE for a leader of that epoch."""
        if self.shutting_down:
            return ErrorCode.BROKER_NOT_AVAILABLE
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.state.role is Role.LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def known_peers(self) -> list[int]:
        """Ids of all other nodes that can be asked, in order."""
        ids = {voter.key.id for voter in self.voter_set.voters if voter.endpoints} | set(self.peers)
        return sorted(ids - {self.id})

    def discovered_key(self, node_id: int) -> ReplicaKey:
        """The replica that runs as `node_id` now, as far as gossip told."""
        if node_id == self.id:
            return self.identity
        peer = self.peers.get(node_id)
        return peer.key if peer is not None else ReplicaKey(node_id, ZERO_UUID)
