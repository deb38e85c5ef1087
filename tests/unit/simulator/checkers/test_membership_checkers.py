"""Invariants of voters and snapshots: each checker reports a violation, and nothing for the nearest valid history."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest

from quorumd.ids import KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.log.atomic_file import read_whole
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.messages.voters_record import Voter, VotersRecord
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from quorumd.simulator.checkers import (
    AcknowledgedVoterChangesAreCommitted,
    BootstrappedOnce,
    Checker,
    CommittedDataIsImmutable,
    InvariantViolation,
    NewVotersHaveCaughtUp,
    Observation,
    RemainingVotersFetch,
    RemovedLeadersResign,
    RemovedVotersDoNotCampaign,
    SingleVoterChanges,
    SnapshotsEqualTheLog,
)
from quorumd.simulator.checkers.base import SavedVote
from quorumd.simulator.inspection.log_mirror import Batch, batches_in
from tests.support.log.small_logs import fresh_disk
from tests.support.log.snapshots import config, write_snapshot


def voters_of(*ids: int) -> VotersRecord:
    return VotersRecord(0, [Voter(node_id, KafkaUuid(bytes([node_id]) * 16), []) for node_id in ids])


def voters(offset: int, epoch: int, *ids: int) -> Batch:
    data = encode_control_batch(offset, epoch, 0, [encode_control(voters_of(*ids))])
    (found,) = batches_in(data)
    return found


def data(offset: int, epoch: int, name: str = "a", value: str = "x") -> Batch:
    (found,) = batches_in(encode_batch(offset, epoch, 0, [config(name, value)]))
    return found


def leader(log: Sequence[Batch], new: int, high_watermark: int, now_ms: float = 0.0) -> Observation:
    """Node 1 leads epoch 1; the last `new` batches of its log were appended since the last observation."""
    appended = list(log[len(log) - new :])
    return Observation(
        1,
        1,
        1,
        1,
        True,
        high_watermark,
        log=log,
        appended=appended,
        role="leader",
        now_ms=now_ms,
        fetch_timeout_ms=1000.0,
    )


def breaks(checker: Checker, *observations: Observation) -> bool:
    for observation in observations[:-1]:
        checker.observed(observation)
    try:
        checker.observed(observations[-1])
    except InvariantViolation as violation:
        return violation.invariant == checker.invariant
    return False


FIRST = voters(0, 1, 1, 2, 3)


@pytest.mark.parametrize(
    ("after", "violation"),
    [
        ((1, 2, 3, 4), False),
        ((1, 2), False),
        ((1, 2, 3), False),
        ((1, 2, 4), True),
        ((1,), True),
        ((4,), True),
    ],
)
def test_one_voter_at_a_time(after: tuple[int, ...], violation: bool) -> None:
    log = [FIRST, data(1, 1), voters(2, 1, *after)]
    assert breaks(SingleVoterChanges(), leader(log[:2], 2, 2), leader(log, 1, 2)) is violation


@pytest.mark.parametrize(("high_watermark", "violation"), [(3, False), (2, True)])
def test_no_change_before_the_last_one_is_committed(high_watermark: int, violation: bool) -> None:
    log = [FIRST, data(1, 1), voters(2, 1, 1, 2), voters(3, 1, 1, 2, 4)]
    steps = (leader(log[:2], 2, 2), leader(log[:3], 1, 2), leader(log, 1, high_watermark))
    assert breaks(SingleVoterChanges(), *steps) is violation


@pytest.mark.parametrize(("high_watermark", "violation"), [(2, False), (1, True)])
def test_no_change_before_a_commit_of_the_epoch(high_watermark: int, violation: bool) -> None:
    log = [voters(0, 0, 1, 2, 3), data(1, 1), voters(2, 1, 1, 2)]
    assert breaks(SingleVoterChanges(), leader(log[:2], 2, 1), leader(log, 1, high_watermark)) is violation


def test_voter_record_that_was_cut_off_is_not_compared_with() -> None:
    checker = SingleVoterChanges()
    cut = voters(2, 1, 1, 2)
    checker.observed(leader([FIRST, data(1, 1), cut], 3, 2))
    again = leader([FIRST, data(1, 1), voters(2, 1, 1, 2, 3, 4)], 1, 2)
    again.removed = [cut]
    assert not breaks(checker, again)


@pytest.mark.parametrize(
    ("after", "ages", "violation"),
    [
        ((1, 2), {2: 1000.0}, False),
        ((1, 2), {2: 1200.0}, True),
        ((1, 2), {2: inf}, True),
        ((2, 3), {2: 0.0, 3: 0.0}, False),
        ((2, 3), {2: 0.0, 3: 1200.0}, True),
        ((1, 2, 3), {2: 1200.0, 3: 1200.0}, False),
        ((1, 2, 3, 4), {2: 0.0, 3: 1200.0, 4: 1200.0}, False),
    ],
)
def test_remaining_voters_fetch(after: tuple[int, ...], ages: dict[int, float], violation: bool) -> None:
    log = [FIRST, data(1, 1), voters(2, 1, *after)]
    last = leader(log, 1, 2)
    last.last_fetches_ms_ago = {ReplicaKey(voter): age for voter, age in ages.items()}
    assert breaks(RemainingVotersFetch(), leader(log[:2], 2, 1), last) is violation


@pytest.mark.parametrize(("high_watermark", "violation"), [(2, False), (3, True)])
def test_removed_leader_resigns(high_watermark: int, violation: bool) -> None:
    log = [FIRST, data(1, 1), voters(2, 1, 2, 3)]
    assert breaks(RemovedLeadersResign(), leader(log, 3, high_watermark)) is violation


@pytest.mark.parametrize(
    ("role", "high_watermark", "violation"),
    [("candidate", 3, True), ("prospective", 3, True), ("follower", 3, False), ("candidate", 2, False)],
)
def test_removed_node_does_not_campaign(role: str, high_watermark: int, violation: bool) -> None:
    observation = leader([FIRST, data(1, 1), voters(2, 1, 2, 3)], 3, high_watermark)
    observation.is_leader, observation.role = False, role
    assert breaks(RemovedVotersDoNotCampaign(), observation) is violation


class Disk:
    """Holds the first batches of a log."""

    def __init__(self, count: int) -> None:
        self.count = count

    def holds(self, batches: Sequence[Batch]) -> int:
        return min(self.count, len(batches))


@pytest.mark.parametrize(
    ("held", "at_ms", "violation"),
    [(2, 5000.0, False), (1, 5000.0, True), (1, 1400.0, False), (0, 5000.0, True)],
)
def test_new_voters_have_caught_up(held: int, at_ms: float, violation: bool) -> None:
    committed = CommittedDataIsImmutable()
    checker = NewVotersHaveCaughtUp(committed, {4: Disk(held)})  # type: ignore[dict-item]  # stands in for a DurableLog
    checker.moved(4, KafkaUuid(bytes([4]) * 16))
    log = [FIRST, data(1, 1), voters(2, 1, 1, 2, 3, 4)]
    for observation in (leader(log[:2], 2, 2),):
        committed.observed(observation)
        checker.observed(observation)
    assert breaks(checker, leader(log, 1, 2, at_ms)) is violation


def test_disk_of_a_new_voter_may_be_lost_after_it_caught_up() -> None:
    committed = CommittedDataIsImmutable()
    checker = NewVotersHaveCaughtUp(committed, {4: Disk(0)})  # type: ignore[dict-item]  # stands in for a DurableLog
    checker.moved(4, KafkaUuid(bytes([4]) * 16))
    log = [FIRST, data(1, 1), voters(2, 1, 1, 2, 3, 4)]
    committed.observed(leader(log[:2], 2, 2))
    checker.observed(leader(log[:2], 2, 2))
    checker.moved(4, KafkaUuid(bytes([5]) * 16))
    assert not breaks(checker, leader(log, 1, 2, 1e6))


class TestSnapshots:
    LOG = [FIRST, data(1, 1, "a", "old"), data(2, 1, "a", "new"), data(3, 1, "b", "x")]

    def breaks(
        self, values: list[bytes], offset: int = 4, epoch: int = 1, ids: Sequence[int] = (1, 2, 3)
    ) -> bool:
        """Whether a snapshot of these values, observed once all of LOG is committed, is a violation."""
        committed = CommittedDataIsImmutable()
        committed.observed(leader(self.LOG, 4, 4))
        disk = fresh_disk(1)
        snapshot = OffsetAndEpoch(offset, epoch)
        write_snapshot(disk, "log", snapshot, values, voters_of(*ids))
        (name,) = disk.list_directory("log")
        content = read_whole(disk, f"log/{name}")
        assert content is not None
        checker = SnapshotsEqualTheLog(committed)
        try:
            checker.snapshot_seen(1, snapshot, content)
            checker.snapshot_seen(2, snapshot, content)
        except InvariantViolation as violation:
            return violation.invariant == checker.invariant
        with pytest.raises(InvariantViolation, match=checker.invariant):
            checker.snapshot_seen(3, snapshot, content[:-1] + b"?")
        return False

    def test_of_what_the_log_adds_up_to_is_sound(self) -> None:
        assert not self.breaks([config("a", "new"), config("b", "x")])
        assert not self.breaks([config("a", "new")], offset=3)

    @pytest.mark.parametrize(
        "values",
        [[config("a", "old"), config("b", "x")], [config("a", "new")], []],
        ids=["old", "less", "none"],
    )
    def test_with_other_content_is_rejected(self, values: list[bytes]) -> None:
        assert self.breaks(values)

    def test_with_other_voters_is_rejected(self) -> None:
        assert self.breaks([config("a", "new"), config("b", "x")], ids=(1, 2))

    @pytest.mark.parametrize(("offset", "epoch"), [(5, 1), (4, 2)])
    def test_that_ends_within_a_committed_batch_is_rejected(self, offset: int, epoch: int) -> None:
        assert self.breaks([config("a", "new"), config("b", "x")], offset, epoch)


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, KafkaUuid(bytes([node_id]) * 16))


@pytest.mark.parametrize(
    ("changed", "is_added", "committed", "violation"),
    [
        (4, True, (1, 2, 3, 4), False),
        (4, True, (1, 2, 3), True),
        (3, False, (1, 2), False),
        (3, False, (1, 2, 3, 4), True),
    ],
)
def test_acknowledged_voter_change_is_committed(
    changed: int, is_added: bool, committed: tuple[int, ...], violation: bool
) -> None:
    log = CommittedDataIsImmutable()
    log.batches.append(FIRST)
    checker = AcknowledgedVoterChangesAreCommitted(log)
    acknowledge = checker.voter_change_requested(key(changed), is_added)
    log.batches.append(voters(1, 1, *committed))
    if violation:
        with pytest.raises(InvariantViolation, match="acknowledged"):
            acknowledge()
    else:
        acknowledge()
    assert checker.acknowledged_changes == 1


def test_voters_committed_before_the_request_do_not_count() -> None:
    log = CommittedDataIsImmutable()
    log.batches.append(voters(0, 1, 1, 2))
    checker = AcknowledgedVoterChangesAreCommitted(log)
    with pytest.raises(InvariantViolation):
        checker.voter_change_requested(key(3), False)()


def bootstrapped_after_a_commit(voted_before: bool) -> bool:
    """Whether the checker reports node 3, which bootstraps in epoch 1 after a record of epoch 2 is committed."""
    committed = CommittedDataIsImmutable()
    checker = BootstrappedOnce(committed)
    vote = SavedVote(3, 1, 3)
    if voted_before:
        checker.saved(vote)
    log = [data(0, 2)]
    committed.observed(Observation(1, 1, 2, 1, True, 1, log=log, appended=log))
    if not voted_before:
        checker.saved(vote)
    own = [data(0, 1, "b")]
    return breaks(checker, Observation(3, 1, 1, 3, True, -1, log=own, appended=own))


def test_quorum_is_bootstrapped_once_but_for_a_candidate_that_wins_late_and_in_vain() -> None:
    assert bootstrapped_after_a_commit(voted_before=False)
    assert not bootstrapped_after_a_commit(voted_before=True)
