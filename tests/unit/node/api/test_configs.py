from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.cluster_image import ELR_VERSION, METADATA_VERSION
from quorumd.controller.partition import Partition, PartitionId, partition_record
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.node.api.configs import ConfigApis
from quorumd.node.api.controller import ControllerApis
from quorumd.node.sessions.request_splitting import MAX_PARTITIONS_PER_PART
from quorumd.node.state import metadata_writer
from quorumd.protocol.messages import (
    alter_configs_request,
    describe_configs_request,
    incremental_alter_configs_request,
)
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.resource_type import ResourceType
from tests.support.node.api_harness import ApiHarness
from tests.support.node.recording_session import DecodingSession, RecordingSession, request_of

BROKER, TOPIC = int(ResourceType.BROKER), int(ResourceType.TOPIC)
SET, DELETE, APPEND = 0, 1, 2
Alteration = tuple[int, str, list[tuple[str, int, str | None]]]


class ConfigApiHarness(ApiHarness):
    """Node 1, which leads until `lose_leadership`."""

    def __init__(self) -> None:
        super().__init__(node_id=1, static_configs=(("broker.id", "1"), ("log.dirs", "/data")))
        self.configs = ConfigApis(self.context)
        self.controller_apis = ControllerApis(self.context)

    def alter(
        self, *changes: Alteration, session: RecordingSession | None = None, validate_only: bool = False
    ) -> RecordingSession:
        wire = incremental_alter_configs_request
        resources = [
            wire.AlterConfigsResource(kind, name, [wire.AlterableConfig(*config) for config in configs])
            for kind, name, configs in changes
        ]
        session = session or RecordingSession()
        message = wire.IncrementalAlterConfigsRequest(resources, validate_only)
        self.controller_apis.handle(session, request_of(message, 1))
        return session

    def describe(
        self, *resources: tuple[int, str], session: RecordingSession | None = None, **fields: Any
    ) -> RecordingSession:
        wire = describe_configs_request
        keys = fields.pop("keys", None)
        message = wire.DescribeConfigsRequest(
            [wire.DescribeConfigsResource(kind, name, keys) for kind, name in resources], **fields
        )
        session = session or RecordingSession()
        self.configs.describe_configs(session, request_of(message, 4))
        return session

    def read(self, kind: int, name: str, **fields: Any) -> list[tuple[str, str | None, int]]:
        """(name, value, source) of the configs of a resource."""
        session = self.describe((kind, name), **fields)
        self.confirm()
        (result,) = session.answers[0].results
        assert result.error_code == 0
        return [(entry.name, entry.value, entry.config_source) for entry in result.configs]


@pytest.fixture
def world() -> ConfigApiHarness:
    return ConfigApiHarness()


def errors(session: RecordingSession) -> list[int]:
    (answer,) = session.answers
    return [response.error_code for response in answer.responses]


# Changes


def test_a_change_is_answered_when_it_is_committed_and_not_before(world: ConfigApiHarness) -> None:
    session = world.alter((BROKER, "7", [("a", SET, "1"), ("b", SET, "2")]))
    ((first, second),) = world.batches
    assert isinstance(first, ConfigRecord)
    assert (first.resource_type, first.resource_name, first.name, first.value) == (BROKER, "7", "a", "1")
    assert second.name == "b"
    assert session.answers == []
    world.commit()
    assert errors(session) == [0]


def test_a_change_is_planned_on_what_is_proposed_before_it(world: ConfigApiHarness) -> None:
    world.alter((BROKER, "7", [("early.start.listeners", APPEND, "a")]))
    world.alter((BROKER, "7", [("early.start.listeners", APPEND, "b")]))
    assert [record.value for batch in world.batches for record in batch] == ["a", "a,b"]


def test_each_resource_has_its_own_error_and_the_others_are_changed(world: ConfigApiHarness) -> None:
    session = world.alter(
        (TOPIC, "t", [("retention.ms", SET, "1")]),
        (BROKER, "7", [("a", SET, "1")]),
        (BROKER, "8", [("a", APPEND, "1")]),
    )
    world.commit()
    assert errors(session) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0, ErrorCode.INVALID_CONFIG]
    assert [record.resource_name for batch in world.batches for record in batch] == ["7"]
    assert world.statistics.error_responses == {
        (44, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): 1,
        (44, ErrorCode.INVALID_CONFIG): 1,
    }


@pytest.mark.parametrize("times", [2, 3])
def test_resource_that_is_named_twice_is_not_changed_and_has_one_response(
    world: ConfigApiHarness, times: int
) -> None:
    """As Kafka's controllers have it."""
    changes = [(BROKER, "7", [("a", SET, str(number))]) for number in range(times)]
    session = world.alter(*changes, (BROKER, "8", [("a", SET, "1")]))
    world.commit()
    assert errors(session) == [ErrorCode.INVALID_REQUEST, 0]
    assert [record.resource_name for batch in world.batches for record in batch] == ["8"]


def test_each_resource_of_a_type_that_is_not_known_has_its_response(world: ConfigApiHarness) -> None:
    session = world.alter((99, "7", [("a", SET, "1")]), (99, "7", [("a", SET, "1")]))
    world.confirm()
    assert errors(session) == [ErrorCode.UNSUPPORTED_VERSION] * 2


def test_what_comes_from_a_broker_may_cordon_its_directories(world: ConfigApiHarness) -> None:
    world.image.apply(FeatureLevelRecord(METADATA_VERSION, 30), [])
    change: Alteration = (BROKER, "7", [("cordoned.log.dirs", SET, "/a")])
    direct = world.alter(change)
    world.confirm()
    assert errors(direct) == [ErrorCode.INVALID_CONFIG]
    passed_on = RecordingSession()
    passed_on.comes_from_broker = True
    world.alter(change, session=passed_on)
    world.commit()
    assert errors(passed_on) == [0]


def test_the_older_form_deletes_what_it_does_not_name(world: ConfigApiHarness) -> None:
    world.alter((BROKER, "7", [("gone", SET, "1"), ("kept", SET, "1")]))
    world.commit()
    wire = alter_configs_request
    message = wire.AlterConfigsRequest(
        [wire.AlterConfigsResource(BROKER, "7", [wire.AlterableConfig("kept", "2")])]
    )
    session = RecordingSession()
    world.controller_apis.handle(session, request_of(message, 2))
    world.commit()
    assert errors(session) == [0]
    assert [(record.name, record.value) for record in world.batches[-1]] == [("gone", None), ("kept", "2")]


def test_losing_leadership_leaves_the_outcome_open_and_sends_nothing_elsewhere(
    world: ConfigApiHarness,
) -> None:
    """The records may yet be committed: carrying the change out again could have it twice."""
    session = world.alter((BROKER, "7", [("a", SET, "1")]))
    world.lose_leadership()
    assert errors(session) == [ErrorCode.NOT_CONTROLLER]
    assert session.refusals == 0
    assert world.statistics.error_responses == {(44, ErrorCode.NOT_CONTROLLER): 1}
    assert world.forwarder.forwarded == []
    assert world.image.config((BROKER, "7")) == {}


def test_a_full_disk_refuses_changes_and_serves_reads(world: ConfigApiHarness) -> None:
    world.has_room = False
    assert errors(world.alter((BROKER, "7", [("a", SET, "1")]))) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert world.read(BROKER, "7") == []


def test_more_than_a_batch_can_hold_is_refused(
    world: ConfigApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_writer, "MAX_BATCH_BYTES", 100)
    session = world.alter((BROKER, "7", [(f"name-{n}", SET, "value") for n in range(10)]))
    assert errors(session) == [ErrorCode.MESSAGE_TOO_LARGE]
    assert world.batches == []
    assert world.image.config((BROKER, "7")) == {}


# Answers that change nothing


def test_a_change_of_nothing_is_confirmed_like_a_read(world: ConfigApiHarness) -> None:
    """A leader that was replaced unawares may hold what is long gone: APPEND of a present item is no proof."""
    world.alter((BROKER, "7", [("early.start.listeners", SET, "a")]))
    world.commit()
    session = world.alter((BROKER, "7", [("early.start.listeners", APPEND, "a")]))
    assert session.answers == []
    world.confirm()
    assert errors(session) == [0]
    assert len(world.batches) == 1


def test_a_change_of_nothing_that_is_not_confirmed_goes_to_the_next_leader(world: ConfigApiHarness) -> None:
    world.alter((BROKER, "7", [("early.start.listeners", SET, "a")]))
    world.commit()
    world.alter((BROKER, "7", [("early.start.listeners", APPEND, "a")]))
    world.lose_leadership()
    assert len(world.forwarder.forwarded) == 1


def test_a_change_of_nothing_waits_for_what_it_rests_on(world: ConfigApiHarness) -> None:
    world.alter((BROKER, "7", [("early.start.listeners", SET, "a")]))
    session = world.alter((BROKER, "7", [("early.start.listeners", APPEND, "a")]))
    world.confirm()
    assert session.answers == []
    world.commit()
    assert errors(session) == [0]


def test_validate_only_changes_nothing(world: ConfigApiHarness) -> None:
    session = world.alter((BROKER, "7", [("a", SET, "1")]), (TOPIC, "t", []), validate_only=True)
    world.confirm()
    assert errors(session) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert world.batches == []


# Reads


def test_a_read_waits_for_its_confirmation(world: ConfigApiHarness) -> None:
    session = world.describe((BROKER, "7"))
    assert session.answers == []
    world.confirm()
    assert len(session.answers) == 1


def test_a_read_shows_what_was_proposed_before_it_once_that_is_committed(world: ConfigApiHarness) -> None:
    world.alter((BROKER, "7", [("a", SET, "1")]))
    session = world.describe((BROKER, "7"))
    world.confirm()
    assert session.answers == [], "nobody may see what may yet be taken back"
    world.commit()
    assert session.answers[0].results[0].configs[0].value == "1"


@pytest.mark.parametrize("confirmed_before", [True, False])
def test_a_read_that_loses_its_leader_is_asked_of_the_next_one(
    world: ConfigApiHarness, confirmed_before: bool
) -> None:
    world.alter((BROKER, "7", [("a", SET, "1")]))
    session = world.describe((BROKER, "1"))
    if confirmed_before:
        world.confirm()
    world.lose_leadership()
    assert session.answers == []
    ((_, hook),) = world.forwarder.forwarded
    assert hook is not None


def test_configs_of_a_broker_come_in_layers_of_which_the_first_wins(world: ConfigApiHarness) -> None:
    world.alter((BROKER, "1", [("a", SET, "own")]), (BROKER, "", [("a", SET, "all"), ("b", SET, "all")]))
    world.commit()
    assert world.read(BROKER, "1") == [
        ("a", "own", 2),
        ("b", "all", 3),
        ("broker.id", "1", 4),
        ("log.dirs", "/data", 4),
    ]
    assert world.read(BROKER, "2") == [("a", "all", 3), ("b", "all", 3)], "its properties are its own to tell"
    assert world.read(BROKER, "") == [("a", "all", 3), ("b", "all", 3)]
    assert world.read(BROKER, "1", keys=["b", "log.dirs"]) == [("b", "all", 3), ("log.dirs", "/data", 4)]


def test_synonyms_are_the_layers_of_one_config(world: ConfigApiHarness) -> None:
    world.alter((BROKER, "1", [("a", SET, "own")]), (BROKER, "", [("a", SET, "all")]))
    world.commit()
    session = world.describe((BROKER, "1"), keys=["a"], include_synonyms=True)
    world.confirm()
    (entry,) = session.answers[0].results[0].configs
    assert [(s.value, s.source) for s in entry.synonyms] == [("own", 2), ("all", 3)]


def test_what_cannot_be_described_says_why(world: ConfigApiHarness) -> None:
    session = world.describe((TOPIC, "t"), (99, "x"))
    world.confirm()
    assert [result.error_code for result in session.answers[0].results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
    ]
    assert all(result.error_message for result in session.answers[0].results)


# Another node leads


def test_what_reaches_another_node_is_forwarded(world: ConfigApiHarness) -> None:
    world.is_leader = False
    world.alter((BROKER, "7", [("a", SET, "1")]))
    world.describe((BROKER, "7"))
    assert [request.api_key for request, _ in world.forwarder.forwarded] == [44, 32]


def test_a_client_of_controllers_is_told_to_look_for_the_leader(world: ConfigApiHarness) -> None:
    world.is_leader = False
    for ask in (
        lambda session: world.alter((BROKER, "7", [("a", SET, "1")]), session=session),
        lambda session: world.describe((BROKER, "7"), session=session),
    ):
        session = RecordingSession(is_controller_client=True)
        ask(session)
        assert session.refusals == 1
    assert world.forwarder.forwarded == []


def test_the_node_adds_its_own_properties_to_what_the_leader_tells(world: ConfigApiHarness) -> None:
    world.is_leader = False
    world.describe((BROKER, "1"))
    ((_, hook),) = world.forwarder.forwarded
    assert hook is not None
    leader = ConfigApiHarness()
    leader.configs._own_name = "3"
    leader.alter((BROKER, "1", [("log.dirs", SET, "dynamic")]))
    leader.commit()
    session = leader.describe((BROKER, "1"), (BROKER, "2"))
    leader.confirm()
    (answer,) = session.answers
    hook(answer)
    assert [(e.name, e.value) for e in answer.results[0].configs] == [
        ("log.dirs", "dynamic"),
        ("broker.id", "1"),
    ]
    assert answer.results[1].configs == []


# Topics

TOPIC_ID = KafkaUuid(b"the topic's id..")


@pytest.fixture
def with_topic(world: ConfigApiHarness) -> ConfigApiHarness:
    """A topic "t", of whose partition one replica is in sync and the other in the ELR; min.insync.replicas is 2."""
    world.image.apply(FeatureLevelRecord("metadata.version", 25), [])
    world.image.apply(FeatureLevelRecord(ELR_VERSION, 1), [])
    world.image.apply(TopicRecord("t", TOPIC_ID), [])
    partition = Partition((1, 2), (1,), 1, elr=(2,))
    world.image.apply(partition_record(PartitionId(TOPIC_ID, 0), partition), [])
    world.image.set_config((TOPIC, "t"), "min.insync.replicas", "2", [])
    return world


def test_what_follows_from_a_change_is_in_the_same_batch(with_topic: ConfigApiHarness) -> None:
    session = with_topic.alter((TOPIC, "t", [("min.insync.replicas", SET, "1")]))
    (batch,) = with_topic.batches
    assert [record.NAME for record in batch] == ["ConfigRecord", "PartitionChangeRecord"]
    assert with_topic.machine.image.topics[TOPIC_ID].partitions[0].elr == ()
    with_topic.commit()
    assert errors(session) == [0]
    assert with_topic.machine.image.min_isr("t") == 1


def test_leadership_that_is_lost_takes_back_what_followed_too(with_topic: ConfigApiHarness) -> None:
    before = with_topic.machine.image.fingerprint()
    with_topic.alter((TOPIC, "t", [("min.insync.replicas", SET, "1")]))
    assert with_topic.machine.image.fingerprint() != before
    with_topic.lose_leadership()
    assert with_topic.machine.image.fingerprint() == before


@pytest.mark.parametrize(
    ("resource", "name", "operation", "value"),
    [
        ((TOPIC, "t"), "min.insync.replicas", SET, "0"),
        ((TOPIC, "t"), "unclean.leader.election.enable", SET, "perhaps"),
        ((TOPIC, "t"), "no.such.config", SET, "1"),
        ((TOPIC, "t"), "retention.ms", APPEND, "1"),
        ((BROKER, ""), "min.insync.replicas", SET, "none"),
    ],
)
def test_what_no_topic_can_have_is_refused(
    with_topic: ConfigApiHarness, resource: tuple[int, str], name: str, operation: int, value: str
) -> None:
    session = with_topic.alter((*resource, [(name, operation, value)]))
    with_topic.confirm()
    assert errors(session) == [ErrorCode.INVALID_CONFIG]
    assert name in session.answers[0].responses[0].error_message
    assert with_topic.batches == []


def test_a_list_is_appended_to_what_holds_without_a_value(with_topic: ConfigApiHarness) -> None:
    with_topic.alter((TOPIC, "t", [("cleanup.policy", APPEND, "compact")]))
    assert [record.value for record in with_topic.batches[0]] == ["delete,compact"]


def test_a_topic_is_described_with_all_that_holds_for_it(with_topic: ConfigApiHarness) -> None:
    with_topic.machine.image.set_config((BROKER, ""), "log.retention.ms", "7", [])
    session = with_topic.describe((TOPIC, "t"), include_synonyms=True)
    with_topic.confirm()
    (result,) = session.answers[0].results
    told = {entry.name: entry for entry in result.configs}
    assert len(told) > 30
    own, of_brokers, built_in = (
        told[name] for name in ("min.insync.replicas", "retention.ms", "segment.bytes")
    )
    assert [(e.value, e.config_source, e.config_type) for e in (own, of_brokers, built_in)] == [
        ("2", 1, 3),
        ("7", 3, 5),
        ("1073741824", 5, 3),
    ]
    assert not any(entry.read_only for entry in result.configs)
    assert [(s.name, s.value, s.source) for s in of_brokers.synonyms] == [
        ("log.retention.ms", "7", 3),
        ("log.retention.ms", "604800000", 5),
    ]


def test_only_the_configs_that_are_asked_for_are_described(with_topic: ConfigApiHarness) -> None:
    keys = ["min.insync.replicas", "no.such.config"]
    assert with_topic.read(TOPIC, "t", keys=keys) == [("min.insync.replicas", "2", 1)]


def finish(world: ConfigApiHarness, session: RecordingSession) -> Any:
    """The response to a large request."""
    for _ in range(4):
        while world.turns:
            world.turns.pop(0)()
        world.commit()
        world.confirm()
    return session.answers[0]


def test_many_resources_are_altered_and_described_in_parts(world: ConfigApiHarness) -> None:
    names = [f"m{number}" for number in range(2 * MAX_PARTITIONS_PER_PART)]
    changes = [(16, name, [("interval.ms", 0, "1000")]) for name in [*names, names[0]]]
    answer = finish(world, world.alter(*changes, session=DecodingSession()))
    assert len(world.batches) > 2
    assert sum(len(batch) for batch in world.batches) == len(names) - 1
    found = {each.resource_name: each.error_code for each in answer.responses}
    assert found == dict.fromkeys(names, 0) | {names[0]: ErrorCode.INVALID_REQUEST}
    session = world.describe(*((16, name) for name in names), session=DecodingSession())
    assert len(world.reads) == 1, "others come between"
    assert [each.resource_name for each in finish(world, session).results] == names


def test_configs_are_described_to_authorized_clients_only(
    world: ConfigApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorumd.node.api.configs.may_describe_configs", lambda session: False)
    session = world.describe((BROKER, "7"))
    assert session.answers[0].results[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert world.reads == []
