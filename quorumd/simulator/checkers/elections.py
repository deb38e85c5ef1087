"""Promises about epochs, votes and leaders (Raft paper 5.2; KIP-595 draft)."""

from __future__ import annotations

from math import inf

from quorumd.ids import NO_NODE, KafkaUuid, ReplicaKey
from quorumd.protocol.control_record import decode_control
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage
from quorumd.protocol.record_batch import headers, records
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
"""Fetch timeouts without fetches of a majority; a leader counts one and a half, by its own clock."""


class OneLeaderPerEpoch(Checker):
    """Election safety: at most one leader can be elected in an epoch, and all who know one know the same."""

    invariant = "at most one leader per epoch"
    aspects = LEADERSHIP

    def __init__(self) -> None:
        self._leaders: dict[int, tuple[int, int]] = {}

    @property
    def elections(self) -> int:
        """Epochs in which somebody led."""
        return len(self._leaders)

    @property
    def leaders(self) -> list[int]:
        """Of those epochs, in their order."""
        return [self._leaders[epoch][0] for epoch in sorted(self._leaders)]

    def observed(self, seen: Observation) -> None:
        leader_id = seen.node_id if seen.is_leader else seen.leader_id
        if leader_id == NO_NODE:
            return
        known, reported_by = self._leaders.setdefault(seen.epoch, (leader_id, seen.node_id))
        if known != leader_id:
            raise self.violation(
                f"in epoch {seen.epoch} node {seen.node_id} takes {leader_id} for the leader, "
                f"node {reported_by} took {known}"
            )


class OneVotePerEpoch(Checker):
    """A replica gives its vote of an epoch to one candidate and never forgets it, whatever crashes."""

    invariant = "at most one vote per epoch"
    aspects = 0

    def __init__(self) -> None:
        self._votes: dict[tuple[ReplicaKey, int], int] = {}
        """By replica and epoch."""

    def saved(self, vote: SavedVote) -> None:
        before = self._votes.get((vote.key, vote.epoch), NO_NODE)
        if before not in (NO_NODE, vote.voted_id):
            now = "forgot that" if vote.voted_id == NO_NODE else f"votes for {vote.voted_id}"
            raise self.violation(
                f"in epoch {vote.epoch} node {vote.node_id} voted for {before} and now {now}"
            )
        self._votes[vote.key, vote.epoch] = vote.voted_id


class VotesAreDurable(Checker):
    """Who a leader names as having voted for it had that vote on its disk before; the leader itself has its own
    there before anything of its epoch is committed."""

    invariant = "votes are durable before they count"
    aspects = LEADERSHIP | LOG | HIGH_WATERMARK

    def __init__(self) -> None:
        self._votes: set[tuple[ReplicaKey, int, int]] = set()
        """Who voted in which epoch for which node."""
        self._unproved: dict[int, tuple[int, int]] = {}
        """By leader: its epoch and where the first batch of it ends, while its own vote is not seen on disk."""
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
                "whose disk does not have it"
            )


class EpochMonotonic(Checker):
    """A replica's epoch never decreases, in memory within a life and on disk across all of them."""

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
    """An epoch begins with a candidate that votes for itself, or after a leader that resigned: who asks for
    pre-votes, who is asked, and who only hears of others never makes one up (Raft paper 5.2, KIP-996)."""

    invariant = "only candidates start epochs"
    aspects = LEADERSHIP
    beginners = ("candidate", "leader", "resigned")

    def __init__(self) -> None:
        self._known: set[int] = {0}
        self._led: dict[int, int] = {}
        """By node: the epoch that it led last."""

    def observed(self, seen: Observation) -> None:
        if seen.epoch not in self._known:
            self._known.add(seen.epoch)
            resigned = self._led.get(seen.node_id) == seen.epoch - 1
            if seen.role not in self.beginners and not resigned:
                raise self.violation(
                    f"node {seen.node_id} is {seen.role} in epoch {seen.epoch}, which nobody began"
                )
        if seen.role in ("leader", "resigned"):
            self._led[seen.node_id] = seen.epoch


class EpochsAreDurable(Checker):
    """Who fetches from a leader has that leader's epoch on its disk: it will not come back in an earlier
    one, whatever crashes (Raft paper 5.1, KIP-595 "Quorum State")."""

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
                    f"node {voter.id} fetches from node {seen.node_id} in epoch {seen.epoch}, and has epoch "
                    f"{saved} on its disk"
                )


class LeaderHasMajority(Checker):
    """A leader that no majority fetches from resigns, so that clients do not wait at a zombie (KIP-996, check-quorum;
    hole 14 of the KIP-595 draft).

    It does so after one and a half fetch timeouts; here it has a tenth more, and once more a tenth, in which its
    process was awake. Of a voter that is not known to have fetched in this epoch it may have heard all the same: a
    fetch that finds the logs diverged counts for this and is not told of.
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
        # What passed before it last woke it does not count as the silence of others.
        silent_ms = min(sorted(ages)[len(ages) // 2], seen.now_ms - seen.awake_since_ms)
        if silent_ms <= RESIGNATION_FETCH_TIMEOUTS * seen.fetch_timeout_ms:
            self._overdue_since.pop(seen.node_id, None)
            return
        overdue_since_ms = self._overdue_since.setdefault(seen.node_id, seen.now_ms)
        if seen.now_ms - overdue_since_ms > 0.1 * seen.fetch_timeout_ms:
            raise self.violation(
                f"node {seen.node_id} leads epoch {seen.epoch} on, {silent_ms:.0f} ms after the last fetches of a "
                "majority"
            )
