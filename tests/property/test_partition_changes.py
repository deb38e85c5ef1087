"""The invariants of a partition hold after every step (KIP-966 description, chapter 6)."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quorumd.controller.partition import NO_LEADER, RECOVERING, Partition
from quorumd.controller.partition_change import Election
from quorumd.errors import ErrorCode
from tests.support.controller.partition_harness import PartitionHarness

BROKERS = list(range(6))
BROKER = st.sampled_from(BROKERS)
TARGETS = st.lists(BROKER, min_size=1, max_size=4, unique=True)


class PartitionChanges(RuleBasedStateMachine):
    """Real planners, and every event in any order."""

    @initialize(replicas=TARGETS, min_isr=st.integers(1, 3), elr=st.booleans(), unclean=st.booleans())
    def begin(self, replicas: list[int], min_isr: int, elr: bool, unclean: bool) -> None:
        self.cluster = PartitionHarness(BROKERS, min_isr, elr, unclean)
        self.cluster.begin(Partition(tuple(replicas), tuple(replicas), replicas[0]))
        self.lossy: set[int] = set()
        """Brokers that restarted uncleanly and have not been in sync since."""
        self.remember()

    def remember(self) -> None:
        self.before = self.cluster.partition

    @rule(wanted=TARGETS)
    def reassign(self, wanted: list[int]) -> None:
        self.cluster.reassign(wanted)

    @rule()
    def cancel(self) -> None:
        self.cluster.reassign(None)

    @precondition(lambda self: self.cluster.partition.leader != NO_LEADER)
    @rule(members=st.sets(BROKER))
    def alter(self, members: set[int]) -> None:
        leader = self.cluster.partition.leader
        isr = [
            replica for replica in self.cluster.partition.replicas if replica == leader or replica in members
        ]
        if self.cluster.alter(isr) in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED):
            self.lossy -= set(isr)

    @rule(broker=BROKER)
    def fence(self, broker: int) -> None:
        self.cluster.fence(broker)

    @rule(broker=BROKER)
    def unfence(self, broker: int) -> None:
        self.cluster.unfence(broker)

    @rule(broker=BROKER)
    def restart_uncleanly(self, broker: int) -> None:
        self.lossy.add(broker)
        self.cluster.restart_uncleanly(broker)

    @rule(election=st.sampled_from([Election.PREFERRED, Election.ORDINARY]))
    def elect(self, election: Election) -> None:
        self.cluster.elect(election)

    @invariant()
    def replicas_are_distinct_and_hold_all_others(self) -> None:
        p = self.cluster.partition
        assert p.replicas
        for some in (p.replicas, p.isr, p.elr, p.adding, p.removing, p.original):
            assert len(set(some)) == len(some)
        assert {*p.isr, *p.elr, *p.adding, *p.removing} <= set(p.replicas)
        assert not set(p.adding) & set(p.removing)
        assert bool(p.original) == p.is_reassigning

    @invariant()
    def isr_and_elr_are_disjoint_and_the_elr_is_minimal(self) -> None:
        p, cluster = self.cluster.partition, self.cluster
        assert not set(p.isr) & set(p.elr)
        if len(p.isr) >= min(cluster.min_isr, len(p.target)) or not cluster.elr:
            assert not p.elr

    @invariant()
    def a_leader_is_in_sync_and_there(self) -> None:
        p, is_active = self.cluster.partition, self.cluster.controller.is_active
        if p.leader != NO_LEADER:
            assert p.leader in p.isr
            assert is_active(p.leader)
        elif self.cluster.elr:
            assert not any(is_active(replica) for replica in (p.isr or p.elr))
        if p.recovery == RECOVERING:
            assert len(p.isr) <= 1

    @invariant()
    def replica_without_its_log_is_not_eligible_until_in_sync(self) -> None:
        p = self.cluster.partition
        if p.recovery == RECOVERING:
            self.lossy -= set(p.isr)
        if self.cluster.elr:
            assert not self.lossy & {*p.isr, *p.elr}

    @invariant()
    def epochs_grow_as_specified(self) -> None:
        before, after = self.before, self.cluster.partition
        if after != before:
            assert after.partition_epoch == before.partition_epoch + 1
        is_new_leadership = after.leader != before.leader or set(before.replicas) - set(after.replicas)
        if is_new_leadership or (before.is_reassigning and not after.is_reassigning):
            assert after.leader_epoch == before.leader_epoch + 1
        self.remember()

    @invariant()
    def nothing_that_could_be_done_waits(self) -> None:
        """An empty change finds nothing to do: every possible step was taken with its cause."""
        before = self.cluster.partition
        self.cluster.elect(Election.ORDINARY)
        assert self.cluster.partition is before


PartitionChanges.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
TestPartitionChanges = PartitionChanges.TestCase
