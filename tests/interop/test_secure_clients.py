"""Client libraries on `quorumd cluster up --secure`: SASL_SSL with SCRAM, ACLs, and rejected clients."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from quorumd.cli.local_cluster import LocalCluster
from quorumd.errors import RequestFailed
from quorumd.pipeline.source.options import parse_options
from tests.support.processes.daemons import PATIENCE_S, run_quorumd, wait_for
from tests.support.processes.ports import free_base_port

TOPIC, PASSWORD, MECHANISM = "orders", "alice-secret", "SCRAM-SHA-512"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start a node with both roles, a topic, and the user alice, who may write it, and read it with any group."""
    directory = tmp_path_factory.mktemp("secure") / "c"
    up = (
        "cluster",
        "up",
        "--dir",
        directory,
        "--secure",
        "--brokers",
        "--nodes",
        1,
        "--base-port",
        free_base_port(),
    )
    try:
        started = run_quorumd(*up, "--detach")
        assert started.returncode == 0, started.stderr
        local = LocalCluster.open(directory)
        quorumd(local, "topics", "create", TOPIC, "--partitions", "1")
        for user in ("alice", "mallory"):
            quorumd(local, "users", "add", user, "--password", PASSWORD)
        acl = ("acls", "add", "--principal", "User:alice", "--operation", "read")
        quorumd(local, *acl, "--operation", "write", "--resource", "topic", "--name", TOPIC)
        quorumd(local, *acl, "--resource", "group", "--name", "*")
        yield local
    finally:
        run_quorumd("cluster", "down", "--dir", directory)


def quorumd(local: LocalCluster, *arguments: str) -> str:
    """Run a command as the user admin, with the client file that `cluster up` has written."""
    assert local.security is not None
    client = ("--bootstrap-server", local.bootstrap, "--command-config", local.security.client_file)
    done = run_quorumd(*arguments, *client)
    assert done.returncode == 0, done.stderr
    return done.stdout


def authority(local: LocalCluster) -> Path:
    return local.directory / "security/ca.pem"


def librdkafka(local: LocalCluster, user: str = "alice", password: str = PASSWORD) -> dict[str, str]:
    return {
        "bootstrap.servers": local.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": str(authority(local)),
        "log_level": "0",
    }


def in_python(local: LocalCluster, user: str = "alice") -> dict[str, str]:
    return {
        "bootstrap_servers": local.bootstrap,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": user,
        "sasl_plain_password": PASSWORD,
    }


def test_confluent_kafka_produces_and_consumes(cluster: LocalCluster) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer(librdkafka(cluster))
    producer.produce(TOPIC, b"confluent", callback=lambda error, message: errors.append(error))
    producer.flush(PATIENCE_S)
    assert errors == [None]
    consumer = Consumer(librdkafka(cluster) | {"group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    values: set[bytes | None] = set()

    def seen() -> bool:
        message = consumer.poll(1)
        if message is not None and not message.error():
            values.add(message.value())
        return b"confluent" in values

    wait_for("the record", seen)
    consumer.close()


def test_kafka_python_produces_and_consumes(cluster: LocalCluster) -> None:
    options = in_python(cluster) | {"ssl_cafile": str(authority(cluster))}
    with KafkaProducer(**options) as producer:
        producer.send(TOPIC, b"kafka-python").get(PATIENCE_S)
    with KafkaConsumer(TOPIC, group_id="kafka-python", auto_offset_reset="earliest", **options) as consumer:
        assert any(record.value == b"kafka-python" for record in consumer)


def test_aiokafka_produces_and_consumes(cluster: LocalCluster) -> None:
    async def run() -> None:
        options = in_python(cluster) | {
            "ssl_context": ssl.create_default_context(cafile=str(authority(cluster)))
        }
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait(TOPIC, b"aiokafka")
        group = {"group_id": "aiokafka", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(TOPIC, **group, **options) as consumer:
            while (await consumer.getone()).value != b"aiokafka":
                pass

    asyncio.run(run())


def test_user_without_acls_is_refused(cluster: LocalCluster) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer(librdkafka(cluster, "mallory"))
    producer.produce(TOPIC, b"no", callback=lambda error, message: errors.append(error))
    producer.flush(PATIENCE_S)
    (error,) = errors
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    options = in_python(cluster, "mallory") | {"ssl_cafile": str(authority(cluster))}
    with KafkaProducer(**options) as refused, pytest.raises(TopicAuthorizationFailedError):
        refused.send(TOPIC, b"no").get(PATIENCE_S)


def revoke(local: LocalCluster, operation: str, *resource: str) -> None:
    quorumd(local, "acls", "remove", "--principal", "User:carol", "--operation", operation, *resource)


@pytest.fixture
def carol(cluster: LocalCluster) -> dict[str, str]:
    """The configuration of a client whose rights a test revokes."""
    if "carol" not in quorumd(cluster, "users", "list"):
        quorumd(cluster, "users", "add", "carol", "--password", PASSWORD)
    acl = ("acls", "add", "--principal", "User:carol", "--operation", "read", "--operation", "write")
    quorumd(cluster, *acl, "--resource", "topic", "--name", TOPIC)
    acl = ("acls", "add", "--principal", "User:carol")
    quorumd(cluster, *acl, "--operation", "read", "--resource", "group", "--name", "*")
    quorumd(cluster, *acl, "--operation", "write", "--resource", "transactional-id", "--name", "*")
    return librdkafka(cluster, "carol")


def test_right_to_write_is_revoked_amid_a_transaction(cluster: LocalCluster, carol: dict[str, str]) -> None:
    errors: list[KafkaError | None] = []

    def send() -> KafkaError | None:
        producer.produce(TOPIC, b"in a transaction", callback=lambda error, message: errors.append(error))
        producer.flush(PATIENCE_S)
        return errors[-1]

    producer = Producer(carol | {"transactional.id": "revoked"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    assert send() is None
    revoke(cluster, "write", "--resource", "topic")
    refused = send()
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException) as failed:
        producer.commit_transaction(PATIENCE_S)
    error = failed.value.args[0]
    assert (error.code(), error.txn_requires_abort()) == (KafkaError.TOPIC_AUTHORIZATION_FAILED, True)
    producer.abort_transaction(PATIENCE_S)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_right_to_read_is_revoked_amid_consumption(
    cluster: LocalCluster, carol: dict[str, str], protocol: str
) -> None:
    group = {"group.id": f"revoked-{protocol}", "auto.offset.reset": "earliest", "group.protocol": protocol}
    consumer = Consumer(carol | group)
    consumer.subscribe([TOPIC])
    codes: set[int | None] = set()

    def sees(code: int | None) -> bool:
        message = consumer.poll(1)
        if message is not None:
            error = message.error()
            codes.add(None if error is None else error.code())
        return code in codes

    producer = Producer(carol)
    producer.produce(TOPIC, b"before")
    producer.flush(PATIENCE_S)
    wait_for("a record", lambda: sees(None))
    revoke(cluster, "read", "--resource", "topic")
    wait_for("the refusal", lambda: sees(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaException) as refused:
        consumer.commit(asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer.close()


def test_wrong_password_is_refused(cluster: LocalCluster) -> None:
    errors: list[KafkaError] = []
    admin = AdminClient(librdkafka(cluster, password="guessed") | {"error_cb": errors.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)

    def is_refused() -> bool:
        admin.poll(0.1)
        return KafkaError._AUTHENTICATION in {error.code() for error in errors}

    wait_for("the rejection", is_refused)


def test_client_without_tls_is_refused(cluster: LocalCluster) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, request_timeout_ms=2000)
        try:
            with pytest.raises(AioKafkaError):
                await producer.start()
        finally:
            await producer.stop()

    asyncio.run(run())


def test_pipeline_reads_the_log_with_a_certificate(cluster: LocalCluster, tmp_path: Path) -> None:
    node = authority(cluster).with_name("node-0.pem")
    client_file = tmp_path / "client.properties"
    stores = f"ssl.keystore.location={node}\nssl.truststore.location={authority(cluster)}\n"
    client_file.write_text(f"security.protocol=SSL\n{stores}")
    given = {"bootstrap": f"127.0.0.1:{cluster.nodes[0].port}", "commandConfig": str(client_file)}
    with parse_options(given).observer() as observer:
        assert observer.fetch(observer.extent().start).data
    plain = given | {"commandConfig": "", "timeoutMs": "1"}
    with parse_options(plain).observer() as refused, pytest.raises(RequestFailed):
        refused.extent()


def test_pipeline_plans_as_an_administrator(cluster: LocalCluster, tmp_path: Path) -> None:
    quorumd(cluster, "pipeline", "plan", "make", "--out", str(tmp_path / "plan"))
    assert (tmp_path / "plan").exists()
