"""Plan files: their content, and errors with their place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quorumd.cli.partitions.reassignment_plan import plan_text, read_plan
from quorumd.client.admin import TopicPartition
from quorumd.errors import ConfigError


def partition(**as_tuple: object) -> dict[str, object]:
    return {"topic": "orders", "partition": 0, "replicas": [1, 2]} | as_tuple


def written(path: Path, *partitions: object, **as_tuple: object) -> Path:
    file = path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": partitions} | as_tuple))
    return file


def test_plan_has_target_per_partition(tmp_path: Path) -> None:
    file = written(tmp_path, partition(), partition(partition=1, replicas=[3], log_dirs=["any"]))
    plan = read_plan(file)
    assert plan == {TopicPartition("orders", 0): (1, 2), TopicPartition("orders", 1): (3,)}
    file.write_text(plan_text(plan))
    assert len(file.read_text().splitlines()) == 3
    assert read_plan(file) == plan


WRONG: list[tuple[object, str]] = [
    (partition(topic=""), "partitions[0].topic: expected a non-empty string"),
    (partition(topic=3), "partitions[0].topic: 3: expected a string"),
    (partition(partition=-1), "partitions[0].partition: -1: expected 0 or more"),
    (partition(partition="1"), "partitions[0].partition: '1': expected an integer"),
    (partition(replicas=[]), "partitions[0].replicas: expected at least one element"),
    (partition(replicas=[1, True]), "partitions[0].replicas[1]: True: expected an integer"),
    (partition(replicas=[2**31]), "partitions[0].replicas[0]: 2147483648: expected less than 2147483648"),
    (partition(replicas=[1, 2, 1]), "partitions[0]: replicas list broker 1 twice"),
    (partition(log_dirs=["any"]), "partitions[0]: 1 log_dirs for 2 replicas"),
    (partition(log_dirs=["any", "/data"]), "partitions[0]: log_dirs: '/data' is not supported"),
    (
        partition(replica=[1]),
        "partitions[0].replica: unknown key; expected topic, partition, replicas, log_dirs",
    ),
    ({"topic": "orders", "partition": 0}, "partitions[0].replicas: required"),
    ("orders-0", "partitions[0]: 'orders-0': expected an object in { }"),
]


@pytest.mark.parametrize(("wrong", "text"), WRONG, ids=[text.split(":")[1].strip() for _, text in WRONG])
def test_problems_are_reported_with_their_place(tmp_path: Path, wrong: object, text: str) -> None:
    file = written(tmp_path, wrong)
    with pytest.raises(ConfigError) as caught:
        read_plan(file)
    assert str(caught.value).startswith(f"{file}: {text}")


def test_problems_of_whole_file_are_reported(tmp_path: Path) -> None:
    for document, text in [
        ({"version": 2}, "version: 2: expected 1"),
        ({"partitions": []}, "partitions: expected at least one element"),
        ({"plan": []}, "plan: unknown key; expected version, partitions"),
    ]:
        with pytest.raises(ConfigError, match=text):
            read_plan(written(tmp_path, partition(), **document))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"[1,]", "trailing comma at line 1 column 4"),
        (b"[]", "the file: expected an"),
        (b"\xff", "at byte 0"),
    ],
)
def test_invalid_json_is_reported(tmp_path: Path, content: bytes, text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=text):
        read_plan(file)


def test_duplicate_partition_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"partitions\[1\]: orders-0\b"):
        read_plan(written(tmp_path, partition(), partition(replicas=[3])))


def test_first_problems_are_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_plan(written(tmp_path, *[partition(partition=-1)] * 30))
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1].partition(": ")[2]) == (11, "and 20 more like these")
