from __future__ import annotations

import pytest

from quorumd.controller.broker import UNASSIGNED
from quorumd.controller.controller import ControllerSettings
from quorumd.controller.partition import Partition
from quorumd.controller.topic_creation import plan_create_topics
from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, ZERO_UUID
from quorumd.protocol.codec import encode
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.support.controller.topic_harness import TopicHarness, a_broker, directory_of, wanted

BROKERS = (a_broker(1), a_broker(2), a_broker(3), a_broker(4, fenced=True), a_broker(5, draining=True))


@pytest.fixture
def cluster() -> TopicHarness:
    """Brokers 1 to 3 are active, 4 is fenced, 5 is in controlled shutdown."""
    return TopicHarness(BROKERS, ControllerSettings(num_partitions=2, default_replication_factor=3))


def test_created_topic_has_partitions_and_configs(cluster: TopicHarness) -> None:
    (result,) = cluster.create(wanted("t", 4, 2, retention_ms="5000"))
    topic = cluster.topic("t")
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.topic_id, result.num_partitions, result.replication_factor) == (topic.id, 4, 2)
    assert sorted(topic.partitions) == [0, 1, 2, 3]
    assert all(len(partition.replicas) == 2 for partition in topic.partitions.values())
    assert cluster.controller.image.config((int(ConfigResourceType.TOPIC), "t")) == {"retention.ms": "5000"}
    reported = {config.name: (config.value, config.config_source) for config in result.configs}
    assert reported["retention.ms"] == ("5000", 1)
    assert reported["min.insync.replicas"] == ("1", 5)
    assert result.topic_config_error_code == 0


def test_minus_one_means_the_default(cluster: TopicHarness) -> None:
    (result,) = cluster.create(wanted("t"))
    assert (result.num_partitions, result.replication_factor) == (2, 3)
    assert [len(replicas) for replicas in cluster.replicas("t")] == [3, 3]


def test_new_partition_is_led_by_its_first_active_replica(
    cluster: TopicHarness,
) -> None:
    cluster.create(wanted("t", -1, -1, (0, [4, 2, 5, 3])))
    assert cluster.topic("t").partitions[0] == Partition(
        (4, 2, 5, 3), (2, 3), 2, 0, 0, directories=tuple(directory_of(n) for n in (4, 2, 5, 3))
    )


def test_replica_on_broker_with_several_directories_is_unassigned(cluster: TopicHarness) -> None:
    cluster.controller.image.brokers[2] = a_broker(2, directory_count=2)
    cluster.create(wanted("t", -1, -1, (0, [1, 2])))
    assert cluster.topic("t").partitions[0].directories == (directory_of(1), UNASSIGNED)


def test_order_of_topic_config_and_partition_records(cluster: TopicHarness) -> None:
    request = CreateTopicsRequest([wanted("t", 1, 1, retention_ms="1")])
    names = [record.NAME for record in plan_create_topics(cluster.controller, request, 7).records]
    assert names == ["TopicRecord", "ConfigRecord", "PartitionRecord"]


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "ä", "a/b", "a\n"])
def test_illegal_topic_names(cluster: TopicHarness, name: str) -> None:
    error, text = cluster.refusal(wanted(name))
    assert error == ErrorCode.INVALID_TOPIC
    assert text


def test_longest_topic_name_is_legal(cluster: TopicHarness) -> None:
    assert cluster.create(wanted("a" * 249))[0].error_code == 0


def test_names_differing_in_dots_and_underscores_collide(cluster: TopicHarness) -> None:
    assert [r.error_code for r in cluster.create(wanted("a.b_c"), wanted("a_b.c"), wanted("a-b"))] == [
        0,
        17,
        0,
    ]
    error, text = cluster.refusal(wanted("a_b_c"))
    assert error == ErrorCode.INVALID_TOPIC
    assert "'a.b_c'" in text
    cluster.delete("a.b_c")
    assert cluster.create(wanted("a_b_c"))[0].error_code == 0


def test_existing_topic(cluster: TopicHarness) -> None:
    cluster.create(wanted("a.b"))
    assert cluster.refusal(wanted("a.b"))[0] == ErrorCode.TOPIC_ALREADY_EXISTS


def test_metadata_topic_cannot_be_created(cluster: TopicHarness) -> None:
    assert cluster.refusal(wanted(METADATA_TOPIC))[0] == ErrorCode.INVALID_REQUEST


def test_errors_are_per_topic_and_duplicates_are_rejected(cluster: TopicHarness) -> None:
    results = cluster.create(
        wanted("twice"), wanted("bad name"), wanted("good"), wanted("twice"), wanted("twice")
    )
    assert [(r.name, r.error_code) for r in results] == [
        ("twice", ErrorCode.INVALID_REQUEST),
        ("bad name", ErrorCode.INVALID_TOPIC),
        ("good", 0),
    ]
    assert list(cluster.controller.image.topic_ids) == ["good"]
    refused = results[0]
    assert (refused.topic_id, refused.num_partitions, refused.replication_factor) == (ZERO_UUID, -1, -1)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (wanted("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", 1, 5), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", 1, -1, (0, [1])), ErrorCode.INVALID_REQUEST),
        (wanted("t", -1, 1, (0, [1])), ErrorCode.INVALID_REQUEST),
        (wanted("t", -1, -1, (0, [])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", -1, -1, (0, [1, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", -1, -1, (0, [1, 9])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", -1, -1, (0, [1]), (1, [1, 2])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", -1, -1, (0, [1]), (0, [2])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", -1, -1, (0, [1]), (2, [2])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", -1, -1, (-1, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", -1, -1, (0, [4, 5])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 1, 1, retention_ms=None), ErrorCode.INVALID_CONFIG),
        (wanted("t", 1, 1, **{f"key{n}": "1" for n in range(1001)}), ErrorCode.INVALID_REQUEST),
        (wanted("t", 1, 1, retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (wanted("t", 1, 1, no_such="1"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_invalid_topics(cluster: TopicHarness, topic: CreatableTopic, error: ErrorCode) -> None:
    code, text = cluster.refusal(topic)
    assert code == error
    assert text


def test_error_counts_available_brokers(cluster: TopicHarness) -> None:
    """A fenced broker can hold a replica; one in controlled shutdown cannot."""
    assert cluster.create(wanted("t", 1, 4))[0].error_code == 0
    error, text = cluster.refusal(wanted("u", 1, 5))
    assert error == ErrorCode.INVALID_REPLICATION_FACTOR
    assert all(fact in text for fact in ("factor of 5", "there are 4", "3 are active"))


def test_no_topic_without_active_brokers() -> None:
    cluster = TopicHarness((a_broker(1, fenced=True), a_broker(2, draining=True)))
    assert cluster.refusal(wanted("t", 1, 1))[0] == ErrorCode.INVALID_REPLICATION_FACTOR


def test_validate_only_returns_the_response_without_records(cluster: TopicHarness) -> None:
    good, bad = cluster.create(wanted("t", 4, 2), wanted("u", 0, 1), validate_only=True)
    assert (good.error_code, good.num_partitions, good.replication_factor) == (0, 4, 2)
    assert good.topic_id == ZERO_UUID
    assert bad.error_code == ErrorCode.INVALID_PARTITIONS
    assert cluster.controller.image.topics == {}


def test_request_larger_than_a_batch_names_the_limit() -> None:
    cluster = TopicHarness(BROKERS, ControllerSettings(max_batch_bytes=20_000))
    assert cluster.create(wanted("fits", 100, 1))[0].error_code == 0
    results = cluster.create(wanted("large", 2_000_000_000, 3), wanted("small", 1, 1), wanted("a b", 1, 1))
    assert [r.error_code for r in results] == [
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_TOPIC,
    ]
    assert "20000" in results[0].error_message
    assert list(cluster.controller.image.topic_ids) == ["fits"]


def test_configs_of_a_topic_must_fit_into_the_batch() -> None:
    cluster = TopicHarness(BROKERS, ControllerSettings(max_batch_bytes=430))
    with_configs = wanted("t", 1, 1, compression_type="gzip", retention_ms="60000")
    assert cluster.refusal(with_configs)[0] == ErrorCode.POLICY_VIOLATION
    assert cluster.create(wanted("t", 1, 1))[0].error_code == 0


@pytest.mark.parametrize("version", range(2, 8))
def test_responses_of_every_version_can_be_encoded(cluster: TopicHarness, version: int) -> None:
    request = CreateTopicsRequest([wanted("t", 1, 1), wanted("bad name", 1, 1)])
    assert encode(plan_create_topics(cluster.controller, request, version).response, version)


def test_at_most_ten_thousand_partitions_are_created_together() -> None:
    cluster = TopicHarness(BROKERS)
    error, text = cluster.refusal(wanted("large", 10_001, 1))
    assert (error, "10001 partitions" in text) == (ErrorCode.POLICY_VIOLATION, True)
    results = cluster.create(wanted("one", 6_000, 1), wanted("two", 6_000, 1))
    assert [result.error_code for result in results] == [ErrorCode.POLICY_VIOLATION] * 2
    (result,) = cluster.create(wanted("large", 10_000, 1))
    assert result.error_code == 0
    assert cluster.grow(("large", 20_001))[0][1] == ErrorCode.POLICY_VIOLATION
    assert cluster.grow(("large", 10_001))[0][1] == 0
