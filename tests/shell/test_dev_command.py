"""`quorumd dev` and `quorumd.testing`: a Kafka for the tests of others, used by a client of others."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka import KafkaConsumer, KafkaProducer

from quorumd.errors import QuorumdError
from quorumd.testing import KafkaCluster
from tests.support.documentation import python_examples
from tests.support.documented_output import assert_as_documented

pytest_plugins = ["pytester"]

TIMEOUT_MS = 60_000


class Dev(NamedTuple):
    """A running `quorumd dev`."""

    process: subprocess.Popen[str]
    address: str
    output: str
    """What it has printed."""


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    command = [sys.executable, "-m", "quorumd", "dev", "--port", "0"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        output = f"{process.stdout.readline()}{process.stdout.readline()}"
        found = re.match(r"bootstrap servers: (127\.0\.0\.1:\d+) ", output)
        assert found is not None
        yield Dev(process, found[1], output)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def produce(bootstrap_servers: str, topic: str, *values: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all", max_block_ms=TIMEOUT_MS)
    try:
        for value in values:
            producer.send(topic, value).get(TIMEOUT_MS / 1000)
    finally:
        producer.close()


def consume(bootstrap_servers: str, topic: str, count: int) -> list[bytes]:
    """The first records of a topic, read by a consumer group."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap_servers,
        group_id="readers",
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_MS,
    )
    try:
        return [next(consumer).value for _ in range(count)]
    finally:
        consumer.close()


def test_dev_serves_producers_and_consumer_groups(dev: Dev, tmp_path: Path) -> None:
    assert_as_documented("quorumd dev", dev.output)
    produce(dev.address, "greetings", b"hello", b"world")
    assert consume(dev.address, "greetings", 2) == [b"hello", b"world"]
    dev.process.send_signal(signal.SIGINT)
    assert dev.process.wait(60) == 0
    assert not list(tmp_path.iterdir())


def test_killed_node_keeps_acknowledged_records(tmp_path: Path) -> None:
    with KafkaCluster(directory=tmp_path / "kafka", properties={"num.partitions": "2"}) as kafka:
        produce(kafka.bootstrap_servers, "orders", b"1", b"2")
        assert {each.name for each in (tmp_path / "kafka").glob("*/*/orders-*")} == {"orders-0", "orders-1"}
        kafka.kill(0)
        with pytest.raises(QuorumdError, match=r"\bnode 0\b"):
            kafka.kill(0)
        kafka.restart(0)
        produce(kafka.bootstrap_servers, "orders", b"3")
        assert sorted(consume(kafka.bootstrap_servers, "orders", 3)) == [b"1", b"2", b"3"]


def test_documented_test_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        next(example for example in python_examples("docs/brokers.md") if "def test_" in example)
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_documented_cluster_restarts_a_killed_node(capsys: pytest.CaptureFixture[str]) -> None:
    example = next(each for each in python_examples("docs/brokers.md") if "KafkaCluster(" in each)
    exec(compile(example, "docs/brokers.md", "exec"), {})
    assert capsys.readouterr().out.count("127.0.0.1:") == 3
