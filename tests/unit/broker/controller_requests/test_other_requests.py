"""Producer ids, new topics and directories: one request at a time, and what a refusal or a failure leaves."""

from __future__ import annotations

from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any

import pytest

from quorumd.broker.controller_requests.directory_reports import RETRY_MS as REPORT_RETRY_MS
from quorumd.broker.controller_requests.directory_reports import DirectoryReports
from quorumd.broker.controller_requests.producer_ids import NO_ID, RETRY_MS, ProducerIds
from quorumd.broker.controller_requests.topic_creation import (
    REPEAT_MS,
    NewTopic,
    RequestingClient,
    TopicCreation,
)
from quorumd.broker.partitions.partition_listener import Transition
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import encode_response, read_request
from quorumd.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from quorumd.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from quorumd.protocol.messages.assign_replicas_to_dirs_response import DirectoryData as AssignedDirectory
from quorumd.protocol.messages.assign_replicas_to_dirs_response import PartitionData as AssignedPartition
from quorumd.protocol.messages.assign_replicas_to_dirs_response import TopicData as AssignedTopic
from quorumd.protocol.messages.create_topics_request import CreateTopicsRequest
from quorumd.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from quorumd.protocol.messages.envelope_response import EnvelopeResponse
from quorumd.protocol.wire import Message
from quorumd.security.forwarded_principals import deserialize
from tests.support.broker.channels import HeldChannel
from tests.support.node.virtual_time import VirtualTime

TOPIC, DIRECTORY, FORMER = (KafkaUuid(name.ljust(16, b".")) for name in (b"topic", b"directory", b"former"))


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def channel() -> HeldChannel:
    return HeldChannel(0)


# Producer ids


def test_there_are_no_producer_ids_before_the_registration(time: VirtualTime, channel: HeldChannel) -> None:
    taken: list[int] = []
    ProducerIds(1, lambda: -1, channel, time.clock).take(taken.append)
    assert (taken, channel.requests) == ([NO_ID], [])


@pytest.mark.parametrize(
    "response",
    [AllocateProducerIdsResponse(0, int(ErrorCode.STALE_BROKER_EPOCH)), AllocateProducerIdsResponse(), None],
)
def test_refused_block_of_producer_ids_is_requested_again_later(
    time: VirtualTime, channel: HeldChannel, response: Message | None
) -> None:
    taken: list[int] = []
    ids = ProducerIds(1, lambda: 5, channel, time.clock)
    ids.take(taken.append)
    if response is None:
        channel.fail()
    else:
        channel.respond(response)
    ids.take(taken.append)
    assert (taken, len(channel.requests)) == ([NO_ID, NO_ID], 1), "not at once"
    time.pass_ms(RETRY_MS)
    ids.take(taken.append)
    channel.respond(AllocateProducerIdsResponse(0, 0, 1000, 2))
    assert taken[2:] == [1000]


# Topics


def test_topic_that_cannot_be_created_is_requested_again_later(
    time: VirtualTime, channel: HeldChannel
) -> None:
    creation = TopicCreation(channel, time.clock)
    creation.create({"a": NewTopic(), "b": NewTopic()})
    creation.create({"a": NewTopic(), "c": NewTopic(3)})
    refused = CreatableTopicResult("b", error_code=int(ErrorCode.INVALID_REPLICATION_FACTOR))
    channel.respond(CreateTopicsResponse(0, [CreatableTopicResult("a"), refused]))
    creation.create({"b": NewTopic()})
    channel.fail()
    names = [[topic.name for topic in request.topics] for request in channel.requests]
    assert names == [["a", "b"], ["c"]]
    assert channel.requests[1].topics[0].num_partitions == 3
    time.pass_ms(REPEAT_MS)
    creation.create({"b": NewTopic(), "c": NewTopic()})
    assert [topic.name for topic in channel.requests[2].topics] == ["b", "c"]


ALICE, BOB = (RequestingClient(f"User:{name}", False, "10.0.0.7", "app") for name in ("alice", "bob"))


def created_by(request: Any) -> tuple[str, str, list[str]]:
    """Return principal and address of an Envelope, and the topics of the request in it."""
    inner = read_request(request.request_data, {ApiKey.CREATE_TOPICS: (2, 7)})
    assert isinstance(inner.message, CreateTopicsRequest)
    assert inner.client_id == "app"
    principal = deserialize(request.request_principal).principal
    return (
        principal,
        str(ip_address(request.client_host_address)),
        [each.name for each in inner.message.topics],
    )


def response_to(request: Any, *results: CreatableTopicResult) -> EnvelopeResponse:
    inner = read_request(request.request_data, {ApiKey.CREATE_TOPICS: (2, 7)})
    return EnvelopeResponse(encode_response(inner, CreateTopicsResponse(0, list(results))))


def test_topics_of_each_client_are_one_request_in_its_name(time: VirtualTime, channel: HeldChannel) -> None:
    creation = TopicCreation(channel, time.clock)
    creation.create({"a": NewTopic()}, ALICE)
    creation.create({"b": NewTopic()}, ALICE)
    creation.create({"c": NewTopic(), "b": NewTopic()}, BOB)
    creation.create({"d": NewTopic()}, ALICE)
    for expected in (["a"], ["b", "d"]):
        request = channel.requests[-1]
        assert created_by(request) == ("User:alice", "10.0.0.7", expected)
        channel.respond(response_to(request, *map(CreatableTopicResult, expected)))
    assert created_by(channel.requests[-1]) == ("User:bob", "10.0.0.7", ["c"])


@pytest.mark.parametrize(
    "response", [EnvelopeResponse(None, int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)), EnvelopeResponse(b"?")]
)
def test_topics_of_a_refused_envelope_are_requested_again_later(
    time: VirtualTime, channel: HeldChannel, response: EnvelopeResponse
) -> None:
    creation = TopicCreation(channel, time.clock)
    creation.create({"a": NewTopic()}, ALICE)
    channel.respond(response)
    creation.create({"a": NewTopic()}, ALICE)
    assert len(channel.requests) == 1
    time.pass_ms(REPEAT_MS)
    creation.create({"a": NewTopic()}, ALICE)
    assert created_by(channel.requests[1])[2] == ["a"]


# Directories


def hosted(
    number: int, directories: tuple[KafkaUuid, ...] = (FORMER,), replicas: tuple[int, ...] = (1,)
) -> Any:
    metadata = SimpleNamespace(directories=directories, replicas=replicas)
    return SimpleNamespace(
        id=PartitionId(TOPIC, number),
        replica=SimpleNamespace(metadata=metadata),
        directory=SimpleNamespace(id=DIRECTORY, is_online=True),
        assigned_directory=DIRECTORY,
        is_open=True,
    )


@pytest.fixture
def accepted() -> list[tuple[Any, KafkaUuid]]:
    return []


@pytest.fixture
def reports(
    time: VirtualTime, channel: HeldChannel, accepted: list[tuple[Any, KafkaUuid]]
) -> DirectoryReports:
    return DirectoryReports(
        time.clock, channel, 1, lambda: 5, lambda hosted, directory: accepted.append((hosted, directory))
    )


def response(request: Any, error: ErrorCode = ErrorCode.NONE) -> AssignReplicasToDirsResponse:
    """The response to a request, with one error for all partitions."""
    directories = [
        AssignedDirectory(
            directory.id,
            [
                AssignedTopic(
                    topic.topic_id,
                    [AssignedPartition(each.partition_index, int(error)) for each in topic.partitions],
                )
                for topic in directory.topics
            ],
        )
        for directory in request.directories
    ]
    return AssignReplicasToDirsResponse(0, 0, directories)


def numbers(request: Any) -> list[int]:
    return [
        partition.partition_index
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]


def test_replica_in_another_directory_is_reported(
    time: VirtualTime, channel: HeldChannel, reports: DirectoryReports
) -> None:
    for number in range(2):
        reports.changed(hosted(number), Transition.LEADS)
    reports.changed(hosted(2, (DIRECTORY,)), Transition.LEADS)
    reports.changed(hosted(3, ()), Transition.LEADS)
    reports.changed(hosted(4, replicas=(2,)), Transition.LEADS)
    time.end_turn()
    assert [numbers(request) for request in channel.requests] == [[0, 1]]
    assert channel.requests[0].directories[0].id == DIRECTORY


@pytest.mark.parametrize("is_lost", [True, False])
def test_report_is_sent_again_until_it_is_accepted(
    time: VirtualTime, channel: HeldChannel, reports: DirectoryReports, is_lost: bool
) -> None:
    reports.changed(hosted(0), Transition.LEADS)
    time.end_turn()
    if is_lost:
        channel.fail()
    else:
        channel.respond(AssignReplicasToDirsResponse(0, int(ErrorCode.NOT_CONTROLLER)))
    time.pass_ms(REPORT_RETRY_MS)
    assert [numbers(request) for request in channel.requests] == [[0], [0]]
    channel.respond(response(channel.requests[1]))
    time.pass_ms(10 * REPORT_RETRY_MS)
    assert len(channel.requests) == 2


def test_replica_that_the_controller_does_not_know_is_reported_once(
    time: VirtualTime,
    channel: HeldChannel,
    reports: DirectoryReports,
    accepted: list[tuple[Any, KafkaUuid]],
) -> None:
    reports.changed(hosted(0), Transition.LEADS)
    time.end_turn()
    channel.respond(response(channel.requests[0], ErrorCode.UNKNOWN_TOPIC_ID))
    time.pass_ms(10 * REPORT_RETRY_MS)
    assert (len(channel.requests), accepted) == (1, [])


@pytest.mark.parametrize("is_handled", [True, False])
def test_directory_that_changes_back_during_a_report_is_reported(
    time: VirtualTime,
    channel: HeldChannel,
    reports: DirectoryReports,
    accepted: list[tuple[Any, KafkaUuid]],
    is_handled: bool,
) -> None:
    """The metadata does not show yet what became of the first report."""
    moving = hosted(0)
    assert reports.check(moving)
    time.end_turn()
    moving.assigned_directory = FORMER
    assert reports.check(moving)
    if is_handled:
        channel.respond(response(channel.requests[0]))
    else:
        channel.fail()
    time.pass_ms(REPORT_RETRY_MS)
    channel.respond(response(channel.requests[1]))
    time.pass_ms(REPORT_RETRY_MS)
    assert [request.directories[0].id for request in channel.requests] == [DIRECTORY, FORMER]
    assert accepted == [(moving, DIRECTORY), (moving, FORMER)][not is_handled :]
    assert not reports.check(moving)


def test_report_that_is_no_longer_needed_is_not_sent(
    time: VirtualTime, channel: HeldChannel, reports: DirectoryReports
) -> None:
    moved = hosted(0)
    reports.changed(moved, Transition.LEADS)
    moved.assigned_directory = FORMER
    time.end_turn()
    reports.changed(hosted(1), Transition.LEADS)
    reports.stop()
    time.end_turn()
    assert channel.requests == []
