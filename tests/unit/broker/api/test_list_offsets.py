from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from quorumd.broker.log.records import encode_record
from quorumd.errors import ErrorCode, StorageError
from quorumd.protocol.batch_header import HEADER_SIZE, encode_header, read_header
from quorumd.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from quorumd.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.broker.api_clients import Client
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.call_counter import CallCounter
from tests.support.log.data_batches import produced
from tests.support.node.recording_session import RecordingSession

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5


@pytest.fixture
def client() -> Client:
    """Three records with timestamps 1000, 3000 and 2000, and an open transaction."""
    cluster = SimulatedBrokers()
    cluster.start()
    cluster.create_topic("events", (1,), (1,))
    cluster.await_leader("events")
    cluster.await_leader("events", 1)
    client = Client(cluster)
    for timestamp in (1000, 3000, 2000):
        client.produce(produced(timestamps=[timestamp]))
    client.append_verified(
        produced(producer_id=5, producer_epoch=0, sequence=0, transactional=True, timestamps=[2500])
    )
    return client


def offset(client: Client, timestamp: int, version: int = 11, epoch: int = -1, **others: Any) -> Any:
    """The result for partition 0."""
    partition = ListOffsetsPartition(0, epoch, timestamp)
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic("events", [partition])])
    for name, value in others.items():
        setattr(request, name, value)
    return client.call(request, version).topics[0].partitions[0]


def test_turns_of_a_lookup_are_bounded(client: Client) -> None:
    """The producer of a batch chooses its records: 120,000 of them took 336 ms in one turn, and one part of a request
    may look up 250 partitions."""
    longest = []
    for count in (2000, 8000):
        end = 10_000 + count
        client.produce(produced([(None, b"")] * count, timestamps=range(10_000, end)))
        partition = ListOffsetsPartition(0, -1, end - 1)
        client.session, calls = RecordingSession(), CallCounter()
        with calls.counted():
            client.send(ListOffsetsRequest(-1, topics=[ListOffsetsTopic("events", [partition])]), 7)
        assert len(client.session.held) == 1, "later requests of the connection wait"
        while not client.responses:
            with calls.counted():
                client.cluster.heap.step(client.cluster.heap.now_ms + 1000)
        (found,) = client.responses[0].topics[0].partitions
        assert (found.error_code, found.timestamp) == (0, end - 1)
        longest.append(calls.longest)
    assert longest[1] <= 1.2 * longest[0]


def test_turns_are_bounded_if_headers_have_later_timestamps_than_records(client: Client) -> None:
    """The producer of a batch chooses both, so that a lookup read all batches in one turn."""
    longest = []
    for count in (50, 200):
        batch = read_header(produced(timestamps=[4000]))
        batch.max_timestamp_ms = 9000
        for _ in range(count):
            client.produce(encode_header(batch, produced()[HEADER_SIZE:]))
        partition = ListOffsetsPartition(0, -1, 8000)
        client.session, calls = RecordingSession(), CallCounter()
        with calls.counted():
            client.send(ListOffsetsRequest(-1, topics=[ListOffsetsTopic("events", [partition])]), 7)
        while not client.responses:
            with calls.counted():
                client.cluster.heap.step(client.cluster.heap.now_ms + 1000)
        (found,) = client.responses[0].topics[0].partitions
        assert (found.error_code, found.offset) == (0, -1)
        longest.append(calls.longest)
        client.session = Client(client.cluster).session
    assert longest[1] <= 1.2 * longest[0]


@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_malformed_records_take_no_disk_offline(client: Client, codec: int) -> None:
    """A producer with rights on one topic took all partitions of a log directory offline."""
    batch = read_header(produced(timestamps=[4000]))
    batch.attributes = codec
    assert client.produce(encode_header(batch, b"garbage")).error_code == 0
    for timestamp in (3500, MAX_TIMESTAMP):
        found = offset(client, timestamp)
        assert (found.error_code, found.offset, found.timestamp) == (0, 4, 4000)
    broker = client.cluster.brokers[1].broker
    assert all(each.is_online for each in broker.directories.all)
    assert offset(client, 1000).error_code == 0


def test_timestamp_beyond_that_of_the_batch(client: Client) -> None:
    """It would not fit into the response, so that every client with this lookup would lose its connection."""
    batch = read_header(produced(timestamps=[4000]))
    payload = encode_record(0, 2**63 - 1, None, b"")
    assert client.produce(encode_header(batch, payload)).error_code == 0
    assert offset(client, 3500).timestamp == 4000


def test_partition_may_be_deleted_during_a_lookup(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log cannot be read then, and its disk stays online."""

    def lookup(timestamp_ms: int, max_offset: int) -> Generator[None, None, None]:
        yield
        raise StorageError("the file does not exist")

    broker = client.cluster.brokers[1].broker
    (hosted,) = (each for each in broker.partitions.all() if each.topic == "events" and not each.id.number)
    monkeypatch.setattr(hosted.log, "offset_of_timestamp", lookup)
    monkeypatch.setattr(broker.partitions, "all", list)
    assert offset(client, 1000).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    monkeypatch.undo()
    assert all(each.is_online for each in broker.directories.all)


@pytest.mark.parametrize("version", range(1, 12))
def test_latest_and_earliest(client: Client, version: int) -> None:
    latest, earliest = offset(client, LATEST, version), offset(client, EARLIEST, version)
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, 4, -1)
    assert (earliest.error_code, earliest.offset) == (0, 0)
    assert latest.leader_epoch == earliest.leader_epoch == (0 if version >= 4 else -1)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [(0, (0, 1000)), (1001, (1, 3000)), (3000, (1, 3000)), (3001, (-1, -1)), (MAX_TIMESTAMP, (1, 3000))],
)
def test_offset_by_timestamp(client: Client, timestamp: int, expected: tuple[int, int]) -> None:
    found = offset(client, timestamp)
    assert (found.error_code, found.offset, found.timestamp) == (0, *expected)


def test_reader_of_committed_transactions_stops_at_the_last_stable_offset(client: Client) -> None:
    assert offset(client, LATEST, isolation_level=1).offset == 3
    assert offset(client, LATEST, isolation_level=1, replica_id=2).offset == 4, "a follower"


def test_nothing_is_tiered(client: Client) -> None:
    for timestamp, expected in ((EARLIEST_LOCAL, 0), (LATEST_TIERED, -1), (-6, -1)):
        found = offset(client, timestamp)
        assert (found.error_code, found.offset) == (0, expected)


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (-6, 10), (-7, 11)],
)
def test_special_timestamps_need_a_version(client: Client, timestamp: int, version: int) -> None:
    assert offset(client, timestamp, version).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_errors(client: Client) -> None:
    assert offset(client, LATEST, epoch=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    partitions = [ListOffsetsPartition(number, -1, LATEST) for number in (0, 0, 1, 7)]
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic("events", partitions)])
    errors = [each.error_code for each in client.call(request).topics[0].partitions]
    assert errors == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_latest_is_not_available_until_the_high_watermark_reaches_the_epoch_start() -> None:
    """The new leader may not know yet what its predecessor committed."""
    cluster = SimulatedBrokers((1, 2))
    cluster.start()
    cluster.create_topic("events", (1, 2), unclean_leader_election_enable="false")
    cluster.await_leader("events")
    cluster.produce_and_wait("events")
    hosted = cluster.hosted(2, "events")
    assert hosted is not None
    cluster.run_until(lambda: hosted.log.end_offset == 1)
    cluster.brokers[1].kill()
    cluster.run_until(lambda: hosted.is_leader)
    hosted.replica.high_watermark = 0
    client = Client(cluster, 2)
    assert offset(client, LATEST).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert offset(client, LATEST, 4).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert offset(client, 1000).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert offset(client, LATEST, replica_id=3).offset == 1
    assert offset(client, EARLIEST).offset == 0


@pytest.mark.parametrize(("epoch", "expected"), [(0, (0, 4)), (-1, (-1, -1)), (1, (-1, -1))])
def test_end_of_a_leader_epoch(client: Client, epoch: int, expected: tuple[int, int]) -> None:
    partitions = [OffsetForLeaderPartition(0, 0, epoch), OffsetForLeaderPartition(9, 0, epoch)]
    request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("events", partitions)])
    found, unknown = client.call(request).topics[0].partitions
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, *expected)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
