"""kafka-python and librdkafka as producers and consumers of one node that is broker and controller.

Topics are created automatically. Unit tests of the broker cover errors and replication.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.request import urlopen

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from prometheus_client.parser import text_string_to_metric_families

from tests.support.processes.daemons import BrokerDaemon, run_quorumd, wait_for

PATIENCE_S = 60
RECORDS = 500
FIRST_MS = 1_700_000_000_000
"""The timestamp of the first record; the following timestamps increase by a second."""
VALUES = [b"value %d" % number for number in range(RECORDS)]
RDKAFKA_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerDaemon]:
    broker = BrokerDaemon(
        tmp_path_factory.mktemp("broker") / "node", extra="offsets.topic.replication.factor=1\n"
    )
    try:
        broker.start_and_wait()
        yield broker
    finally:
        broker.stop()


def produce_by_kafka_python(broker: BrokerDaemon, topic: str, **config: Any) -> None:
    with KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=5, **config) as producer:
        sent = [
            producer.send(topic, value, key=b"key", timestamp_ms=FIRST_MS + 1000 * number)
            for number, value in enumerate(VALUES)
        ]
        producer.flush(PATIENCE_S)
        assert [each.get(PATIENCE_S).offset for each in sent] == list(range(RECORDS))


def produce_by_librdkafka(broker: BrokerDaemon, topic: str, **config: Any) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "log_level": 0, **settings}
    )
    errors: list[Any] = []
    for number, value in enumerate(VALUES):
        producer.produce(
            topic,
            value,
            b"key",
            timestamp=FIRST_MS + 1000 * number,
            on_delivery=lambda error, _: errors.append(error),
        )
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert errors == [None] * RECORDS


def read_by_kafka_python(broker: BrokerDaemon, topic: str, offset: int = 0, **config: Any) -> list[bytes]:
    partition = TopicPartition(topic, 0)
    values = []
    with KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        enable_auto_commit=False,
        consumer_timeout_ms=1000 * PATIENCE_S,
        **config,
    ) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, offset)
        end = consumer.end_offsets([partition])[partition]
        for record in consumer:
            values.append(record.value)
            if record.offset == end - 1:
                break
    return values


def read_by_librdkafka(broker: BrokerDaemon, topic: str, offset: int = 0) -> list[bytes]:
    consumer = librdkafka_consumer(broker)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, offset)])
    _, end = consumer.get_watermark_offsets(
        confluent_kafka.TopicPartition(topic, 0), timeout=PATIENCE_S, cached=False
    )
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < end - offset and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.1):
            assert message.error() is None
            values.append(message.value())
    consumer.close()
    return values


def librdkafka_consumer(broker: BrokerDaemon) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )


@pytest.mark.parametrize("config", [{"acks": 1}, {"compression_type": "gzip"}], ids=repr)
def test_records_of_kafka_python_arrive_in_order(broker: BrokerDaemon, config: dict[str, Any]) -> None:
    topic = f"kafka-python-{config.get('compression_type')}"
    produce_by_kafka_python(broker, topic, enable_idempotence="acks" not in config, **config)
    assert read_by_kafka_python(broker, topic) == VALUES
    assert read_by_librdkafka(broker, topic) == VALUES


@pytest.mark.parametrize("codec", RDKAFKA_CODECS)
def test_records_of_librdkafka_arrive_in_order(broker: BrokerDaemon, codec: str) -> None:
    topic = f"librdkafka-{codec}"
    produce_by_librdkafka(broker, topic, compression_type=codec, enable_idempotence=True)
    assert read_by_librdkafka(broker, topic) == VALUES
    assert read_by_librdkafka(broker, topic, RECORDS - 1) == VALUES[-1:]
    if codec in ("none", "gzip"):
        assert read_by_kafka_python(broker, topic, isolation_level="read_committed") == VALUES


@pytest.mark.parametrize("codec", RDKAFKA_CODECS)
def test_offsets_by_timestamp(broker: BrokerDaemon, codec: str) -> None:
    """The broker does not decompress zstd: it returns the offset of a batch instead of a record."""
    topic = f"timestamps-{codec}"
    produce_by_librdkafka(broker, topic, compression_type=codec)
    consumer = librdkafka_consumer(broker)
    at = confluent_kafka.TopicPartition(topic, 0, FIRST_MS + 1000 * 100)
    (found,) = consumer.offsets_for_times([at], timeout=PATIENCE_S)
    (late,) = consumer.offsets_for_times(
        [confluent_kafka.TopicPartition(topic, 0, FIRST_MS + 1000 * RECORDS)], timeout=PATIENCE_S
    )
    consumer.close()
    assert found.offset == 100 or (codec == "zstd" and 0 <= found.offset < 100)
    assert late.offset == confluent_kafka.OFFSET_END
    assert VALUES[100] in read_by_librdkafka(broker, topic, found.offset)


def test_deleted_records_are_no_longer_read(broker: BrokerDaemon) -> None:
    topic = "deletions"
    produce_by_librdkafka(broker, topic, enable_idempotence=True)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    below = confluent_kafka.TopicPartition(topic, 0, 200)
    (deleted,) = admin.delete_records([below], request_timeout=PATIENCE_S).values()
    assert deleted.result(PATIENCE_S).low_watermark == 200
    partition = confluent_kafka.TopicPartition(topic, 0)
    specs = (OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.max_timestamp())
    offsets = [
        admin.list_offsets({partition: spec}, request_timeout=PATIENCE_S)[partition].result(PATIENCE_S).offset
        for spec in specs
    ]
    assert offsets == [200, RECORDS, RECORDS - 1]
    assert read_by_kafka_python(broker, topic, 200) == VALUES[200:]


def test_records_survive_a_restart(broker: BrokerDaemon) -> None:
    produce_by_kafka_python(broker, "kept")
    broker.stop()
    broker.start()
    wait_for("the broker to serve clients", lambda: broker.log_text().count("serves clients") == 2)
    assert read_by_kafka_python(broker, "kept") == VALUES
    assert read_by_librdkafka(broker, "kept", 1) == VALUES[1:]


def throttled(broker: BrokerDaemon) -> dict[str, float]:
    """Return the number of throttled requests by quota."""
    with urlopen(f"http://127.0.0.1:{broker.http_port}/metrics", timeout=PATIENCE_S) as response:
        samples = [
            sample
            for family in text_string_to_metric_families(response.read().decode())
            for sample in family.samples
        ]
    return {
        sample.labels["quota"]: sample.value
        for sample in samples
        if sample.name == "quorumd_throttled_requests_total"
    }


def test_clients_beyond_their_quotas_wait_and_lose_nothing(broker: BrokerDaemon) -> None:
    quotas = ("producer_byte_rate=1000", "consumer_byte_rate=1000", "controller_mutation_rate=1")
    client = ("--client-id", "metered", "--bootstrap-server", broker.bootstrap)
    done = run_quorumd("quotas", "set", *quotas, *client)
    assert done.returncode == 0, done.stderr
    wait_for("the quotas", lambda: "metered" in run_quorumd("quotas", "list", *client[2:]).stdout)
    produce_by_kafka_python(broker, "unmetered")
    assert throttled(broker) == {}
    produce_by_librdkafka(broker, "metered", client_id="metered")
    assert set(throttled(broker)) == {"producer_byte_rate"}
    assert read_by_kafka_python(broker, "metered", client_id="metered") == VALUES
    assert set(throttled(broker)) == {"producer_byte_rate", "consumer_byte_rate"}
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap, client_id="metered")) as admin:
        for name, partitions in (("large", 20), ("refused", 1)):
            admin.create_topics([NewTopic(name, partitions, 1)], raise_errors=False)
    assert throttled(broker)["controller_mutation_rate"] == 1
