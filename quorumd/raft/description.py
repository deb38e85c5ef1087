"""The quorum as one replica knows it (DescribeQuorum, KIP-595)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from quorumd.ids import ZERO_UUID, ReplicaKey
from quorumd.raft.fetch_service import forget_silent_observers
from quorumd.raft.replica import Replica
from quorumd.raft.roles import Leader, Progress


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """The progress of one voter or observer."""

    key: ReplicaKey
    log_end_offset: int
    """-1 if unknown."""
    last_fetch_ms_ago: float
    """inf if it has not fetched in this epoch, or if that is unknown."""
    last_caught_up_ms_ago: float
    """Time since it last had everything up to the leader's log end offset; inf if never or if unknown."""


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The leader, epoch, high watermark and replicas. Only a leader knows observers and the progress of others."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaDescription, ...]
    """By id, including this replica if it is a voter."""
    observers: tuple[ReplicaDescription, ...]
    """By id."""


def describe(replica: Replica, now: float) -> QuorumDescription:
    """Describe the quorum, with times relative to `now` (monotonic milliseconds)."""
    state = replica.state
    own = ReplicaDescription(replica.identity, replica.log.end_offset, 0.0, 0.0)
    if not isinstance(state, Leader):
        voters = tuple(
            own
            if voter.key.id == replica.id and replica.is_voter
            else ReplicaDescription(voter.key, -1, inf, inf)
            for voter in replica.voter_set.voters
        )
        return QuorumDescription(replica.leader_id, replica.epoch, replica.committed, voters, ())
    replica.now = now
    forget_silent_observers(replica, state)
    described = [progress_description(progress, now) for progress in state.voters.values()]
    if state.in_voter_set:
        described.append(own)
    observers = [progress_description(state.observers[key], now) for key in sorted(state.observers)]
    return QuorumDescription(
        replica.id,
        replica.epoch,
        state.high_watermark,
        tuple(sorted(described, key=lambda description: description.key.id)),
        tuple(observers),
    )


def progress_description(progress: Progress, now: float) -> ReplicaDescription:
    key = progress.key
    if key.directory_id == ZERO_UUID:
        key = ReplicaKey(key.id, progress.observed_directory_id)
    last_fetch = now - progress.last_fetch if progress.has_fetched else inf
    return ReplicaDescription(key, progress.end_offset, last_fetch, now - progress.last_caught_up)
