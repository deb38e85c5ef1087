"""Bounds of DescribeConfigs: what a short request may make a node describe, send and decode."""

from __future__ import annotations

import tracemalloc

import pytest

from quorumd.controller.config_requests import MAX_CONFIGS
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.node.api.configs import MAX_FORWARDED_WITH_OWN
from quorumd.node.api.large_requests import DESCRIPTIONS_AT_ONCE
from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.protocol.encoded_items import EncodedItems
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.wire import Message
from tests.support.node.recording_session import DecodingSession, RecordingSession
from tests.unit.node.api.test_configs import (
    BROKER,
    CLIENT_METRICS,
    TOPIC,
    TOPIC_ID,
    ConfigApiHarness,
    run_to_response,
)


@pytest.fixture
def harness() -> ConfigApiHarness:
    return ConfigApiHarness()


@pytest.fixture
def with_topic(harness: ConfigApiHarness) -> ConfigApiHarness:
    """Topic "t" with min.insync.replicas 2."""
    harness.image.apply(TopicRecord("t", TOPIC_ID), [])
    harness.image.set_config((TOPIC, "t"), "min.insync.replicas", "2", [])
    return harness


def test_repeated_resource_is_refused_once(with_topic: ConfigApiHarness) -> None:
    """It would otherwise get kilobytes for each mention of its name."""
    session = with_topic.describe((TOPIC, "t"), (CLIENT_METRICS, "m"), (TOPIC, "t"))
    with_topic.confirm()
    results = session.responses[0].results
    assert [(each.resource_name, each.error_code, each.configs) for each in results] == [
        ("t", ErrorCode.INVALID_REQUEST, []),
        ("m", 0, []),
    ]


def test_repeated_resource_of_a_large_request_is_refused_once(with_topic: ConfigApiHarness) -> None:
    names = ["t", *(f"m{number}" for number in range(MAX_PARTITIONS_PER_PART))]
    requested = [(TOPIC, names[0]), *((CLIENT_METRICS, name) for name in names[1:]), *[(TOPIC, "t")] * 1000]
    session = with_topic.describe(*requested, session=DecodingSession())
    results = run_to_response(with_topic, session).results
    found = {each.resource_name: each.error_code for each in results}
    assert found == dict.fromkeys(names, 0) | {"t": ErrorCode.INVALID_REQUEST}
    assert len(results) == len(names)


def test_topics_of_a_request_share_equal_entries(with_topic: ConfigApiHarness) -> None:
    """The entries of ten thousand topics would need 200 MB."""
    for name in ("u", "v"):
        with_topic.image.apply(TopicRecord(name, KafkaUuid(name.encode() * 16)), [])
    session = with_topic.describe((TOPIC, "t"), (TOPIC, "u"), (TOPIC, "v"))
    with_topic.confirm()
    with_own, first, second = session.responses[0].results
    assert first.configs is second.configs
    assert [each.name for each in first.configs] == [each.name for each in with_own.configs]
    assert first.configs != with_own.configs


def topics_with_own_configs(harness: ConfigApiHarness, count: int) -> list[tuple[int, str]]:
    names = [f"t{number}" for number in range(count)]
    for number, name in enumerate(names):
        harness.image.apply(TopicRecord(name, KafkaUuid((number + 1).to_bytes(16, "big"))), [])
        harness.image.set_config((TOPIC, name), "retention.ms", str(number), [])
    return [(TOPIC, name) for name in names]


def take_turns(harness: ConfigApiHarness) -> None:
    while harness.turns:
        harness.turns.pop(0)()


def test_few_parts_are_described_when_a_read_is_confirmed(harness: ConfigApiHarness) -> None:
    """Followers that respond late confirm all reads together: without a bound, all parts would be described in one
    iteration of the event loop."""
    topics = topics_with_own_configs(harness, MAX_PARTITIONS_PER_PART)
    session = harness.describe(*topics, session=DecodingSession())
    rounds = 0
    while not session.responses:
        take_turns(harness)
        assert 0 < len(harness.reads) <= DESCRIPTIONS_AT_ONCE
        harness.confirm()
        rounds += 1
    assert rounds > 2
    (response,) = session.responses
    assert [(each.resource_type, each.resource_name) for each in response.results] == topics
    assert {each.error_code for each in response.results} == {0}


def test_descriptions_need_hardly_more_memory_than_their_bytes(harness: ConfigApiHarness) -> None:
    """The objects of ten thousand topics with different configs took 190 MB."""
    topics = topics_with_own_configs(harness, 8 * MAX_PARTITIONS_PER_PART)
    session = RecordingSession()
    tracemalloc.start()
    try:
        harness.describe(*topics, session=session)
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        while not session.responses:
            take_turns(harness)
            harness.confirm()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (encoded,) = session.responses
    assert peak - before <= 2.5 * len(encoded), "the pieces and, for a moment, the whole"


def test_description_that_cannot_be_encoded_is_left_to_the_session(
    harness: ConfigApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It logs the error, and closes the connection; no further part is described."""

    def fail(encoded: EncodedItems, response: Message) -> None:
        raise ValueError("a string is too long")

    monkeypatch.setattr(EncodedItems, "add", fail)
    session = harness.describe(*topics_with_own_configs(harness, MAX_PARTITIONS_PER_PART))
    take_turns(harness)
    harness.confirm()
    take_turns(harness)
    assert len(session.responses) == 1
    assert harness.reads == []


def test_cancelled_descriptions_end(harness: ConfigApiHarness) -> None:
    session = harness.describe(*topics_with_own_configs(harness, MAX_PARTITIONS_PER_PART))
    take_turns(harness)
    (cancel,) = session.on_unblocked
    cancel()
    harness.confirm()
    take_turns(harness)
    assert (session.responses, harness.reads) == ([], [])


@pytest.mark.parametrize("extra", [0, 1])
def test_too_many_keys_of_a_resource_are_refused(with_topic: ConfigApiHarness, extra: int) -> None:
    keys = [f"key-{number}" for number in range(MAX_CONFIGS + extra)]
    session = with_topic.describe((TOPIC, "t"), keys=keys)
    with_topic.confirm()
    (result,) = session.responses[0].results
    assert result.error_code == (ErrorCode.INVALID_REQUEST if extra else 0)


@pytest.mark.parametrize("extra", [0, 1])
def test_static_configs_are_added_to_small_responses_only(harness: ConfigApiHarness, extra: int) -> None:
    """The response of the leader is decoded at once."""
    others = [(TOPIC, f"t{number}") for number in range(MAX_FORWARDED_WITH_OWN - 1 + extra)]
    harness.lose_leadership()
    session = harness.describe(*others, (BROKER, "1"), session=DecodingSession())
    while harness.turns:
        harness.turns.pop(0)()
    assert len(harness.forwarder.forwarded) == 1 - extra
    refused = [each.error_code for response in session.responses for each in response.results]
    assert refused == [ErrorCode.INVALID_REQUEST] * (len(others) + 1) * extra


def test_response_of_the_leader_is_not_decoded_if_this_node_is_not_named(harness: ConfigApiHarness) -> None:
    harness.lose_leadership()
    harness.describe((TOPIC, "t"), (BROKER, "2"))
    ((_, hook),) = harness.forwarder.forwarded
    assert hook is None
