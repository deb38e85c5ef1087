"""Invariants of epochs, votes and leaders (Raft paper 5.2; KIP-595 draft)."""

from __future__ import annotations

from math import inf

from quorumd.ids import NO_NODE, KafkaUuid, ReplicaKey
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.control_record import decode_control
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage
from quorumd.protocol.record_batch import records
from quorumd.simulator.checkers.base import (
    FETCHES,
    HIGH_WATERMARK,
    LEADERSHIP,
    LOG,
    Checker,
    Directories,
    Observation,
    SavedVote,
)

RESIGNATION_FETCH_TIMEOUTS = 1.6
"""Longest time without fetches from a majority, in fetch timeouts. A leader waits 1.5 by its own clock."""


class OneLeaderPerEpoch(Checker):
    """Election safety: at most one leader is elected in an epoch, and all nodes that know a leader agree."""

    invariant = "at most one leader per epoch"
    aspects = LEADERSHIP

    def __init__(self) -> None:
        self._leaders: dict[int, tuple[int, int]] = {}

    @property
    def elections(self) -> int:
        """The number of epochs that had a leader."""
        return len(self._leaders)

    @property
    def leaders(self) -> list[int]:
        """The leaders in order of their epochs."""
        return [self._leaders[epoch][0] for epoch in sorted(self._leaders)]

    def observed(self, seen: Observation) -> None:
        leader_id = seen.node_id if seen.is_leader else seen.leader_id
        if leader_id == NO_NODE:
            return
        known, reported_by = self._leaders.setdefault(seen.epoch, (leader_id, seen.node_id))
        if known != leader_id:
            raise self.violation(
                f"in epoch {seen.epoch} node {seen.node_id} reports leader {leader_id}, "
                f"node {reported_by} reported {known}"
            )


class OneVotePerEpoch(Checker):
    """A replica votes for one candidate per epoch and remembers that vote across crashes."""

    invariant = "at most one vote per epoch"
    aspects = 0

    def __init__(self) -> None:
        self._votes: dict[tuple[ReplicaKey, int], int] = {}
        """The candidate voted for, by replica and epoch."""

    def saved(self, vote: SavedVote) -> None:
        before = self._votes.get((vote.key, vote.epoch), NO_NODE)
        if before not in (NO_NODE, vote.voted_id):
            now = "has lost that vote" if vote.voted_id == NO_NODE else f"votes for {vote.voted_id}"
            raise self.violation(
                f"in epoch {vote.epoch} node {vote.node_id} voted for {before} and now {now}"
            )
        self._votes[vote.key, vote.epoch] = vote.voted_id


class VotesAreDurable(Checker):
    """The votes that a leader counts are on the disks of their voters before; its own vote is on its disk before a
    record of its epoch is committed."""

    invariant = "votes are durable before they count"
    aspects = LEADERSHIP | LOG | HIGH_WATERMARK

    def __init__(self) -> None:
        self._votes: set[tuple[ReplicaKey, int, int]] = set()
        """(replica, epoch, candidate) of every durable vote."""
        self._unproved: dict[int, tuple[int, int]] = {}
        """The epoch of each leader and the end of that epoch's first batch, until its own vote is known to be on
        disk."""
        self._directories = Directories()

    def moved(self, node_id: int, directory_id: KafkaUuid) -> None:
        self._directories.moved(node_id, directory_id)

    def saved(self, vote: SavedVote) -> None:
        self._votes.add((vote.key, vote.epoch, vote.voted_id))

    def observed(self, seen: Observation) -> None:
        if not seen.is_leader:
            return
        for batch in seen.appended:
            if batch.is_control and batch.epoch == seen.epoch:
                for header in headers(batch.data):
                    for record in records(batch.data, header):
                        message = decode_control(record.key or b"", record.value or b"")
                        if isinstance(message, LeaderChangeMessage):
                            self._check_others(seen, message)
                            self._unproved[seen.node_id] = (seen.epoch, batch.end_offset)
        epoch, end_offset = self._unproved.get(seen.node_id, (-1, -1))
        if epoch == seen.epoch and seen.high_watermark >= end_offset:
            del self._unproved[seen.node_id]
            self._check(seen, self._directories.current(seen.node_id))

    def _check_others(self, seen: Observation, message: LeaderChangeMessage) -> None:
        voters = {voter.id: voter for voter in seen.voters}
        for granting in message.granting_voters:
            if granting.voter_id != seen.node_id:
                voter = voters.get(granting.voter_id, ReplicaKey(granting.voter_id))
                self._check(seen, self._directories.named(voter))

    def _check(self, seen: Observation, voter: ReplicaKey) -> None:
        if (voter, seen.epoch, seen.node_id) not in self._votes:
            raise self.violation(
                f"node {seen.node_id} leads epoch {seen.epoch} with the vote of node {voter.id}, "
                "which is not on that node's disk"
            )


class EpochMonotonic(Checker):
    """A replica's epoch never decreases: in memory within an incarnation, on disk across incarnations."""

    invariant = "epochs never decrease"
    aspects = LEADERSHIP

    def __init__(self) -> None:
        self._in_memory: dict[tuple[int, int], int] = {}
        self._on_disk: dict[ReplicaKey, int] = {}
        self._directories = Directories()

    def moved(self, node_id: int, directory_id: KafkaUuid) -> None:
        self._directories.moved(node_id, directory_id)

    def observed(self, seen: Observation) -> None:
        saved = self._on_disk.get(self._directories.current(seen.node_id), 0)
        before = self._in_memory.get((seen.node_id, seen.incarnation), saved)
        if seen.epoch < before:
            raise self.violation(f"node {seen.node_id} went from epoch {before} to {seen.epoch}")
        self._in_memory[seen.node_id, seen.incarnation] = seen.epoch

    def saved(self, vote: SavedVote) -> None:
        before = self._on_disk.get(vote.key, 0)
        if vote.epoch < before:
            raise self.violation(
                f"the quorum-state of node {vote.node_id} went from {before} to {vote.epoch}"
            )
        self._on_disk[vote.key] = vote.epoch


class OnlyCandidatesStartEpochs(Checker):
    """An epoch begins with a candidate that votes for itself, or after a leader that resigned. Sending or receiving
    pre-vote requests never starts an epoch (Raft paper 5.2, KIP-996)."""

    invariant = "only candidates start epochs"
    aspects = LEADERSHIP
    beginners = ("candidate", "leader", "resigned")

    def __init__(self) -> None:
        self._known: set[int] = {0}
        self._led: dict[int, int] = {}
        """The last epoch led, by node."""

    def observed(self, seen: Observation) -> None:
        if seen.epoch not in self._known:
            self._known.add(seen.epoch)
            resigned = self._led.get(seen.node_id) == seen.epoch - 1
            if seen.role not in self.beginners and not resigned:
                raise self.violation(
                    f"node {seen.node_id} is {seen.role} in epoch {seen.epoch}, which no candidate started"
                )
        if seen.role in ("leader", "resigned"):
            self._led[seen.node_id] = seen.epoch


class EpochsAreDurable(Checker):
    """A replica that fetches from a leader has that leader's epoch on disk, so that it cannot restart in an earlier
    one (Raft paper 5.1, KIP-595 "Quorum State")."""

    invariant = "epochs are durable before they are sent"
    aspects = LEADERSHIP | FETCHES

    def __init__(self) -> None:
        self._on_disk: dict[ReplicaKey, int] = {}
        self._directories = Directories()

    def moved(self, node_id: int, directory_id: KafkaUuid) -> None:
        self._directories.moved(node_id, directory_id)

    def saved(self, vote: SavedVote) -> None:
        self._on_disk[vote.key] = vote.epoch

    def observed(self, seen: Observation) -> None:
        for voter, ms_ago in (seen.last_fetches_ms_ago or {}).items():
            if ms_ago == inf:
                continue
            saved = self._on_disk.get(self._directories.named(voter), 0)
            if saved < seen.epoch:
                raise self.violation(
                    f"node {voter.id} fetches from node {seen.node_id} in epoch {seen.epoch}, but has epoch "
                    f"{saved} on disk"
                )


class LeaderHasMajority(Checker):
    """A leader without fetches from a majority resigns, so that clients do not wait for a zombie (KIP-996, check
    quorum; hole 14 of the KIP-595 draft).

    A leader resigns after 1.5 fetch timeouts; the checker allows 0.1 fetch timeouts more, and another 0.1 during
    which the process must be awake. A voter without a known fetch in this epoch counts as recent, because a fetch
    that finds diverged logs is not observed, but counts for the leader.
    """

    invariant = "a leader resigns without fetches from a majority"
    aspects = LEADERSHIP | FETCHES

    def __init__(self) -> None:
        self._overdue_since: dict[int, float] = {}

    def observed(self, seen: Observation) -> None:
        if seen.last_fetches_ms_ago is None or not seen.is_leader:
            self._overdue_since.pop(seen.node_id, None)
            return
        ages = [0.0 if age == inf else age for age in seen.last_fetches_ms_ago.values()]
        if any(voter.id == seen.node_id for voter in seen.voters):
            ages.append(0.0)
        # A leader does not count its own pause as silence of the followers.
        silent_ms = min(sorted(ages)[len(ages) // 2], seen.now_ms - seen.awake_since_ms)
        if silent_ms <= RESIGNATION_FETCH_TIMEOUTS * seen.fetch_timeout_ms:
            self._overdue_since.pop(seen.node_id, None)
            return
        overdue_since_ms = self._overdue_since.setdefault(seen.node_id, seen.now_ms)
        if seen.now_ms - overdue_since_ms > 0.1 * seen.fetch_timeout_ms:
            raise self.violation(
                f"node {seen.node_id} still leads epoch {seen.epoch}, {silent_ms:.0f} ms after the last fetches from "
                "a majority"
            )
