"""Invariants of membership: single voter changes, voters that have caught up, no leader that is not a voter."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from quorumd.ids import KafkaUuid, ReplicaKey
from quorumd.node.wire.voter_records import voter_records
from quorumd.protocol.batch_scan import headers
from quorumd.raft.membership import count_changed_voters
from quorumd.raft.voters import VoterSet, majority
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
from quorumd.simulator.checkers.logs import CommittedDataIsImmutable
from quorumd.simulator.inspection.log_mirror import Batch, DurableLog

CATCH_UP_FETCH_TIMEOUTS = 1.5
"""Longest time that a new voter may lag behind, in fetch timeouts. A leader allows one by its own clock."""

RECENT_FETCH_TIMEOUTS = 1.1
"""Longest time since the last fetch of a voter that remains after a removal, in fetch timeouts."""


class VotersInLog(NamedTuple):
    offset: int
    epoch: int
    voters: VoterSet


class VoterRecords:
    """The voter records of a log, updated from truncated and appended batches."""

    def __init__(self) -> None:
        self.found: list[VotersInLog] = []

    def take(self, seen: Observation) -> list[VotersInLog]:
        """Apply an observation; return the voter records that it appended."""
        if seen.removed:
            kept = bisect_right(self.found, seen.removed[0].base_offset - 1, key=lambda record: record.offset)
            del self.found[kept:]
        new = [record for batch in seen.appended if batch.is_control for record in records_in(batch)]
        self.found += new
        return new


class VoterLogs:
    """The voter records of every incarnation of every node."""

    def __init__(self) -> None:
        self._logs: dict[tuple[int, int], VoterRecords] = {}

    def of(self, seen: Observation) -> VoterRecords:
        """Return the voter records of the node as of its previous observation."""
        key = (seen.node_id, seen.incarnation)
        records = self._logs.get(key)
        if records is None:
            records = self._logs[key] = VoterRecords()
        return records


def records_in(batch: Batch) -> list[VotersInLog]:
    (header,) = headers(batch.data)
    return [
        VotersInLog(record.offset, batch.epoch, record.assignment.current)
        for record in voter_records(batch.data, header)
    ]


class SingleVoterChanges(Checker):
    """Every voter record changes at most one voter, so that majorities of both sets overlap (Raft thesis 4.1). A
    leader appends a change only after a commit in its epoch and of the previous voter record (hole 7)."""

    invariant = "voters change one at a time"
    aspects = LEADERSHIP | LOG | HIGH_WATERMARK

    def __init__(self) -> None:
        self._logs = VoterLogs()

    def observed(self, seen: Observation) -> None:
        if not seen.appended and not seen.removed:
            return
        records = self._logs.of(seen)
        new = records.take(seen)
        for index in range(len(records.found) - len(new), len(records.found)):
            if index > 0:
                self._check(seen, records.found[:index], records.found[index])

    def _check(self, seen: Observation, before: Sequence[VotersInLog], record: VotersInLog) -> None:
        old, new = before[-1].voters, record.voters
        changed = count_changed_voters(old, new)
        together = len(set(old.ids) | set(new.ids))
        if changed > 1 or majority(len(old.ids)) + majority(len(new.ids)) <= together:
            raise self.violation(f"node {seen.node_id}, offset {record.offset}: from {old.ids} to {new.ids}")
        if changed == 0 or not seen.is_leader or record.epoch != seen.epoch:
            return
        if before[-1].offset >= seen.high_watermark:
            raise self.violation(
                f"leader {seen.node_id} appended voters {new.ids} at offset {record.offset} before the voters at "
                f"offset {before[-1].offset} were committed"
            )
        of_epoch = next(batch for batch in seen.log if batch.epoch == seen.epoch)
        if of_epoch.end_offset > seen.high_watermark:
            raise self.violation(
                f"leader {seen.node_id} appended voters {new.ids} before a commit in its epoch {seen.epoch}"
            )


class RemainingVotersFetch(Checker):
    """A leader removes a voter only if a majority of the remaining voters fetches: otherwise the record could be
    neither committed nor reverted, and the quorum would be lost."""

    invariant = "a removal leaves a majority of voters that fetch"
    aspects = LEADERSHIP | LOG | FETCHES

    def __init__(self) -> None:
        self._logs = VoterLogs()

    def observed(self, seen: Observation) -> None:
        if not seen.appended and not seen.removed:
            return
        records = self._logs.of(seen)
        new = records.take(seen)
        if not seen.is_leader or not new or len(records.found) == len(new):
            return
        before, record = records.found[-len(new) - 1], new[-1]
        if record.epoch == seen.epoch and set(record.voters.ids) < set(before.voters.ids):
            self._check(seen, record)

    def _check(self, seen: Observation, record: VotersInLog) -> None:
        ages = {voter.id: age for voter, age in (seen.last_fetches_ms_ago or {}).items()}
        limit_ms = RECENT_FETCH_TIMEOUTS * seen.fetch_timeout_ms
        recent = [voter for voter in record.voters.ids if ages.get(voter, 0.0) <= limit_ms]
        if not record.voters.is_majority(recent):
            raise self.violation(
                f"leader {seen.node_id} left the voters {record.voters.ids} at offset {record.offset}, of which only "
                f"{recent} have fetched within {limit_ms:.0f} ms"
            )


class RolesOfRemovedVoters(Checker):
    """A node in whose log its own removal is committed does not have `roles`."""

    aspects = LEADERSHIP | LOG | HIGH_WATERMARK
    roles: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._logs = VoterLogs()

    def observed(self, seen: Observation) -> None:
        records = self._logs.of(seen)
        if seen.appended or seen.removed:
            records.take(seen)
        if seen.role not in self.roles or not records.found:
            return
        newest = records.found[-1]
        if newest.offset < seen.high_watermark and newest.voters.by_id(seen.node_id) is None:
            raise self.violation(
                f"node {seen.node_id} is {seen.role} in epoch {seen.epoch}, but the committed voters in its log are "
                f"{newest.voters.ids}"
            )


class RemovedLeadersResign(RolesOfRemovedVoters):
    """A leader resigns once its removal is committed (Raft thesis 4.2.2)."""

    invariant = "a removed leader resigns"
    roles: tuple[str, ...] = ("leader",)


class RemovedVotersDoNotCampaign(RolesOfRemovedVoters):
    """A node that knows that its removal is committed never campaigns, not even for pre-votes (Raft thesis 4.2.3)."""

    invariant = "a removed voter does not campaign"
    roles: tuple[str, ...] = ("prospective", "candidate")


class AcknowledgedVoterChangesAreCommitted(Checker):
    """AddRaftVoter and RemoveRaftVoter are acknowledged once voters with and without that replica are committed: an
    operator may switch off the machine of a removed voter at once (KIP-853)."""

    invariant = "an acknowledged voter change is committed"
    aspects = 0

    def __init__(self, committed: CommittedDataIsImmutable) -> None:
        self._committed = committed
        self.acknowledged_changes = 0

    def voter_change_requested(self, replica: ReplicaKey, is_added: bool) -> Callable[[], None]:
        """Record a request. The result is called when it is acknowledged, and raises InvariantViolation."""
        before = len(self._committed.batches)

        def acknowledge() -> None:
            self.acknowledged_changes += 1
            since = [
                record.voters
                for batch in self._committed.batches[before:]
                if batch.is_control
                for record in records_in(batch)
            ]
            if not any(self._is_voter(voters, replica) == is_added for voters in since):
                raise self.violation(
                    f"{'adding' if is_added else 'removing'} {replica} was acknowledged; the voters committed since "
                    f"the request are {[voters.ids for voters in since]}"
                )

        return acknowledge

    def _is_voter(self, voters: VoterSet, replica: ReplicaKey) -> bool:
        voter = voters.by_id(replica.id)
        return voter is not None and voter.key.matches(replica)


class BootstrappedOnce(Checker):
    """A quorum is bootstrapped once: a leader appends the first record of a log only while nothing is committed.

    There is one exception, without effect: a node that was a candidate then, and paused until later epochs had
    superseded its votes.
    """

    invariant = "a quorum is bootstrapped at most once"
    aspects = LEADERSHIP | LOG

    def __init__(self, committed: CommittedDataIsImmutable) -> None:
        self._committed = committed
        self._candidacies: set[tuple[int, int]] = set()
        """(node id, epoch) of the candidates before the first commit."""

    def saved(self, vote: SavedVote) -> None:
        if vote.voted_id == vote.node_id and not self._committed.batches:
            self._candidacies.add((vote.node_id, vote.epoch))

    def observed(self, seen: Observation) -> None:
        begins = any(batch.base_offset == 0 and batch.epoch == seen.epoch for batch in seen.appended)
        if (
            seen.is_leader
            and begins
            and self._committed.batches
            and seen.log[0] != self._committed.batches[0]
            and (seen.node_id, seen.epoch) not in self._candidacies
        ):
            raise self.violation(
                f"node {seen.node_id} bootstraps a quorum in epoch {seen.epoch}, although "
                f"{len(self._committed.batches)} batches of another quorum are committed"
            )


class ReplacedDisksDoNotVote(Checker):
    """A new disk does not vote before it has caught up: the voter was the disk that it replaced."""

    invariant = "a replaced disk does not vote before it has caught up"
    aspects = LOG

    def __init__(self, committed: CommittedDataIsImmutable, disks: Mapping[int, DurableLog]) -> None:
        self._committed = committed
        self._disks = disks
        self._directories = Directories()

    def moved(self, node_id: int, directory_id: KafkaUuid) -> None:
        self._directories.moved(node_id, directory_id)

    def saved(self, vote: SavedVote) -> None:
        if vote.voted_id < 0 or vote.key == self._directories.first(vote.node_id):
            return
        first = self._committed.batches[:1]
        if first and self._disks[vote.node_id].holds(first) == 0:
            raise self.violation(
                f"node {vote.node_id}, on an empty disk, voted for node {vote.voted_id} in epoch {vote.epoch}"
            )


class NewVotersHaveCaughtUp(Checker):
    """A new voter has the recently committed records on its disk (KIP-853, hole 8)."""

    invariant = "new voters have caught up"
    aspects = LEADERSHIP | LOG | HIGH_WATERMARK | FETCHES

    def __init__(self, committed: CommittedDataIsImmutable, disks: Mapping[int, DurableLog]) -> None:
        self._committed = committed
        self._disks = disks
        self._counts: list[tuple[float, int]] = []
        """The time of each commit, and the number of batches committed by then."""
        self._logs = VoterLogs()
        self._directories = Directories()

    def moved(self, node_id: int, directory_id: KafkaUuid) -> None:
        self._directories.moved(node_id, directory_id)

    def observed(self, seen: Observation) -> None:
        count = len(self._committed.batches)
        if not self._counts or self._counts[-1][1] != count:
            self._counts.append((seen.now_ms, count))
        if not seen.appended and not seen.removed:
            return
        records = self._logs.of(seen)
        before = len(records.found)
        for record in records.take(seen):
            if seen.is_leader and record.epoch == seen.epoch and before > 0:
                self._check(seen, records.found[records.found.index(record) - 1], record)

    def _check(self, seen: Observation, before: VotersInLog, record: VotersInLog) -> None:
        since = seen.now_ms - CATCH_UP_FETCH_TIMEOUTS * seen.fetch_timeout_ms
        index = bisect_right(self._counts, since, key=lambda counted: counted[0])
        needed = self._counts[index - 1][1] if index else 0
        batches = self._committed.batches[:needed]
        for voter in set(record.voters.ids) - set(before.voters.ids):
            added = record.voters.by_id(voter)
            if added is None or self._directories.named(added.key) != self._directories.current(voter):
                continue  # The leader cannot know that the disk was replaced after it had caught up.
            held = self._disks[voter].holds(batches)
            if held < needed:
                raise self.violation(
                    f"leader {seen.node_id} made node {voter} a voter, which has {held} of {needed} batches that "
                    f"were committed {CATCH_UP_FETCH_TIMEOUTS} fetch timeouts before"
                )
