"""librdkafka and kafka-python in groups with both protocols, and with transactions, on one node."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from tests.support.processes.daemons import BrokerDaemon, wait_for

PATIENCE_S = 60
RECORDS = 300
SETTINGS = (
    "offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n"
    "transaction.state.log.min.isr=1\ngroup.initial.rebalance.delay.ms=0\n"
    "group.consumer.heartbeat.interval.ms=500\n"
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerDaemon]:
    broker = BrokerDaemon(tmp_path_factory.mktemp("broker") / "node", extra=SETTINGS)
    try:
        broker.start_and_wait()
        client = admin(broker)
        for created in client.create_topics([NewTopic("records", 3, 1)]).values():
            created.result(PATIENCE_S)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(RECORDS):
            producer.produce("records", b"%d" % number, b"%d" % number)
        assert producer.flush(PATIENCE_S) == 0
        yield broker
    finally:
        broker.stop()


def admin(broker: BrokerDaemon) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def consume(consumers: list[Consumer], count: int) -> list[bytes]:
    """Poll all consumers until they have `count` records."""
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < deadline:
        for consumer in consumers:
            message = consumer.poll(0.1)
            if message is not None:
                assert message.error() is None, message.error()
                values.append(message.value())
    return values


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_two_members_share_the_partitions(broker: BrokerDaemon, protocol: str) -> None:
    config = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": f"librdkafka-{protocol}",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    members = [Consumer(config) for _ in range(2)]
    for member in members:
        member.subscribe(["records"])
    assert len(consume(members, RECORDS)) >= RECORDS

    def sizes() -> list[int]:
        for member in members:
            member.poll(0.05)
        return sorted(len(member.assignment()) for member in members)

    wait_for("both members to have partitions", lambda: sizes() == [1, 2], PATIENCE_S)
    partitions = [TopicPartition("records", number) for number in range(3)]
    ends = [members[0].get_watermark_offsets(each, timeout=PATIENCE_S)[1] for each in partitions]
    offsets = [TopicPartition("records", number, end) for number, end in enumerate(ends)]
    members[0].commit(offsets=offsets, asynchronous=False)
    committed = members[1].committed(partitions, timeout=PATIENCE_S)
    assert [each.offset for each in committed] == ends
    for member in members:
        member.close()
    client = admin(broker)
    listed = {group.group_id: group for group in client.list_consumer_groups().result(PATIENCE_S).valid}
    assert listed[f"librdkafka-{protocol}"].type.name == protocol.upper()


def test_members_share_the_topics_that_match_an_expression(broker: BrokerDaemon) -> None:
    client = admin(broker)
    for created in client.create_topics([NewTopic(f"orders-{n}", 2, 1) for n in (1, 2)]).values():
        created.result(PATIENCE_S)
    config = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "expressions",
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
    }
    members = [Consumer(config) for _ in range(2)]
    try:
        for member in members:
            member.subscribe(["^orders-.*"])

        def assigned() -> list[str]:
            for member in members:
                member.poll(0.05)
            return sorted(f"{each.topic}:{each.partition}" for m in members for each in m.assignment())

        expected = ["orders-1:0", "orders-1:1", "orders-2:0", "orders-2:1"]
        wait_for("the topics that match", lambda: assigned() == expected, PATIENCE_S)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("orders-later", b"first record")
        producer.produce("my-orders-1", b"does not match")
        assert producer.flush(PATIENCE_S) == 0
        expected = sorted([*expected, "orders-later:0"])
        wait_for("a later topic to be assigned", lambda: assigned() == expected, PATIENCE_S)
        members.pop().close()
        wait_for("one member to have them all", lambda: assigned() == expected, PATIENCE_S)
    finally:
        for member in members:
            member.close()


def test_expression_with_a_back_reference_is_refused(broker: BrokerDaemon) -> None:
    """librdkafka compiles expressions as well, but accepts more than RE2."""
    config = {"bootstrap.servers": broker.bootstrap, "group.id": "invalid", "group.protocol": "consumer"}
    consumer = Consumer(config)
    try:
        consumer.subscribe([r"^(orders)-\1"])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._FATAL
        assert "regular expression is not valid" in error.str().lower()
    finally:
        consumer.close()


def test_kafka_python_commits_to_its_group(broker: BrokerDaemon) -> None:
    config = {
        "bootstrap_servers": broker.bootstrap,
        "group_id": "kafka-python",
        "auto_offset_reset": "earliest",
    }
    with KafkaConsumer("records", consumer_timeout_ms=PATIENCE_S * 1000, **config) as first:
        assert len([next(first) for _ in range(RECORDS)]) == RECORDS
        first.commit()
        assert sum(first.committed(each) for each in first.assignment()) == RECORDS


def test_committed_transactions_are_read_with_their_offsets(broker: BrokerDaemon) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "librdkafka"})
    producer.init_transactions(PATIENCE_S)
    for value in (b"first", b"aborted", b"second"):
        producer.begin_transaction()
        producer.produce("transactions", value)
        producer.flush(PATIENCE_S)
        if value == b"aborted":
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
    config = {"bootstrap.servers": broker.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
    reader = Consumer({**config, "isolation.level": "read_committed", "enable.auto.commit": False})
    reader.subscribe(["transactions"])
    assert consume([reader], 2) == [b"first", b"second"]
    producer.begin_transaction()
    positions = reader.position(reader.assignment())
    producer.send_offsets_to_transaction(positions, reader.consumer_group_metadata(), PATIENCE_S)
    producer.commit_transaction(PATIENCE_S)
    committed = reader.committed(reader.assignment(), timeout=PATIENCE_S)
    assert [each.offset for each in committed] == [each.offset for each in positions]
    reader.close()


def test_kafka_python_commits_a_transaction(broker: BrokerDaemon) -> None:
    with KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="kafka-python") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        sent = producer.send("kafka-python-transactions", b"value")
        producer.commit_transaction()
        assert sent.get(PATIENCE_S).offset == 0
