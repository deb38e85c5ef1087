from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.cluster_image import UNCLEAN_ELECTION
from quorumd.controller.elections import MAX_SWEEP_RECORDS, elect_unclean_leaders, plan_elect_leaders
from quorumd.controller.partition import NO_LEADER, RECOVERING, Partition, PartitionId, partition_record
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.controller.partition_harness import TOPIC, TOPIC_ID, PartitionWorld

PREFERRED, UNCLEAN = 0, 1
LED_BY_ANOTHER = Partition((1, 2, 3), (1, 2, 3), 2, leader_epoch=5)
LED_BY_THE_FIRST = Partition((1, 2, 3), (1, 2, 3), 1)
PREFERRED_LAGS = Partition((1, 2, 3), (2, 3), 2)
LEADERLESS = Partition((1, 2, 3), (1,), NO_LEADER)


@pytest.fixture
def world() -> PartitionWorld:
    """Without the ELR: the last one in sync stays there when it is fenced."""
    return PartitionWorld([1, 2, 3], min_isr=1, elr=False)


def begin(world: PartitionWorld, *partitions: Partition) -> None:
    for number, partition in enumerate(partitions):
        world.apply(partition_record(PartitionId(TOPIC_ID, number), partition))


def elect(world: PartitionWorld, election: int, asked: dict[str, list[int]] | None) -> dict[str, Any]:
    """The errors by topic and partition; what is planned is applied."""
    topics = None if asked is None else [TopicPartitions(name, numbers) for name, numbers in asked.items()]
    plan = plan_elect_leaders(world.controller, ElectLeadersRequest(election, topics), 2)
    world.apply(*plan.records)
    answer: Any = plan.response
    assert answer.error_code == 0
    for result in answer.replica_election_results:
        for partition in result.partition_result:
            assert (partition.error_message is None) == (partition.error_code == 0)
    return {
        result.topic: {partition.partition_id: partition.error_code for partition in result.partition_result}
        for result in answer.replica_election_results
    }


def leader_of(world: PartitionWorld, number: int) -> int:
    return world.controller.image.topics[TOPIC_ID].partitions[number].leader


def test_preferred_election_elects_eligible_preferred_leader(world: PartitionWorld) -> None:
    begin(world, LED_BY_ANOTHER, LED_BY_THE_FIRST, PREFERRED_LAGS)
    answered = elect(world, PREFERRED, {TOPIC: [0, 1, 2, 9], "nothing": [0]})
    assert answered == {
        TOPIC: {
            0: 0,
            1: ErrorCode.ELECTION_NOT_NEEDED,
            2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        },
        "nothing": {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    }
    assert [leader_of(world, number) for number in range(3)] == [1, 1, 2]
    assert world.partition.leader_epoch == 6


def test_of_all_partitions_only_those_are_told_where_an_election_was_needed(world: PartitionWorld) -> None:
    begin(world, LED_BY_ANOTHER, LED_BY_THE_FIRST, PREFERRED_LAGS)
    other = KafkaUuid(b"quite well......")
    world.apply(TopicRecord("well", other), partition_record(PartitionId(other, 0), LED_BY_THE_FIRST))
    assert elect(world, PREFERRED, None) == {TOPIC: {0: 0, 2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}}


def test_empty_request_elects_nothing(world: PartitionWorld) -> None:
    begin(world, LED_BY_ANOTHER)
    assert elect(world, PREFERRED, {}) == {}
    assert leader_of(world, 0) == 2


def test_an_unclean_election_takes_whoever_is_there_where_nobody_leads(world: PartitionWorld) -> None:
    begin(world, LEADERLESS, PREFERRED_LAGS)
    world._set(1, is_fenced=True)
    assert elect(world, UNCLEAN, {TOPIC: [0, 1]}) == {TOPIC: {0: 0, 1: ErrorCode.ELECTION_NOT_NEEDED}}
    assert (world.partition.leader, world.partition.isr, world.partition.recovery) == (2, (2,), RECOVERING)


def test_an_unclean_election_takes_nobody_who_is_away(world: PartitionWorld) -> None:
    begin(world, LEADERLESS)
    for broker_id in (1, 2, 3):
        world._set(broker_id, is_fenced=True)
    assert elect(world, UNCLEAN, {TOPIC: [0]}) == {TOPIC: {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}}
    assert world.partition == LEADERLESS


def test_a_preferred_election_elects_the_preferred_leader_or_nobody(world: PartitionWorld) -> None:
    """Not the first one in sync that is there, which a leaderless partition would get otherwise."""
    begin(world, Partition((1, 2, 3), (1, 2), NO_LEADER))
    world._set(1, is_fenced=True)
    assert elect(world, PREFERRED, {TOPIC: [0]}) == {TOPIC: {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}}
    assert world.partition.leader == NO_LEADER


def test_a_partition_that_is_named_twice_is_elected_once(world: PartitionWorld) -> None:
    begin(world, LED_BY_ANOTHER)
    request = ElectLeadersRequest(PREFERRED, [TopicPartitions(TOPIC, [0, 0])])
    plan = plan_elect_leaders(world.controller, request, 2)
    assert len(plan.records) == 1
    answer: Any = plan.response
    codes = [partition.error_code for partition in answer.replica_election_results[0].partition_result]
    assert codes == [0, ErrorCode.ELECTION_NOT_NEEDED]


def test_an_unknown_kind_of_election_is_refused_for_all_that_is_named(world: PartitionWorld) -> None:
    begin(world, LED_BY_ANOTHER)
    plan = plan_elect_leaders(world.controller, ElectLeadersRequest(2, [TopicPartitions(TOPIC, [0])]), 2)
    answer: Any = plan.response
    assert plan.records == ()
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.INVALID_REQUEST
    assert "election type 2" in answer.replica_election_results[0].partition_result[0].error_message


def test_unclean_election_sweep_respects_topic_config(world: PartitionWorld) -> None:
    begin(world, LEADERLESS, LED_BY_ANOTHER)
    world._set(1, is_fenced=True)
    assert elect_unclean_leaders(world.controller) == []
    world.configure(UNCLEAN_ELECTION, "true")
    (record,) = elect_unclean_leaders(world.controller)
    world.apply(record)
    assert (record.partition_id, world.partition.leader) == (0, 2)
    assert elect_unclean_leaders(world.controller) == []


def test_the_sweep_leaves_partitions_whose_replicas_are_all_away(world: PartitionWorld) -> None:
    begin(world, LEADERLESS)
    world.configure(UNCLEAN_ELECTION, "true")
    for broker_id in (1, 2, 3):
        world._set(broker_id, is_fenced=True)
    assert elect_unclean_leaders(world.controller) == []


def test_a_sweep_takes_a_bounded_number_and_the_next_goes_on(world: PartitionWorld) -> None:
    begin(world, *[LEADERLESS] * (MAX_SWEEP_RECORDS + 5))
    world._set(1, is_fenced=True)
    world.configure(UNCLEAN_ELECTION, "true")
    first = elect_unclean_leaders(world.controller)
    assert len(first) == MAX_SWEEP_RECORDS
    world.apply(*first)
    assert len(elect_unclean_leaders(world.controller)) == 5
