"""Replaces kafka-python's `test/integration/fixtures.py`, which starts Kafka, by the running broker of KAFKA_URI."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlparse

from kafka import KafkaAdminClient

PARTITIONS = 4


class ZookeeperFixture:
    """Unused: Kafka 4.0 and later have no ZooKeeper."""


class KafkaFixture:
    """The running broker."""

    zookeeper = None

    @classmethod
    def instance(cls, broker_id: int, **settings: Any) -> KafkaFixture:
        del broker_id, settings
        return cls()

    def close(self) -> None:
        """Do nothing: the broker runs until all tests have ended."""


def client_params(broker: KafkaFixture, client_id: str = "client", **given: Any) -> dict[str, Any]:
    del broker
    address = urlparse(os.environ["KAFKA_URI"]).netloc
    return {"client_id": client_id, "bootstrap_servers": address, **given}


def create_topics(
    broker: KafkaFixture,
    topic_names: list[str],
    num_partitions: int = PARTITIONS,
    replication_factor: int = 1,
) -> None:
    topic = {"num_partitions": num_partitions, "replication_factor": replication_factor}
    with KafkaAdminClient(**client_params(broker)) as admin:
        admin.create_topics(dict.fromkeys(topic_names, topic), wait_for_metadata=True)
