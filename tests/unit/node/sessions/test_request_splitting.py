"""Large controller requests are split into parts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from math import ceil
from typing import Any

import pytest

from quorumd.controller.controller import Controller, ControllerSettings
from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.node.sessions import request_splitting
from quorumd.node.sessions.request_splitting import (
    ITEMS_PER_SLICE,
    SPLIT_RULES,
    RequestPart,
    SplitRule,
)
from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.protocol.apis import ApiKey, request_class, response_class
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages import alter_partition_reassignments_request as wire
from quorumd.protocol.messages import alter_partition_reassignments_response as response_wire
from quorumd.protocol.messages import assign_replicas_to_dirs_request, assign_replicas_to_dirs_response
from quorumd.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from quorumd.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from quorumd.protocol.messages.alter_partition_request import AlterPartitionRequest, PartitionData, TopicData
from quorumd.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from quorumd.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from quorumd.protocol.wire import Message
from tests.support.call_counter import CallCounter
from tests.support.node.controller_harness import TOPIC_ID, ControllerHarness
from tests.support.node.merged import merge
from tests.support.node.recording_session import RecordingSession, request_of

BROKER = 101
COUNT = 3 * MAX_PARTITIONS_PER_PART + 1


def reassignment(*topics: tuple[str, int]) -> wire.AlterPartitionReassignmentsRequest:
    """Reassign the given number of partitions of each topic."""
    return wire.AlterPartitionReassignmentsRequest(
        topics=[
            wire.ReassignableTopic(name, [wire.ReassignablePartition(number, [1]) for number in range(count)])
            for name, count in topics
        ]
    )


def response_to(message: Any) -> response_wire.AlterPartitionReassignmentsResponse:
    topics = [
        response_wire.ReassignableTopicResponse(
            topic.name,
            [response_wire.ReassignablePartitionResponse(each.partition_index) for each in topic.partitions],
        )
        for topic in message.topics
    ]
    return response_wire.AlterPartitionReassignmentsResponse(responses=topics)


def parts_of(
    message: Any, version: int, max_partitions: int, controller: Controller | None = None
) -> list[RequestPart]:
    """The parts of a request above the limit."""
    controller = controller or ControllerHarness().controller
    parts = request_splitting.parts_of(controller, request_of(message, version), max_partitions)
    assert parts is not None
    return [part for part in parts if part is not None]


@pytest.mark.parametrize("max_partitions", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize(
    "topics", [[("a", 9)], [("a", 3), ("b", 0), ("c", 5)], [("a", 4), ("b", 4)]], ids=str
)
def test_parts_hold_every_partition_once_and_their_responses_are_merged(
    topics: list[tuple[str, int]], max_partitions: int
) -> None:
    message = reassignment(*topics)
    parts = parts_of(message, 1, max_partitions)
    for part in parts:
        found: Any = part.message
        assert sum(max(1, len(topic.partitions)) for topic in found.topics) <= max_partitions
    responses = [response_to(part.message) for part in parts]
    rule = SPLIT_RULES[ApiKey.ALTER_PARTITION_REASSIGNMENTS]
    assert merge(rule, parts, responses) == response_to(message)


@pytest.mark.parametrize("max_partitions", range(1, 12))
def test_parts_of_nested_lists_are_merged(max_partitions: int) -> None:
    wire = assign_replicas_to_dirs_request
    directories = [
        wire.DirectoryData(
            KafkaUuid(bytes([number]) * 16),
            [
                wire.TopicData(TOPIC_ID, [wire.PartitionData(index) for index in range(size)])
                for size in sizes
            ],
        )
        for number, sizes in enumerate([[5, 3], [], [1, 0, 4]])
    ]
    message = wire.AssignReplicasToDirsRequest(BROKER, 7, directories)
    parts = parts_of(message, 0, max_partitions)
    responses: list[Message] = []
    for part in parts:
        found: Any = part.message
        mirrored: Any = decode(wire.AssignReplicasToDirsRequest, 0, encode(found, 0)).directories
        responses.append(assign_replicas_to_dirs_response.AssignReplicasToDirsResponse(directories=mirrored))
        assert (
            sum(len(topic.partitions) for each in found.directories for topic in each.topics)
            <= max_partitions
        )
    whole: Any = merge(SPLIT_RULES[ApiKey.ASSIGN_REPLICAS_TO_DIRS], parts, responses)
    assert whole.directories == directories


@pytest.mark.parametrize(
    "special",
    [{"cost": max}, {"also": "b"}, {"name": max}, {"growth": max}, {"prepare": max}, {"select": max}],
    ids="".join,
)
def test_rule_is_plain_if_all_items_are_alike(special: dict[str, Any]) -> None:
    plain = SplitRule(("a",), ("a",), cost=3)
    assert plain.is_plain
    assert not plain._replace(**special).is_plain


def test_small_request_is_not_split() -> None:
    controller = ControllerHarness().controller
    request = request_of(reassignment(("a", 4)), 1)
    assert request_splitting.parts_of(controller, request, 4) is None
    assert request_splitting.parts_of(controller, request, 3) is not None


def test_top_level_error_of_a_part_is_the_response() -> None:
    parts = parts_of(reassignment(("a", 4)), 1, 2)
    refused = response_wire.AlterPartitionReassignmentsResponse(error_code=int(ErrorCode.NOT_CONTROLLER))
    rule = SPLIT_RULES[ApiKey.ALTER_PARTITION_REASSIGNMENTS]
    assert merge(rule, parts, [response_to(parts[0].message), refused]) == refused


def test_duplicate_topics_are_in_one_part() -> None:
    names = [f"t{number}" for number in range(8)]
    pending = [CreatableTopic(name, 1, 1) for name in [*names, "t0"]]
    parts = parts_of(CreateTopicsRequest(pending), 7, 4)
    found: list[Any] = [part.message for part in parts]
    assert [[topic.name for topic in each.topics] for each in found] == [
        ["t0", "t0"],
        ["t1", "t2"],
        ["t3", "t4"],
        ["t5", "t6"],
        ["t7"],
    ]


@pytest.mark.parametrize(
    ("field", "build"),
    [
        ("topics", lambda names: CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names])),
        ("topics", lambda names: DeleteTopicsRequest([DeleteTopicState(name) for name in names])),
        (
            "resources",
            lambda names: IncrementalAlterConfigsRequest([AlterConfigsResource(2, n) for n in names]),
        ),
    ],
    ids=["CreateTopics", "DeleteTopics", "IncrementalAlterConfigs"],
)
def test_requests_are_split_in_slices(field: str, build: Callable[[list[str]], Message]) -> None:
    """To split a request with 50,000 topics took 79 ms in one turn."""
    controller = ControllerHarness().controller
    longest = []
    for number in (4 * ITEMS_PER_SLICE, 16 * ITEMS_PER_SLICE):
        message = build([str(each) for each in range(number)])
        calls = CallCounter()
        with calls.counted():
            parts = request_splitting.parts_of(
                controller, request_of(message, message.MAX_VERSION), MAX_PARTITIONS_PER_PART
            )
        assert parts is not None
        whole: list[Any] = []
        pauses = 0
        while len(whole) < number:
            with calls.counted():
                part = next(parts)
            if part is None:
                pauses += 1
            else:
                whole += getattr(part.message, field)
        assert 1 <= pauses / (number / ITEMS_PER_SLICE) <= 2
        assert next(parts, None) is None
        longest.append(calls.longest)
    assert longest[1] <= 1.2 * longest[0]


@pytest.fixture
def cluster() -> ControllerHarness:
    """Broker 101 leads all of one topic's partitions."""
    cluster = ControllerHarness()
    image = cluster.controller.image
    image.apply(RegisterBrokerRecord(BROKER, broker_epoch=7, fenced=True), [])
    image.apply(UnfenceBrokerRecord(BROKER, 7), [])
    one = Partition(replicas=(BROKER, 102), isr=(BROKER, 102), leader=BROKER)
    cluster.begin_with(*[one] * COUNT)
    return cluster


def shrink() -> AlterPartitionRequest:
    partitions = [PartitionData(number, 0, [BROKER], partition_epoch=0) for number in range(COUNT)]
    return AlterPartitionRequest(BROKER, 7, [TopicData(topic_id=TOPIC_ID, partitions=partitions)])


def take_turns(cluster: ControllerHarness) -> int:
    """Run the remaining turns and count them."""
    turns = 0
    while cluster.turns:
        cluster.turns.pop(0)()
        turns += 1
    return turns


def test_large_request_changes_few_partitions_per_turn_and_gets_one_response(
    cluster: ControllerHarness,
) -> None:
    session = cluster.request(shrink(), version=2)
    assert session.held, "later requests wait"
    assert len(cluster.batches[0]) == MAX_PARTITIONS_PER_PART
    take_turns(cluster)
    assert [len(batch) for batch in cluster.batches] == [MAX_PARTITIONS_PER_PART] * 3 + [1]
    assert session.responses == []
    cluster.commit()
    take_turns(cluster)
    (response,) = session.responses
    (topic,) = response.topics
    assert [each.partition_index for each in topic.partitions] == list(range(COUNT))
    assert {(each.error_code, each.partition_epoch) for each in topic.partitions} == {(0, 1)}


def test_other_requests_are_planned_between_two_parts(cluster: ControllerHarness) -> None:
    session = cluster.request(shrink(), version=2)
    last = wire.ReassignablePartition(COUNT - 1, [BROKER])
    cluster.request(wire.AlterPartitionReassignmentsRequest(topics=[wire.ReassignableTopic("topic", [last])]))
    take_turns(cluster)
    assert [len(batch) for batch in cluster.batches] == [
        MAX_PARTITIONS_PER_PART,
        1,
        MAX_PARTITIONS_PER_PART,
        MAX_PARTITIONS_PER_PART,
    ]
    cluster.commit()
    cluster.confirm()
    take_turns(cluster)
    (topic,) = session.responses[0].topics
    assert topic.partitions[-1].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert {each.error_code for each in topic.partitions[:-1]} == {0}


def test_unregistration_is_split_if_a_part_cannot_hold_its_partitions(cluster: ControllerHarness) -> None:
    request = request_of(UnregisterBrokerRequest(BROKER), 0)
    assert request_splitting.parts_of(cluster.controller, request, COUNT) is None
    assert request_splitting.parts_of(cluster.controller, request, COUNT - 1) is not None


def test_broker_with_many_partitions_is_unregistered_in_parts(cluster: ControllerHarness) -> None:
    session = cluster.request(UnregisterBrokerRequest(BROKER))
    take_turns(cluster)
    assert [len(batch) for batch in cluster.batches] == [MAX_PARTITIONS_PER_PART] * 3 + [2]
    cluster.commit()
    take_turns(cluster)
    (response,) = session.responses
    assert response.error_code == 0
    assert BROKER not in cluster.image.brokers


def test_request_that_loses_its_leader_between_parts_is_rejected_once(cluster: ControllerHarness) -> None:
    session = cluster.request(shrink(), version=2)
    cluster.lose_leadership()
    take_turns(cluster)
    (response,) = session.responses
    assert response.error_code == ErrorCode.NOT_CONTROLLER
    assert len(cluster.batches) == 1


def test_large_request_is_forwarded_to_the_leader_unsplit(
    cluster: ControllerHarness,
) -> None:
    cluster.is_leader = False
    message = reassignment(("topic", COUNT))
    session = cluster.request(message, RecordingSession())
    take_turns(cluster)
    (forwarded,) = cluster.forwarded
    assert forwarded.message is message
    assert session.responses == []


@pytest.mark.parametrize(("max_partitions", "is_split"), [(6, False), (5, True)])
def test_request_for_configs_is_split_by_the_number_of_resources(max_partitions: int, is_split: bool) -> None:
    resources = [AlterConfigsResource(2, f"t{number}") for number in range(3)]
    request = request_of(IncrementalAlterConfigsRequest(resources), 1)
    controller = ControllerHarness().controller
    assert (request_splitting.parts_of(controller, request, max_partitions) is not None) is is_split


def test_unknown_topics_cost_little_to_delete() -> None:
    message = DeleteTopicsRequest([DeleteTopicState(f"t{number}") for number in range(5)])
    controller = ControllerHarness().controller
    assert request_splitting.parts_of(controller, request_of(message, 6), 5) is None
    assert len(parts_of(message, 6, 2)) == 3


def test_request_for_all_reassignments_has_a_part_even_if_there_are_none_any_more() -> None:
    """Between its parts the reassignments may end."""
    rule = SPLIT_RULES[ApiKey.LIST_PARTITION_REASSIGNMENTS]
    found = iter([None, {"a": [0, 1], "b": [0]}, None, {"b": [1]}])
    parts = list(request_splitting._expanded_parts(ListPartitionReassignmentsRequest(), rule, found))
    messages: list[Any] = [part.message if part is not None else None for part in parts]
    named = [each and [(topic.name, topic.partition_indexes) for topic in each.topics] for each in messages]
    assert named == [None, [("a", [0, 1]), ("b", [0])], None, [("b", [1])]]
    assert [part.continued for part in parts if part is not None] == [0, 1]
    assert all(part.context.is_of_all for part in parts if part is not None)
    (empty,) = request_splitting._expanded_parts(ListPartitionReassignmentsRequest(), rule, iter(()))
    assert empty is not None


def test_acls_are_created_in_parts(cluster: ControllerHarness) -> None:
    creations = [AclCreation(2, f"t{number}", 3, "User:alice", "*", 3, 3) for number in range(COUNT)]
    session = cluster.request(CreateAclsRequest(creations))
    assert session.held
    assert take_turns(cluster) >= 3
    cluster.confirm()
    take_turns(cluster)
    (response,) = session.responses
    assert len(response.results) == COUNT


def test_results_of_acls_are_in_the_order_of_the_request() -> None:
    """A result has no name: clients match it by its position."""
    harness = with_acls(0)
    ids = count(1)
    harness.controller.new_uuid = lambda: KafkaUuid(next(ids).to_bytes(16, "big"))
    invalid = {0, 7, MAX_PARTITIONS_PER_PART - 1, MAX_PARTITIONS_PER_PART, COUNT - 1}
    creations = [
        AclCreation(2, "" if number in invalid else f"t{number}", 3, "User:alice", "*", 3, 3)
        for number in range(COUNT)
    ]
    session = harness.request(CreateAclsRequest(creations))
    take_turns(harness)
    assert len(harness.batches) == 3
    assert max(map(len, harness.batches)) <= MAX_PARTITIONS_PER_PART
    harness.commit()
    harness.confirm()
    take_turns(harness)
    (response,) = session.responses
    refused = {position for position, result in enumerate(response.results) if result.error_code}
    assert (len(response.results), refused) == (COUNT, invalid)


EVERY_ACL = DeleteAclsFilter(1, None, 1, None, None, 1, 1)


def with_acls(count: int) -> ControllerHarness:
    """A leader with ACLs of `t0` and so on; every third denies."""
    harness = ControllerHarness()
    harness.controller.settings = ControllerSettings(has_authorizer=True)
    for number in range(count):
        id = KafkaUuid(number.to_bytes(16, "big"))
        permission = 3 if number % 3 else 2
        acl = AccessControlEntryRecord(id, 2, f"t{number}", 3, "User:alice", "*", 3, permission)
        harness.controller.image.apply(acl, [])
    return harness


def test_filters_of_acls_cost_what_they_compare() -> None:
    """Each filter is compared with all ACLs, and its result may contain all of them."""
    none = DeleteAclsFilter(3, None, 1, None, None, 1, 1)
    message = DeleteAclsRequest([none for _ in range(8)])
    harness = with_acls(0)
    assert request_splitting.parts_of(harness.controller, request_of(message, 3), 8) is None
    parts = request_splitting.parts_of(with_acls(200).controller, request_of(message, 3), 8)
    assert parts is not None
    assert len(list(parts)) == ceil((8 * 16 + 8 * 200) / (8 * 16))


def test_acls_that_one_filter_selects_are_deleted_in_parts() -> None:
    harness = with_acls(COUNT)
    session = harness.request(DeleteAclsRequest([EVERY_ACL]))
    assert session.held
    take_turns(harness)
    assert len(harness.batches) >= 4
    assert max(len(batch) for batch in harness.batches) <= MAX_PARTITIONS_PER_PART
    harness.commit()
    take_turns(harness)
    (response,) = session.responses
    (result,) = response.filter_results
    assert {acl.resource_name for acl in result.matching_acls} == {f"t{number}" for number in range(COUNT)}
    assert len(result.matching_acls) == COUNT
    assert harness.controller.image.security.acls.acls == {}


def test_part_continues_the_filter_with_which_the_previous_one_ended() -> None:
    first, second = EVERY_ACL, DeleteAclsFilter(2, "t1", 3, None, None, 1, 1)
    rule = SPLIT_RULES[ApiKey.DELETE_ACLS]
    selections = iter([[(first, [])], [(first, []), (second, [])], [], [(first, [])], [(second, [])]])
    parts = request_splitting._selected_parts(DeleteAclsRequest([first, second]), rule, selections)
    assert [part.continued for part in parts] == [0, 1, 0, 0, 0]


def test_acls_that_allow_are_deleted_before_those_that_deny() -> None:
    harness = with_acls(COUNT)
    session = harness.request(DeleteAclsRequest([EVERY_ACL]))
    take_turns(harness)
    harness.commit()
    take_turns(harness)
    (result,) = session.responses[0].filter_results
    permissions = [acl.permission_type for acl in result.matching_acls]
    assert permissions == sorted(permissions, reverse=True)
    assert len(set(permissions)) == 2


def test_filters_in_parts_have_a_result_each() -> None:
    """The second and third select what another request deletes meanwhile, and nothing."""
    harness = with_acls(COUNT)
    one = [DeleteAclsFilter(2, f"t{number}", 3, None, None, 1, 1) for number in (COUNT - 1, 0)]
    unknown = DeleteAclsFilter(0, None, 1, None, None, 1, 1)
    session = harness.request(DeleteAclsRequest([one[0], EVERY_ACL, unknown, one[1]]))
    meanwhile = harness.request(DeleteAclsRequest([one[1]]))
    take_turns(harness)
    harness.commit()
    harness.confirm()
    take_turns(harness)
    results = session.responses[0].filter_results
    assert [each.error_code for each in results] == [0, 0, ErrorCode.INVALID_REQUEST, 0]
    assert [len(each.matching_acls) for each in results] == [1, COUNT - 2, 0, 0]
    (deleted,) = meanwhile.responses[0].filter_results
    assert len(deleted.matching_acls) == 1


def test_entries_of_one_entity_stay_in_one_part(cluster: ControllerHarness) -> None:
    names = [f"user-{number}" for number in range(COUNT)]
    quota = OpData("producer_byte_rate", 1.0, False)
    entries = [EntryData([EntityData("user", name)], [quota]) for name in [*names, names[0]]]
    session = cluster.request(AlterClientQuotasRequest(entries, False))
    take_turns(cluster)
    assert len(cluster.batches) == 4
    cluster.commit()
    take_turns(cluster)
    (response,) = session.responses
    errors = [each.error_code for each in response.entries]
    assert errors == [ErrorCode.INVALID_REQUEST] * 2 + [0] * (COUNT - 1)


def test_requests_that_are_split_are_decoded_and_encoded_in_steps() -> None:
    """Otherwise one turn decodes all that the parts divide."""
    for key, rule in SPLIT_RULES.items():
        if not rule.request_path:
            continue
        assert request_class(key).DECODE_IN_STEPS, key
        assert response_class(key).ENCODE_IN_STEPS, key


def test_credentials_are_altered_in_parts_with_both_changes_of_a_user_in_one(
    cluster: ControllerHarness,
) -> None:
    names = [f"user-{number}" for number in range(COUNT)]
    upsertions = [ScramCredentialUpsertion(name, 1, 4096, b"salt", bytes(32)) for name in names]
    message = AlterUserScramCredentialsRequest([ScramCredentialDeletion(names[-1], 1)], upsertions)
    session = cluster.request(message)
    take_turns(cluster)
    assert len(cluster.batches) == 4
    cluster.commit()
    take_turns(cluster)
    (response,) = session.responses
    failed = [each.user for each in response.results if each.error_code]
    assert failed == [names[-1]]
    assert len(response.results) == COUNT
