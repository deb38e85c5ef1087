"""Every checker reports a history that violates its invariant, and accepts the nearest valid one."""

from collections.abc import Mapping, Sequence
from math import inf
from random import Random

import pytest

from quorumd.ids import ZERO_UUID, KafkaUuid, ReplicaKey
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage, Voter
from quorumd.protocol.messages.voters_record import Voter as VotersRecordVoter
from quorumd.protocol.messages.voters_record import VotersRecord
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from quorumd.simulator.checkers import (
    AcknowledgedWrites,
    Checker,
    CheckpointIsDurable,
    CommittedDataIsImmutable,
    CommittedDataIsOnMajority,
    EpochMonotonic,
    EpochsAreDurable,
    HighWatermarkMonotonic,
    ImagesEqual,
    InvariantViolation,
    LeaderAppendOnly,
    LeaderCompleteness,
    LeaderHasMajority,
    LogMatching,
    Observation,
    OneLeaderPerEpoch,
    OneVotePerEpoch,
    OnlyCandidatesStartEpochs,
    OwnEpochCommitsFirst,
    ReadsReturnCommitted,
    RecoveryKeepsDurable,
    SavedVote,
    SavedVoters,
    SavedVotersAreCommitted,
    VotesAreDurable,
)
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.inspection.log_mirror import Batch, DurableLog, batches_in


def batch(base_offset: int, epoch: int, *values: str) -> Batch:
    frames = [value.encode() for value in values or ("x",)]
    (found,) = batches_in(encode_batch(base_offset, epoch, 0, frames))
    return found


def seen(node_id: int, epoch: int, log: Sequence[Batch] = (), **more: object) -> Observation:
    observation = Observation(node_id, 1, epoch, log=log, appended=log)
    for name, value in more.items():
        assert hasattr(observation, name)
        setattr(observation, name, value)
    return observation


def voter_keys(*ids: int) -> tuple[ReplicaKey, ...]:
    return tuple(ReplicaKey(node_id) for node_id in ids)


def fetched(ages: Mapping[int, float]) -> dict[ReplicaKey, float]:
    """Return voters without directory ids, as a leader knows them."""
    return {ReplicaKey(node_id): age for node_id, age in ages.items()}


def breaks(checker: Checker, *observations: Observation) -> bool:
    """Whether the last observation violates the invariant; the earlier ones must not."""
    for observation in observations[:-1]:
        checker.observed(observation)
    try:
        checker.observed(observations[-1])
    except InvariantViolation as violation:
        return violation.invariant == checker.invariant
    return False


def leader(node_id: int, epoch: int, log: Sequence[Batch] = (), **more: object) -> Observation:
    return seen(node_id, epoch, log, is_leader=True, leader_id=node_id, **more)


def test_two_leaders_of_one_epoch() -> None:
    assert breaks(OneLeaderPerEpoch(), leader(1, 5), leader(2, 5))
    assert breaks(OneLeaderPerEpoch(), leader(1, 5), seen(3, 5, leader_id=2))
    assert not breaks(OneLeaderPerEpoch(), leader(1, 5), seen(3, 5, leader_id=1), leader(2, 6))


def test_two_votes_of_one_epoch_and_a_forgotten_one() -> None:
    for second in (3, -1):
        checker = OneVotePerEpoch()
        checker.saved(SavedVote(1, 5, 2))
        checker.saved(SavedVote(1, 5, 2))
        with pytest.raises(InvariantViolation, match="voted for 2"):
            checker.saved(SavedVote(1, 5, second))
    checker = OneVotePerEpoch()
    for vote in (SavedVote(1, 5, -1), SavedVote(1, 5, 2), SavedVote(2, 5, 3), SavedVote(1, 6, 3)):
        checker.saved(vote)


def elected(leader_id: int, epoch: int, granting: Sequence[int], high_watermark: int = -1) -> Observation:
    message = LeaderChangeMessage(1, leader_id, [], [Voter(voter_id) for voter_id in granting])
    data = encode_control_batch(0, epoch, 0, [encode_control(message)])
    return leader(leader_id, epoch, batches_in(data), high_watermark=high_watermark)


def test_leader_with_votes_that_were_not_durable() -> None:
    checker = VotesAreDurable()
    checker.saved(SavedVote(1, 5, 1))
    checker.saved(SavedVote(2, 5, 1))
    assert not breaks(checker, elected(1, 5, [1, 2]))
    assert breaks(checker, elected(1, 5, [1, 2, 3]))
    checker.saved(SavedVote(3, 5, 3))
    assert breaks(checker, elected(1, 5, [1, 2, 3]))


def test_leader_that_commits_before_its_own_vote_is_durable() -> None:
    assert breaks(VotesAreDurable(), elected(1, 5, [1]), elected(1, 5, [1], high_watermark=1))
    checker = VotesAreDurable()
    checker.observed(elected(1, 5, [1]))
    checker.saved(SavedVote(1, 5, 1))
    assert not breaks(checker, elected(1, 5, [1], high_watermark=1))


def test_epoch_that_decreases() -> None:
    assert breaks(EpochMonotonic(), seen(1, 5), seen(1, 4))
    assert not breaks(EpochMonotonic(), seen(1, 5), seen(2, 4), seen(1, 5))
    checker = EpochMonotonic()
    checker.saved(SavedVote(1, 5, -1))
    assert breaks(checker, seen(1, 4, incarnation=2))
    with pytest.raises(InvariantViolation, match="quorum-state"):
        checker.saved(SavedVote(1, 4, -1))
    checker = EpochMonotonic()
    checker.saved(SavedVote(1, 5, -1))
    assert not breaks(checker, seen(1, 6), seen(1, 5, incarnation=2)), (
        "an epoch that was never saved may be forgotten"
    )


def test_epoch_without_a_candidate() -> None:
    candidate, follower = seen(1, 5, role="candidate"), seen(2, 5, role="follower")
    assert not breaks(OnlyCandidatesStartEpochs(), candidate, follower)
    assert not breaks(OnlyCandidatesStartEpochs(), candidate, seen(2, 6, role="resigned")), "after it led it"
    for role in ("prospective", "unattached", "follower"):
        assert breaks(OnlyCandidatesStartEpochs(), candidate, seen(2, 6, role=role))
    resigned = seen(1, 5, role="candidate"), seen(1, 5, role="resigned"), seen(1, 6, role="unattached")
    assert not breaks(OnlyCandidatesStartEpochs(), *resigned), "it may have led in between, unseen"
    led = leader(1, 5, role="leader")
    assert not breaks(OnlyCandidatesStartEpochs(), led, seen(1, 6, role="unattached"))
    assert breaks(OnlyCandidatesStartEpochs(), led, seen(2, 6, role="unattached"))
    assert breaks(OnlyCandidatesStartEpochs(), led, seen(1, 7, role="unattached"))


def test_fetch_in_an_epoch_that_is_not_durable() -> None:
    checker = EpochsAreDurable()
    checker.saved(SavedVote(2, 5, -1))
    fetches = fetched({2: 10.0, 3: inf})
    assert not breaks(checker, leader(1, 5, last_fetches_ms_ago=fetches))
    assert breaks(checker, leader(1, 6, last_fetches_ms_ago=fetches))
    assert breaks(checker, leader(1, 5, last_fetches_ms_ago=fetched({2: 10.0, 3: 10.0})))


FIRST, SECOND = KafkaUuid(bytes([1]) * 16), KafkaUuid(bytes([2]) * 16)
"""Consecutive data directories of a node."""


@pytest.mark.parametrize(("voter", "saved", "violation"), [
    (SECOND, {FIRST: 1, SECOND: 5}, False),
    (SECOND, {FIRST: 5, SECOND: 1}, True),
    (FIRST, {FIRST: 5, SECOND: 1}, False),
    (ZERO_UUID, {FIRST: 5, SECOND: 1}, False),
    (ZERO_UUID, {FIRST: 1, SECOND: 5}, True),
])  # fmt: skip
def test_epoch_on_the_disk_that_votes_counts(
    voter: KafkaUuid, saved: dict[KafkaUuid, int], violation: bool
) -> None:
    checker = EpochsAreDurable()
    for directory_id, epoch in saved.items():
        checker.moved(2, directory_id)
        checker.saved(SavedVote(2, epoch, -1, directory_id))
    fetches = {ReplicaKey(2, voter): 10.0}
    assert breaks(checker, leader(1, 5, last_fetches_ms_ago=fetches)) is violation


def test_vote_of_a_later_disk_counts_where_that_is_the_voter() -> None:
    for voter in (FIRST, SECOND):
        checker = VotesAreDurable()
        for directory_id in (FIRST, SECOND):
            checker.moved(2, directory_id)
        checker.saved(SavedVote(1, 5, 1))
        checker.saved(SavedVote(2, 5, 1, SECOND))
        observation = elected(1, 5, [1, 2])
        observation.voters = (ReplicaKey(1), ReplicaKey(2, voter))
        assert breaks(checker, observation) is (voter == FIRST)


def test_new_disk_starts_in_any_epoch_and_may_vote_again() -> None:
    epochs, votes = EpochMonotonic(), OneVotePerEpoch()
    for checker in (epochs, votes):
        checker.moved(2, FIRST)
        checker.saved(SavedVote(2, 5, 1, FIRST))
        checker.moved(2, SECOND)
        checker.saved(SavedVote(2, 5, 3, SECOND))
    assert not breaks(epochs, seen(2, 5, incarnation=2))
    epochs.moved(2, FIRST)
    epochs.saved(SavedVote(2, 6, -1, FIRST))
    assert breaks(epochs, seen(2, 5, incarnation=3))


def lonely(now_ms: float, fetches: dict[int, float], **more: object) -> Observation:
    return leader(
        1, 5, voters=voter_keys(1, 2, 3), now_ms=now_ms, fetch_timeout_ms=100.0,
        last_fetches_ms_ago=fetched(fetches), **more,
    )  # fmt: skip


def test_leader_that_no_majority_fetches_from() -> None:
    silent = lonely(1000.0, {2: 300.0, 3: 400.0})
    assert breaks(LeaderHasMajority(), silent, lonely(1011.0, {2: 311.0, 3: 411.0}))
    assert not breaks(LeaderHasMajority(), silent, lonely(1009.0, {2: 309.0, 3: 409.0}))
    for last_fetch_ms in (5.0, inf):
        assert not breaks(LeaderHasMajority(), silent, lonely(1011.0, {2: last_fetch_ms, 3: 411.0}))
    assert not breaks(LeaderHasMajority(), silent, seen(1, 5, now_ms=1011.0, role="resigned"))


def test_leader_that_had_no_time_to_resign() -> None:
    silent, later = lonely(1000.0, {2: 300.0, 3: 400.0}), {2: 311.0, 3: 411.0}
    for awake_since_ms in (1005.0, inf):
        assert not breaks(LeaderHasMajority(), silent, lonely(1011.0, later, awake_since_ms=awake_since_ms))


def test_logs_that_do_not_match() -> None:
    first, second = batch(0, 1, "a"), batch(1, 2, "b")
    assert not breaks(LogMatching(), seen(1, 2, [first, second]), seen(2, 2, [first, second]))
    assert not breaks(LogMatching(), seen(1, 2, [first, second]), seen(2, 2, [first, batch(1, 3, "c")]))
    assert breaks(LogMatching(), seen(1, 2, [first, second]), seen(2, 2, [first, batch(1, 2, "c")]))
    assert breaks(LogMatching(), seen(1, 2, [first, second]), seen(2, 2, [batch(0, 1, "z")]))
    assert breaks(LogMatching(), seen(1, 2, [first, second]), seen(2, 2, [batch(0, 2, "a"), second]))


def test_batch_lost_before_it_was_replicated_is_forgotten() -> None:
    first, lost, other = batch(0, 1), batch(1, 2, "lost"), batch(1, 2, "other")
    alone, copied = LogMatching(), LogMatching()
    for checker in (alone, copied):
        checker.observed(seen(1, 2, [first, lost]))
    copied.observed(seen(2, 2, [first, lost]))
    for checker in (alone, copied):
        checker.stopped(1, [first])
    assert not breaks(alone, seen(1, 2, [first, other], incarnation=2))
    assert breaks(copied, seen(1, 2, [first, other], incarnation=2))


def test_log_with_a_gap_or_epochs_that_decrease() -> None:
    assert breaks(LogMatching(), seen(1, 1, [batch(0, 1), batch(2, 1)]))
    assert breaks(LogMatching(), seen(1, 1, [batch(0, 2), batch(1, 1)]))


def test_leader_that_removes_from_its_log() -> None:
    gone = [batch(1, 1)]
    assert breaks(LeaderAppendOnly(), leader(1, 2), leader(1, 2, removed=gone))
    assert not breaks(LeaderAppendOnly(), seen(1, 2), leader(1, 2, removed=gone))
    assert not breaks(LeaderAppendOnly(), leader(1, 2), seen(1, 3, removed=gone))


def test_committed_data_that_changes() -> None:
    first, second = batch(0, 1, "a"), batch(1, 1, "b")
    log = [first, second]
    committed = leader(1, 1, log, high_watermark=2)
    assert not breaks(CommittedDataIsImmutable(), committed, seen(2, 1, log, high_watermark=1))
    other = [first, batch(1, 1, "c")]
    assert not breaks(CommittedDataIsImmutable(), committed, seen(2, 1, other, high_watermark=1))
    assert breaks(CommittedDataIsImmutable(), committed, seen(2, 1, other, high_watermark=2))
    assert breaks(CommittedDataIsImmutable(), committed, seen(2, 1, [first], removed=[second]))
    assert not breaks(CommittedDataIsImmutable(), committed, seen(2, 1, [first], removed=other[1:]))
    assert breaks(CommittedDataIsImmutable(), seen(2, 1, [batch(3, 1)], high_watermark=4))


def test_committed_log_is_kept_for_the_other_checkers() -> None:
    checker = CommittedDataIsImmutable()
    log = [batch(0, 1), batch(1, 1), batch(2, 1)]
    checker.observed(leader(1, 1, log, high_watermark=2))
    assert (checker.batches, checker.end_offset) == (log[:2], 2)


def test_leader_without_committed_data() -> None:
    committed = CommittedDataIsImmutable()
    log = [batch(0, 1), batch(1, 1)]
    committed.observed(leader(1, 3, log, high_watermark=2))
    assert not breaks(LeaderCompleteness(committed), leader(2, 4, log))
    assert breaks(LeaderCompleteness(committed), leader(2, 4, log[:1]))
    assert breaks(LeaderCompleteness(committed), leader(2, 4, [log[0], batch(1, 2)]))
    late = "a leader of an earlier epoch that learns late of its election owes nothing"
    assert not breaks(LeaderCompleteness(committed), leader(2, 2, log[:1])), late


def test_high_watermark_that_falls_or_passes_the_log() -> None:
    log = [batch(0, 1), batch(1, 1)]
    assert breaks(
        HighWatermarkMonotonic(), seen(1, 1, log, high_watermark=2), seen(1, 1, log, high_watermark=1)
    )
    assert breaks(HighWatermarkMonotonic(), seen(1, 1, log, high_watermark=3))
    assert breaks(HighWatermarkMonotonic(), seen(1, 1, high_watermark=1))
    assert not breaks(
        HighWatermarkMonotonic(),
        seen(1, 1, log, high_watermark=2),
        leader(1, 2, log, high_watermark=-1),
        seen(1, 2, log, high_watermark=0, incarnation=2),
        seen(1, 1, log, high_watermark=2),
    )


def disk_with(batches: Sequence[Batch], *, synced: bool) -> DurableLog:
    disk = SimulatedDisk(EventHeap(), Random(0))
    disk.mount(Process("node", 1, 1))
    disk.make_directory("/log")
    file = disk.open("/log/00000000000000000000.log", create=True)
    disk.sync_directory("/")
    disk.sync_directory("/log")
    file.write_at(0, b"".join(one.data for one in batches))
    if synced:
        file.sync()
    return DurableLog(disk, "/log")


def test_committed_data_that_is_not_on_a_majority_of_disks() -> None:
    log = [batch(0, 1), batch(1, 1)]
    for third_is_synced in (False, True):
        disks = {
            1: disk_with(log, synced=True),
            2: disk_with(log[:1], synced=True),
            3: disk_with(log, synced=third_is_synced),
        }
        committed = CommittedDataIsImmutable()
        observation = leader(1, 1, log, high_watermark=2, voters=voter_keys(1, 2, 3))
        committed.observed(observation)
        assert breaks(CommittedDataIsOnMajority(committed, disks), observation) is not third_is_synced


@pytest.mark.parametrize(("voter", "violation"), [(FIRST, False), (SECOND, True), (ZERO_UUID, False)])
def test_lost_disk_counts_with_its_content_while_it_is_the_voter(voter: KafkaUuid, violation: bool) -> None:
    log = [batch(0, 1), batch(1, 1)]
    committed = CommittedDataIsImmutable()
    disks = {1: disk_with(log, synced=True), 2: disk_with([], synced=True), 3: disk_with([], synced=True)}
    checker = CommittedDataIsOnMajority(committed, disks)
    checker.moved(2, FIRST)
    checker.stopped(2, log)
    checker.moved(2, SECOND)
    checker.stopped(2, [])
    voters = (ReplicaKey(1), ReplicaKey(2, voter), ReplicaKey(3))
    observation = leader(1, 1, log, high_watermark=2, voters=voters)
    committed.observed(observation)
    assert breaks(checker, observation) is violation


def test_disk_of_the_current_voter_counts_with_its_content() -> None:
    log = [batch(0, 1), batch(1, 1)]
    committed = CommittedDataIsImmutable()
    disks = {1: disk_with(log, synced=True), 2: disk_with(log, synced=True), 3: disk_with([], synced=True)}
    checker = CommittedDataIsOnMajority(committed, disks)
    for directory_id in (FIRST, SECOND):
        checker.moved(2, directory_id)
        checker.stopped(2, [])
    voters = (ReplicaKey(1), ReplicaKey(2, SECOND), ReplicaKey(3))
    observation = leader(1, 1, log, high_watermark=2, voters=voters)
    committed.observed(observation)
    assert not breaks(checker, observation)


def test_durable_logs_are_followed_over_segments_truncation_and_rewriting() -> None:
    disk = SimulatedDisk(EventHeap(), Random(0))
    disk.mount(Process("node", 1, 1))
    log = [batch(0, 1, "a"), batch(1, 1, "b"), batch(2, 1, "c")]
    durable = DurableLog(disk, "/")
    assert durable.holds(log) == 0
    first = disk.open("/00000000000000000000.log", create=True)
    second = disk.open("/00000000000000000002.log", create=True)
    first.write_at(0, log[0].data + log[1].data)
    second.write_at(0, log[2].data)
    first.sync()
    assert durable.holds(log) == 0, "the names are not durable"
    disk.sync_directory("/")
    assert durable.holds(log) == 2
    second.sync()
    assert durable.holds(log) == 3
    first.truncate(len(log[0].data))
    assert durable.holds(log) == 1, "the truncation may survive a crash"
    other = batch(1, 2, "d")
    first.write_at(len(log[0].data), other.data)
    first.sync()
    disk.remove("/00000000000000000002.log")
    assert durable.holds(log) == 1
    assert durable.holds([log[0], other]) == 2


def test_recovery_that_loses_durable_batches() -> None:
    log = [batch(0, 1), batch(1, 1)]
    checker = RecoveryKeepsDurable()
    checker.stopped(1, log)
    assert breaks(checker, seen(1, 1, log[:1], incarnation=2))
    checker.stopped(1, log)
    assert breaks(checker, seen(1, 1, [log[0], batch(1, 1, "y")], incarnation=2))
    checker.stopped(1, log[:1])
    assert not breaks(checker, seen(1, 1, log, incarnation=2), seen(1, 1, [], incarnation=2))


def test_recovery_from_a_snapshot_that_replaces_uncommitted_records() -> None:
    checker = RecoveryKeepsDurable()
    checker.stopped(1, [batch(0, 1), batch(1, 1), batch(2, 1)])
    assert not breaks(checker, seen(1, 2, [batch(0, 1), batch(1, 2)], incarnation=2))
    checker.stopped(1, [batch(0, 1), batch(1, 2)])
    assert breaks(checker, seen(1, 2, [batch(0, 1), batch(1, 1)], incarnation=2))


def test_read_of_what_is_not_committed() -> None:
    committed = CommittedDataIsImmutable()
    checker = ReadsReturnCommitted(committed)
    log = [batch(0, 1, "w1-1;"), batch(1, 1, "w1-2;")]
    committed.observed(leader(1, 1, log, high_watermark=1))
    checker.read("w1-1;")
    with pytest.raises(InvariantViolation, match="w1-2;"):
        checker.read("w1-2;")


def test_checkpoint_ahead_of_the_disk() -> None:
    heap = EventHeap()
    disk = SimulatedDisk(heap, Random(1))
    disk.mount(Process("node-1", 1, 1))
    disk.make_directory("/log")
    disk.sync_directory("/")
    log = [batch(0, 1), batch(1, 1)]
    file = disk.open(f"/log/{0:020d}.log", create=True)
    file.write_at(0, log[0].data)
    file.sync()
    disk.sync_directory("/log")
    committed = CommittedDataIsImmutable()
    committed.observed(leader(1, 1, log, high_watermark=2))
    checker = CheckpointIsDurable(committed, {1: DurableLog(disk, "/log")})
    checker.checkpointed(1, 1)
    with pytest.raises(InvariantViolation, match=r"node 1 .*high watermark 2 .*batch 1"):
        checker.checkpointed(1, 2)
    file.write_at(len(log[0].data), log[1].data)
    file.sync()
    checker.checkpointed(1, 2)


def test_acknowledged_write_that_is_not_committed() -> None:
    committed = CommittedDataIsImmutable()
    checker = AcknowledgedWrites(committed)
    log = [batch(0, 1, "..w1-1;.."), batch(1, 1, "..w1-2;..")]
    committed.observed(leader(1, 1, log, high_watermark=1))
    checker.acknowledged("w1-1;")
    with pytest.raises(InvariantViolation, match="w1-2"):
        checker.acknowledged("w1-2;")
    committed.observed(leader(1, 1, log, high_watermark=2))
    checker.acknowledged("w1-2;")


def test_images_that_differ_at_the_same_offset() -> None:
    assert breaks(
        ImagesEqual(), seen(1, 1, applied_offset=5, image_hash=1), seen(2, 1, applied_offset=5, image_hash=2)
    )
    assert not breaks(
        ImagesEqual(),
        seen(1, 1, applied_offset=5, image_hash=1),
        seen(2, 1, applied_offset=6, image_hash=2),
        seen(2, 1, applied_offset=5, image_hash=None),
        seen(2, 1, applied_offset=5, image_hash=1),
    )


def test_leader_that_commits_earlier_epochs_by_count() -> None:
    old, own = batch(0, 4), batch(1, 5)
    assert not breaks(OwnEpochCommitsFirst(), leader(1, 5, [old, own], high_watermark=2))
    assert not breaks(OwnEpochCommitsFirst(), leader(1, 5, [old, own], high_watermark=-1))
    assert not breaks(OwnEpochCommitsFirst(), seen(1, 5, [old, own], high_watermark=1))
    assert breaks(OwnEpochCommitsFirst(), leader(1, 5, [old, own], high_watermark=1))
    assert breaks(OwnEpochCommitsFirst(), leader(1, 5, [old, own], high_watermark=3))


def voter_batch(base_offset: int, epoch: int, voters: Sequence[int]) -> Batch:
    message = VotersRecord(0, [VotersRecordVoter(voter) for voter in voters], "cluster")
    (found,) = batches_in(encode_control_batch(base_offset, epoch, 0, [encode_control(message)]))
    return found


def test_voters_that_are_saved_before_they_are_committed() -> None:
    committed = CommittedDataIsImmutable()
    checker = SavedVotersAreCommitted(committed)
    checker.saved_voters(SavedVoters(1, 0, ()))
    log = [batch(0, 1), voter_batch(1, 1, [1, 2, 3]), voter_batch(2, 1, [1, 2])]
    committed.observed(leader(1, 1, log, high_watermark=2))
    checker.saved_voters(SavedVoters(1, 2, (1, 2, 3)))
    checker.saved_voters(SavedVoters(2, 1, ()))
    for wrong in (SavedVoters(1, 2, (1, 2)), SavedVoters(1, 3, (1, 2)), SavedVoters(1, 1, (1, 2, 3))):
        with pytest.raises(InvariantViolation, match="persisted voters are committed"):
            checker.saved_voters(wrong)
    committed.observed(leader(1, 1, log, high_watermark=3))
    checker.saved_voters(SavedVoters(1, 3, (1, 2)))
