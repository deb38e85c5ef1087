"""Which partitions of a session a fetch reads."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.broker.api.fetch_reader import PartitionReader, ReadPartition
from quorumd.broker.log.data_segment import StoredBatches
from quorumd.log.batch_extents import end_offset_of
from quorumd.protocol.messages.fetch_request import ReplicaState
from tests.support.broker.api_clients import Client
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.log.data_batches import produced
from tests.support.log.partition_logs import ABORT, of_producer
from tests.unit.broker.api.test_fetch import NO_WAIT, Replicated, at, fetch, fetch_request, only


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of every partition that is read."""
    reads: list[int] = []
    read = PartitionReader.read

    def counted(self: PartitionReader, *arguments: Any, **more: Any) -> ReadPartition:
        reads.append(arguments[2].partition)
        return read(self, *arguments, **more)

    monkeypatch.setattr(PartitionReader, "read", counted)
    return reads


def test_parked_fetch_of_a_session_reads_only_partitions_that_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = SimulatedBrokers()
    cluster.start()
    cluster.create_topic("events", (1,), (1,))
    for number in range(2):
        cluster.await_leader("events", number)
    client = Client(cluster)
    first = fetch(client, at(0), at(0, 1), session_epoch=0, **NO_WAIT)
    session: dict[str, Any] = {"session_id": first.session_id}
    fetch(client, session_epoch=1, **NO_WAIT, **session)
    reads = count_reads(monkeypatch)
    client.send(fetch_request(session_epoch=2, **session), 12)
    client.cluster.run_for(100.0)
    assert reads == [0, 1]
    client.produce(number=1)
    client.cluster.run_for(100.0)
    changed = only(client.responses[-1])
    assert (changed.partition_index, end_offset_of(changed.records)) == (1, 1)
    assert reads == [0, 1, 1]
    reads.clear()
    assert fetch(client, at(1, 1), session_epoch=3, **session).responses == []
    assert reads == [0, 1], "nothing is read at the end of the wait"


def test_idle_fetch_of_a_follower_reads_nothing_and_counts_as_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replicated = Replicated()
    cluster = replicated.cluster
    cluster.brokers[2].kill()
    cluster.run_for(600.0)
    hosted = cluster.hosted(1, "events")
    assert hosted is not None
    assert hosted.replica.leadership is not None
    follower = hosted.replica.leadership.followers[2]
    state: dict[str, Any] = {"replica_state": ReplicaState(2, replicated.follower_epoch), **NO_WAIT}
    position = at(0, current_leader_epoch=0)
    first = fetch(
        replicated.client, position, topic_id=replicated.topic_id, version=18, session_epoch=0, **state
    )
    state["session_id"] = first.session_id
    reads = count_reads(monkeypatch)
    cluster.run_for(100.0)
    before = follower.fetched_ms
    assert fetch(replicated.client, version=18, session_epoch=1, **state).responses == []
    assert reads == []
    assert follower.fetched_ms == follower.caught_up_ms >= before + 100.0
    Client(cluster).produce(acks=1)
    third = fetch(replicated.client, version=18, session_epoch=2, **state)
    assert end_offset_of(only(third).records) == 1
    assert reads == [0]


@pytest.mark.parametrize("isolation", [0, 1])
def test_many_records_are_read_only_when_they_are_sent(
    monkeypatch: pytest.MonkeyPatch, isolation: int
) -> None:
    cluster = SimulatedBrokers()
    cluster.start()
    cluster.create_topic("events", (1,))
    cluster.await_leader("events", 0)
    client = Client(cluster)
    for _ in range(80):
        client.produce(produced([(b"k", bytes(1000))]))
    hosted = cluster.hosted(1, "events")
    assert hosted is not None
    for sequence in (0, 1):
        client.append_verified(of_producer(sequence, transactional=True))
        hosted.log.append_marker(7, 0, ABORT, 0, 0.0, 0)
    client.produce()
    content = hosted.log.read(0, 1 << 20, 80)
    found: list[ReadPartition] = []
    read = PartitionReader.read

    def recorded(self: PartitionReader, *arguments: Any, **more: Any) -> ReadPartition:
        found.append(read(self, *arguments, **more))
        return found[-1]

    monkeypatch.setattr(PartitionReader, "read", recorded)
    partition = only(fetch(client, at(0, max_bytes=len(content)), isolation_level=isolation, **NO_WAIT))
    assert partition.records == content
    assert [type(each.records) for each in found] == [StoredBatches]
    assert partition.aborted_transactions == ([] if isolation else None)
    if isolation:
        both = only(fetch(client, at(1), isolation_level=isolation, **NO_WAIT))
        assert [each.first_offset for each in both.aborted_transactions] == [80, 82]
