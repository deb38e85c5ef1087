"""Invariants of a node that reports readiness: its leader has a majority, and it has the committed state and a
vote."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from quorumd.ids import NO_NODE, ReplicaKey
from quorumd.simulator.checkers.base import FETCHES, HIGH_WATERMARK, LEADERSHIP, Checker, Observation
from quorumd.simulator.checkers.elections import RESIGNATION_FETCH_TIMEOUTS

TOLERANCE = 1.2
"""Tolerance for clocks that drift and processes that wake up late."""
PROBE_INTERVAL_MS = 100.0
"""Tolerance for the interval at which leaders are observed."""


@dataclass(frozen=True, slots=True)
class ReadyClaim:
    """A running node that reports readiness. Times are milliseconds of virtual time."""

    key: ReplicaKey
    incarnation: int
    now_ms: float
    epoch: int
    leader_id: int
    contact_age_ms: float
    """Time since any byte from the leader's machine arrived; 0 for the leader itself, inf for never."""
    applied_offset: int
    high_watermark: int
    """The node's own, -1 if it knows none."""
    max_lag: int
    fetch_timeout_ms: float
    fetch_wait_ms: float


class ReadyNodesServe(Checker):
    """A ready node had contact with its leader within a fetch timeout and a long poll, and the leader had contact
    with a majority of the voters within 1.5 fetch timeouts before that. Except for the allowed lag, the node has
    applied the records that were committed by then, and the records that it knows to be committed. It is not on a new
    disk whose predecessor is still the voter."""

    invariant = "a ready node has a leader with a majority, its state and its vote"
    aspects = LEADERSHIP | HIGH_WATERMARK | FETCHES

    def __init__(self, configured_voters: tuple[int, ...]) -> None:
        self._configured = configured_voters
        self._followed: dict[tuple[int, int], float] = {}
        """The time by which a majority had last fetched, by leader and epoch."""
        self._committed_at: list[float] = [-inf]
        self._committed_to: list[int] = [0]
        self._without_vote: dict[tuple[int, int], float] = {}
        """When each incarnation of a node first reported readiness without a vote."""

    def observed(self, seen: Observation) -> None:
        if seen.is_leader and seen.high_watermark > self._committed_to[-1]:
            self._committed_at.append(seen.now_ms)
            self._committed_to.append(seen.high_watermark)
            # For leaders that are replaced before their followers are observed.
            self._followed.setdefault((seen.node_id, seen.epoch), seen.now_ms)

    def leads(self, node_id: int, epoch: int, fetches_ms_ago: Sequence[float], now_ms: float) -> None:
        """Record a leader and the time since each voter, itself included, last fetched: inf if not in this epoch."""
        # A fetch that finds diverged logs counts as contact but is not observed.
        ages = sorted(0.0 if age == inf else age for age in fetches_ms_ago)
        # A single voter keeps its majority, however long its process is paused.
        self._followed[node_id, epoch] = now_ms - ages[len(ages) // 2] if len(ages) > 1 else inf

    def claimed(self, claim: ReadyClaim, voters: tuple[ReplicaKey, ...]) -> None:
        """Check a node that reports readiness; `voters` is the newest committed set, empty before the first."""
        who = f"node {claim.key.id}, ready in epoch {claim.epoch} with leader {claim.leader_id},"
        if claim.leader_id == NO_NODE:
            raise self.violation(f"{who} has no leader")
        own_ms = TOLERANCE * (claim.fetch_timeout_ms + claim.fetch_wait_ms)
        if claim.contact_age_ms > own_ms:
            raise self.violation(f"{who} has had no contact with it for {claim.contact_age_ms:.0f} ms")
        limit_ms = own_ms + TOLERANCE * RESIGNATION_FETCH_TIMEOUTS * claim.fetch_timeout_ms
        if claim.leader_id == claim.key.id:
            limit_ms = TOLERANCE * claim.fetch_timeout_ms
        limit_ms += PROBE_INTERVAL_MS
        silent_ms = claim.now_ms - self._followed.get((claim.leader_id, claim.epoch), -inf)
        if silent_ms > limit_ms:
            raise self.violation(f"{who} which no majority has followed for {silent_ms:.0f} ms")
        committed = self._committed_to[bisect_right(self._committed_at, claim.now_ms - limit_ms) - 1]
        committed = max(committed, claim.high_watermark)
        if claim.applied_offset + claim.max_lag < committed:
            raise self.violation(f"{who} has applied {claim.applied_offset} of {committed} committed records")
        self._check_vote(claim, voters, who, limit_ms)

    def _check_vote(
        self, claim: ReadyClaim, voters: tuple[ReplicaKey, ...], who: str, limit_ms: float
    ) -> None:
        """Check the vote, with a tolerance because a voter record takes time to reach the node."""
        key, incarnation = claim.key, (claim.key.id, claim.incarnation)
        named = any(voter.id == key.id for voter in voters) or key.id in self._configured
        if not voters or not named or any(voter.matches(key) for voter in voters):
            self._without_vote.pop(incarnation, None)
        elif claim.now_ms - self._without_vote.setdefault(incarnation, claim.now_ms) > limit_ms:
            raise self.violation(f"{who} has no vote: the voters are {', '.join(map(str, voters))}")
