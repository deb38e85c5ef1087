from __future__ import annotations

import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.controller import ControllerSettings
from quorumd.controller.topic_deletion import named_topic, plan_delete_topics
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.codec import encode
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.controller.topic_harness import TopicHarness, a_broker, wanted

UNKNOWN = KafkaUuid(b"\x77" * 16)


@pytest.fixture
def cluster() -> TopicHarness:
    cluster = TopicHarness((a_broker(1), a_broker(2)))
    cluster.create(wanted("a", 2, 2, retention_ms="1"), wanted("b", 1, 1))
    return cluster


def by_id(topic_id: KafkaUuid) -> DeleteTopicState:
    return DeleteTopicState(None, topic_id)


def by_name(name: str) -> DeleteTopicState:
    return DeleteTopicState(name)


def test_deletion_leaves_no_trace_of_the_topic(
    cluster: TopicHarness,
) -> None:
    image = cluster.controller.image
    before, hash_before = image.fingerprint(), image.hash
    cluster.create(wanted("c.d", 3, 2, retention_ms="1"))
    assert image.fingerprint() != before
    (result,) = cluster.delete("c.d")
    assert (result.error_code, result.error_message) == (0, None)
    assert (image.fingerprint(), image.hash) == (before, hash_before)


def test_deletion_writes_one_record(cluster: TopicHarness) -> None:
    """Stock readers and the image remove the partitions and configs with the topic."""
    plan = plan_delete_topics(cluster.controller, DeleteTopicsRequest([], ["a"]), 5)
    assert [record.NAME for record in plan.records] == ["RemoveTopicRecord"]


def test_response_has_both_name_and_id(cluster: TopicHarness) -> None:
    id_of_a, id_of_b = cluster.topic("a").id, cluster.topic("b").id
    results = cluster.delete(states=(by_id(id_of_a), by_name("b")))
    assert [(r.name, r.topic_id, r.error_code) for r in results] == [("a", id_of_a, 0), ("b", id_of_b, 0)]
    assert cluster.controller.image.topics == {}


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (by_name("c"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (by_id(UNKNOWN), ErrorCode.UNKNOWN_TOPIC_ID),
        (by_id(ZERO_UUID), ErrorCode.INVALID_REQUEST),
        (DeleteTopicState("a", UNKNOWN), ErrorCode.INVALID_REQUEST),
    ],
)
def test_rejected_deletions(cluster: TopicHarness, state: DeleteTopicState, error: ErrorCode) -> None:
    (result,) = cluster.delete(states=(state,))
    assert result.error_code == error
    assert result.error_message
    assert (result.name, result.topic_id) == (state.name, state.topic_id)
    assert len(cluster.controller.image.topics) == 2


def test_topic_named_twice_is_not_deleted(cluster: TopicHarness) -> None:
    id_of_a = cluster.topic("a").id
    results = cluster.delete(states=(by_name("a"), by_name("b"), by_id(id_of_a)))
    assert [r.error_code for r in results] == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
    assert list(cluster.controller.image.topic_ids) == ["a"]
    (twice,) = cluster.delete("a", "a")
    assert (twice.name, twice.error_code) == ("a", ErrorCode.INVALID_REQUEST)


def test_request_larger_than_a_batch_is_rejected() -> None:
    cluster = TopicHarness((a_broker(1),))
    cluster.create(*(wanted(f"t{number}", 1, 1) for number in range(100)))
    cluster.controller.settings = ControllerSettings(max_batch_bytes=1000)
    results = cluster.delete(*(f"t{number}" for number in range(100)))
    assert {r.error_code for r in results} == {ErrorCode.POLICY_VIOLATION}
    assert cluster.delete("t1")[0].error_code == 0


@pytest.mark.parametrize("version", range(1, 7))
def test_responses_of_every_version_can_be_encoded(cluster: TopicHarness, version: int) -> None:
    request = DeleteTopicsRequest([by_name("a")]) if version == 6 else DeleteTopicsRequest([], ["a", "c"])
    assert encode(plan_delete_topics(cluster.controller, request, version).response, version)


def test_topic_is_found_by_name_or_id() -> None:
    image = ClusterImage()
    topic_id = KafkaUuid(b"the topic's id..")
    image.apply(TopicRecord("t", topic_id), [])
    for requested in ("t", DeleteTopicState("t"), DeleteTopicState(None, topic_id)):
        assert named_topic(image, requested) is image.topics[topic_id]
    assert named_topic(image, "u") is named_topic(image, DeleteTopicState(None, KafkaUuid(bytes(16)))) is None
