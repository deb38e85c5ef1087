"""AlterPartition: the order of its checks, and the responses to leaders."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.alter_partition import plan_alter_partition
from quorumd.controller.partition import RECOVERED, RECOVERING, Partition
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from tests.support.controller.partition_harness import TOPIC_ID, PartitionHarness

STRANGER = KafkaUuid(b"nobody's topic..")


@pytest.fixture
def cluster() -> PartitionHarness:
    cluster = PartitionHarness([1, 2, 3, 4])
    cluster.begin(Partition((1, 2, 3), (1, 2), 1, leader_epoch=5, partition_epoch=7))
    return cluster


def test_isr_change_bumps_partition_epoch(cluster: PartitionHarness) -> None:
    assert cluster.alter([1, 2, 3]) == 0
    assert (cluster.partition.isr, cluster.partition.leader_epoch, cluster.partition.partition_epoch) == (
        (1, 2, 3),
        5,
        8,
    )
    assert cluster.alter([1]) == 0
    assert (cluster.partition.isr, cluster.partition.elr) == ((1,), (2, 3))
    assert cluster.alter([1, 3]) == 0
    assert (cluster.partition.isr, cluster.partition.elr) == ((1, 3), ())


def test_unchanged_values_write_no_record(cluster: PartitionHarness) -> None:
    before = cluster.next_offset
    assert cluster.alter([2, 1]) == 0
    assert (cluster.next_offset, cluster.partition.partition_epoch) == (before, 7)


CHECKS: list[tuple[str, dict[str, Any], ErrorCode]] = [
    ("the sender's broker epoch", {"sender_epoch": 3}, ErrorCode.STALE_BROKER_EPOCH),
    ("the topic", {"topic_id": STRANGER}, ErrorCode.UNKNOWN_TOPIC_ID),
    ("a leader epoch to come", {"leader_epoch": 6}, ErrorCode.NOT_CONTROLLER),
    ("a partition epoch to come", {"partition_epoch": 8}, ErrorCode.NOT_CONTROLLER),
    ("an old leader epoch", {"leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
    ("not the leader", {"sender": 2}, ErrorCode.INVALID_REQUEST),
    ("an old partition epoch", {"partition_epoch": 6}, ErrorCode.INVALID_UPDATE_VERSION),
    ("no replica", {"isr": [1, 2, 4]}, ErrorCode.INVALID_REQUEST),
    ("an epoch of another start", {"wrong_epoch_of": 2}, ErrorCode.INELIGIBLE_REPLICA),
]


@pytest.mark.parametrize("first", range(len(CHECKS)), ids=[name for name, _, _ in CHECKS])
def test_first_failing_check_determines_error(cluster: PartitionHarness, first: int) -> None:
    """Every later check fails too; of two checks of one field only the first is kept."""
    options: dict[str, Any] = {}
    for _, option, _ in reversed(CHECKS[first:]):
        options |= option
    if options.get("partition_epoch") == 6 and first in (2, 3):
        options["partition_epoch"] = 8 if first == 3 else 6
    isr = options.pop("isr", [1, 2])
    before = cluster.partition
    assert cluster.alter(isr, **options) == CHECKS[first][2]
    assert cluster.partition is before


def test_unregistered_broker_gets_stale_broker_epoch(cluster: PartitionHarness) -> None:
    assert cluster.alter([1, 2], sender=9) == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("isr", [[], [2], [1, 1, 2], [1, 2, 9]])
def test_isr_must_contain_the_leader_and_distinct_replicas(cluster: PartitionHarness, isr: list[int]) -> None:
    assert cluster.alter(isr) == ErrorCode.INVALID_REQUEST


class CountedId(int):
    """A broker id that counts its comparisons."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedId.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_members_of_a_long_isr_are_not_compared_with_each_other(cluster: PartitionHarness) -> None:
    """Anyone may send one where there is no authorizer: 200,000 members would take minutes."""
    CountedId.compared = 0
    assert cluster.alter([CountedId(number) for number in range(1, 1001)]) == ErrorCode.INVALID_REQUEST
    assert CountedId.compared < 10 * 1000


def test_leader_cannot_start_recovery_and_recovers_alone(cluster: PartitionHarness) -> None:
    assert cluster.alter([1, 2], recovery=RECOVERING) == ErrorCode.INVALID_REQUEST
    assert cluster.alter([1], recovery=RECOVERING) == ErrorCode.INVALID_REQUEST
    assert cluster.alter([1, 2], recovery=7) == ErrorCode.INVALID_REQUEST
    cluster.begin(Partition((1, 2, 3), (1,), 1, leader_epoch=6, partition_epoch=9, recovery=RECOVERING))
    assert cluster.alter([1, 2], recovery=RECOVERING) == ErrorCode.INVALID_REQUEST
    assert cluster.alter([1], recovery=RECOVERING) == 0
    assert cluster.alter([1], recovery=RECOVERED) == 0
    assert (cluster.partition.recovery, cluster.partition.partition_epoch) == (RECOVERED, 10)


def test_isr_growth_and_recovery_are_one_change(cluster: PartitionHarness) -> None:
    cluster.begin(Partition((1, 2, 3), (1,), 1, leader_epoch=6, partition_epoch=9, recovery=RECOVERING))
    assert cluster.alter([1, 2], recovery=RECOVERED) == 0
    assert (cluster.partition.isr, cluster.partition.recovery, cluster.partition.partition_epoch) == (
        (1, 2),
        RECOVERED,
        10,
    )


@pytest.mark.parametrize(
    ("version", "error"), [(1, ErrorCode.OPERATION_NOT_ATTEMPTED), (2, ErrorCode.INELIGIBLE_REPLICA)]
)
@pytest.mark.parametrize("reason", ["fenced", "draining", "not registered"])
def test_ineligible_member_rejects_whole_isr(
    cluster: PartitionHarness, version: int, error: ErrorCode, reason: str
) -> None:
    brokers = cluster.controller.image.brokers
    if reason == "fenced":
        brokers[3] = brokers[3]._replace(is_fenced=True)
    elif reason == "draining":
        brokers[3] = brokers[3]._replace(in_controlled_shutdown=True)
    else:
        del brokers[3]
    assert cluster.alter([1, 2, 3], version=version) == error
    assert cluster.partition.isr == (1, 2)


def test_versions_without_broker_epochs_skip_their_check(cluster: PartitionHarness) -> None:
    cluster.restart_uncleanly(3)
    cluster.unfence(3)
    assert cluster.alter([1, 2, 3], wrong_epoch_of=3) == ErrorCode.INELIGIBLE_REPLICA
    assert cluster.alter([1, 2, 3], version=2) == 0


def test_unknown_topic_id_is_reported_since_topics_have_ids(cluster: PartitionHarness) -> None:
    assert cluster.alter([1, 2, 3], version=2, topic_id=STRANGER) == ErrorCode.UNKNOWN_TOPIC_ID


def test_versions_before_topic_ids_name_the_topic(cluster: PartitionHarness) -> None:
    assert cluster.alter([1, 2, 3], version=0, topic_id=STRANGER) == 0
    assert cluster.partition.isr == (1, 2, 3)


def test_partitions_of_one_request_are_independent(cluster: PartitionHarness) -> None:
    def data(number: int, isr: list[int]) -> PartitionData:
        members = [BrokerState(member, -1) for member in isr]
        requested = PartitionData(number, 5)
        requested.new_isr_with_epochs, requested.partition_epoch = members, 7
        return requested

    requested = TopicData("", TOPIC_ID, [data(9, [1]), data(0, [1, 2, 3]), data(0, [1])])
    request = AlterPartitionRequest(
        1, cluster.epoch_of(1), [requested, TopicData("", STRANGER, [data(0, [1])])]
    )
    plan = plan_alter_partition(cluster.controller, request, 3)
    reply: Any = plan.response
    assert [p.error_code for topic in reply.topics for p in topic.partitions] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        0,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert len(plan.records) == 1
    accepted = reply.topics[0].partitions[1]
    assert (accepted.leader_id, accepted.leader_epoch, accepted.isr, accepted.partition_epoch) == (
        1,
        5,
        [1, 2, 3],
        8,
    )
    assert reply.topics[0].topic_id == TOPIC_ID


def test_replaced_leader_gets_new_leader_elected(cluster: PartitionHarness) -> None:
    """The change is made, but the old leader must wait for the metadata before it acts on it."""
    assert cluster.reassign([3, 4]) == 0
    assert cluster.alter([1, 2, 3]) == 0
    assert cluster.alter([1, 2, 3, 4]) == ErrorCode.NEW_LEADER_ELECTED
    assert (cluster.partition.replicas, cluster.partition.leader, cluster.partition.leader_epoch) == (
        (3, 4),
        3,
        6,
    )


def test_older_versions_get_error_codes_they_know(cluster: PartitionHarness) -> None:
    cluster.reassign([3, 4])
    assert cluster.alter([1, 2, 3, 4], version=1) == ErrorCode.FENCED_LEADER_EPOCH
