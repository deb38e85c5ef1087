"""One replica of the model, as leader and follower."""

from collections.abc import Sequence

from quorumd.controller.partition import Partition, PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.simulator.brokers.data_log import DataLog, EpochEnd, Record
from quorumd.simulator.brokers.replica import Fetch, Outcome, Proposal, Replica

WHERE = PartitionId(KafkaUuid(bytes(15) + b"\x07"), 0)


class Around:
    """A ReplicaContext with given metadata that records its callbacks."""

    def __init__(self) -> None:
        self.least = 2
        self.epochs = {1: 10, 2: 20, 3: 30}
        self.barred: set[int] = set()
        self.accepts = True
        self.leaves_checks = False
        self.proposals: list[Proposal] = []
        self.outcomes: list[tuple[int, Outcome]] = []
        self.removed: list[Record] = []

    def min_isr(self, where: PartitionId) -> int:
        return self.least

    def epoch_of(self, broker_id: int) -> int:
        return self.epochs.get(broker_id, -1)

    def is_eligible_for_isr(self, broker_id: int) -> bool:
        return broker_id in self.epochs and broker_id not in self.barred

    def leaves_checks_to_controller(self) -> bool:
        return self.leaves_checks

    def propose(self, proposal: Proposal) -> bool:
        self.proposals.append(proposal)
        return self.accepts

    def high_watermark_moved(self, replica: Replica, before: int) -> None:
        assert replica.high_watermark > before

    def truncated(self, replica: Replica, removed: Sequence[Record]) -> None:
        self.removed += removed

    def leads(self, replica: Replica) -> None:
        assert replica.leadership is not None

    def settled(self, replica: Replica, value: int, outcome: Outcome) -> None:
        self.outcomes.append((value, outcome))


def row(
    isr: tuple[int, ...] = (1, 2), leader: int = 1, leader_epoch: int = 1, partition_epoch: int = 5
) -> Partition:
    return Partition((1, 2, 3), isr, leader, leader_epoch, partition_epoch)


def leader(isr: tuple[int, ...] = (1, 2), records: int = 0) -> tuple[Replica, Around]:
    around = Around()
    replica = Replica(WHERE, 1, around, DataLog([Record(0, -n) for n in range(records)]))
    replica.apply(row(isr), 0.0)
    return replica, around


def fetch(replica: Replica, who: int, offset: int, epoch: int | None = None, **more: int) -> ErrorCode:
    last = replica.log.records[offset - 1].epoch if 0 < offset <= replica.log.end_offset else -1
    request = Fetch(who, epoch or who * 10, more.get("leader_epoch", replica.leader_epoch), offset, last)
    return replica.serve(request, 1.0).error


def test_write_is_acknowledged_once_all_in_sync_replicas_have_it() -> None:
    replica, around = leader()
    replica.append(7, 100.0)
    assert fetch(replica, 2, 0) is ErrorCode.NONE
    assert (replica.high_watermark, around.outcomes) == (0, [])
    fetch(replica, 2, 1)
    assert (replica.high_watermark, around.outcomes) == (1, [(7, Outcome.ACKNOWLEDGED)])


def test_too_few_in_sync_refuse_a_write_without_a_trace() -> None:
    replica, around = leader(isr=(1,))
    replica.append(7, 100.0)
    assert replica.log.end_offset == 0
    assert around.outcomes == [(7, Outcome.REFUSED)]


def test_write_is_unresolved_after_a_timeout_or_a_lost_leadership() -> None:
    replica, around = leader()
    replica.append(7, 100.0)
    replica.append(8, 200.0)
    replica.time_out(100.0)
    assert around.outcomes == [(7, Outcome.UNKNOWN)]
    replica.apply(row(leader=2, leader_epoch=2, partition_epoch=6), 1.0)
    assert around.outcomes == [(7, Outcome.UNKNOWN), (8, Outcome.UNKNOWN)]
    assert replica.leadership is None


def test_r14_high_watermark_waits_for_proposed_members() -> None:
    replica, around = leader()
    fetch(replica, 3, 0)
    assert [proposal.members for proposal in around.proposals] == [(1, 2, 3)]
    assert replica.maximal_isr == (1, 2, 3)
    replica.append(7, 100.0)
    fetch(replica, 2, 1)
    assert replica.high_watermark == 0
    fetch(replica, 3, 1)
    assert replica.high_watermark == 1


def test_r15_a_proposed_member_does_not_count_for_enough() -> None:
    replica, around = leader(isr=(1,))
    fetch(replica, 3, 0)
    assert replica.maximal_isr == (1, 3)
    replica.log.append([Record(1, 7)])
    fetch(replica, 3, 1)
    assert replica.high_watermark == 0
    replica.proposal_completed(around.proposals[0], ErrorCode.NONE, Partition((), (1, 3), 1, 1, 6))
    assert replica.high_watermark == 1


def test_r6_only_a_current_refusal_takes_a_proposal_back() -> None:
    for error in (
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NEW_LEADER_ELECTED,
    ):
        replica, around = leader()
        fetch(replica, 3, 0)
        replica.proposal_completed(around.proposals[0], error, None)
        assert replica.maximal_isr == (1, 2, 3)
        replica.apply(row(isr=(1, 2, 3), partition_epoch=6), 1.0)
        assert replica.leadership is not None
        assert replica.leadership.proposal is None
    replica, around = leader()
    fetch(replica, 3, 0)
    replica.proposal_completed(around.proposals[0], ErrorCode.INELIGIBLE_REPLICA, None)
    assert replica.maximal_isr == (1, 2)


def test_r12_known_partition_state_is_ignored() -> None:
    replica, around = leader()
    fetch(replica, 3, 0)
    for late in (5, 4):
        replica.apply(row(partition_epoch=late), 1.0)
        assert replica.maximal_isr == (1, 2, 3)
    replica.proposal_completed(around.proposals[0], ErrorCode.NONE, Partition((), (1, 2, 3), 1, 1, 6))
    assert (replica.isr, replica.maximal_isr) == ((1, 2, 3), (1, 2, 3))


def test_response_of_another_epoch_is_ignored() -> None:
    replica, around = leader()
    fetch(replica, 3, 0)
    replica.proposal_completed(around.proposals[0], ErrorCode.NONE, Partition((), (1, 2, 3), 1, 2, 6))
    replica.proposal_completed(around.proposals[0], ErrorCode.NONE, Partition((), (1, 2, 3), 1, 1, 4))
    assert (replica.isr, replica.maximal_isr) == ((1, 2), (1, 2, 3))


def test_r2_proposal_names_the_incarnation_that_fetched() -> None:
    replica, around = leader()
    around.epochs[3] = 31
    assert fetch(replica, 3, 0, epoch=30) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert around.proposals == []
    around.epochs[3] = 29
    assert fetch(replica, 3, 0, epoch=30) is ErrorCode.NONE
    assert around.proposals == []
    around.epochs[3] = 30
    fetch(replica, 3, 0, epoch=30)
    assert around.proposals[0].isr == ((1, 10), (2, -1), (3, 30))


def test_r3_a_late_fetch_of_an_old_incarnation_does_not_count() -> None:
    replica, around = leader(isr=(1,), records=4)
    assert fetch(replica, 2, 0, epoch=20) is ErrorCode.NONE
    assert fetch(replica, 2, 4, epoch=19) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert around.proposals == []


def test_r9_a_fenced_follower_fetches_and_is_not_proposed() -> None:
    replica, around = leader()
    around.barred.add(3)
    assert fetch(replica, 3, 0) is ErrorCode.NONE
    assert around.proposals == []


def test_r9_a_leader_without_checks_proposes_a_fenced_follower() -> None:
    replica, around = leader()
    around.barred.add(3)
    around.leaves_checks = True
    assert fetch(replica, 3, 0) is ErrorCode.NONE
    assert [each.members for each in around.proposals] == [(1, 2, 3)]


def test_r10_delayed_fetch_does_not_count_again() -> None:
    replica, _ = leader()
    replica.append(7, 100.0)
    request = Fetch(2, 20, 1, 1, 1)
    assert replica.serve(request, 1.0, delayed=True).error is ErrorCode.NONE
    assert replica.high_watermark == 0
    replica.serve(request, 1.0)
    assert replica.high_watermark == 1


def test_r11_fetches_before_an_epoch_are_forgotten_for_replicas_out_of_sync() -> None:
    replica, around = leader(isr=(1, 2), records=4)
    around.barred.add(3)
    fetch(replica, 3, 4)
    fetch(replica, 2, 4)
    around.barred.clear()
    replica.apply(row(isr=(1, 2), leader_epoch=2, partition_epoch=7), 1.0)
    assert replica.leadership is not None
    assert replica.leadership.followers[2].end_offset == 4
    assert replica.leadership.followers[3].end_offset == -1
    assert fetch(replica, 3, 4, leader_epoch=1) is ErrorCode.FENCED_LEADER_EPOCH
    assert around.proposals == []


def test_r17_a_diverging_fetch_does_not_count() -> None:
    replica, around = leader(isr=(1,), records=2)
    result = replica.serve(Fetch(3, 30, 1, 4, 0), 1.0)
    assert (result.error, result.diverging) == (ErrorCode.NONE, EpochEnd(0, 2))
    assert replica.leadership is not None
    assert replica.leadership.followers[3].end_offset == -1
    assert around.proposals == []


def test_r20_joining_replica_has_all_records_before_the_epoch() -> None:
    replica, around = leader(isr=(1, 2), records=1)
    assert replica.high_watermark == 0
    fetch(replica, 3, 0)
    assert around.proposals == []
    fetch(replica, 3, 1)
    assert around.proposals[0].members == (1, 2, 3)


def test_r24_one_proposal_at_a_time() -> None:
    replica, around = leader(isr=(1,))
    fetch(replica, 2, 0)
    fetch(replica, 3, 0)
    assert [proposal.members for proposal in around.proposals] == [(1, 2)]


def test_lagging_follower_is_waited_for_until_its_removal_is_committed() -> None:
    replica, around = leader(isr=(1, 2, 3))
    replica.append(7, 100.0)
    fetch(replica, 2, 1)
    replica.shrink(50.0, 60.0)
    assert around.proposals == []
    replica.shrink(100.0, 60.0)
    assert around.proposals[0].members == (1, 2)
    assert replica.maximal_isr == (1, 2, 3)
    assert replica.high_watermark == 0


def test_proposal_that_cannot_be_sent_is_dropped() -> None:
    replica, around = leader()
    around.accepts = False
    fetch(replica, 3, 0)
    assert replica.maximal_isr == (1, 2)


def test_fetches_of_strangers_and_other_epochs_are_refused() -> None:
    replica, _ = leader()
    assert fetch(replica, 4, 0) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert fetch(replica, 2, 0, leader_epoch=2) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert fetch(replica, 2, 1) is ErrorCode.OFFSET_OUT_OF_RANGE
    replica.apply(row(leader=2, leader_epoch=2, partition_epoch=6), 1.0)
    assert fetch(replica, 3, 0, leader_epoch=2) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def follower(*epochs: int) -> tuple[Replica, Around]:
    around = Around()
    replica = Replica(WHERE, 2, around, DataLog([Record(epoch, -n) for n, epoch in enumerate(epochs)]))
    replica.apply(row(leader_epoch=3), 0.0)
    return replica, around


def test_follower_appends_records_and_limits_the_high_watermark_to_its_log() -> None:
    serving, _ = leader()
    serving.apply(row(leader_epoch=3, partition_epoch=6), 0.0)
    serving.append(7, 100.0)
    replica, _ = follower()
    request = replica.next_fetch(20)
    result = serving.serve(request, 1.0)
    replica.fetched(request, result._replace(high_watermark=9))
    assert (replica.log.records, replica.high_watermark) == ([Record(3, 7)], 1)
    replica.fetched(request, result)
    assert replica.log.end_offset == 1


def test_follower_truncates_divergent_records() -> None:
    serving, _ = leader(records=2)
    serving.apply(row(leader_epoch=3, partition_epoch=6), 0.0)
    replica, around = follower(0, 0, 2, 2)
    request = replica.next_fetch(20)
    replica.fetched(request, serving.serve(request, 1.0))
    assert [record.epoch for record in replica.log.records] == [0, 0]
    assert [record.epoch for record in around.removed] == [2, 2]


def test_response_after_the_epoch_is_ignored() -> None:
    serving, _ = leader()
    serving.append(7, 100.0)
    replica, _ = follower()
    request = Fetch(2, 20, 1, 0, -1)
    replica.fetched(request, serving.serve(request, 1.0))
    assert replica.log.end_offset == 0


def test_uncleanly_elected_leader_reports_its_recovery() -> None:
    replica, around = leader(isr=(1,))
    replica.recovered()
    assert around.proposals[0].members == (1,)
