"""What large requests do to topics, configs and elections, and what others see of them meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from quorumd.controller.broker import Broker
from quorumd.controller.new_partitions import MAX_PARTITIONS_PER_REQUEST
from quorumd.controller.partition import Partition
from quorumd.controller.preparation import ATTEMPTS
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.node.sessions.request_splitting import MAX_PARTITIONS_PER_PART
from quorumd.protocol.messages import (
    create_partitions_request,
    delete_topics_request,
    elect_leaders_request,
    list_partition_reassignments_request,
)
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.controller.topic_harness import a_broker
from tests.support.node.api_harness import TOPIC_ID
from tests.support.node.controller_harness import ControllerHarness
from tests.support.node.recording_session import RecordingSession

LARGE = 3 * MAX_PARTITIONS_PER_PART + 1


class LargeRequestHarness(ControllerHarness):
    """Three brokers; every topic has an id of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._ids = 0
        self.controller.new_uuid = self._new_uuid
        for number in (1, 2, 3):
            self.set_broker(a_broker(number))

    def _new_uuid(self) -> KafkaUuid:
        self._ids += 1
        return KafkaUuid(self._ids.to_bytes(16, "big"))

    def set_broker(self, broker: Broker) -> None:
        self.controller.image.brokers[broker.id] = broker

    def turn(self) -> bool:
        """One turn of the loop. Whether there was one to take."""
        if not self.turns:
            return False
        self.turns.pop(0)()
        return True

    def finish(self, session: RecordingSession) -> Any:
        """The answer, with all that it takes to get one."""
        while not session.answers:
            while self.turn():
                pass
            self.commit()
            self.confirm()
            assert session.answers or self.turns, "the request gets no answer"
        assert len(session.answers) == 1
        return session.answers[0]

    def do(self, message: Any, version: int | None = None) -> Any:
        return self.finish(self.ask(message, version=version))


@pytest.fixture
def world() -> LargeRequestHarness:
    return LargeRequestHarness()


def topics(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, partitions, 2) for name in names])


def many(count: int, prefix: str = "t") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def errors(results: Sequence[Any]) -> dict[str, int]:
    return {result.name: result.error_code for result in results}


def test_a_topic_of_many_partitions_comes_in_one_batch_after_several_turns(
    world: LargeRequestHarness,
) -> None:
    session = world.ask(topics("large", partitions=LARGE))
    turns = 0
    while not world.batches:
        assert world.image.topics == {}
        assert world.image.index.partition_count == 0
        assert world.turn()
        turns += 1
    assert turns >= LARGE // MAX_PARTITIONS_PER_PART
    (batch,) = world.batches
    assert len(batch) == 1 + LARGE
    (result,) = world.finish(session).topics
    assert (result.error_code, result.num_partitions) == (0, LARGE)
    assert result.topic_id == world.image.topic_ids["large"]


def test_partitions_made_ready_are_those_of_their_records(world: LargeRequestHarness) -> None:
    """Of a new topic, and of one that grows."""
    world.do(topics("large", partitions=LARGE))
    wire = create_partitions_request
    answer = world.do(wire.CreatePartitionsRequest([wire.CreatePartitionsTopic("large", 2 * LARGE, None)]))
    assert [result.error_code for result in answer.results] == [0]
    assert [len(batch) for batch in world.batches] == [1 + LARGE, LARGE]
    reader = LargeRequestHarness().image
    for batch in world.batches:
        for record in batch:
            reader.apply(record, [])
    image = world.image
    assert sorted(image.topics[image.topic_ids["large"]].partitions) == list(range(2 * LARGE))
    assert reader.fingerprint() == image.fingerprint()
    assert reader.hash == image.hash
    assert reader.index.partition_count == image.index.partition_count == 2 * LARGE
    for broker_id in (1, 2, 3):
        assert set(reader.index.partitions_with_broker(broker_id)) == set(
            image.index.partitions_with_broker(broker_id)
        )
        assert reader.index.leader_count(broker_id) == image.index.leader_count(broker_id)


def test_what_a_large_topic_changed_is_taken_back_with_the_leadership(world: LargeRequestHarness) -> None:
    world.do(topics("small"))
    before = world.image.fingerprint(), world.image.hash, dict(world.image.index.leader_counts)
    session = world.ask(topics("large", partitions=LARGE))
    while len(world.batches) == 1:
        world.turn()
    world.lose_leadership()
    image = world.image
    assert (image.fingerprint(), image.hash, image.index.leader_counts) == before
    assert (image.index.partition_count, image.index.count_with_broker(1) <= 1) == (1, True)
    while world.turn():
        pass
    assert errors(session.answers[0].topics) == {"large": ErrorCode.NOT_CONTROLLER}


def test_a_topic_that_is_removed_leaves_nothing_and_may_be_taken_back(world: LargeRequestHarness) -> None:
    world.do(topics("large", partitions=LARGE))
    before = world.image.fingerprint(), world.image.hash
    wire = delete_topics_request
    session = world.ask(wire.DeleteTopicsRequest([wire.DeleteTopicState("large")]))
    assert world.image.topics == {}
    assert world.image.hash == LargeRequestHarness().image.hash
    assert [world.image.index.count_with_broker(number) for number in (1, 2, 3)] == [0, 0, 0]
    assert world.image.index.partition_count == 0
    world.lose_leadership()
    assert session.answers
    assert (world.image.fingerprint(), world.image.hash) == before
    assert world.image.index.partition_count == LARGE


def test_brokers_that_fall_while_a_topic_is_made_ready_are_in_no_isr(world: LargeRequestHarness) -> None:
    session = world.ask(topics("large", partitions=LARGE))
    world.turn()
    world.turn()
    world.set_broker(a_broker(3, fenced=True))
    assert errors(world.finish(session).topics) == {"large": 0}
    partitions = world.image.topics[world.image.topic_ids["large"]].partitions
    assert len(partitions) == LARGE
    assert all(3 not in partition.isr for partition in partitions.values())
    assert len(world.batches) == 1


def test_a_topic_is_made_in_one_piece_where_brokers_change_all_the_time(world: LargeRequestHarness) -> None:
    session = world.ask(topics("large", partitions=LARGE))
    for number in range(2 * ATTEMPTS + 2):
        world.set_broker(a_broker(3, fenced=number % 2 == 0))
        world.turn()
    assert errors(world.finish(session).topics) == {"large": 0}
    assert [len(batch) for batch in world.batches] == [1 + LARGE]


def test_a_topic_that_another_made_meanwhile_is_there_already(world: LargeRequestHarness) -> None:
    session = world.ask(topics("large", partitions=LARGE))
    world.turn()
    world.ask(topics("large"))
    assert errors(world.finish(session).topics) == {"large": ErrorCode.TOPIC_ALREADY_EXISTS}
    assert [len(batch) for batch in world.batches] == [2]


def test_partitions_that_a_topic_got_meanwhile_are_not_made_twice(world: LargeRequestHarness) -> None:
    world.do(topics("grows"))
    wire = create_partitions_request
    session = world.ask(wire.CreatePartitionsRequest([wire.CreatePartitionsTopic("grows", LARGE, None)]))
    world.turn()
    world.ask(wire.CreatePartitionsRequest([wire.CreatePartitionsTopic("grows", 3, None)]))
    assert errors(world.finish(session).results) == {"grows": 0}
    assert [len(batch) for batch in world.batches] == [2, 2, LARGE - 3]


def test_the_limit_of_new_partitions_is_that_of_the_whole_request(world: LargeRequestHarness) -> None:
    names = many(11)
    answer = world.do(topics(*names, partitions=MAX_PARTITIONS_PER_REQUEST // 10))
    assert errors(answer.topics) == dict.fromkeys(names, int(ErrorCode.POLICY_VIOLATION))
    assert "11000 partitions" in answer.topics[0].error_message
    assert world.batches == []
    assert set(
        errors(world.do(topics(*names[:10], partitions=MAX_PARTITIONS_PER_REQUEST // 10)).topics).values()
    ) == {0}
    wire = create_partitions_request
    grown = [
        wire.CreatePartitionsTopic(name, 2 * MAX_PARTITIONS_PER_REQUEST // 10 + 1, None)
        for name in names[:10]
    ]
    assert set(errors(world.do(wire.CreatePartitionsRequest(grown)).results).values()) == {
        ErrorCode.POLICY_VIOLATION
    }


def test_topics_that_a_large_request_names_twice_are_refused_and_the_others_made(
    world: LargeRequestHarness,
) -> None:
    names = many(LARGE)
    answer = world.do(topics(*names, names[0]))
    assert errors(answer.topics) == dict.fromkeys(names, 0) | {names[0]: ErrorCode.INVALID_REQUEST}
    assert len(answer.topics) == LARGE
    wire = create_partitions_request
    wanted = [wire.CreatePartitionsTopic(name, 2, None) for name in [*names[1:], names[1]]]
    found = errors(world.do(wire.CreatePartitionsRequest(wanted)).results)
    assert found == dict.fromkeys(names[1:], 0) | {names[1]: ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("version", [5, 6])
def test_topics_are_deleted_once_however_they_are_named(world: LargeRequestHarness, version: int) -> None:
    names = many(LARGE)
    world.do(topics(*names))
    wire = delete_topics_request
    if version == 5:
        request = wire.DeleteTopicsRequest(topic_names=[*names, names[0]])
    else:
        by_id = wire.DeleteTopicState(None, world.image.topic_ids[names[0]])
        request = wire.DeleteTopicsRequest([*(wire.DeleteTopicState(name) for name in names), by_id])
    batches = len(world.batches)
    answer = world.do(request, version)
    assert len(world.batches) - batches > 1
    refused = [result.name for result in answer.responses if result.error_code == ErrorCode.INVALID_REQUEST]
    assert refused in ([names[0]], [names[0], None])
    assert sum(1 for result in answer.responses if not result.error_code) == LARGE - 1
    assert list(world.image.topic_ids) == [names[0]]


def test_a_large_answer_is_that_of_many_small_requests(world: LargeRequestHarness) -> None:
    names = many(LARGE)
    large = world.do(topics(*names))
    small = LargeRequestHarness()
    for result, name in zip(large.topics, names, strict=True):
        (alone,) = small.do(topics(name)).topics
        assert result == alone


def leaders(world: LargeRequestHarness) -> list[int]:
    partitions = world.image.topics[TOPIC_ID].partitions
    return [partitions[number].leader for number in sorted(partitions)]


def test_an_election_of_all_tells_only_those_that_needed_one(world: LargeRequestHarness) -> None:
    """Every third one needs it, of these one in two can have it."""
    led = Partition((1, 2), (1, 2), 1)
    misled, without = Partition((2, 1), (1, 2), 1), Partition((3, 1), (1,), 1)
    world.image.apply(TopicRecord("another", KafkaUuid(bytes(16))), [])
    world.begin_with(*[led, led, misled, led, led, without] * MAX_PARTITIONS_PER_PART)
    answer = world.do(elect_leaders_request.ElectLeadersRequest(0, None))
    (result,) = answer.replica_election_results
    numbers = range(6 * MAX_PARTITIONS_PER_PART)
    assert [each.partition_id for each in result.partition_result] == [n for n in numbers if n % 3 == 2]
    assert [each.error_code for each in result.partition_result] == [
        0,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ] * MAX_PARTITIONS_PER_PART
    assert leaders(world) == [1, 1, 2, 1, 1, 1] * MAX_PARTITIONS_PER_PART
    assert len(world.batches) == 2
    assert world.do(elect_leaders_request.ElectLeadersRequest(1, None)).replica_election_results == []


def test_an_unclean_election_of_all_elects_where_nobody_leads(world: LargeRequestHarness) -> None:
    led, without = Partition((1, 2), (1, 2), 1), Partition((3, 1), (3,), -1)
    world.begin_with(*[led, without] * LARGE)
    answer = world.do(elect_leaders_request.ElectLeadersRequest(1, None))
    (result,) = answer.replica_election_results
    assert [each.partition_id for each in result.partition_result] == list(range(1, 2 * LARGE, 2))
    assert leaders(world) == [1, 3] * LARGE


def test_all_reassignments_are_listed_in_order_whatever_ends_meanwhile(world: LargeRequestHarness) -> None:
    moving = Partition((1, 2, 3), (1, 2), 1, adding=(3,), removing=(2,), original=(1, 2))
    settled = Partition((1, 2), (1, 2), 1)
    world.begin_with(*[moving, settled] * LARGE)
    wire = list_partition_reassignments_request
    request = wire.ListPartitionReassignmentsRequest(topics=None)
    (topic,) = world.do(request).topics
    assert [each.partition_index for each in topic.partitions] == list(range(0, 2 * LARGE, 2))
    session = world.ask(request)
    world.image.topics[TOPIC_ID].partitions[2 * LARGE - 2] = settled
    (topic,) = world.finish(session).topics
    assert [each.partition_index for each in topic.partitions] == list(range(0, 2 * LARGE - 2, 2))
    named = wire.ListPartitionReassignmentsTopics("topic", list(range(2 * LARGE)))
    (topic,) = world.do(wire.ListPartitionReassignmentsRequest(topics=[named])).topics
    assert [each.partition_index for each in topic.partitions] == list(range(0, 2 * LARGE - 2, 2))


def test_a_leader_that_is_replaced_before_the_first_part_passes_a_large_read_on_whole(
    world: LargeRequestHarness,
) -> None:
    moving = Partition((1, 2, 3), (1, 2), 1, adding=(3,), removing=(2,), original=(1, 2))
    world.begin_with(*[moving] * LARGE)
    request = list_partition_reassignments_request.ListPartitionReassignmentsRequest(topics=None)
    session = world.ask(request)
    world.turn()
    world.lose_leadership()
    while world.turn():
        pass
    assert [each.message for each in world.forwarded] == [request]
    assert session.answers == []
