"""One replica of one partition, pure, as leader and as follower.

It follows Kafka's replication protocol: truncation by epochs (KIP-101, KIP-595), ISR changes decided by the
controller, a high watermark that waits for the maximal ISR (KIP-497, KIP-966), and broker epochs (KIP-903).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from quorumd.controller.partition import Partition, PartitionId
from quorumd.errors import ErrorCode
from quorumd.simulator.brokers.data_log import DataLog, EpochEnd, Record

NEVER = -1.0
UNKNOWN_END = -1
"""Log end offset of a follower that has not fetched yet in the leader's epoch."""


class Outcome(Enum):
    """The outcome of a write for its producer."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    """The error is NOT_ENOUGH_REPLICAS: the record was not appended."""
    UNKNOWN = "unknown"
    """There was another error or no response: the record may be in the log, now or later."""


class ReplicaContext(Protocol):
    """The broker of a replica: its metadata, and its callbacks."""

    def min_isr(self, where: PartitionId) -> int:
        """Return min.insync.replicas."""

    def epoch_of(self, broker_id: int) -> int:
        """Return the broker epoch in the metadata, -1 for an unregistered broker."""

    def is_eligible_for_isr(self, broker_id: int) -> bool:
        """Whether the broker is neither fenced nor in controlled shutdown, according to the metadata."""

    def leaves_checks_to_controller(self) -> bool:
        """Whether leaders propose replicas that are fenced, or of another incarnation, according to the metadata."""

    def propose(self, proposal: Proposal) -> bool:
        """Propose an ISR to the controller; return False if an earlier proposal for the partition is pending."""

    def high_watermark_moved(self, replica: Replica, before: int) -> None:
        """The high watermark of a leader advanced."""

    def truncated(self, replica: Replica, removed: Sequence[Record]) -> None: ...

    def leads(self, replica: Replica) -> None:
        """The replica became leader in a new epoch."""

    def settled(self, replica: Replica, value: int, outcome: Outcome) -> None:
        """A write has an outcome."""


class Proposal:
    """An ISR that a leader proposes, as (broker id, broker epoch) pairs. It takes effect once the controller accepts
    it."""

    __slots__ = ("isr", "leader_epoch", "partition_epoch", "version", "where")

    def __init__(
        self, where: PartitionId, leader_epoch: int, partition_epoch: int, isr: tuple[tuple[int, int], ...]
    ) -> None:
        self.where = where
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.isr = isr
        self.version = 3
        """The version of the AlterPartition request."""

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id, _ in self.isr)


class Follower:
    """A leader's state of a follower."""

    __slots__ = ("broker_epoch", "caught_up_ms", "end_offset", "fetched_ms", "leader_end_then")

    def __init__(self, caught_up_ms: float) -> None:
        self.end_offset = UNKNOWN_END
        self.broker_epoch = -1
        self.caught_up_ms = caught_up_ms
        self.fetched_ms = NEVER
        self.leader_end_then = 0

    def fetched(self, end_offset: int, broker_epoch: int, leader_end: int, now_ms: float) -> None:
        if end_offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif end_offset >= self.leader_end_then:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset, self.broker_epoch = end_offset, broker_epoch
        self.fetched_ms, self.leader_end_then = now_ms, leader_end


class Write:
    """A record with acks=all whose producer waits."""

    __slots__ = ("ends_ms", "offset", "value")

    def __init__(self, value: int, offset: int, ends_ms: float) -> None:
        self.value = value
        self.offset = offset
        self.ends_ms = ends_ms


class Leadership:
    """The state of a leader."""

    __slots__ = ("epoch", "epoch_start", "followers", "proposal", "writes")

    def __init__(self, epoch: int, epoch_start: int) -> None:
        self.epoch = epoch
        self.epoch_start = epoch_start
        """Its log end offset when its epoch started."""
        self.followers: dict[int, Follower] = {}
        self.proposal: Proposal | None = None
        self.writes: list[Write] = []


class Fetch(NamedTuple):
    """One partition of a follower's request."""

    replica_id: int
    replica_epoch: int
    leader_epoch: int
    offset: int
    last_epoch: int


class Fetched(NamedTuple):
    """One partition of the response."""

    error: ErrorCode
    high_watermark: int = -1
    records: Sequence[Record] = ()
    diverging: EpochEnd | None = None
    end_offset: int = -1
    """The leader's log end offset, to which a follower that is out of its range truncates."""


class Replica:
    """One replica, which is leader while it has a `leadership`."""

    __slots__ = ("_context", "broker_id", "high_watermark", "known", "leadership", "log", "where")

    def __init__(
        self,
        where: PartitionId,
        broker_id: int,
        context: ReplicaContext,
        log: DataLog | None = None,
        high_watermark: int = 0,
    ) -> None:
        self.where = where
        self.broker_id = broker_id
        self.log = log if log is not None else DataLog()
        self.high_watermark = high_watermark
        self.known: Partition | None = None
        """The partition as this broker knows it, from the metadata or, on a leader, from an earlier response of the
        controller."""
        self.leadership: Leadership | None = None
        self._context = context

    # State

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR, as known to this replica."""
        return self.known.isr if self.known is not None else ()

    @property
    def leader_epoch(self) -> int:
        return self.known.leader_epoch if self.known is not None else -1

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The maximal ISR: all replicas that are in the ISR, or may be by a pending proposal."""
        proposal = self.leadership.proposal if self.leadership is not None else None
        if proposal is None:
            return self.isr
        return self.isr + tuple(member for member in proposal.members if member not in self.isr)

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, limited to the number of replicas after a reassignment."""
        assert self.known is not None
        return min(self._context.min_isr(self.where), len(self.known.target))

    # Changes by the controller

    def apply(self, partition: Partition, now_ms: float) -> None:
        """Apply the partition in the metadata, unless the known one has a higher partition epoch."""
        known = self.known
        if known is not None and partition.partition_epoch <= known.partition_epoch:
            if partition.partition_epoch == known.partition_epoch:
                # The earlier response did not include the reassignment.
                self.known = partition
            return
        is_new_epoch = partition.leader_epoch > self.leader_epoch
        self.known = partition
        if partition.leader != self.broker_id:
            self.resign()
        elif is_new_epoch:
            self._lead(partition, now_ms)
        elif self.leadership is not None:
            self.leadership.proposal = None
            self._drop_followers(partition.replicas)
        self.advance_high_watermark()

    def resign(self) -> None:
        """Stop leading; the outcome of pending writes is unknown."""
        leadership, self.leadership = self.leadership, None
        if leadership is not None:
            for write in leadership.writes:
                self._context.settled(self, write.value, Outcome.UNKNOWN)

    def _lead(self, partition: Partition, now_ms: float) -> None:
        before = self.leadership
        self.log.begin_epoch(partition.leader_epoch)
        leadership = Leadership(partition.leader_epoch, self.log.end_offset)
        for replica in partition.replicas:
            known = before.followers.get(replica) if before is not None else None
            if known is None or replica not in partition.isr:
                # Records that it fetched before this epoch may be lost: it was not in the ISR, or not a replica.
                known = Follower(now_ms if replica in partition.isr else NEVER)
            if replica != self.broker_id:
                leadership.followers[replica] = known
        if before is not None:
            leadership.writes = before.writes
        self.leadership = leadership
        self._context.leads(self)

    def _drop_followers(self, replicas: Sequence[int]) -> None:
        assert self.leadership is not None
        followers = self.leadership.followers
        for gone in [replica for replica in followers if replica not in replicas]:
            del followers[gone]
        for replica in replicas:
            if replica != self.broker_id and replica not in followers:
                followers[replica] = Follower(NEVER)

    def proposal_completed(self, proposal: Proposal, error: ErrorCode, partition: Partition | None) -> None:
        """Handle the response to a proposal; `partition` has leader epoch, ISR and partition epoch of a success."""
        leadership, known = self.leadership, self.known
        if leadership is None or known is None or leadership.proposal is not proposal:
            return
        if error in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED):
            leadership.proposal = None
        elif error is ErrorCode.NONE and partition is not None:
            if (
                partition.leader_epoch != known.leader_epoch
                or partition.partition_epoch < known.partition_epoch
            ):
                return  # Newer metadata is on its way.
            if not set(known.isr).issubset(partition.isr):
                return  # A removed member may be eligible, which only the metadata shows.
            leadership.proposal = None
            self.known = Partition(
                known.replicas, partition.isr, known.leader, known.leader_epoch, partition.partition_epoch,
                known.adding, known.removing, known.original,
            )  # fmt: skip
        else:
            return  # An earlier attempt may have succeeded; newer metadata is on its way.
        self.advance_high_watermark()

    # Leader

    def append(self, value: int, ends_ms: float) -> None:
        """Append a write with acks=all, which times out at `ends_ms`."""
        leadership = self.leadership
        assert leadership is not None
        if len(self.isr) < self.min_isr:
            self._context.settled(self, value, Outcome.REFUSED)
            return
        leadership.writes.append(Write(value, self.log.end_offset, ends_ms))
        self.log.append([Record(leadership.epoch, value)])
        self.advance_high_watermark()

    def time_out(self, now_ms: float) -> None:
        """Time out writes that have waited too long."""
        leadership = self.leadership
        if leadership is not None:
            late = [write for write in leadership.writes if write.ends_ms <= now_ms]
            leadership.writes = [write for write in leadership.writes if write.ends_ms > now_ms]
            for write in late:
                self._context.settled(self, write.value, Outcome.UNKNOWN)

    def serve(self, fetch: Fetch, now_ms: float, *, delayed: bool = False) -> Fetched:
        """Respond to a follower's fetch. A delayed fetch was recorded when it arrived, and its offsets are
        outdated."""
        leadership, log = self.leadership, self.log
        if fetch.leader_epoch < self.leader_epoch:
            return Fetched(ErrorCode.FENCED_LEADER_EPOCH)
        if fetch.leader_epoch > self.leader_epoch:
            return Fetched(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if leadership is None:
            return Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        follower = leadership.followers.get(fetch.replica_id)
        if follower is None:
            # The follower may have newer metadata.
            return Fetched(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if fetch.last_epoch >= 0:
            if log.end_of(fetch.last_epoch) is None:
                return Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, end_offset=log.end_offset)
            diverging = log.divergence(fetch.last_epoch, fetch.offset)
            if diverging is not None:
                return Fetched(ErrorCode.NONE, self.high_watermark, (), diverging)
        if fetch.offset > log.end_offset:
            return Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, end_offset=log.end_offset)
        high_watermark = self.high_watermark
        if not delayed:
            if self._context.epoch_of(fetch.replica_id) > fetch.replica_epoch:
                return Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            follower.fetched(fetch.offset, fetch.replica_epoch, log.end_offset, now_ms)
            self._expand(fetch.replica_id, follower)
            self.advance_high_watermark()
        return Fetched(ErrorCode.NONE, high_watermark, log.records[fetch.offset :], None, log.end_offset)

    def _expand(self, replica_id: int, follower: Follower) -> None:
        leadership = self.leadership
        assert leadership is not None
        if (
            leadership.proposal is None
            and replica_id not in self.isr
            and follower.end_offset >= max(self.high_watermark, leadership.epoch_start)
            and (
                self._context.leaves_checks_to_controller()
                or self._is_known_as_eligible(replica_id, follower)
            )
        ):
            self._propose((*self.isr, replica_id))

    def _is_known_as_eligible(self, replica_id: int, follower: Follower) -> bool:
        context = self._context
        return (
            context.is_eligible_for_isr(replica_id) and context.epoch_of(replica_id) == follower.broker_epoch
        )

    def shrink(self, now_ms: float, longest_lag_ms: float) -> None:
        """Propose to remove followers that have not caught up for `longest_lag_ms`."""
        leadership = self.leadership
        if leadership is None or leadership.proposal is not None:
            return
        end = self.log.end_offset
        staying = [
            member
            for member in self.isr
            if member == self.broker_id
            or (follower := leadership.followers.get(member)) is None
            or follower.end_offset == end
            or now_ms - follower.caught_up_ms <= longest_lag_ms
        ]
        if len(staying) < len(self.isr):
            self._propose(tuple(staying))

    def recovered(self) -> None:
        """Report the recovery of an uncleanly elected leader by proposing the current ISR; there is nothing to
        repair."""
        if self.leadership is not None and self.leadership.proposal is None:
            self._propose(self.isr)

    def _propose(self, members: tuple[int, ...]) -> None:
        leadership, known = self.leadership, self.known
        assert leadership is not None
        assert known is not None
        epochs = []
        for member in members:
            follower = leadership.followers.get(member)
            epoch = self._context.epoch_of(member) if follower is None else follower.broker_epoch
            epochs.append((member, epoch))
        proposal = Proposal(self.where, known.leader_epoch, known.partition_epoch, tuple(epochs))
        # Set before sending, since the committed ISR is unknown from then on.
        leadership.proposal = proposal
        if not self._context.propose(proposal):
            leadership.proposal = None

    def advance_high_watermark(self) -> None:
        """Advance the high watermark to the offset that the whole maximal ISR has reached, unless the committed ISR
        is too small (KIP-966)."""
        leadership = self.leadership
        if leadership is None or len(self.isr) < self.min_isr:
            return
        reached = self.log.end_offset
        for member in self.maximal_isr:
            if member != self.broker_id:
                follower = leadership.followers.get(member)
                reached = min(reached, follower.end_offset if follower is not None else UNKNOWN_END)
        before = self.high_watermark
        if reached > before:
            self.high_watermark = reached
            self._context.high_watermark_moved(self, before)
            self._acknowledge()

    def _acknowledge(self) -> None:
        leadership = self.leadership
        assert leadership is not None
        enough = len(self.maximal_isr) >= self.min_isr
        done = [write for write in leadership.writes if write.offset < self.high_watermark]
        leadership.writes = [write for write in leadership.writes if write.offset >= self.high_watermark]
        for write in done:
            self._context.settled(self, write.value, Outcome.ACKNOWLEDGED if enough else Outcome.UNKNOWN)

    # Follower

    def next_fetch(self, broker_epoch: int) -> Fetch:
        return Fetch(
            self.broker_id, broker_epoch, self.leader_epoch, self.log.end_offset, self.log.last_epoch
        )

    def fetched(self, fetch: Fetch, result: Fetched) -> None:
        """Handle the leader's response, unless the fetch is outdated."""
        log = self.log
        if (
            self.leadership is not None
            or fetch.leader_epoch != self.leader_epoch
            or fetch.offset != log.end_offset
        ):
            return
        if result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._truncate(min(log.end_offset, result.end_offset))
        elif result.error is ErrorCode.NONE and result.diverging is not None:
            self._truncate(log.truncation_offset(result.diverging))
        elif result.error is ErrorCode.NONE:
            log.append(result.records)
            self.high_watermark = max(0, min(result.high_watermark, log.end_offset))

    def _truncate(self, end_offset: int) -> None:
        removed = self.log.records[end_offset:]
        self.log.truncate(end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        if removed:
            self._context.truncated(self, removed)
