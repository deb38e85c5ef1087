"""A plan by the bytes that real brokers report, on a cluster with topics of very different sizes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pyarrow.parquet as pq
import pytest

from quorumd.testing.cluster import KafkaCluster
from tests.support.processes.daemons import run_quorumd
from tests.support.text import shows

PATIENCE_S = 60
KILOBYTES = {("large", 0): 600, ("large", 1): 400, ("small", 0): 40, ("small", 1): 20, ("small", 2): 20}
LEADERS = {"large": "0,0", "small": "1,2,2"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(3) as started:
        for topic, leaders in LEADERS.items():
            created = run_quorumd(
                *("topics", "create", topic, "--replica-assignment", leaders),
                *("--bootstrap-server", started.bootstrap_servers),
            )
            assert created.returncode == 0, created
        producer = confluent_kafka.Producer({"bootstrap.servers": started.bootstrap_servers, "acks": "all"})
        noise = random.Random(1)
        for (topic, partition), kilobytes in KILOBYTES.items():
            for _ in range(kilobytes // 20):
                producer.produce(topic, noise.randbytes(20_000), partition=partition)
        assert producer.flush(PATIENCE_S) == 0
        yield started


def plan(*arguments: str | Path, exits: int = 0) -> Any:
    done = run_quorumd("pipeline", "plan", *arguments, "--output", "json")
    assert done.returncode == exits, done
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


def test_plan_balances_bytes_that_brokers_report(cluster: KafkaCluster, tmp_path: Path) -> None:
    directory, live = tmp_path / "plan", ("--bootstrap-server", cluster.bootstrap_servers)
    made = plan("make", *live, "--live-sizes", "--out", directory)
    assert made["before"]["bytes_max_to_mean"] > 2.7
    assert made["after"]["bytes_max_to_mean"] < 1.7
    sizes = {(row["topic"], row["partition"]): row["bytes"]
             for row in pq.read_table(directory / "sizes.parquet").to_pylist()}  # fmt: skip
    assert sizes.keys() == KILOBYTES.keys()
    for where, kilobytes in KILOBYTES.items():
        assert 1000 * kilobytes < sizes[where] < 1100 * kilobytes
    moves = plan("show", directory, "--moves")
    assert moves
    for move in moves:
        assert move["bytes"] == len(move["adds"]) * sizes[move["topic"], move["partition"]]
    assert made["bytes"] == sum(move["bytes"] for move in moves) >= made["lower_bound_bytes"] > 0

    again = plan("make", *live, "--sizes", directory / "sizes.parquet", "--out", tmp_path / "again")
    assert {**again, "made_from": None} == {**made, "made_from": None}
    assert plan("show", tmp_path / "again", "--moves") == moves


def test_live_sizes_need_a_live_cluster(cluster: KafkaCluster, tmp_path: Path) -> None:
    out, sizes = ("--out", tmp_path / "plan"), ("--live-sizes", "--sizes", tmp_path)
    refused = plan("make", "--bootstrap-server", cluster.bootstrap_servers, *sizes, *out, exits=2)
    assert shows(refused, "--live-sizes", "--sizes")
