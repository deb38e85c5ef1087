from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.cluster_image import ELR_VERSION, METADATA_VERSION
from quorumd.controller.partition import Partition, PartitionId, partition_record
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.node.api.configs import ConfigApis
from quorumd.node.api.controller import ControllerApis
from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.node.state import metadata_writer
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages import (
    alter_configs_request,
    describe_configs_request,
    incremental_alter_configs_request,
)
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from quorumd.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.node.api_harness import ApiHarness
from tests.support.node.recording_session import DecodingSession, RecordingSession, request_of
from tests.support.node.scripted_image import ScriptedCommits

TOPIC, BROKER, _, CLIENT_METRICS, GROUP = (int(kind) for kind in ConfigResourceType)
SET, DELETE, APPEND = 0, 1, 2
Alteration = tuple[int, str, list[tuple[str, int, str | None]]]


class ConfigApiHarness(ApiHarness):
    """Node 1, the leader until `lose_leadership`."""

    def __init__(self) -> None:
        self.commits = ScriptedCommits()
        super().__init__(
            node_id=1,
            static_configs=(("broker.id", "1"), ("log.dirs", "/data")),
            committed_image=self.commits,
        )
        self.config_apis = ConfigApis(self.context)
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
        self.config_apis.describe_configs(session, request_of(message, 4))
        return session

    def read(self, kind: int, name: str, **fields: Any) -> list[tuple[str, str | None, int]]:
        """(name, value, source) of the configs of a resource."""
        session = self.describe((kind, name), **fields)
        self.confirm()
        (result,) = session.responses[0].results
        assert result.error_code == 0
        return [(entry.name, entry.value, entry.config_source) for entry in result.configs]


@pytest.fixture
def harness() -> ConfigApiHarness:
    return ConfigApiHarness()


def errors(session: RecordingSession) -> list[int]:
    (response,) = session.responses
    return [result.error_code for result in response.responses]


# Changes


def test_change_is_acknowledged_on_commit(harness: ConfigApiHarness) -> None:
    session = harness.alter((BROKER, "7", [("a", SET, "1"), ("b", SET, "2")]))
    ((first, second),) = harness.batches
    assert isinstance(first, ConfigRecord)
    assert (first.resource_type, first.resource_name, first.name, first.value) == (BROKER, "7", "a", "1")
    assert second.name == "b"
    assert session.responses == []
    harness.commit()
    assert errors(session) == [0]


def test_change_is_planned_on_top_of_proposed_records(harness: ConfigApiHarness) -> None:
    harness.alter((BROKER, "7", [("early.start.listeners", APPEND, "a")]))
    harness.alter((BROKER, "7", [("early.start.listeners", APPEND, "b")]))
    assert [record.value for batch in harness.batches for record in batch] == ["a", "a,b"]


def test_error_of_one_resource_does_not_affect_the_others(harness: ConfigApiHarness) -> None:
    session = harness.alter(
        (TOPIC, "t", [("retention.ms", SET, "1")]),
        (BROKER, "7", [("a", SET, "1")]),
        (BROKER, "8", [("a", APPEND, "1")]),
    )
    harness.commit()
    assert errors(session) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0, ErrorCode.INVALID_CONFIG]
    assert [record.resource_name for batch in harness.batches for record in batch] == ["7"]
    assert harness.statistics.error_responses == {
        (44, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): 1,
        (44, ErrorCode.INVALID_CONFIG): 1,
    }


@pytest.mark.parametrize("times", [2, 3])
def test_duplicate_resource_is_rejected_with_one_response(harness: ConfigApiHarness, times: int) -> None:
    """Same result as in Kafka's controller."""
    changes = [(BROKER, "7", [("a", SET, str(number))]) for number in range(times)]
    session = harness.alter(*changes, (BROKER, "8", [("a", SET, "1")]))
    harness.commit()
    assert errors(session) == [ErrorCode.INVALID_REQUEST, 0]
    assert [record.resource_name for batch in harness.batches for record in batch] == ["8"]


def test_every_resource_of_unknown_type_has_a_response(harness: ConfigApiHarness) -> None:
    session = harness.alter((99, "7", [("a", SET, "1")]), (99, "7", [("a", SET, "1")]))
    harness.confirm()
    assert errors(session) == [ErrorCode.UNSUPPORTED_VERSION] * 2


def test_only_requests_from_brokers_can_cordon_log_dirs(harness: ConfigApiHarness) -> None:
    harness.image.apply(FeatureLevelRecord(METADATA_VERSION, 30), [])
    change: Alteration = (BROKER, "7", [("cordoned.log.dirs", SET, "/a")])
    direct = harness.alter(change)
    harness.confirm()
    assert errors(direct) == [ErrorCode.INVALID_CONFIG]
    forwarded = RecordingSession()
    forwarded.origin.comes_from_broker = True
    harness.alter(change, session=forwarded)
    harness.commit()
    assert errors(forwarded) == [0]


def test_alter_configs_deletes_unlisted_configs(harness: ConfigApiHarness) -> None:
    harness.alter((BROKER, "7", [("gone", SET, "1"), ("kept", SET, "1")]))
    harness.commit()
    wire = alter_configs_request
    message = wire.AlterConfigsRequest(
        [wire.AlterConfigsResource(BROKER, "7", [wire.AlterableConfig("kept", "2")])]
    )
    session = RecordingSession()
    harness.controller_apis.handle(session, request_of(message, 2))
    harness.commit()
    assert errors(session) == [0]
    assert [(record.name, record.value) for record in harness.batches[-1]] == [("gone", None), ("kept", "2")]


def test_change_is_not_forwarded_after_leadership_is_lost(
    harness: ConfigApiHarness,
) -> None:
    """The records may still be committed; a retry could apply the change twice."""
    session = harness.alter((BROKER, "7", [("a", SET, "1")]))
    harness.lose_leadership()
    assert errors(session) == [ErrorCode.NOT_CONTROLLER]
    assert session.refusals == 0
    assert harness.statistics.error_responses == {(44, ErrorCode.NOT_CONTROLLER): 1}
    assert harness.forwarder.forwarded == []
    assert harness.image.config((BROKER, "7")) == {}


def test_full_disk_rejects_changes_and_serves_reads(harness: ConfigApiHarness) -> None:
    harness.has_free_space = False
    assert errors(harness.alter((BROKER, "7", [("a", SET, "1")]))) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert harness.read(BROKER, "7") == []


def test_change_larger_than_a_batch_is_rejected(
    harness: ConfigApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_writer, "MAX_BATCH_BYTES", 100)
    session = harness.alter((BROKER, "7", [(f"name-{n}", SET, "value") for n in range(10)]))
    assert errors(session) == [ErrorCode.MESSAGE_TOO_LARGE]
    assert harness.batches == []
    assert harness.image.config((BROKER, "7")) == {}


# Changes without records


def test_change_without_records_is_confirmed_like_a_read(harness: ConfigApiHarness) -> None:
    """A deposed leader may have a stale image, in which APPEND of an existing item has no effect."""
    harness.alter((BROKER, "7", [("early.start.listeners", SET, "a")]))
    harness.commit()
    session = harness.alter((BROKER, "7", [("early.start.listeners", APPEND, "a")]))
    assert session.responses == []
    harness.confirm()
    assert errors(session) == [0]
    assert len(harness.batches) == 1


def test_unconfirmed_change_without_records_is_forwarded_to_the_next_leader(
    harness: ConfigApiHarness,
) -> None:
    harness.alter((BROKER, "7", [("early.start.listeners", SET, "a")]))
    harness.commit()
    harness.alter((BROKER, "7", [("early.start.listeners", APPEND, "a")]))
    harness.lose_leadership()
    assert len(harness.forwarder.forwarded) == 1


def test_change_without_records_waits_for_the_records_before_it(harness: ConfigApiHarness) -> None:
    harness.alter((BROKER, "7", [("early.start.listeners", SET, "a")]))
    session = harness.alter((BROKER, "7", [("early.start.listeners", APPEND, "a")]))
    harness.confirm()
    assert session.responses == []
    harness.commit()
    assert errors(session) == [0]


def test_validate_only_changes_nothing(harness: ConfigApiHarness) -> None:
    session = harness.alter((BROKER, "7", [("a", SET, "1")]), (TOPIC, "t", []), validate_only=True)
    harness.confirm()
    assert errors(session) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert harness.batches == []


# Reads


def test_read_waits_for_its_confirmation(harness: ConfigApiHarness) -> None:
    session = harness.describe((BROKER, "7"))
    assert session.responses == []
    harness.confirm()
    assert len(session.responses) == 1


def test_read_waits_for_the_commit_of_earlier_records(harness: ConfigApiHarness) -> None:
    harness.alter((BROKER, "7", [("a", SET, "1")]))
    session = harness.describe((BROKER, "7"))
    harness.confirm()
    assert session.responses == [], "uncommitted records may be rolled back"
    harness.commit()
    assert session.responses[0].results[0].configs[0].value == "1"


@pytest.mark.parametrize("confirmed_before", [True, False])
def test_read_is_forwarded_to_the_next_leader_after_leadership_is_lost(
    harness: ConfigApiHarness, confirmed_before: bool
) -> None:
    harness.alter((BROKER, "7", [("a", SET, "1")]))
    session = harness.describe((BROKER, "1"))
    if confirmed_before:
        harness.confirm()
    harness.lose_leadership()
    assert session.responses == []
    ((_, hook),) = harness.forwarder.forwarded
    assert hook is not None


def test_broker_configs_override_cluster_defaults_and_static_configs(harness: ConfigApiHarness) -> None:
    harness.alter((BROKER, "1", [("a", SET, "own")]), (BROKER, "", [("a", SET, "all"), ("b", SET, "all")]))
    harness.commit()
    assert harness.read(BROKER, "1") == [
        ("a", "own", 2),
        ("b", "all", 3),
        ("broker.id", "1", 4),
        ("log.dirs", "/data", 4),
    ]
    assert harness.read(BROKER, "2") == [("a", "all", 3), ("b", "all", 3)], (
        "only broker 2 knows its static configs"
    )
    assert harness.read(BROKER, "") == [("a", "all", 3), ("b", "all", 3)]
    assert harness.read(BROKER, "1", keys=["b", "log.dirs"]) == [("b", "all", 3), ("log.dirs", "/data", 4)]


def test_synonyms_list_every_source_of_a_config(harness: ConfigApiHarness) -> None:
    harness.alter((BROKER, "1", [("a", SET, "own")]), (BROKER, "", [("a", SET, "all")]))
    harness.commit()
    session = harness.describe((BROKER, "1"), keys=["a"], include_synonyms=True)
    harness.confirm()
    (entry,) = session.responses[0].results[0].configs
    assert [(s.value, s.source) for s in entry.synonyms] == [("own", 2), ("all", 3)]


def test_undescribable_resources_have_an_error_message(harness: ConfigApiHarness) -> None:
    session = harness.describe((TOPIC, "t"), (99, "x"))
    harness.confirm()
    assert [result.error_code for result in session.responses[0].results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
    ]
    assert all(result.error_message for result in session.responses[0].results)


# Listings


def test_any_node_lists_committed_resources(harness: ConfigApiHarness) -> None:
    harness.lose_leadership()
    harness.commits.is_behind = True
    harness.image.apply(ConfigRecord(GROUP, "g", "consumer.session.timeout.ms", "1"), [])
    session = RecordingSession()
    harness.config_apis.list_config_resources(session, request_of(ListConfigResourcesRequest([GROUP]), 1))
    assert session.responses == []
    (on_commit,) = harness.commits.waiting
    on_commit(True)
    assert [each.resource_name for each in session.responses[0].config_resources] == ["g"]


def test_brokers_of_the_listener_of_the_client_are_listed(harness: ConfigApiHarness) -> None:
    session = RecordingSession()
    for broker_id, listener in ((3, "OTHER"), (4, session.origin.listener)):
        harness.image.apply(
            RegisterBrokerRecord(broker_id, end_points=[BrokerEndpoint(listener, "host", 9092, 0)]), []
        )
    harness.config_apis.list_config_resources(session, request_of(ListConfigResourcesRequest([BROKER]), 1))
    assert [each.resource_name for each in session.responses[0].config_resources] == ["4"]


def test_version_0_of_listing_is_of_client_metrics(harness: ConfigApiHarness) -> None:
    harness.image.apply(ConfigRecord(GROUP, "g", "consumer.session.timeout.ms", "1"), [])
    harness.image.apply(ConfigRecord(CLIENT_METRICS, "m", "interval.ms", "1000"), [])
    session = RecordingSession()
    harness.config_apis.list_config_resources(session, request_of(ListConfigResourcesRequest(), 0))
    assert [each.resource_name for each in session.responses[0].config_resources] == ["m"]


# Another node leads


def test_follower_forwards_requests(harness: ConfigApiHarness) -> None:
    harness.is_leader = False
    harness.alter((BROKER, "7", [("a", SET, "1")]))
    harness.describe((BROKER, "7"))
    assert [request.api_key for request, _ in harness.forwarder.forwarded] == [44, 32]


def test_follower_rejects_requests_of_controller_clients(harness: ConfigApiHarness) -> None:
    harness.is_leader = False
    for send_request in (
        lambda session: harness.alter((BROKER, "7", [("a", SET, "1")]), session=session),
        lambda session: harness.describe((BROKER, "7"), session=session),
    ):
        session = RecordingSession(is_controller_client=True)
        send_request(session)
        assert session.refusals == 1
    assert harness.forwarder.forwarded == []


# Topics

TOPIC_ID = KafkaUuid(b"the topic's id..")


@pytest.fixture
def with_topic(harness: ConfigApiHarness) -> ConfigApiHarness:
    """Topic "t" with min.insync.replicas 2; its partition has one replica in the ISR and one in the ELR."""
    harness.image.apply(FeatureLevelRecord("metadata.version", 25), [])
    harness.image.apply(FeatureLevelRecord(ELR_VERSION, 1), [])
    harness.image.apply(TopicRecord("t", TOPIC_ID), [])
    partition = Partition((1, 2), (1,), 1, elr=(2,))
    harness.image.apply(partition_record(PartitionId(TOPIC_ID, 0), partition), [])
    harness.image.set_config((TOPIC, "t"), "min.insync.replicas", "2", [])
    return harness


def test_partition_changes_are_in_the_batch_of_the_config_change(with_topic: ConfigApiHarness) -> None:
    session = with_topic.alter((TOPIC, "t", [("min.insync.replicas", SET, "1")]))
    (batch,) = with_topic.batches
    assert [record.NAME for record in batch] == ["ConfigRecord", "PartitionChangeRecord"]
    assert with_topic.machine.image.topics[TOPIC_ID].partitions[0].elr == ()
    with_topic.commit()
    assert errors(session) == [0]
    assert with_topic.machine.image.min_isr("t") == 1


def test_lost_leadership_rolls_back_partition_changes(with_topic: ConfigApiHarness) -> None:
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
def test_invalid_topic_configs_are_rejected(
    with_topic: ConfigApiHarness, resource: tuple[int, str], name: str, operation: int, value: str
) -> None:
    session = with_topic.alter((*resource, [(name, operation, value)]))
    with_topic.confirm()
    assert errors(session) == [ErrorCode.INVALID_CONFIG]
    assert name in session.responses[0].responses[0].error_message
    assert with_topic.batches == []


def test_append_extends_the_default_of_a_list_config(with_topic: ConfigApiHarness) -> None:
    with_topic.alter((TOPIC, "t", [("cleanup.policy", APPEND, "compact")]))
    assert [record.value for record in with_topic.batches[0]] == ["delete,compact"]


def test_topic_is_described_with_all_effective_configs(with_topic: ConfigApiHarness) -> None:
    with_topic.machine.image.set_config((BROKER, ""), "log.retention.ms", "7", [])
    session = with_topic.describe((TOPIC, "t"), include_synonyms=True)
    with_topic.confirm()
    (result,) = session.responses[0].results
    entries = {entry.name: entry for entry in result.configs}
    assert len(entries) > 30
    own, cluster_default, built_in = (
        entries[name] for name in ("min.insync.replicas", "retention.ms", "segment.bytes")
    )
    assert [(e.value, e.config_source, e.config_type) for e in (own, cluster_default, built_in)] == [
        ("2", 1, 3),
        ("7", 3, 5),
        ("1073741824", 5, 3),
    ]
    assert not any(entry.read_only for entry in result.configs)
    assert [(s.name, s.value, s.source) for s in cluster_default.synonyms] == [
        ("log.retention.ms", "7", 3),
        ("log.retention.ms", "604800000", 5),
    ]


def test_only_requested_configs_are_described(with_topic: ConfigApiHarness) -> None:
    keys = ["min.insync.replicas", "no.such.config"]
    assert with_topic.read(TOPIC, "t", keys=keys) == [("min.insync.replicas", "2", 1)]


def run_to_response(harness: ConfigApiHarness, session: RecordingSession) -> Any:
    """Run slices, commits and confirmations of a large request and return its response."""
    for _ in range(1000):
        while harness.turns:
            harness.turns.pop(0)()
        if session.responses:
            break
        harness.commit()
        harness.confirm()
    return session.responses[0]


def test_many_resources_are_altered_and_described_in_parts(harness: ConfigApiHarness) -> None:
    names = [f"m{number}" for number in range(2 * MAX_PARTITIONS_PER_PART)]
    changes = [(16, name, [("interval.ms", 0, "1000")]) for name in [*names, names[0]]]
    response = run_to_response(harness, harness.alter(*changes, session=DecodingSession()))
    assert len(harness.batches) > 2
    assert sum(len(batch) for batch in harness.batches) == len(names) - 1
    found = {each.resource_name: each.error_code for each in response.responses}
    assert found == dict.fromkeys(names, 0) | {names[0]: ErrorCode.INVALID_REQUEST}
    session = harness.describe(*((16, name) for name in names), session=DecodingSession())
    assert len(harness.reads) == 1, "other requests are served in between"
    assert [each.resource_name for each in run_to_response(harness, session).results] == names
