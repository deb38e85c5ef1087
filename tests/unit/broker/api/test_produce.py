from __future__ import annotations

from typing import Any

import pytest

from quorumd.broker.api import produce
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorumd.protocol.wire import Message
from tests.support.broker.api_clients import Client, produce_request
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.call_counter import CallCounter
from tests.support.log.data_batches import produced
from tests.support.node.recording_session import DecodingSession


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("acks", [1, -1])
def test_batch_is_appended_and_its_offset_returned(client: Client, version: int, acks: int) -> None:
    for expected in (0, 2):
        result = client.produce(produced([(b"k", b"v")] * 2), acks=acks, version=version)
        assert (result.error_code, result.base_offset) == (0, expected)
        assert result.log_start_offset == (0 if version >= 5 else -1)
    hosted = client.cluster.hosted(1, "events")
    assert hosted is not None
    assert hosted.log.end_offset == 4


def test_topics_by_id(client: Client) -> None:
    topic_id = client.cluster.controller.image.topic_ids["events"]
    data = [PartitionProduceData(0, produced())]
    topics = [TopicProduceData("", topic_id, data), TopicProduceData("", KafkaUuid(b"x" * 16), data)]
    response = client.call(ProduceRequest(None, 1, 100, topics), 13)
    assert [(topic.topic_id, topic.partition_responses[0].error_code) for topic in response.responses] == [
        (topic_id, 0),
        (KafkaUuid(b"x" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_partitions_of_a_request_have_results_of_their_own(client: Client) -> None:
    batches = {0: produced(), 1: b"no batch" * 10, 7: produced()}
    data = [PartitionProduceData(number, records) for number, records in batches.items()]
    response = client.call(
        ProduceRequest(None, -1, 100, [TopicProduceData("events", partition_data=data)]), 12
    )
    results = response.responses[0].partition_responses
    assert [(each.index, each.error_code, each.base_offset) for each in results] == [
        (0, 0, 0),
        (1, ErrorCode.INVALID_RECORD, -1),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    assert "magic" in results[1].error_message


@pytest.mark.parametrize(
    ("records", "version", "error", "text"),
    [
        (b"", 12, ErrorCode.INVALID_RECORD, "has none"),
        (produced([]), 12, ErrorCode.INVALID_RECORD, "count 0"),
        (produced()[:-1] + b"\x01", 12, ErrorCode.CORRUPT_MESSAGE, "CRC"),
        (produced([(b"k", b"v" * 2_000)]), 12, ErrorCode.MESSAGE_TOO_LARGE, "max.message.bytes is 1000"),
        (
            produced(codec=0)[:22] + b"\x04" + produced()[23:],
            6,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "zstd",
        ),
        (produced()[:22] + b"\x05" + produced()[23:], 12, ErrorCode.CORRUPT_MESSAGE, "CRC"),
    ],
    ids=["empty", "no records", "corrupt", "too large", "zstd", "unknown codec"],
)
def test_invalid_batches_are_refused_with_the_reason(
    cluster: SimulatedBrokers, records: bytes, version: int, error: ErrorCode, text: str
) -> None:
    cluster.create_topic("small", (1,), max_message_bytes="1000")
    cluster.await_leader("small")
    result = Client(cluster).produce(records, topic="small", version=version)
    assert (result.error_code, result.base_offset) == (error, -1)
    assert result.error_message is None if version < 8 else text in result.error_message


def test_acks_other_than_0_1_and_all_are_refused(client: Client) -> None:
    assert client.produce(acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    hosted = client.cluster.hosted(1, "events")
    assert hosted is not None
    assert hosted.log.end_offset == 0


def test_acks_0_gets_no_response_and_an_error_closes_the_connection(client: Client) -> None:
    client.send(produce_request(acks=0), 12)
    assert (client.responses, len(client.session.completed), client.session.is_closed) == ([], 1, False)
    client.send(produce_request(topic="unknown", acks=0), 12)
    assert (client.responses, len(client.session.completed), client.session.is_closed) == ([], 1, True)


def test_only_the_admin_client_writes_to_internal_topics(cluster: SimulatedBrokers) -> None:
    cluster.create_topic("__consumer_offsets", (1,))
    cluster.await_leader("__consumer_offsets")
    assert Client(cluster).produce(topic="__consumer_offsets").error_code == ErrorCode.INVALID_TOPIC
    admin = Client(cluster, client_id="__admin_client")
    assert admin.produce(produced([(b"k", b"v")]), topic="__consumer_offsets").error_code == 0


def test_repeated_batch_of_an_idempotent_producer_keeps_its_offset(client: Client) -> None:
    batches = [produced(producer_id=9, producer_epoch=0, sequence=sequence) for sequence in range(3)]
    assert [client.produce(each).base_offset for each in batches] == [0, 1, 2]
    assert client.produce(batches[1]).base_offset == 1
    skipped = client.produce(produced(producer_id=9, producer_epoch=0, sequence=7))
    assert skipped.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_response_leaves_once_all_partitions_are_replicated() -> None:
    """One topic has its result at once, the other only at the timeout: its follower is dead."""
    cluster = SimulatedBrokers((1, 2))
    cluster.start()
    cluster.create_topic("replicated", (1, 2))
    cluster.create_topic("events", (1,))
    cluster.await_leader("replicated")
    cluster.await_leader("events")
    cluster.brokers[2].kill()
    client = Client(cluster)
    topics = [
        TopicProduceData(name, partition_data=[PartitionProduceData(0, produced())])
        for name in ("replicated", "events")
    ]
    client.send(ProduceRequest(None, -1, 1000, topics), 12)
    cluster.run_for(900.0)
    assert client.responses == []
    cluster.run_for(200.0)
    results = [topic.partition_responses[0] for topic in client.responses[0].responses]
    assert [result.error_code for result in results] == [ErrorCode.REQUEST_TIMED_OUT, 0]


def test_follower_names_the_leader_and_its_endpoint() -> None:
    cluster = SimulatedBrokers((1, 2))
    cluster.start()
    cluster.create_topic("events", (2, 1))
    cluster.await_leader("events")
    cluster.run_for(100.0)
    client = Client(cluster, 1)
    for version, leader in ((9, (-1, -1)), (12, (2, 0))):
        response: Any = client.call(produce_request(), version)
        result = response.responses[0].partition_responses[0]
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == leader
        endpoints = [(each.node_id, each.host, each.port) for each in response.node_endpoints]
        assert endpoints == ([(2, "broker-2", 9092)] if version >= 10 else [])


def test_waiting_request_does_not_keep_its_batches(client: Client) -> None:
    kept: list[Any] = []
    respond = client.session.respond
    client.session.respond = lambda request, message: (  # type: ignore[method-assign]  # to see the request
        kept.append((request.message.topic_data, request.frame)),
        respond(request, message),
    )[0]
    assert client.produce().error_code == 0
    assert kept == [([], b"")]


def with_compacted_topic(cluster: SimulatedBrokers) -> Client:
    cluster.create_topic("compacted", (1,), (1,), cleanup_policy="compact")
    cluster.await_leader("compacted")
    cluster.await_leader("compacted", 1)
    return Client(cluster)


def test_keys_of_a_compacted_topic(cluster: SimulatedBrokers) -> None:
    client = with_compacted_topic(cluster)
    for codec in (0, 1):
        keyed, keyless = produced([(b"k", b"v")] * 2, codec=codec), produced([(None, b"v")], codec=codec)
        assert client.produce(keyed, topic="compacted").base_offset == 2 * codec
        assert client.produce(keyless, topic="compacted").error_code == ErrorCode.INVALID_RECORD
        assert client.produce(keyless).error_code == 0
        damaged = keyed[:-1] + bytes((keyed[-1] ^ 1,))
        refused = client.produce(damaged, topic="compacted")
        assert (refused.error_code, refused.record_errors) == (ErrorCode.CORRUPT_MESSAGE, [])


@pytest.mark.parametrize(("limit", "named"), [(10, [[1, 3], [0]]), (2, [[1, 3], []])])
def test_records_without_keys_are_named(
    cluster: SimulatedBrokers, monkeypatch: pytest.MonkeyPatch, limit: int, named: list[list[int]]
) -> None:
    """The producer may send the others again (KIP-467)."""
    monkeypatch.setattr(produce, "MAX_RECORD_ERRORS", limit)
    client = with_compacted_topic(cluster)
    batches = [[(b"k", b""), (None, b""), (b"k", b""), (None, b"")], [(None, b"")], [(b"k", b"")]]
    data = [PartitionProduceData(number % 2, produced(each)) for number, each in enumerate(batches)]
    topics = [TopicProduceData("compacted", partition_data=data)]
    (topic,) = client.call(ProduceRequest(None, -1, 100, topics), 12).responses
    results = topic.partition_responses
    assert [each.error_code for each in results] == [ErrorCode.INVALID_RECORD, ErrorCode.INVALID_RECORD, 0]
    assert [[each.batch_index for each in result.record_errors] for result in results] == [*named, []]


@pytest.mark.parametrize("codec", [0, 1])
def test_turns_of_validating_keys_are_bounded(cluster: SimulatedBrokers, codec: int) -> None:
    """The producer of a batch chooses its records: 50,000 of them took 140 ms in one turn, and one part of a request
    may have 250 batches."""
    client = with_compacted_topic(cluster)
    longest = []
    for count in (2000, 8000):
        batch = produced([(b"k", b"")] * count, codec=codec)
        data = [PartitionProduceData(number, batch) for number in (0, 1)]
        client.session, calls = DecodingSession(), CallCounter()
        with calls.counted():
            client.send(
                ProduceRequest(None, -1, 100, [TopicProduceData("compacted", partition_data=data)]), 12
            )
        assert len(client.session.held) == 1, "later requests of the connection wait"
        while not client.responses:
            with calls.counted():
                cluster.heap.step(cluster.heap.now_ms + 1000)
        results = client.responses[0].responses[0].partition_responses
        assert [each.error_code for each in results] == [0, 0]
        longest.append(calls.longest)
    assert longest[1] <= 1.2 * longest[0]


def test_received_batches_count_until_their_keys_are_valid(cluster: SimulatedBrokers) -> None:
    client = with_compacted_topic(cluster)
    batch = produced([(b"k", b"")] * 8000)
    topics = [TopicProduceData("compacted", partition_data=[PartitionProduceData(0, batch)])]
    request: Request[Message] = Request(
        ApiKey.PRODUCE, 12, 7, "test", ProduceRequest(None, 1, 100, topics), b"the received frame", 0
    )
    route = next(each for each in cluster.routes(1) if each.api_key == ApiKey.PRODUCE)
    route.handler(client.session, request)
    assert request.frame
    cluster.run_until(lambda: bool(client.responses))
    assert not request.frame


def test_broker_may_lose_leadership_while_it_validates_keys(cluster: SimulatedBrokers) -> None:
    client = with_compacted_topic(cluster)
    client.send(produce_request(produced([(b"k", b"")] * 8000), topic="compacted"), 12)
    hosted = cluster.hosted(1, "compacted")
    assert hosted is not None
    hosted.replica.resign()
    cluster.run_until(lambda: bool(client.responses))
    (result,) = client.responses[0].responses[0].partition_responses
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
