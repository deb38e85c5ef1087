"""Client libraries authenticate again on an open connection (KIP-368)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from quorumd.cli.local_cluster import LocalCluster
from quorumd.config.client import load_client
from tests.support.processes.daemons import PATIENCE_S, run_quorumd, wait_for
from tests.support.processes.ports import free_base_port

TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start a secure node with both roles, where an authentication is valid for two seconds."""
    directory = tmp_path_factory.mktemp("reauthentication") / "c"
    local = LocalCluster.open_or_plan(directory, 1, free_base_port(), brokers=True, secure=True)
    local.create()
    with local.nodes[0].config.open("a") as config:
        config.write("connections.max.reauth.ms=2s\nnum.partitions=1\n")
    try:
        started = run_quorumd("cluster", "up", "--dir", directory, "--detach")
        assert started.returncode == 0, started.stderr
        yield local
    finally:
        run_quorumd("cluster", "down", "--dir", directory)


def login(local: LocalCluster) -> tuple[str, str]:
    """Return the name and password of the user admin."""
    assert local.security is not None
    found = load_client(str(local.security.client_file), {}).login
    assert found is not None
    return found[1]["username"], found[1]["password"]


def counts(local: LocalCluster) -> tuple[float, float]:
    """Return the numbers of SaslHandshake requests and of failed authentications so far."""
    url = f"http://127.0.0.1:{local.nodes[0].metrics_port}/metrics"
    with urlopen(url, timeout=PATIENCE_S) as response:
        families = list(text_string_to_metric_families(response.read().decode()))
    samples = [sample for family in families for sample in family.samples]
    return (
        sum(each.value for each in samples if each.labels.get("api") == "SaslHandshake"),
        next(each.value for each in samples if each.name == "quorumd_failed_authentications_total"),
    )


def authority(local: LocalCluster) -> Path:
    return local.directory / "security/ca.pem"


def test_librdkafka_authenticates_again_while_it_produces(cluster: LocalCluster) -> None:
    name, password = login(cluster)
    errors: list[KafkaError | None] = []
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": name,
        "sasl.password": password,
        "ssl.ca.location": str(authority(cluster)),
        "log_level": "0",
        "error_cb": errors.append,
    }
    producer = Producer(settings)

    def produced() -> float:
        producer.produce(TOPIC, b"x", callback=lambda error, message: errors.append(error) if error else None)
        producer.flush(PATIENCE_S)
        return counts(cluster)[0]

    before = produced()
    wait_for("three more authentications", lambda: produced() >= before + 3)
    assert errors == []
    assert counts(cluster)[1] == 0


def test_kafka_python_authenticates_again_while_it_produces(cluster: LocalCluster) -> None:
    name, password = login(cluster)
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap,
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username=name,
        sasl_plain_password=password,
        ssl_cafile=str(authority(cluster)),
        retries=0,
    ) as producer:

        def produced() -> float:
            producer.send(TOPIC, b"x").get(PATIENCE_S)
            return counts(cluster)[0]

        before = produced()
        wait_for("three more authentications", lambda: produced() >= before + 3)
    assert counts(cluster)[1] == 0
