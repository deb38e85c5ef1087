"""States from tables of a history and from logs, sizes from files, and errors for unreadable input."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from quorumd.client.admin import AdminClient, TopicPartition
from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ConfigError, ErrorCode, InputIncomplete, RequestFailed
from quorumd.ids import KafkaUuid
from quorumd.log.meta_properties import PARTITION_DIRECTORY
from quorumd.pipeline.history.tables import Manifest, path_in, write_manifest, write_rows
from quorumd.pipeline.plan.loading import (
    sizes_of_file,
    state_of_cluster,
    state_of_history,
    state_of_image,
    state_of_logs,
)
from quorumd.pipeline.plan.state import BrokerState, ClusterState
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from quorumd.protocol.messages.describe_configs_response import DescribeConfigsResourceResult
from quorumd.protocol.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from quorumd.protocol.messages.list_partition_reassignments_response import OngoingPartitionReassignment
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.record_batch import encode_batch
from scripts.skewed_states import skewed_state
from tests.support.history.logs import history, write_segment, write_snapshot_of
from tests.support.history.reference import Logged

STATE = skewed_state(30, ["a", "b", "c", "a"])


def write_history(directory: Path, brokers: list[dict[str, Any]], partitions: list[dict[str, Any]]) -> None:
    manifest = Manifest()
    for table, rows in (("brokers", brokers), ("partition_current", partitions)):
        path = path_in(table, 0, "all")
        write_rows(directory, path, table, rows, "c")
        manifest.files[table] = [path]
    write_manifest(directory, manifest)


def broker(id: int, offset: int, event: str = "register", **others: Any) -> dict[str, Any]:
    return {
        "broker_id": id,
        "event": event,
        "from_offset": offset,
        "fenced": False,
        "rack": f"r{id}",
    } | others


def partition(topic: str, number: int, replicas: list[int], **others: Any) -> dict[str, Any]:
    row = {"topic": topic, "partition": number, "replicas": replicas, "isr": replicas, "leader": replicas[0]}
    return row | {"adding": [], "removing": []} | others


def test_state_of_history_is_its_end(tmp_path: Path) -> None:
    write_history(
        tmp_path,
        [
            broker(1, 5, to_offset=9),
            broker(1, 9, "unfence"),
            broker(2, 6, to_offset=8),
            broker(2, 8, "fence", fenced=True),
            broker(3, 7, to_offset=10),
            broker(3, 10, "unregister"),
        ],
        [
            partition("b", 0, [2, 1]),
            partition("a", 1, [1, 2, 3], adding=[3], removing=[1]),
            partition("a", 0, [3], leader=-1, isr=[]),
        ],
    )
    state = state_of_history(tmp_path)
    assert state.names == ("a", "b")
    assert state.partitions.tolist() == [0, 1, 0]
    assert state.replicas.tolist() == [[3, -1, -1], [2, 3, -1], [2, 1, -1]], "where they go to"
    assert state.assigned.tolist() == [[3, -1, -1], [1, 2, 3], [2, 1, -1]]
    assert state.settled.tolist() == [False, False, True]
    assert state.leaders.tolist() == [-1, 1, 2]
    assert state.brokers == {
        1: BrokerState(1, "r1"),
        2: BrokerState(2, "r2", fenced=True),
        3: BrokerState(3, None, registered=False),
    }


def test_empty_history_has_no_partitions(tmp_path: Path) -> None:
    write_history(tmp_path, [], [])
    assert not len(state_of_history(tmp_path))


def test_missing_history_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputIncomplete, match="quorumd pipeline history build"):
        state_of_history(tmp_path)


def test_missing_log_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputIncomplete, match="node 4"):
        state_of_logs({4: str(tmp_path)})


def layout(state: ClusterState) -> list[Any]:
    """Without cordons: at this metadata version, snapshots do not have them."""
    brokers = {id: replace(broker, cordoned=False) for id, broker in state.brokers.items()}
    return [
        state.names,
        state.partitions.tolist(),
        state.replicas.tolist(),
        state.leaders.tolist(),
        state.assigned.tolist(),
        state.settled.tolist(),
        brokers,
    ]


def write_in_segments(directory: Path, log: list[Logged]) -> list[Path]:
    for start in range(0, len(log), 100):
        write_segment(directory, log[start : start + 100])
    return sorted(directory.rglob("*.log"))


def test_state_of_log_equals_state_of_node(tmp_path: Path) -> None:
    log, image = history(2, 400)
    _, at_the_snapshot = history(2, 250)
    first, *_, last = write_in_segments(tmp_path, log)
    last.write_bytes(last.read_bytes() + b"a batch that is being written")
    expected = layout(state_of_image(image))
    assert len(expected[1]) == 6
    assert layout(state_of_logs({1: str(tmp_path)})) == expected
    write_snapshot_of(tmp_path, at_the_snapshot, log[249])
    first.unlink()
    assert layout(state_of_logs({1: str(tmp_path)})) == expected


def test_copy_of_newer_epoch_precedes_longer_copy(tmp_path: Path) -> None:
    """The unreplicated tail of a deposed leader is longer, but not part of the cluster's state."""
    log, image = history(2, 400)
    longer = [*log, *(one._replace(offset=log[-1].offset + 1 + n) for n, one in enumerate(log[:200]))]
    newer = [*log[:-1], log[-1]._replace(epoch=log[-1].epoch + 1)]
    write_segment(tmp_path / "1", longer)
    write_segment(tmp_path / "2", newer)
    assert layout(state_of_logs({n: str(tmp_path / str(n)) for n in (1, 2)})) == layout(state_of_image(image))
    # A node that has just fetched a snapshot has nothing else.
    (tmp_path / "3" / PARTITION_DIRECTORY).mkdir(parents=True)
    write_snapshot_of(tmp_path / "3", image, newer[-1])
    write_segment(tmp_path / "2", log[:300])
    assert layout(state_of_logs({n: str(tmp_path / str(n)) for n in (1, 2, 3)})) == layout(
        state_of_image(image)
    )


@pytest.mark.parametrize(
    ("damage", "reported"),
    [
        (lambda segments, snapshot: segments[3].unlink(), "GAP: the segment ends at offset"),
        (lambda segments, snapshot: cut(segments[3], 9), "TORN_TAIL: no complete batch"),
        (lambda segments, snapshot: cut(snapshot, 9), "TORN_TAIL: no complete batch"),
        (
            lambda segments, snapshot: cut(snapshot, footer_of(snapshot)),
            "TORN_TAIL: the snapshot ends without its",
        ),
        (
            lambda segments, snapshot: [each.unlink() for each in segments[:3]],
            "there is no snapshot of the records before it",
        ),
    ],
)
def test_damaged_log_is_rejected_for_plan(tmp_path: Path, damage: Callable[..., Any], reported: str) -> None:
    log, _ = history(3, 500)
    _, at_the_snapshot = history(3, 250)
    segments = write_in_segments(tmp_path, log)
    write_snapshot_of(tmp_path, at_the_snapshot, log[249])
    (snapshot,) = tmp_path.rglob("*.checkpoint")
    damage(segments, snapshot)
    with pytest.raises(InputIncomplete, match=reported):
        state_of_logs({1: str(tmp_path)})


def test_unknown_versions_are_reported_if_plan_needs_them(tmp_path: Path) -> None:
    other_type, topic = b"\x01\xf4\x03\x00body", b"\x01\x02\x63body"
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(encode_batch(0, 1, 1_000, [other_type]))
    assert len(state_of_logs({1: str(tmp_path)})) == 0
    segment.write_bytes(encode_batch(0, 1, 1_000, [other_type, topic]))
    with pytest.raises(InputIncomplete, match="byte 0: TopicRecord v99"):
        state_of_logs({1: str(tmp_path)})


def cut(file: Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:-size])


def footer_of(snapshot: Path) -> int:
    *_, last = headers(snapshot.read_bytes())
    return last.size


def table_of_sizes(**others: Any) -> pa.Table:
    columns = {
        "topic": [STATE.names[topic] for topic in STATE.topics],
        "partition": STATE.partitions,
        "bytes": [1000 + row for row in range(len(STATE))],
    }
    return pa.table(columns | others)


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_sizes_are_read_from_each_file_format(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"sizes.{kind}"
    table = table_of_sizes().slice(0).take(list(reversed(range(len(STATE)))))
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind == "csv":
        pyarrow.csv.write_csv(table, path)
    else:
        lines = [
            f'{{"topic": "{row["topic"]}", "partition": {row["partition"]}, "bytes": {row["bytes"]}}}'
            for row in table.to_pylist()
        ]
        path.write_text("\n".join(lines))
    assert sizes_of_file(path, STATE).tolist() == [1000 + row for row in range(len(STATE))]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("topic,partition\na,1\n", "no column 'bytes'; expected topic, partition, bytes"),
        ("topic,partition,bytes\na,1,many\n", "partition and bytes must be whole numbers"),
        ("topic,partition,bytes\na,1,-5\n", "bytes must not be negative"),
        ("topic,partition,bytes\na,1,5\n", "30 partitions have no size, such as topic-0-0"),
        ("", "cannot be read"),
    ],
)
def test_invalid_sizes_are_reported(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text(content)
    with pytest.raises(ConfigError, match=text):
        sizes_of_file(path, STATE)


def test_unsupported_file_format_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "sizes.xlsx"
    path.write_text("")
    with pytest.raises(ConfigError, match=r"\.parquet, \.csv, \.json or \.jsonl"):
        sizes_of_file(path, STATE)


def test_broker_is_cordoned_if_all_directories_are() -> None:
    image = ClusterImage()
    one, two = KafkaUuid(b"1" * 16), KafkaUuid(b"2" * 16)
    for broker_id, cordoned in ((1, [two, one]), (2, [two]), (3, None)):
        image.apply(
            RegisterBrokerRecord(broker_id, True, one, 5, log_dirs=[one, two], cordoned_log_dirs=cordoned), []
        )
    brokers = state_of_image(image).brokers
    assert [broker.cordoned for broker in brokers.values()] == [True, False, False]


class Admin:
    """A cluster without topics. Broker 3 comes from a stock node, which describes no other brokers."""

    async def describe_topics(self) -> list[Any]:
        return []

    async def list_reassignments(self) -> dict[Any, Any]:
        return {}

    async def describe_brokers(self) -> DescribeClusterResponse:
        response = DescribeClusterResponse()
        response.brokers = [
            DescribeClusterBroker(broker_id, "h", 1, None, False, 7) for broker_id in (1, 2, 3)
        ]
        return response

    async def describe_configs(
        self, kind: int, name: str, keys: list[str]
    ) -> list[DescribeConfigsResourceResult]:
        assert (kind, keys) == (4, ["cordoned.log.dirs"])
        if name == "3":
            raise RequestFailed("not this broker", ErrorCode.INVALID_REQUEST)
        return [DescribeConfigsResourceResult("cordoned.log.dirs", {"1": " * ", "2": "/a"}[name])]


def test_live_cluster_reports_fully_cordoned_brokers() -> None:
    brokers = asyncio.run(state_of_cluster(cast(AdminClient, Admin()))).brokers
    assert [broker.cordoned for broker in brokers.values()] == [True, False, False]


PARTITIONS = [
    # replicas, ISR, adding, removing; the replicas after the move, and whether it is done and in sync
    ([1, 2, 3], [3, 2, 1], [], [], [1, 2, 3], True),
    ([1, 2, 3], [1, 2], [], [], [1, 2, 3], False),
    ([3, 1, 2], [3, 1, 2], [3], [], [3, 1, 2], False),
    ([1, 2, 3], [1, 2, 3], [], [3], [1, 2], False),
]


class MovingAdmin(Admin):
    """A cluster with PARTITIONS."""

    async def describe_topics(self) -> list[Any]:
        partitions = [
            DescribeTopicPartitionsResponsePartition(0, number, 1, replica_nodes=replicas, isr_nodes=isr)
            for number, (replicas, isr, *_) in enumerate(PARTITIONS)
        ]
        return [DescribeTopicPartitionsResponseTopic(name="moving", partitions=partitions)]

    async def list_reassignments(self) -> dict[Any, Any]:
        return {
            TopicPartition("moving", number): OngoingPartitionReassignment(number, replicas, adding, removing)
            for number, (replicas, _, adding, removing, *_) in enumerate(PARTITIONS)
            if adding or removing
        }


def moving_image() -> ClusterImage:
    image = ClusterImage()
    topic = KafkaUuid(b"t" * 16)
    image.apply(TopicRecord("moving", topic), [])
    for number, (replicas, isr, adding, removing, *_) in enumerate(PARTITIONS):
        image.apply(PartitionRecord(number, topic, replicas, isr, removing, adding, leader=1), [])
    return image


@pytest.mark.parametrize("is_live", [True, False])
def test_partition_is_settled_once_it_has_moved_and_is_in_sync(is_live: bool) -> None:
    """Otherwise a plan would be done while replicas are still copied."""
    if is_live:
        state = asyncio.run(state_of_cluster(cast(AdminClient, MovingAdmin())))
    else:
        state = state_of_image(moving_image())
    assert state.settled.tolist() == [is_settled for *_, is_settled in PARTITIONS]
    replicas = [[broker for broker in row if broker >= 0] for row in state.replicas.tolist()]
    assert replicas == [after for *_, after, _ in PARTITIONS]
    assert state.assigned.tolist() == [replicas for replicas, *_ in PARTITIONS]
