"""`quorumd dev` and `quorumd.testing`: a Kafka for the tests of others, used by a client of others."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka import KafkaConsumer, KafkaProducer

from quorumd.errors import ExitCode, QuorumdError
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


COMMAND = (sys.executable, "-m", "quorumd", "dev")


@contextmanager
def running_dev(temporary: Path, *arguments: str | Path) -> Iterator[Dev]:
    """Run the command on a free port, with `temporary` as the place of temporary directories."""
    command = [*COMMAND, "--port", "0", *map(str, arguments)]
    environment = os.environ | {"TMPDIR": str(temporary)}
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


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    with running_dev(tmp_path) as running:
        yield running


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
    assert [each.parent.name for each in tmp_path.glob("quorumd-dev-*/data/greetings-0")] == ["data"]
    dev.process.send_signal(signal.SIGINT)
    assert dev.process.wait(60) == 0
    assert not list(tmp_path.iterdir())


def test_dev_keeps_its_records_in_a_given_directory(tmp_path: Path) -> None:
    temporary, kept = tmp_path / "temporary", tmp_path / "kept"
    temporary.mkdir()
    with running_dev(temporary, "--dir", kept) as first:
        produce(first.address, "greetings", b"hello")
        assert not list(temporary.iterdir())
        first.process.send_signal(signal.SIGINT)
        assert first.process.wait(60) == 0
    with running_dev(temporary, "--dir", kept) as second:
        assert consume(second.address, "greetings", 1) == [b"hello"]


def test_dev_serves_port_9092_by_default(tmp_path: Path) -> None:
    with socket.socket() as occupied:
        # If another process has the port, it is occupied as well.
        with suppress(OSError):
            occupied.bind(("127.0.0.1", 9092))
            occupied.listen()
        environment = os.environ | {"TMPDIR": str(tmp_path)}
        done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == ExitCode.ADDRESS_UNAVAILABLE
    assert "127.0.0.1:9092" in done.stderr
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


def test_shared_cluster_has_the_number_of_nodes_of_the_option(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_nodes(quorumd_cluster, quorumd_bootstrap_servers):
            assert list(quorumd_cluster.nodes) == [0, 1]
            assert quorumd_bootstrap_servers == quorumd_cluster.bootstrap_servers
            assert len(quorumd_bootstrap_servers.split(",")) == 2
    """)
    pytester.runpytest_subprocess("--quorumd-nodes", "2").assert_outcomes(passed=1)


def test_documented_cluster_restarts_a_killed_node(capsys: pytest.CaptureFixture[str]) -> None:
    example = next(each for each in python_examples("docs/brokers.md") if "KafkaCluster(" in each)
    exec(compile(example, "docs/brokers.md", "exec"), {})
    assert capsys.readouterr().out.count("127.0.0.1:") == 3
