"""The model of configs and topics that administrators keep, and their reads."""

from __future__ import annotations

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import alter_configs_request as replacements
from quorumd.protocol.messages import (
    create_topics_request,
    create_topics_response,
    delete_topics_request,
    delete_topics_response,
    metadata_response,
)
from quorumd.protocol.messages import describe_configs_response as described
from quorumd.protocol.messages import incremental_alter_configs_request as changes
from quorumd.protocol.messages import incremental_alter_configs_response as changed
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.administered_register import ANY, Register
from quorumd.simulator.checkers.administration import (
    APPEND,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    AdministratorsAreObeyed,
    Requested,
)

GROUP_CONFIG = "streams.initial.rebalance.delay.ms"
ID, OTHER_ID = KafkaUuid(b"1" * 16), KafkaUuid(b"2" * 16)


class Administered:
    """A checker and the time; each step takes a millisecond."""

    def __init__(self) -> None:
        self.checker = AdministratorsAreObeyed()
        self.now_ms = 0.0

    def request(self, message: Message) -> Requested:
        self.now_ms += 1.0
        return self.checker.requested(message, self.now_ms)

    def respond(self, requested: Requested, message: Message) -> None:
        self.now_ms += 1.0
        self.checker.responded(requested, message, self.now_ms)

    def alter(
        self,
        operation: int,
        value: str | None,
        error: int | None = 0,
        name: str = GROUP_CONFIG,
        kind: int = GROUP,
        validate_only: bool = False,
    ) -> None:
        """Change a config of resource "g"; an `error` of None stands for a missing response."""
        resource = changes.AlterConfigsResource(kind, "g", [changes.AlterableConfig(name, operation, value)])
        requested = self.request(changes.IncrementalAlterConfigsRequest([resource], validate_only))
        if error is not None:
            result = changed.AlterConfigsResourceResponse(error, None, kind, "g")
            self.respond(requested, changed.IncrementalAlterConfigsResponse(0, [result]))

    def describe(self, value: str | None, name: str = GROUP_CONFIG, kind: int = GROUP) -> None:
        """Let a read of resource "g" return this value, None for no value of its own."""
        self.now_ms += 1.0
        source = {GROUP: 8, CLIENT_METRICS: 7}[kind]
        synonyms = [described.DescribeConfigsSynonym(name, value, source)]
        entries = [described.DescribeConfigsResourceResult(name, value, False, source, False, synonyms)]
        result = described.DescribeConfigsResult(0, None, kind, "g", entries if value is not None else [])
        self.checker.described(result, self.now_ms, self.now_ms + 0.5)

    def create(self, topic_id: KafkaUuid | None, error: int = 0) -> None:
        topic = create_topics_request.CreatableTopic("t", 2, 1, [], [])
        requested = self.request(create_topics_request.CreateTopicsRequest([topic]))
        if topic_id is not None:
            result = create_topics_response.CreatableTopicResult("t", topic_id, error)
            self.respond(requested, create_topics_response.CreateTopicsResponse(0, [result]))

    def delete(self, error: int | None = 0) -> None:
        topics = [delete_topics_request.DeleteTopicState("t")]
        requested = self.request(delete_topics_request.DeleteTopicsRequest(topics, []))
        if error is not None:
            result = delete_topics_response.DeletableTopicResult("t", ID, error)
            self.respond(requested, delete_topics_response.DeleteTopicsResponse(0, [result]))

    def list(self, topic_id: KafkaUuid | None, partitions: int = 2) -> None:
        self.now_ms += 1.0
        wire = metadata_response
        topic = wire.MetadataResponseTopic(0, "t", topic_id or ID, False)
        topic.partitions = [wire.MetadataResponsePartition(0, number) for number in range(partitions)]
        response = wire.MetadataResponse(0, [], None, 1, [topic] if topic_id is not None else [])
        self.checker.listed(response, self.now_ms, self.now_ms + 0.5)


def test_set_value_is_read() -> None:
    administered = Administered()
    administered.alter(SET, "1")
    administered.describe("1")
    assert administered.checker.checked == 1


@pytest.mark.parametrize("value", [None, "1"])
def test_replaced_value_is_a_violation(value: str | None) -> None:
    administered = Administered()
    administered.alter(SET, "1")
    administered.alter(SET, "2")
    with pytest.raises(InvariantViolation, match=r"possible are \['2'\]"):
        administered.describe(value)


def test_deleted_value_is_a_violation() -> None:
    administered = Administered()
    administered.alter(SET, "1")
    administered.alter(DELETE, None)
    administered.describe(None)
    with pytest.raises(InvariantViolation):
        administered.describe("1")


def test_value_that_no_administrator_set_is_a_violation() -> None:
    with pytest.raises(InvariantViolation, match="no administrator requested"):
        Administered().describe("1")


@pytest.mark.parametrize("error", [None, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT])
def test_open_outcome_allows_both_values_until_one_is_read(error: int | None) -> None:
    administered = Administered()
    administered.alter(SET, "1")
    administered.alter(SET, "2", error)
    administered.describe("1")
    administered.describe("2")
    with pytest.raises(InvariantViolation):
        administered.describe("1")


def test_refused_and_validated_changes_have_no_effect() -> None:
    administered = Administered()
    administered.alter(SET, "1")
    administered.alter(SET, "2", ErrorCode.INVALID_CONFIG)
    administered.alter(SET, "3", validate_only=True)
    administered.describe("1")
    with pytest.raises(InvariantViolation):
        administered.describe("2")
    with pytest.raises(InvariantViolation):
        administered.describe("3")


def test_replacement_deletes_other_configs() -> None:
    administered = Administered()
    administered.alter(SET, "1")
    resource = replacements.AlterConfigsResource(GROUP, "g", [])
    requested = administered.request(replacements.AlterConfigsRequest([resource]))
    result = changed.AlterConfigsResourceResponse(0, None, GROUP, "g")
    administered.respond(requested, changed.IncrementalAlterConfigsResponse(0, [result]))
    with pytest.raises(InvariantViolation):
        administered.describe("1")


def test_items_of_a_list_are_added_and_removed() -> None:
    administered = Administered()
    metrics = ("metrics", CLIENT_METRICS)
    administered.alter(APPEND, "a,b", 0, *metrics)
    administered.describe("a,b", *metrics)
    administered.alter(SUBTRACT, "a", 0, *metrics)
    administered.describe("b", *metrics)
    with pytest.raises(InvariantViolation, match="metrics=a"):
        administered.describe("a,b", *metrics)


def test_topic_has_the_id_of_its_creation() -> None:
    administered = Administered()
    administered.create(ID)
    administered.list(ID)
    with pytest.raises(InvariantViolation, match=r"\bpartitions of topic t\b"):
        administered.list(ID, 3)
    with pytest.raises(InvariantViolation, match=r"\bid of topic t\b"):
        administered.list(OTHER_ID)


def test_deleted_topic_is_a_violation() -> None:
    administered = Administered()
    administered.create(ID)
    administered.delete()
    administered.list(None, 0)
    with pytest.raises(InvariantViolation):
        administered.list(ID)


def test_creation_without_response_has_any_one_id() -> None:
    administered = Administered()
    administered.create(None)
    administered.list(None, 0)
    administered.list(ID)
    with pytest.raises(InvariantViolation):
        administered.list(OTHER_ID)
    with pytest.raises(InvariantViolation):
        administered.list(None, 0)


def test_repeated_creation_ends_with_its_error() -> None:
    administered = Administered()
    administered.create(ID)
    administered.create(OTHER_ID, ErrorCode.TOPIC_ALREADY_EXISTS)
    administered.delete()
    with pytest.raises(InvariantViolation):
        administered.list(OTHER_ID)


def test_configs_of_a_deleted_topic_are_gone() -> None:
    administered = Administered()
    administered.create(ID)
    name = "retention.ms"
    resource = changes.AlterConfigsResource(TOPIC, "t", [changes.AlterableConfig(name, SET, "1000")])
    requested = administered.request(changes.IncrementalAlterConfigsRequest([resource]))
    result = changed.AlterConfigsResourceResponse(0, None, TOPIC, "t")
    administered.respond(requested, changed.IncrementalAlterConfigsResponse(0, [result]))
    administered.delete()
    administered.create(OTHER_ID)
    synonyms = [described.DescribeConfigsSynonym(name, "1000", 1)]
    entry = described.DescribeConfigsResourceResult(name, "1000", False, 1, False, synonyms)
    found = described.DescribeConfigsResult(0, None, TOPIC, "t", [entry])
    administered.now_ms += 1.0
    with pytest.raises(InvariantViolation, match=r"retention\.ms"):
        administered.checker.described(found, administered.now_ms, administered.now_ms + 1.0)


def test_stale_metadata_shows_a_topic_that_existed() -> None:
    wire = metadata_response
    administered = Administered()
    administered.create(ID)
    administered.delete()
    administered.checker.seen(
        wire.MetadataResponse(0, [], None, 1, [wire.MetadataResponseTopic(0, "t", ID, False)])
    )
    with pytest.raises(InvariantViolation, match=r"\btopic t\b"):
        administered.checker.seen(
            wire.MetadataResponse(0, [], None, 1, [wire.MetadataResponseTopic(0, "t", OTHER_ID, False)])
        )


def test_read_that_began_before_a_write_ended_may_return_either_value() -> None:
    register = Register("old")
    register.write("new", 10.0).complete(20.0)
    assert register.read("old", 15.0, 30.0)
    assert register.read("new", 15.0, 30.0)
    assert not register.read("old", 25.0, 30.0)


def test_unknown_value_is_bound_by_a_read() -> None:
    register = Register()
    register.write(ANY, 1.0)
    assert register.read("x", 2.0, 3.0)
    assert not register.read("y", 4.0, 5.0)
    assert not register.read(None, 4.0, 5.0)
