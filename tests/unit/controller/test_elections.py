from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.cluster_image import UNCLEAN_ELECTION
from quorumd.controller.elections import MAX_SWEEP_RECORDS, elect_unclean_leaders, plan_elect_leaders
from quorumd.controller.partition import NO_LEADER, RECOVERING, Partition, PartitionId, partition_record
from quorumd.controller.request_context import PartContext, RequestContext
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.controller.partition_harness import TOPIC, TOPIC_ID, PartitionHarness

PREFERRED, UNCLEAN = 0, 1
LED_BY_ANOTHER = Partition((1, 2, 3), (1, 2, 3), 2, leader_epoch=5)
LED_BY_THE_FIRST = Partition((1, 2, 3), (1, 2, 3), 1)
PREFERRED_LAGS = Partition((1, 2, 3), (2, 3), 2)
LEADERLESS = Partition((1, 2, 3), (1,), NO_LEADER)


@pytest.fixture
def cluster() -> PartitionHarness:
    """Without the ELR: the last in-sync replica stays in the ISR when it is fenced."""
    return PartitionHarness([1, 2, 3], min_isr=1, elr=False)


def begin(cluster: PartitionHarness, *partitions: Partition) -> None:
    for number, partition in enumerate(partitions):
        cluster.apply(partition_record(PartitionId(TOPIC_ID, number), partition))


def elect(cluster: PartitionHarness, election: int, requested: dict[str, list[int]] | None) -> dict[str, Any]:
    """Elect; returns the errors by topic and partition, and applies the plan."""
    topics = (
        None if requested is None else [TopicPartitions(name, numbers) for name, numbers in requested.items()]
    )
    plan = plan_elect_leaders(cluster.controller, ElectLeadersRequest(election, topics), 2)
    cluster.apply(*plan.records)
    reply: Any = plan.response
    assert reply.error_code == 0
    for result in reply.replica_election_results:
        for partition in result.partition_result:
            assert (partition.error_message is None) == (partition.error_code == 0)
    return {
        result.topic: {partition.partition_id: partition.error_code for partition in result.partition_result}
        for result in reply.replica_election_results
    }


def leader_of(cluster: PartitionHarness, number: int) -> int:
    return cluster.controller.image.topics[TOPIC_ID].partitions[number].leader


def test_preferred_election_elects_eligible_preferred_leader(cluster: PartitionHarness) -> None:
    begin(cluster, LED_BY_ANOTHER, LED_BY_THE_FIRST, PREFERRED_LAGS)
    responses = elect(cluster, PREFERRED, {TOPIC: [0, 1, 2, 9], "nothing": [0]})
    assert responses == {
        TOPIC: {
            0: 0,
            1: ErrorCode.ELECTION_NOT_NEEDED,
            2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        },
        "nothing": {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    }
    assert [leader_of(cluster, number) for number in range(3)] == [1, 1, 2]
    assert cluster.partition.leader_epoch == 6


def test_election_of_all_partitions_omits_those_without_need(
    cluster: PartitionHarness,
) -> None:
    begin(cluster, LED_BY_ANOTHER, LED_BY_THE_FIRST, PREFERRED_LAGS)
    other = KafkaUuid(b"quite well......")
    cluster.apply(TopicRecord("well", other), partition_record(PartitionId(other, 0), LED_BY_THE_FIRST))
    assert elect(cluster, PREFERRED, None) == {TOPIC: {0: 0, 2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}}


def test_empty_request_elects_nothing(cluster: PartitionHarness) -> None:
    begin(cluster, LED_BY_ANOTHER)
    assert elect(cluster, PREFERRED, {}) == {}
    assert leader_of(cluster, 0) == 2


def test_unclean_election_elects_any_active_replica_of_leaderless_partition(
    cluster: PartitionHarness,
) -> None:
    begin(cluster, LEADERLESS, PREFERRED_LAGS)
    cluster._set(1, is_fenced=True)
    assert elect(cluster, UNCLEAN, {TOPIC: [0, 1]}) == {TOPIC: {0: 0, 1: ErrorCode.ELECTION_NOT_NEEDED}}
    assert (cluster.partition.leader, cluster.partition.isr, cluster.partition.recovery) == (
        2,
        (2,),
        RECOVERING,
    )


def test_unclean_election_clears_the_elr() -> None:
    """Its members have records that the elected replica may lack."""
    cluster = PartitionHarness([1, 2, 3])
    begin(cluster, Partition((1, 2, 3), (), NO_LEADER, elr=(1,)))
    cluster._set(1, is_fenced=True)
    assert elect(cluster, UNCLEAN, {TOPIC: [0]}) == {TOPIC: {0: 0}}
    assert (cluster.partition.leader, cluster.partition.elr) == (2, ())


def test_unclean_election_elects_no_inactive_replica(cluster: PartitionHarness) -> None:
    begin(cluster, LEADERLESS)
    for broker_id in (1, 2, 3):
        cluster._set(broker_id, is_fenced=True)
    assert elect(cluster, UNCLEAN, {TOPIC: [0]}) == {TOPIC: {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}}
    assert cluster.partition == LEADERLESS


def test_preferred_election_elects_only_the_preferred_leader(cluster: PartitionHarness) -> None:
    """Unlike other elections, which elect the first active in-sync replica of a leaderless partition."""
    begin(cluster, Partition((1, 2, 3), (1, 2), NO_LEADER))
    cluster._set(1, is_fenced=True)
    assert elect(cluster, PREFERRED, {TOPIC: [0]}) == {TOPIC: {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}}
    assert cluster.partition.leader == NO_LEADER


def test_partition_named_twice_is_elected_once(cluster: PartitionHarness) -> None:
    begin(cluster, LED_BY_ANOTHER)
    request = ElectLeadersRequest(PREFERRED, [TopicPartitions(TOPIC, [0, 0])])
    plan = plan_elect_leaders(cluster.controller, request, 2)
    assert len(plan.records) == 1
    reply: Any = plan.response
    codes = [partition.error_code for partition in reply.replica_election_results[0].partition_result]
    assert codes == [0, ErrorCode.ELECTION_NOT_NEEDED]


def test_part_of_a_request_for_all_omits_partitions_elected_meanwhile(cluster: PartitionHarness) -> None:
    begin(cluster, LED_BY_ANOTHER, LED_BY_THE_FIRST)
    request = ElectLeadersRequest(PREFERRED, [TopicPartitions(TOPIC, [0, 1])])
    context = RequestContext(part=PartContext(is_of_all=True))
    reply: Any = plan_elect_leaders(cluster.controller, request, 2, context).response
    assert [each.partition_id for each in reply.replica_election_results[0].partition_result] == [0]


def test_unknown_election_type_is_rejected_for_every_partition(cluster: PartitionHarness) -> None:
    begin(cluster, LED_BY_ANOTHER)
    plan = plan_elect_leaders(cluster.controller, ElectLeadersRequest(2, [TopicPartitions(TOPIC, [0])]), 2)
    reply: Any = plan.response
    assert plan.records == ()
    assert reply.error_code == ErrorCode.INVALID_REQUEST
    assert reply.replica_election_results[0].partition_result[0].error_code == ErrorCode.INVALID_REQUEST
    assert "election type 2" in reply.replica_election_results[0].partition_result[0].error_message


def test_unclean_election_sweep_respects_topic_config(cluster: PartitionHarness) -> None:
    begin(cluster, LEADERLESS, LED_BY_ANOTHER)
    cluster._set(1, is_fenced=True)
    assert elect_unclean_leaders(cluster.controller) == []
    cluster.configure(UNCLEAN_ELECTION, "true")
    (record,) = elect_unclean_leaders(cluster.controller)
    cluster.apply(record)
    assert (record.partition_id, cluster.partition.leader) == (0, 2)
    assert elect_unclean_leaders(cluster.controller) == []


def test_sweep_skips_partitions_without_active_replicas(cluster: PartitionHarness) -> None:
    begin(cluster, LEADERLESS)
    cluster.configure(UNCLEAN_ELECTION, "true")
    for broker_id in (1, 2, 3):
        cluster._set(broker_id, is_fenced=True)
    assert elect_unclean_leaders(cluster.controller) == []


def test_sweep_is_bounded_and_resumes(cluster: PartitionHarness) -> None:
    begin(cluster, *[LEADERLESS] * (MAX_SWEEP_RECORDS + 5))
    cluster._set(1, is_fenced=True)
    cluster.configure(UNCLEAN_ELECTION, "true")
    first = elect_unclean_leaders(cluster.controller)
    assert len(first) == MAX_SWEEP_RECORDS
    cluster.apply(*first)
    assert len(elect_unclean_leaders(cluster.controller)) == 5
