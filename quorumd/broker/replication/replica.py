"""One replica of one partition, as leader and as follower."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar

from quorumd.broker.replication.follower_state import NO_BROKER_EPOCH, UNKNOWN_OFFSET, FollowerState
from quorumd.broker.replication.isr_proposal import (
    AWAITS_METADATA,
    FINAL,
    REVERTS,
    CommittedIsr,
    IsrProposal,
)
from quorumd.broker.replication.leadership import Leadership, PendingProduce
from quorumd.broker.replication.replica_fetch import FetchDecision, FetchedPartition, ReplicaFetch
from quorumd.broker.replication.replica_log import NO_EPOCH, ReplicaLog, divergence, truncation_offset
from quorumd.controller.partition import NO_LEADER, RECOVERING, Partition, PartitionId
from quorumd.errors import ErrorCode

REPLICA_LAG_TIME_MAX_MS: Final = 30_000.0
NOT_GIVEN: Final = -1
"""The leader epoch of a request without one."""

L = TypeVar("L", bound=ReplicaLog)


class Transition(Enum):
    """The effect of a metadata change on the replica."""

    NONE = "none"
    """Nothing to do: the metadata is not newer, or a follower keeps its leader and epoch."""
    LEADS = "leads"
    """It leads in a new epoch: stop fetching."""
    STILL_LEADS = "still leads"
    FOLLOWS = "follows"
    """Another broker leads in a new epoch: fetch from it."""
    NO_LEADER = "no leader"
    """Stop fetching, keep the log."""
    REMOVED = "removed"
    """The broker is no longer a replica: stop fetching, delete the log."""


class FetchResult(Enum):
    """The effect of a response on a follower."""

    IGNORED = "ignored"
    """The replica has changed since the request."""
    APPENDED = "appended"
    TRUNCATED = "truncated"
    """Fetch again: the leader may report an earlier divergence."""
    OUT_OF_RANGE = "out of range"
    """Look up the offsets of the leader's log, then call `handle_leader_offsets`."""
    FAILED = "failed"
    """The leader returned another error: fetch again later, or when the metadata changes."""


class ReplicaContext(Protocol):
    """The broker of a replica: its metadata, and the effects of the replica."""

    def min_isr(self, partition: PartitionId) -> int:
        """Return min.insync.replicas of the topic."""

    def broker_epoch(self, broker_id: int) -> int:
        """Return the epoch of a broker in the metadata, -1 for an unregistered broker."""

    def is_eligible(self, broker_id: int) -> bool:
        """Whether the broker is registered, not fenced and not in controlled shutdown, according to the metadata."""

    def propose(self, proposal: IsrProposal) -> bool:
        """Send a proposal to the controller until it responds; return False if that is not possible now."""

    def high_watermark_advanced(self, replica: Replica[Any], before: int) -> None:
        """Handle a new high watermark: complete delayed fetches, including fetches of consumers from a follower."""

    def truncated(self, replica: Replica[Any], before: int, high_watermark: int) -> None:
        """Handle the truncation of a follower's log that ended at `before`. It goes below the previous
        `high_watermark` only after an unclean election."""


class Replica(Generic[L]):
    """A replica, which is the leader while it has a `leadership`.

    `metadata` comes from the metadata log or, on a leader, from a later response of the controller. The high
    watermark is exclusive; the caller writes its checkpoint.
    """

    __slots__ = (
        "_context",
        "broker_id",
        "high_watermark",
        "leadership",
        "log",
        "max_lag_ms",
        "metadata",
        "partition",
    )

    def __init__(
        self,
        partition: PartitionId,
        broker_id: int,
        log: L,
        context: ReplicaContext,
        high_watermark: int = 0,
        max_lag_ms: float = REPLICA_LAG_TIME_MAX_MS,
    ) -> None:
        self.partition = partition
        self.broker_id = broker_id
        self.log = log
        self.high_watermark = min(max(high_watermark, log.start_offset), log.end_offset)
        self.max_lag_ms = max_lag_ms
        self.metadata: Partition | None = None
        self.leadership: Leadership | None = None
        self._context = context

    def __repr__(self) -> str:
        role = "leader" if self.leadership is not None else "follower"
        return (
            f"<{role} of {self.partition} in epoch {self.leader_epoch}, high watermark {self.high_watermark}>"
        )

    # State

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR in `metadata`."""
        return self.metadata.isr if self.metadata is not None else ()

    @property
    def leader_epoch(self) -> int:
        return self.metadata.leader_epoch if self.metadata is not None else NO_EPOCH

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The replicas that are in the committed ISR or in the pending proposal."""
        proposal = self.leadership.proposal if self.leadership is not None else None
        if proposal is None:
            return self.isr
        return self.isr + tuple(member for member in proposal.members if member not in self.isr)

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, limited to the number of replicas after a reassignment."""
        assert self.metadata is not None
        return min(self._context.min_isr(self.partition), len(self.metadata.target))

    @property
    def is_end_known(self) -> bool:
        """Whether the high watermark has reached the start of the epoch, so that it is at least as high as on the
        previous leader; until then, requests for the latest offset get OFFSET_NOT_AVAILABLE."""
        return self.leadership is not None and self.high_watermark >= self.leadership.epoch_start

    # Changes by the controller

    def apply(self, partition: Partition, now_ms: float) -> Transition:
        """Apply the state of the partition after a batch of the metadata log, if it is newer than `metadata`."""
        known, before = self.metadata, self.leadership
        if known is not None and partition.partition_epoch <= known.partition_epoch:
            if partition.partition_epoch == known.partition_epoch:
                self._learn(partition, now_ms)
            return Transition.NONE
        is_new_epoch = partition.leader_epoch > self.leader_epoch
        self.metadata = partition
        if self.broker_id not in partition.replicas:
            self.resign()
            return Transition.REMOVED
        if partition.leader != self.broker_id:
            self.resign()
            if partition.leader == NO_LEADER:
                return Transition.NO_LEADER
            return Transition.FOLLOWS if is_new_epoch else Transition.NONE
        if is_new_epoch:
            self._lead(partition, now_ms)
        elif before is not None:
            before.proposal = None
            before.set_followers(self._others(partition))
        self.advance_high_watermark(now_ms)
        return Transition.LEADS if is_new_epoch else Transition.STILL_LEADS

    def _learn(self, partition: Partition, now_ms: float) -> None:
        """Add what the controller's response with this partition epoch did not include; a proposal made since then
        stays pending."""
        self.metadata = partition
        if self.leadership is not None:
            self.leadership.set_followers(self._others(partition))
            self.advance_high_watermark(now_ms)

    def _lead(self, partition: Partition, now_ms: float) -> None:
        self.log.start_epoch(partition.leader_epoch)
        self.leadership = Leadership.begin(
            partition.leader_epoch,
            self.log.end_offset,
            self._others(partition),
            partition.isr,
            now_ms,
            self.leadership,
        )

    def _others(self, partition: Partition) -> list[int]:
        return [replica for replica in partition.replicas if replica != self.broker_id]

    def resign(self) -> None:
        """Stop leading. Pending writes fail: the next leader may or may not have them."""
        leadership, self.leadership = self.leadership, None
        if leadership is not None:
            leadership.fail_pending(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # ISR

    def handle_proposal_response(
        self, proposal: IsrProposal, error: ErrorCode, committed: CommittedIsr | None, now_ms: float
    ) -> None:
        """Handle the final response to a proposal; `committed` is the state in a successful response."""
        leadership, known = self.leadership, self.metadata
        if leadership is None or known is None or leadership.proposal is not proposal:
            return
        assert error in FINAL, f"{error.name} is retried"
        if error in AWAITS_METADATA:
            return
        if error in REVERTS:
            leadership.proposal = None
        else:
            assert committed is not None
            if (
                committed.leader_epoch != known.leader_epoch
                or committed.partition_epoch < known.partition_epoch
            ):
                return  # The metadata log will bring a newer state.
            if not set(known.isr).issubset(committed.isr):
                # A removed member is eligible if min.insync.replicas has risen, which only the metadata shows.
                return
            leadership.proposal = None
            self.metadata = Partition(
                known.replicas, committed.isr, known.leader, known.leader_epoch, committed.partition_epoch,
                known.adding, known.removing, known.original, directories=known.directories,
            )  # fmt: skip
        self.advance_high_watermark(now_ms)

    def _maybe_expand_isr(self, replica_id: int, follower: FollowerState) -> None:
        """Propose to add a follower that has just fetched, if it has every committed record."""
        leadership = self.leadership
        assert leadership is not None
        if (
            leadership.proposal is None
            and replica_id not in self.isr
            and follower.end_offset >= max(self.high_watermark, leadership.epoch_start)
            and self._may_join(replica_id, follower)
        ):
            self._propose((*self.isr, replica_id))

    def _may_join(self, replica_id: int, follower: FollowerState) -> bool:
        """Whether the follower has fetched, by the incarnation that is registered and eligible (KIP-903)."""
        epoch = self._context.broker_epoch(replica_id)
        return (
            follower.end_offset != UNKNOWN_OFFSET
            and follower.broker_epoch in (epoch, NO_BROKER_EPOCH)
            and self._context.is_eligible(replica_id)
        )

    def shrink_isr(self, now_ms: float) -> None:
        """Propose to remove followers that have not caught up for `max_lag_ms`; call it twice in that time."""
        leadership = self.leadership
        if leadership is None:
            return
        if leadership.proposal is None:
            remaining = tuple(member for member in self.isr if self._is_in_sync(member, leadership, now_ms))
            if len(remaining) < len(self.isr):
                self._propose(remaining)
        # A replica outside the ISR may no longer delay the high watermark.
        self.advance_high_watermark(now_ms)

    def _is_in_sync(self, member: int, leadership: Leadership, now_ms: float) -> bool:
        state = leadership.followers.get(member)
        return state is None or state.is_caught_up(self.log.end_offset, now_ms, self.max_lag_ms)

    def report_recovery(self) -> None:
        """Report to the controller that an uncleanly elected leader has recovered. No other recovery is necessary
        (KIP-704)."""
        leadership, known = self.leadership, self.metadata
        if leadership is None or known is None or leadership.proposal is not None:
            return
        if known.recovery == RECOVERING:
            self._propose(self.isr)

    def _propose(self, members: tuple[int, ...]) -> None:
        leadership, known = self.leadership, self.metadata
        assert leadership is not None
        assert known is not None
        epochs = []
        for member in members:
            state = leadership.followers.get(member)
            epochs.append(
                (member, self._context.broker_epoch(member) if state is None else state.broker_epoch)
            )
        proposal = IsrProposal(self.partition, known.leader_epoch, known.partition_epoch, tuple(epochs))
        # Set before sending: from then on, the controller's ISR may be the proposed one.
        leadership.proposal = proposal
        if not self._context.propose(proposal):
            leadership.proposal = None

    # High watermark

    def advance_high_watermark(self, now_ms: float) -> None:
        """Advance the high watermark to the smallest end offset in the maximal ISR, unless the committed ISR is too
        small (KIP-966).

        Eligible followers outside the ISR that are caught up count too, so that they can join.
        """
        leadership = self.leadership
        if leadership is None or len(self.isr) < self.min_isr:
            return
        end = reached = self.log.end_offset
        maximal = self.maximal_isr
        for replica, state in leadership.followers.items():
            if state.end_offset < reached and (
                replica in maximal
                or (state.is_caught_up(end, now_ms, self.max_lag_ms) and self._may_join(replica, state))
            ):
                reached = state.end_offset
        before = self.high_watermark
        if reached > before:
            self.high_watermark = reached
            self._context.high_watermark_advanced(self, before)
            enough = len(maximal) >= self.min_isr
            leadership.complete_below(
                reached, ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            )

    # Producers and consumers

    def check_leader(self, leader_epoch: int) -> ErrorCode:
        """Check the leader epoch of a request, NOT_GIVEN if it has none, and that this replica leads."""
        if leader_epoch != NOT_GIVEN and leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if leader_epoch > self.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.leadership is not None else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def check_produce(self, acks: int) -> ErrorCode:
        """Check before an append: NOT_ENOUGH_REPLICAS means that nothing was written."""
        if self.leadership is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if acks == -1 and len(self.isr) < self.min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    def handle_append(self, now_ms: float) -> None:
        """Handle the growth of the leader's log."""
        self.advance_high_watermark(now_ms)

    def await_replication(
        self, end_offset: int, deadline_ms: float, complete: Callable[[ErrorCode], None]
    ) -> None:
        """Call `complete` with the outcome of a write with acks=all up to `end_offset`: NONE once it is committed.

        After any error, the records may still be committed.
        """
        leadership = self.leadership
        if leadership is None:
            complete(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        leadership.pending.append(PendingProduce(end_offset, deadline_ms, complete))
        if end_offset <= self.high_watermark:
            enough = len(self.maximal_isr) >= self.min_isr
            leadership.complete_below(
                self.high_watermark,
                ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            )

    def expire_produces(self, now_ms: float) -> None:
        """Time out the writes that have waited too long."""
        if self.leadership is not None:
            self.leadership.expire(now_ms)

    def low_watermark(self, is_live: Callable[[int], bool]) -> int:
        """The smallest log start offset of this leader and its live followers, for which DeleteRecords waits."""
        offsets = [self.log.start_offset]
        if self.leadership is not None:
            followers = self.leadership.followers.items()
            offsets += [state.start_offset for replica, state in followers if is_live(replica)]
        return min(offsets)

    def delete_records(self, offset: int) -> ErrorCode:
        """Raise the leader's log start offset, at most to the high watermark."""
        if self.leadership is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not 0 <= offset <= self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if offset > self.log.start_offset:
            self.log.delete_before(offset)
        return ErrorCode.NONE

    # Leader: fetches of followers

    def serve_fetch(self, fetch: ReplicaFetch, now_ms: float, *, is_delayed: bool = False) -> FetchDecision:
        """Respond to a follower's fetch. A delayed fetch was recorded when it arrived."""
        error = self.check_leader(fetch.leader_epoch)
        leadership, log = self.leadership, self.log
        if error is not ErrorCode.NONE or leadership is None:
            return FetchDecision(error)
        follower = leadership.followers.get(fetch.replica_id)
        if follower is None:
            # The follower may have newer metadata.
            given = fetch.leader_epoch != NOT_GIVEN
            return FetchDecision(
                ErrorCode.UNKNOWN_LEADER_EPOCH if given else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        decision = FetchDecision(ErrorCode.NONE, self.high_watermark, log.start_offset, log.end_offset)
        if fetch.last_epoch != NO_EPOCH and log.end_of_epoch(fetch.last_epoch) is None:
            return decision._replace(error=ErrorCode.OFFSET_OUT_OF_RANGE)
        if fetch.offset < log.start_offset:
            return decision._replace(error=ErrorCode.OFFSET_OUT_OF_RANGE)
        if fetch.last_epoch != NO_EPOCH:
            diverging = divergence(log, fetch.last_epoch, fetch.offset)
            if diverging is not None:
                return decision._replace(diverging=diverging)
        if fetch.offset > log.end_offset:
            return decision._replace(error=ErrorCode.OFFSET_OUT_OF_RANGE)
        if is_delayed:
            return decision
        newest = max(self._context.broker_epoch(fetch.replica_id), follower.broker_epoch)
        if NO_BROKER_EPOCH < fetch.broker_epoch < newest:
            # An earlier incarnation sent the fetch, and may have had another log.
            return FetchDecision(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        follower.update(fetch.offset, fetch.start_offset, fetch.broker_epoch, log.end_offset, now_ms)
        self._maybe_expand_isr(fetch.replica_id, follower)
        self.advance_high_watermark(now_ms)
        return decision

    # Follower

    def next_fetch(self, broker_epoch: int) -> ReplicaFetch:
        """Return the next fetch from the leader."""
        log = self.log
        return ReplicaFetch(
            self.broker_id, broker_epoch, self.leader_epoch, log.end_offset, log.last_epoch, log.start_offset
        )

    def handle_fetched(self, fetch: ReplicaFetch, response: FetchedPartition, now_ms: float) -> FetchResult:
        """Handle the leader's response. Raises the errors of the log."""
        log = self.log
        if not self._is_current(fetch):
            return FetchResult.IGNORED
        if response.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return FetchResult.OUT_OF_RANGE
        if response.error is not ErrorCode.NONE:
            return FetchResult.FAILED
        if response.diverging is not None:
            self._truncate(truncation_offset(log, response.diverging))
            return FetchResult.TRUNCATED
        if response.records:
            log.append_as_follower(response.records, now_ms)
        before = self.high_watermark
        self.high_watermark = min(max(response.high_watermark, log.start_offset), log.end_offset)
        if self.high_watermark > before:
            self._context.high_watermark_advanced(self, before)
        start_offset = min(response.start_offset, self.high_watermark)
        if start_offset > log.start_offset:
            log.delete_before(start_offset)
        return FetchResult.APPENDED

    def handle_leader_offsets(self, fetch: ReplicaFetch, start_offset: int, end_offset: int) -> FetchResult:
        """Continue after OUT_OF_RANGE with the offsets of the leader's log. Raises the errors of the log."""
        if not self._is_current(fetch):
            return FetchResult.IGNORED
        if end_offset < self.log.end_offset:
            # This happens only after an unclean election.
            self._truncate(end_offset)
        elif start_offset > self.log.end_offset:
            self.log.reset(start_offset)
            self.high_watermark = start_offset
        return FetchResult.TRUNCATED

    def _is_current(self, fetch: ReplicaFetch) -> bool:
        """Whether the replica is unchanged since the request: a log with the same end and last epoch is unchanged."""
        known = self.metadata
        return (
            self.leadership is None
            and known is not None
            and known.leader != NO_LEADER
            and self.broker_id in known.replicas
            and fetch.leader_epoch == known.leader_epoch
            and fetch.offset == self.log.end_offset
            and fetch.last_epoch == self.log.last_epoch
        )

    def _truncate(self, end_offset: int) -> None:
        log = self.log
        before, high_watermark = log.end_offset, self.high_watermark
        log.truncate(end_offset)
        self.high_watermark = max(min(high_watermark, log.end_offset), log.start_offset)
        if log.end_offset < before:
            self._context.truncated(self, before, high_watermark)
