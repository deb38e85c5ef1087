"""Checkers of what operators request report violations."""

from __future__ import annotations

from quorumd.controller.partition import NO_LEADER
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import create_topics_request as wire
from quorumd.protocol.messages import incremental_alter_configs_request as config_wire
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from quorumd.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from quorumd.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from quorumd.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from quorumd.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from quorumd.simulator.brokers.checkers.administration import (
    ElectionRequestsTakeEffect,
    OnlyRequestedTopicsAreDeleted,
    RequestedTopicsAreCreated,
)
from quorumd.simulator.brokers.checkers.configs import ConfigRequestsTakeEffect
from quorumd.simulator.brokers.cluster_view import PartitionChange
from tests.support.simulator.broker_views import NAME, TOPIC, WHERE, breaks, row, view_with

MIN_ISR = "min.insync.replicas"


def requested(
    *broker_ids: int, name: str = NAME, validate_only: bool = False, min_isr: str = "2"
) -> wire.CreateTopicsRequest:
    assignments = [wire.CreatableReplicaAssignment(0, list(broker_ids))]
    configs = [wire.CreatableTopicConfig(MIN_ISR, min_isr)]
    return wire.CreateTopicsRequest(
        [wire.CreatableTopic(name, -1, -1, assignments, configs)], 0, validate_only
    )


def is_created_as_requested(request: wire.CreateTopicsRequest) -> bool:
    """Whether a topic with the replicas 1, 2, 3 and 2 in sync is created as this request wants it."""
    checker, view = RequestedTopicsAreCreated(), view_with(row())
    checker.admin_request_sent(view, request)
    checker.partition_changed(view, PartitionChange(WHERE, None, row(), True, 2))
    return not breaks(checker.batch_committed, view, [WHERE])


def test_topics_are_created_with_their_assignment_and_configs() -> None:
    assert is_created_as_requested(requested(1, 2, 3))
    assert not is_created_as_requested(requested(1, 3, 2))
    assert not is_created_as_requested(requested(1, 2, 3, min_isr="1"))
    assert not is_created_as_requested(requested(1, 2, 3, name="other"))
    assert not is_created_as_requested(requested(1, 2, 3, validate_only=True))


def is_valid_response(request: wire.CreateTopicsRequest, *results: CreatableTopicResult) -> bool:
    checker, view = RequestedTopicsAreCreated(), view_with(row())
    view.image.topic_ids.clear()
    checker.admin_request_sent(view, request)
    view.image.topic_ids[NAME] = TOPIC
    checker.partition_changed(view, PartitionChange(WHERE, None, row(), True, 2))
    return not breaks(checker.admin_request_completed, view, request, CreateTopicsResponse(0, list(results)))


def test_responses_to_create_topics_match_their_request() -> None:
    request = requested(1, 2, 3)
    assert not is_valid_response(request)
    assert not is_valid_response(request, CreatableTopicResult("other", TOPIC))
    refused = CreatableTopicResult(NAME, TOPIC, int(ErrorCode.NOT_CONTROLLER))
    assert is_valid_response(
        request, refused, refused
    )  # A node that does not lead reports a repeated name twice.
    exists = CreatableTopicResult(NAME, TOPIC, int(ErrorCode.TOPIC_ALREADY_EXISTS))
    assert not is_valid_response(request, exists)
    for invalid in (requested(1, 1), requested(), requested(1, 9999), requested(1, name="not valid!")):
        name = invalid.topics[0].name
        assert not is_valid_response(invalid, CreatableTopicResult(name, TOPIC))
        refused = CreatableTopicResult(name, TOPIC, int(ErrorCode.INVALID_REPLICA_ASSIGNMENT))
        assert is_valid_response(invalid, refused)


def test_topics_are_deleted_only_on_request() -> None:
    removal = PartitionChange(WHERE, row(), None, False, 1)
    for requests, is_violated in (
        ([], True),
        ([DeleteTopicState("other")], True),
        ([DeleteTopicState(NAME)], False),
        ([DeleteTopicState(None, TOPIC)], False),
    ):
        checker, view = OnlyRequestedTopicsAreDeleted(), view_with(row())
        checker.partition_changed(view, PartitionChange(WHERE, None, row(), True, 1))
        checker.admin_request_sent(view, DeleteTopicsRequest(requests))
        assert breaks(checker.partition_changed, view, removal) is is_violated


def test_deleted_topics_are_gone() -> None:
    for error, is_violated in (
        (ErrorCode.NONE, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, True),
        (ErrorCode.REQUEST_TIMED_OUT, False),
    ):
        checker, view = OnlyRequestedTopicsAreDeleted(), view_with(row())
        checker.partition_changed(view, PartitionChange(WHERE, None, row(), True, 1))
        request = DeleteTopicsRequest([DeleteTopicState(None, TOPIC)])
        response = DeleteTopicsResponse(0, [DeletableTopicResult(None, TOPIC, int(error))])
        checker.admin_request_sent(view, request)
        assert breaks(checker.admin_request_completed, view, request, response) is is_violated
        view.image.topics.clear()
        checker.admin_request_sent(view, request)
        assert not breaks(checker.admin_request_completed, view, request, response)


def test_requested_elections_elect() -> None:
    leaderless = row((), NO_LEADER)

    def is_reported(kind: int, error: ErrorCode, *, was_led: bool = False) -> bool:
        checker, view = ElectionRequestsTakeEffect(), view_with(leaderless)
        request = ElectLeadersRequest(kind, [TopicPartitions(NAME, [0])])
        checker.admin_request_sent(view, request)
        if was_led:
            checker.partition_changed(view, PartitionChange(WHERE, row(), leaderless, True, 1))
        result = ReplicaElectionResult(NAME, [PartitionResult(0, int(error))])
        return breaks(checker.admin_request_completed, view, request, ElectLeadersResponse(0, 0, [result]))

    for kind in (0, 1):
        assert is_reported(kind, ErrorCode.NONE)
        assert is_reported(kind, ErrorCode.ELECTION_NOT_NEEDED)
        assert not is_reported(kind, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
        assert not is_reported(kind, ErrorCode.NONE, was_led=True)
    assert is_reported(2, ErrorCode.NONE)


def test_acknowledged_configs_are_set_or_deleted() -> None:
    def is_reported(wanted: str | None, *committed: str | None) -> bool:
        checker, view = ConfigRequestsTakeEffect(), view_with(row())
        checker.config_changed(view, ConfigRecord(2, NAME, MIN_ISR, "1"))
        config = config_wire.AlterableConfig(MIN_ISR, 0 if wanted else 1, wanted)
        request = config_wire.IncrementalAlterConfigsRequest(
            [config_wire.AlterConfigsResource(2, NAME, [config])]
        )
        checker.admin_request_sent(view, request)
        for value in committed:
            checker.config_changed(view, ConfigRecord(2, NAME, MIN_ISR, value))
        response = IncrementalAlterConfigsResponse(0, [AlterConfigsResourceResponse(0, None, 2, NAME)])
        return breaks(checker.admin_request_completed, view, request, response)

    assert not is_reported("1")
    assert is_reported("2")
    assert not is_reported("2", "2")
    assert not is_reported("2", "2", "3")
    assert is_reported("2", "3")
    assert is_reported(None)
    assert not is_reported(None, None)
    assert is_reported("0", "0")


def test_configs_of_deleted_topics_are_gone() -> None:
    checker, view = ConfigRequestsTakeEffect(), view_with(row())
    checker.partition_changed(view, PartitionChange(WHERE, None, row(), True, 1))
    checker.config_changed(view, ConfigRecord(2, NAME, MIN_ISR, "1"))
    config = config_wire.AlterableConfig(MIN_ISR, 1, None)
    request = config_wire.IncrementalAlterConfigsRequest(
        [config_wire.AlterConfigsResource(2, NAME, [config])]
    )
    checker.admin_request_sent(view, request)
    checker.partition_changed(view, PartitionChange(WHERE, row(), None, False, 1))
    response = IncrementalAlterConfigsResponse(0, [AlterConfigsResourceResponse(0, None, 2, NAME)])
    assert not breaks(checker.admin_request_completed, view, request, response)


def test_id_of_a_new_topic_is_known() -> None:
    other = CreatableTopicResult(NAME, KafkaUuid(bytes(15) + b"\x09"))
    assert not is_valid_response(requested(1, 2, 3), other)
