"""Invariants of logs (Raft paper 5.3, 5.4; the high watermark rules of KIP-595)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from quorumd.ids import KafkaUuid, ReplicaKey
from quorumd.simulator.checkers.base import HIGH_WATERMARK, LEADERSHIP, LOG, Checker, Directories, Observation
from quorumd.simulator.inspection.log_mirror import Batch, DurableLog

UNKNOWN = -1


class LogMatching(Checker):
    """Two logs that contain a batch with the same end offset and epoch are identical up to it, byte for byte.

    Checked batch by batch: same bytes and same preceding batch; the rest follows by induction. A batch that was lost
    in a crash before any other node had it is forgotten: a single voter may reuse its epoch.
    """

    invariant = "log matching"
    aspects = LOG

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Batch, Batch | None, list[int]]] = {}

    def observed(self, seen: Observation) -> None:
        if not seen.appended:
            return
        index = len(seen.log) - len(seen.appended)
        before = seen.log[index - 1] if index else None
        for batch in seen.appended:
            known, known_before, holders = self._known.setdefault(
                (batch.end_offset, batch.epoch), (batch, before, [])
            )
            if known != batch or known_before != before:
                difference = "with different bytes" if known != batch else "with different logs before it"
                raise self.violation(
                    f"nodes {_ids(holders)} and {seen.node_id} have a batch of epoch {batch.epoch} "
                    f"that ends at {batch.end_offset}, {difference}"
                )
            if before is not None and (batch.base_offset != before.end_offset or batch.epoch < before.epoch):
                raise self.violation(f"node {seen.node_id} appended {_name(batch)} after {_name(before)}")
            if seen.node_id not in holders:
                holders.append(seen.node_id)
            before = batch

    def stopped(self, node_id: int, recoverable: Sequence[Batch]) -> None:
        survivors = {(batch.end_offset, batch.epoch) for batch in recoverable}
        for key in [key for key, (_, _, holders) in self._known.items() if holders == [node_id]]:
            if key not in survivors:
                del self._known[key]


class LeaderAppendOnly(Checker):
    """A leader never removes anything from its log."""

    invariant = "a leader only appends"
    aspects = LEADERSHIP | LOG

    def __init__(self) -> None:
        self._leading: dict[tuple[int, int], int] = {}

    def observed(self, seen: Observation) -> None:
        if (
            seen.is_leader
            and seen.removed
            and self._leading.get((seen.node_id, seen.incarnation)) == seen.epoch
        ):
            raise self.violation(
                f"leader {seen.node_id} of epoch {seen.epoch} removed {_name(seen.removed[0])}"
            )
        if seen.is_leader:
            self._leading[seen.node_id, seen.incarnation] = seen.epoch


class CommittedDataIsImmutable(Checker):
    """State machine safety: all nodes commit the same batches in the same order, and none removes a committed batch.

    Keeps the committed log for the other checkers."""

    invariant = "committed data never changes"
    aspects = LEADERSHIP | LOG | HIGH_WATERMARK

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.epochs: list[int] = []
        """For each batch, the epoch of the first node that committed it."""
        self.end_offset = 0
        self._index: dict[int, int] = {}
        self._checked: dict[tuple[int, int], int] = {}

    def batch_at(self, base_offset: int) -> Batch | None:
        """Return the committed batch with this base offset, None if there is none."""
        index = self._index.get(base_offset)
        return self.batches[index] if index is not None else None

    def observed(self, seen: Observation) -> None:
        for batch in seen.removed:
            index = self._index.get(batch.base_offset)
            if index is not None and self.batches[index] == batch:
                raise self.violation(f"node {seen.node_id} removed {_name(batch)}, which is committed")
        checked = self._checked.get((seen.node_id, seen.incarnation), 0)
        if checked > len(seen.log):
            raise self.violation(f"node {seen.node_id} lost committed data")
        while checked < len(seen.log) and seen.log[checked].end_offset <= seen.high_watermark:
            self._agree(seen, seen.log[checked])
            checked += 1
        self._checked[seen.node_id, seen.incarnation] = checked

    def _agree(self, seen: Observation, batch: Batch) -> None:
        index = self._index.get(batch.base_offset)
        if index is not None:
            if self.batches[index] != batch:
                known = _name(self.batches[index])
                raise self.violation(
                    f"node {seen.node_id} committed {_name(batch)} where {known} is committed"
                )
            return
        if batch.base_offset != self.end_offset:
            raise self.violation(
                f"node {seen.node_id} committed {_name(batch)}, but committed data ends at {self.end_offset}"
            )
        self._index[batch.base_offset] = len(self.batches)
        self.batches.append(batch)
        self.epochs.append(seen.epoch)
        self.end_offset = batch.end_offset


class LeaderCompleteness(Checker):
    """Every record committed in an earlier epoch is in the log of every later leader."""

    invariant = "leader completeness"
    aspects = LEADERSHIP | LOG

    def __init__(self, committed: CommittedDataIsImmutable) -> None:
        self._committed = committed
        self._checked: dict[int, bool] = {}

    def observed(self, seen: Observation) -> None:
        if not seen.is_leader or seen.epoch in self._checked:
            return
        self._checked[seen.epoch] = True
        for index, (batch, epoch) in enumerate(
            zip(self._committed.batches, self._committed.epochs, strict=True)
        ):
            if epoch < seen.epoch and (index >= len(seen.log) or seen.log[index] != batch):
                raise self.violation(
                    f"node {seen.node_id} leads epoch {seen.epoch} without {_name(batch)}, "
                    f"which was committed in epoch {epoch}"
                )


class HighWatermarkMonotonic(Checker):
    """Within an incarnation a known high watermark never decreases and never exceeds the log end offset.

    A new leader does not know the high watermark until a record of its own epoch is committed (hole 31 of the KIP-595
    draft).
    """

    invariant = "the high watermark is monotonic"
    aspects = LOG | HIGH_WATERMARK

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], int] = {}

    def observed(self, seen: Observation) -> None:
        if seen.high_watermark == UNKNOWN:
            return
        before = self._seen.get((seen.node_id, seen.incarnation), UNKNOWN)
        if seen.high_watermark < before:
            raise self.violation(f"node {seen.node_id} went from {before} to {seen.high_watermark}")
        end_offset = seen.log[-1].end_offset if seen.log else 0
        if seen.high_watermark > end_offset:
            raise self.violation(
                f"node {seen.node_id} has high watermark {seen.high_watermark}, but its log ends at {end_offset}"
            )
        self._seen[seen.node_id, seen.incarnation] = seen.high_watermark


class CommittedDataIsOnMajority(Checker):
    """Records that a leader commits are on the disks of a majority of the voters, and survive a crash of all nodes.

    A lost disk counts with its last content, because the leader cannot know of the loss.
    """

    invariant = "committed data is durable on a majority"
    aspects = LEADERSHIP | LOG | HIGH_WATERMARK

    def __init__(self, committed: CommittedDataIsImmutable, disks: Mapping[int, DurableLog]) -> None:
        self._committed = committed
        self._disks = disks
        self._checked = 0
        self._recoverable: dict[ReplicaKey, Sequence[Batch]] = {}
        """The durable log of each replica when its last process ended."""
        self._directories = Directories()

    def stopped(self, node_id: int, recoverable: Sequence[Batch]) -> None:
        self._recoverable[self._directories.current(node_id)] = recoverable

    def moved(self, node_id: int, directory_id: KafkaUuid) -> None:
        self._directories.moved(node_id, directory_id)

    def observed(self, seen: Observation) -> None:
        batches = self._committed.batches
        if not seen.is_leader or len(batches) == self._checked:
            return
        if self._majority_holds(seen.voters, batches) or self._majority_holds(seen.previous_voters, batches):
            self._checked = len(batches)
            return
        holding = [voter.id for voter in seen.voters if self._is_held_by(voter, batches)]
        raise self.violation(
            f"leader {seen.node_id} of epoch {seen.epoch} committed up to {batches[-1].end_offset}; "
            f"of the voters {_ids([voter.id for voter in seen.voters])} only {_ids(holding)} have it on disk"
        )

    def _majority_holds(self, voters: Sequence[ReplicaKey], batches: Sequence[Batch]) -> bool:
        missing = len(voters) // 2 + 1
        for voter in voters:
            missing -= self._is_held_by(voter, batches)
            if missing == 0:
                return True
        return False

    def _is_held_by(self, voter: ReplicaKey, batches: Sequence[Batch]) -> bool:
        replica = self._directories.named(voter)
        if replica == self._directories.current(voter.id):
            return voter.id in self._disks and self._disks[voter.id].holds(batches) == len(batches)
        lost = self._recoverable.get(replica, ())
        return len(lost) >= len(batches) and lost[len(batches) - 1] == batches[-1]


class CheckpointIsDurable(Checker):
    """A node checkpoints a high watermark only up to its own durable records: recovery treats a shorter log as
    damaged."""

    invariant = "the checkpointed high watermark is durable locally"
    aspects = 0

    def __init__(self, committed: CommittedDataIsImmutable, disks: Mapping[int, DurableLog]) -> None:
        self._committed = committed
        self._disks = disks

    def checkpointed(self, node_id: int, high_watermark: int) -> None:
        batches = self._committed.batches
        count = bisect_right(batches, high_watermark, key=lambda batch: batch.end_offset)
        held = self._disks[node_id].holds(batches[:count])
        if held < count:
            raise self.violation(
                f"node {node_id} saved the high watermark {high_watermark} before its disk has {_name(batches[held])}"
            )


class OwnEpochCommitsFirst(Checker):
    """A leader counts replicas only for records of its own epoch, which commit all earlier records (Raft paper 5.4.2;
    hole 31 of the KIP-595 draft)."""

    invariant = "a leader commits its own epoch first"
    aspects = LEADERSHIP | LOG | HIGH_WATERMARK

    def __init__(self) -> None:
        self._checked: dict[tuple[int, int], int] = {}

    def observed(self, seen: Observation) -> None:
        if not seen.is_leader or seen.high_watermark in (
            UNKNOWN,
            self._checked.get((seen.node_id, seen.incarnation)),
        ):
            return
        self._checked[seen.node_id, seen.incarnation] = seen.high_watermark
        index = bisect_left(seen.log, seen.high_watermark, key=lambda batch: batch.end_offset)
        last = seen.log[index] if index < len(seen.log) else None
        if last is None or last.epoch != seen.epoch:
            what = _name(last) if last is not None else "a record that it does not have"
            raise self.violation(f"leader {seen.node_id} of epoch {seen.epoch} commits up to {what}")


class RecoveryKeepsDurable(Checker):
    """After a crash a node recovers all records that were durable before."""

    invariant = "recovery keeps durable records"
    aspects = LOG

    def __init__(self) -> None:
        self._recoverable: dict[int, Sequence[Batch]] = {}

    def stopped(self, node_id: int, recoverable: Sequence[Batch]) -> None:
        self._recoverable[node_id] = recoverable

    def observed(self, seen: Observation) -> None:
        recoverable = self._recoverable.pop(seen.node_id, ())
        for index, batch in enumerate(recoverable):
            if index < len(seen.log) and seen.log[index].epoch > batch.epoch:
                # The node has fetched nothing yet: a fetched snapshot has replaced the rest, which was not committed.
                return
            if index >= len(seen.log) or seen.log[index] != batch:
                raise self.violation(f"node {seen.node_id} restarted without {_name(batch)}")


def _name(batch: Batch) -> str:
    return f"batch {batch.base_offset}..{batch.end_offset} of epoch {batch.epoch}"


def _ids(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids)) or "none"
