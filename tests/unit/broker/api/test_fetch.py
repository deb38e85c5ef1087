from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quorumd.broker.api import fetch as fetch_module
from quorumd.broker.api.fetch import LARGE_RESPONSE_BYTES
from quorumd.broker.log.transaction_marker import TransactionMarker
from quorumd.broker.settings.api_settings import ApiSettings
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.log.batch_extents import end_offset_of
from quorumd.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from quorumd.security.acls import Acl, Operation, ResourceType
from quorumd.security.authorizer import Access
from quorumd.security.authorizer import Client as AccessClient
from tests.support.broker.api_clients import Client
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.log.data_batches import produced
from tests.support.security.rights import allow, authorizer_of, on_cluster

NO_WAIT: dict[str, Any] = {"max_wait_ms": 0}


def fetch_request(
    *positions: FetchPartition,
    topic: str = "events",
    topic_id: KafkaUuid | None = None,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    **others: Any,
) -> FetchRequest:
    """Fetch partitions of one topic; by name, without a topic id."""
    topics = [
        FetchTopic(topic if topic_id is None else "", topic_id or KafkaUuid(bytes(16)), list(positions))
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=topics if positions else [], **others
    )


def at(offset: int, number: int = 0, max_bytes: int = 1 << 20, **others: Any) -> FetchPartition:
    return FetchPartition(number, fetch_offset=offset, partition_max_bytes=max_bytes, **others)


def only(response: Any) -> Any:
    """The only partition of a response."""
    assert response.error_code == 0
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def fetch(client: Client, *positions: FetchPartition, version: int = 12, **others: Any) -> Any:
    return client.call(fetch_request(*positions, **others), version)


@pytest.mark.parametrize("version", range(4, 19))
def test_records_are_the_bytes_of_the_log(client: Client, version: int) -> None:
    client.produce(produced([(b"k", b"first")]))
    client.produce(produced([(b"k", b"second")] * 2))
    topic_id = client.cluster.controller.image.topic_ids["events"] if version >= 13 else None
    hosted = client.cluster.hosted(1, "events")
    assert hosted is not None
    for offset in (0, 1, 2):
        partition = only(fetch(client, at(offset), version=version, topic_id=topic_id))
        assert partition.records == hosted.log.read(offset, 1 << 20, 3)
        assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)
        assert partition.aborted_transactions is None
        assert end_offset_of(partition.records) == 3


def test_fetch_waits_for_records_and_is_woken_by_them(client: Client) -> None:
    cluster = client.cluster
    client.send(fetch_request(at(0), max_wait_ms=60_000), 12)
    cluster.run_for(1_000.0)
    assert client.responses == []
    before_ms = cluster.heap.now_ms
    Client(cluster).produce()
    cluster.run_for(0.0)
    assert only(client.responses[0]).records != b""
    assert cluster.heap.now_ms - before_ms < 100.0


def test_fetch_without_records_gets_an_empty_response_after_max_wait(client: Client) -> None:
    client.send(fetch_request(at(0), max_wait_ms=300), 12)
    client.cluster.run_for(299.0)
    assert client.responses == []
    client.cluster.run_for(2.0)
    assert only(client.responses[0]).records == b""


def test_fetch_waits_for_min_bytes_over_all_partitions(client: Client) -> None:
    cluster, producer = client.cluster, Client(client.cluster)
    size = len(produced())
    client.send(fetch_request(at(0), at(0, 1), min_bytes=2 * size + 1, max_wait_ms=60_000), 12)
    for number in (0, 1):
        producer.produce(number=number)
        cluster.run_for(50.0)
        assert client.responses == []
    producer.produce(number=0)
    cluster.run_for(0.0)
    (response,) = client.responses
    assert [len(each.records) for each in response.responses[0].partitions] == [2 * size, size]


def test_limits_of_bytes_leave_the_first_batch_whole(client: Client) -> None:
    size = len(produced())
    for number in (0, 0, 0, 1, 1):
        client.produce(number=number)
    for partition_max, request_max, sizes in (
        (1, 1 << 20, [size, 0]),
        (2 * size, 1 << 20, [2 * size, 2 * size]),
        (3 * size - 1, 3 * size, [2 * size, size]),
        (1 << 20, 1, [size, 0]),
        (0, 0, [size, 0]),
    ):
        positions = [at(0, max_bytes=partition_max), at(0, 1, max_bytes=partition_max)]
        response = fetch(client, *positions, max_bytes=request_max)
        assert [len(each.records) for each in response.responses[0].partitions] == sizes


@pytest.mark.parametrize(
    ("position", "error"),
    [
        (at(-1), ErrorCode.OFFSET_OUT_OF_RANGE),
        (at(2), ErrorCode.OFFSET_OUT_OF_RANGE),
        (at(0, 9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (at(0, current_leader_epoch=1), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (at(0, last_fetched_epoch=7), ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_errors_do_not_wait(client: Client, position: FetchPartition, error: ErrorCode) -> None:
    client.produce()
    partition = only(fetch(client, position, max_wait_ms=60_000))
    assert (partition.error_code, partition.high_watermark, partition.records) == (error, -1, b"")
    assert client.cluster.heap.now_ms < 10_000.0


def test_unknown_topic_ids(client: Client) -> None:
    response = fetch(client, at(0), version=17, topic_id=KafkaUuid(b"x" * 16))
    assert only(response).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_consumer_reads_committed_transactions_up_to_the_last_stable_offset(client: Client) -> None:
    hosted = client.cluster.hosted(1, "events")
    assert hosted is not None
    broker = client.cluster.brokers[1].broker
    times: dict[str, Any] = {"timestamps": [broker.clock.wall_ms()]}
    for sequence in (0, 1):
        client.append_verified(
            produced(producer_id=5, producer_epoch=0, sequence=sequence, transactional=True, **times)
        )
    client.produce(produced(**times))
    results: list[Any] = []
    broker.partitions.append_marker(hosted, 5, 0, TransactionMarker(False, 0), 100.0, results.append)
    client.append_verified(produced(producer_id=6, producer_epoch=0, sequence=0, transactional=True, **times))
    committed = only(fetch(client, at(0), isolation_level=1))
    assert (committed.high_watermark, committed.last_stable_offset) == (5, 4)
    assert end_offset_of(committed.records) == 4
    aborted = [(each.producer_id, each.first_offset) for each in committed.aborted_transactions]
    assert aborted == [(5, 0)]
    uncommitted = only(fetch(client, at(0)))
    assert end_offset_of(uncommitted.records) == 5
    assert uncommitted.aborted_transactions is None
    assert only(fetch(client, at(4), isolation_level=1, **NO_WAIT)).records == b""


def test_only_brokers_fetch_very_many_partitions(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """50,000 partitions took 125 ms."""
    monkeypatch.setattr(fetch_module, "MAX_FETCHED", 2)
    many = [at(0, number) for number in range(3)]
    topic_id = client.cluster.controller.image.topic_ids["events"]
    epoch = client.cluster.controller.image.brokers[1].epoch
    for replica_epoch, error in ((epoch, 0), (epoch + 1, ErrorCode.INVALID_REQUEST)):
        state = ReplicaState(1, replica_epoch)
        response = fetch(client, *many, version=17, topic_id=topic_id, replica_state=state, **NO_WAIT)
        assert response.error_code == error
    assert fetch(client, *many).error_code == ErrorCode.INVALID_REQUEST
    session_id = fetch(client, *many[:2], session_epoch=0, **NO_WAIT).session_id
    grown = fetch(client, many[2], session_id=session_id, session_epoch=1, **NO_WAIT)
    assert grown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_names_only_partitions_with_news(client: Client) -> None:
    client.produce()
    first = fetch(client, at(0), at(0, 1), session_epoch=0)
    assert first.session_id > 0
    assert [each.partition_index for each in first.responses[0].partitions] == [0, 1]
    session: dict[str, Any] = {"session_id": first.session_id}
    second = fetch(client, at(1), session_epoch=1, **NO_WAIT, **session)
    assert (second.error_code, second.responses) == (0, [])
    client.produce(number=1)
    third = only(fetch(client, session_epoch=2, **session))
    assert (third.partition_index, end_offset_of(third.records)) == (1, 1)
    assert fetch(client, session_epoch=2, **session).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert fetch(client, session_id=1, session_epoch=5).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    by_id = fetch(client, session_epoch=3, version=15, **session)
    assert by_id.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    forgotten = [ForgottenTopic("events", partitions=[1])]
    fourth = fetch(client, session_epoch=3, forgotten_topics_data=forgotten, **NO_WAIT, **session)
    assert (fourth.error_code, fourth.responses) == (0, [])


def test_parked_fetch_ends_when_the_leader_changes() -> None:
    cluster = SimulatedBrokers((1, 2))
    cluster.start()
    cluster.create_topic("events", (1, 2))
    cluster.await_leader("events")
    cluster.run_for(100.0)
    client = Client(cluster)
    topic_id = cluster.controller.image.topic_ids["events"]
    request = fetch_request(at(0, current_leader_epoch=0), topic_id=topic_id, max_wait_ms=60_000)
    client.send(request, 17)
    cluster.brokers[1].broker.lifecycle.shut_down()
    cluster.run_until(lambda: bool(client.responses))
    response = client.responses[0]
    partition = only(response)
    assert partition.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 1)
    assert [(each.node_id, each.host) for each in response.node_endpoints] == [(2, "broker-2")]


class Replicated:
    """Broker 1 leads `events`; broker 2 is a replica whose fetches the test sends."""

    def __init__(
        self, prepare: Callable[[SimulatedBrokers], None] = lambda cluster: None, **settings: Any
    ) -> None:
        self.cluster = cluster = SimulatedBrokers((1, 2), **settings)
        prepare(cluster)
        cluster.start()
        self.topic_id = cluster.create_topic("events", (1, 2))
        cluster.await_leader("events")
        cluster.run_for(100.0)
        self.client = Client(cluster)
        self.follower_epoch = cluster.controller.image.brokers[2].epoch

    def fetch(self, position: FetchPartition, broker_epoch: int | None = None, **others: Any) -> Any:
        """Fetch as the follower."""
        epoch = self.follower_epoch if broker_epoch is None else broker_epoch
        request = fetch_request(
            position, topic_id=self.topic_id, replica_state=ReplicaState(2, epoch), **others
        )
        return only(self.client.call(request, 18))


def test_fetch_of_a_follower_advances_the_high_watermark() -> None:
    replicated = Replicated()
    replicated.cluster.brokers[2].kill()
    client = Client(replicated.cluster)
    client.send(fetch_request(at(0), max_wait_ms=60_000), 12)
    Client(replicated.cluster).produce(acks=1)
    replicated.cluster.run_for(10.0)
    assert client.responses == [], "not committed yet"
    records = replicated.fetch(at(0, current_leader_epoch=0)).records
    assert end_offset_of(records) == 1
    replicated.fetch(at(1, current_leader_epoch=0), max_wait_ms=0)
    replicated.cluster.run_for(1.0)
    assert only(client.responses[0]).records == records
    assert only(client.responses[0]).high_watermark == 1


def test_follower_that_does_not_know_the_high_watermark_gets_it_at_once() -> None:
    replicated = Replicated()
    replicated.cluster.brokers[2].kill()
    Client(replicated.cluster).produce(acks=1)
    before_ms = replicated.cluster.heap.now_ms
    fetched = replicated.fetch(at(1, current_leader_epoch=0, high_watermark=0), max_wait_ms=60_000)
    assert fetched.high_watermark == 1
    assert replicated.cluster.heap.now_ms - before_ms < 1_000.0


def test_follower_errors_and_divergence() -> None:
    replicated = Replicated()
    Client(replicated.cluster).produce(acks=1)
    fetched = replicated.fetch(at(1, current_leader_epoch=0, last_fetched_epoch=0), broker_epoch=0)
    assert fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, "an earlier incarnation"
    diverged = replicated.fetch(at(5, current_leader_epoch=0, last_fetched_epoch=0), max_wait_ms=60_000)
    assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (0, 1)
    assert (diverged.error_code, diverged.records) == (0, b"")


def test_large_response_blocks_its_connection_and_counts_as_memory(client: Client) -> None:
    batch = produced([(b"k", bytes(LARGE_RESPONSE_BYTES))])
    client.produce(batch)
    only(fetch(client, at(0)))
    assert len(client.session.held) == 1
    (received,) = client.session.on_unblocked
    received()


def test_responses_beyond_the_memory_of_the_broker_have_one_batch(cluster: SimulatedBrokers) -> None:
    batch = produced([(b"k", bytes(LARGE_RESPONSE_BYTES // 2 - 1000))])
    producer = Client(cluster)
    for number in (0, 0, 1, 1):
        producer.produce(batch, number=number)
    apis = cluster.fetch_apis(1)
    apis.memory.limit = 5 * len(batch)
    clients = [Client(cluster) for _ in range(3)]

    def batches(client: Client) -> int:
        (topic,) = fetch(client, at(0), at(0, 1)).responses
        return sum(len(each.records) for each in topic.partitions) // len(batch)

    assert [batches(each) for each in clients] == [4, 1, 1]
    assert apis.memory.used == 4 * len(batch)
    clients[0].session.on_unblocked[0]()
    assert apis.memory.used == 0
    assert batches(producer) == 4


def test_records_that_are_read_when_they_are_sent_need_no_memory(cluster: SimulatedBrokers) -> None:
    batch = produced([(b"k", bytes(LARGE_RESPONSE_BYTES))])
    producer = Client(cluster)
    for _ in range(3):
        producer.produce(batch)
    apis = cluster.fetch_apis(1)
    apis.memory.limit = 4 * len(batch)
    clients = [Client(cluster) for _ in range(3)]
    assert [len(only(fetch(each, at(0))).records) // len(batch) for each in clients] == [3, 3, 3]
    assert apis.memory.used == 0
    assert all(len(each.session.held) == 1 for each in clients)


def test_closed_connection_leaves_no_parked_fetch(cluster: SimulatedBrokers) -> None:
    client = Client(cluster)
    client.send(fetch_request(at(0), max_wait_ms=60_000), 12)
    purgatory = cluster.fetch_apis(1).purgatory
    assert len(purgatory) == 1
    client.session.on_unblocked[0]()
    assert len(purgatory) == 0
    Client(cluster).produce()
    cluster.run_for(10.0)
    assert client.responses == []


def racks(*, is_rack_aware: bool = True) -> Replicated:
    """Broker 1 in rack a leads, its follower is in rack b."""

    def place(cluster: SimulatedBrokers) -> None:
        for broker_id, rack in ((1, "a"), (2, "b")):
            broker = cluster.brokers[broker_id]
            broker.settings = replace(broker.settings, rack=rack)

    return Replicated(place, api=ApiSettings(is_rack_aware=is_rack_aware))


@pytest.mark.parametrize(
    ("rack", "is_rack_aware", "version", "expected"),
    [("b", True, 12, 2), ("a", True, 12, -1), ("c", True, 12, -1), ("b", False, 12, -1), ("", True, 12, -1)],
)
def test_consumer_is_sent_to_the_replica_in_its_rack(
    rack: str, is_rack_aware: bool, version: int, expected: int
) -> None:
    replicated = racks(is_rack_aware=is_rack_aware)
    replicated.cluster.produce_and_wait("events")
    replicated.cluster.run_for(1_000.0)
    response = fetch(replicated.client, at(0), version=version, rack_id=rack, max_wait_ms=60_000)
    partition = only(response)
    assert partition.preferred_read_replica == expected
    assert (partition.records == b"") == (expected >= 0)


def test_follower_serves_consumers_and_wakes_them() -> None:
    replicated = racks()
    cluster = replicated.cluster
    consumer = Client(cluster, 2)
    consumer.send(fetch_request(at(0, current_leader_epoch=0), max_wait_ms=60_000), 12)
    cluster.produce_and_wait("events")
    cluster.run_for(1_000.0)
    assert only(consumer.responses[0]).records != b""
    older = only(fetch(consumer, at(0), version=10))
    assert older.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert only(fetch(consumer, at(9))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_change_of_the_leader_ends_a_fetch_that_waits_for_many_bytes() -> None:
    replicated = Replicated()
    request = fetch_request(
        at(0, current_leader_epoch=0), topic_id=replicated.topic_id, max_wait_ms=60_000, min_bytes=1_000
    )
    replicated.client.send(request, 17)
    replicated.cluster.brokers[1].broker.lifecycle.shut_down()
    replicated.cluster.run_until(lambda: bool(replicated.client.responses), 10_000.0)
    assert only(replicated.client.responses[0]).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_parked_fetch_of_a_follower_counts_as_progress_once() -> None:
    replicated = Replicated()
    cluster = replicated.cluster
    cluster.brokers[2].kill()
    cluster.run_for(600.0)
    request = fetch_request(
        at(0, current_leader_epoch=0),
        topic_id=replicated.topic_id,
        max_wait_ms=60_000,
        replica_state=ReplicaState(2, replicated.follower_epoch),
    )
    hosted = cluster.hosted(1, "events")
    assert hosted is not None
    assert hosted.replica.leadership is not None
    follower = hosted.replica.leadership.followers[2]
    replicated.client.send(request, 18)
    fetched_ms = follower.fetched_ms
    cluster.run_for(1_000.0)
    Client(cluster).produce(acks=1)
    cluster.run_for(10.0)
    assert end_offset_of(only(replicated.client.responses[0]).records) == 1
    assert follower.fetched_ms == fetched_ms


# Rights


class Rights:
    """The access of the client alice, whose ACLs change."""

    def __init__(self, cluster: SimulatedBrokers) -> None:
        self.acls: list[Acl] = []
        self.client = Client(cluster)
        self.client.use(cluster.brokers[1].broker.routes(lambda session, key: self.access()))

    def access(self) -> Access:
        return Access(authorizer_of(self.acls), AccessClient("User:alice", "10.0.0.1", "Fetch"))


@pytest.mark.parametrize("version", [12, 13])
def test_consumer_needs_read_with_every_fetch_of_its_session(cluster: SimulatedBrokers, version: int) -> None:
    rights = Rights(cluster)
    read = allow(Operation.READ, ResourceType.TOPIC, "events")
    topic_id = cluster.controller.image.topic_ids["events"] if version >= 13 else None
    rights.acls = [read]
    first = fetch(rights.client, at(0), version=version, topic_id=topic_id, session_epoch=0, **NO_WAIT)
    assert only(first).error_code == 0
    rights.acls = []
    others = {"session_id": first.session_id, "session_epoch": 1}
    refused = fetch(rights.client, version=version, topic_id=topic_id, **others)
    assert only(refused).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not only(refused).records


def test_unknown_topic_ids_need_no_right(cluster: SimulatedBrokers) -> None:
    response = fetch(Rights(cluster).client, at(0), version=13, topic_id=KafkaUuid(b"?" * 16), **NO_WAIT)
    assert only(response).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_follower_needs_cluster_action(cluster: SimulatedBrokers) -> None:
    rights = Rights(cluster)
    state = {
        "replica_state": ReplicaState(2, 1),
        "topic_id": cluster.controller.image.topic_ids["events"],
        **NO_WAIT,
    }
    refused = fetch(rights.client, at(0), version=15, **state)
    assert only(refused).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rights.acls = [on_cluster(Operation.CLUSTER_ACTION)]
    allowed = fetch(rights.client, at(0), version=15, **state)
    assert only(allowed).error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED
