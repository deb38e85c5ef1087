"""Requests of a broker's earlier incarnation that arrive late (KIP-903), at a real leader and a real controller.

Broker 11 is real and leads. Broker 7 is a stand-in: its first incarnation ends without a shutdown, and its second
incarnation has an empty log and does not fetch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import alter_partition_request as alter
from quorumd.protocol.messages import fetch_request as fetch
from quorumd.protocol.messages.alter_partition_response import AlterPartitionResponse
from quorumd.protocol.messages.fetch_response import FetchResponse
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from scripts.bench.quorumd_cluster import request_once
from scripts.reassignment_example import metadata_records, partition_states
from tests.support.processes.daemons import BrokerDaemon, Cluster, wait_for
from tests.support.processes.fake_broker import BrokerStandIn
from tests.support.processes.fixtures import running_cluster

LEADER, FOLLOWER = 11, 7
RECORDS = 5
PATIENCE_S = 60
SESSION = "broker.session.timeout.ms=2000\nbroker.heartbeat.interval.ms=200\nreplica.lag.time.max.ms=2000\n"
FETCH_VERSION, ALTER_PARTITION_VERSION = 17, 3


class Race(NamedTuple):
    """A partition after the second incarnation has registered; only the leader is in the ISR."""

    cluster: Cluster
    leader: BrokerDaemon
    topic_id: KafkaUuid
    first_epoch: int
    second_epoch: int

    def isr(self) -> tuple[int, ...]:
        return partition_states(self.cluster[1].partition_directory, "events")[-1].isr

    def partition_epoch(self) -> int:
        return partition_states(self.cluster[1].partition_directory, "events")[-1].partition_epoch

    def fetch(self, broker_epoch: int) -> int:
        """Fetch as a follower at the end of the leader's log, and return the error of the partition."""
        partition = fetch.FetchPartition(
            partition=0,
            current_leader_epoch=0,
            fetch_offset=RECORDS,
            last_fetched_epoch=0,
            partition_max_bytes=1000,
        )
        request = fetch.FetchRequest(
            replica_state=fetch.ReplicaState(FOLLOWER, broker_epoch),
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1000,
            topics=[fetch.FetchTopic(topic_id=self.topic_id, partitions=[partition])],
        )
        response = request_once(self.leader.address, request, FETCH_VERSION, FetchResponse)
        assert response.error_code == ErrorCode.NONE
        return response.responses[0].partitions[0].error_code

    def alter_partition(self, sender_epoch: int, follower_epoch: int) -> tuple[int, int]:
        """Propose both brokers as the ISR like a leader, and return the errors of the request and the partition."""
        isr = [alter.BrokerState(LEADER, sender_epoch), alter.BrokerState(FOLLOWER, follower_epoch)]
        partition = alter.PartitionData(0, leader_epoch=0)
        partition.partition_epoch = self.partition_epoch()
        partition.new_isr_with_epochs = isr
        topic = alter.TopicData(topic_id=self.topic_id, partitions=[partition])
        request = alter.AlterPartitionRequest(LEADER, sender_epoch, [topic])
        address = self.cluster.leader().address
        response = request_once(address, request, ALTER_PARTITION_VERSION, AlterPartitionResponse)
        partitions = [each.error_code for found in response.topics for each in found.partitions]
        return response.error_code, partitions[0] if partitions else 0

    def leader_epoch_of_broker(self) -> int:
        return broker_epochs(self.cluster)[LEADER]


def broker_epochs(cluster: Cluster) -> dict[int, int]:
    """Return the latest epoch of every broker."""
    epochs = {}
    for record in metadata_records(cluster[1].partition_directory):
        if isinstance(record, RegisterBrokerRecord):
            epochs[record.broker_id] = record.broker_epoch
    return epochs


@pytest.fixture
def race(tmp_path: Path) -> Iterator[Race]:
    with running_cluster(tmp_path / "cluster", size=1, extra=SESSION) as cluster:
        voters = {each.node_id: each.port for each in cluster}
        leader = BrokerDaemon(tmp_path / "broker", LEADER, voters, SESSION)
        leader.format()
        leader.start()
        second = None
        try:
            first = BrokerStandIn(FOLLOWER, cluster, leader.address)
            first.start()
            topic_id = create_topic(cluster, leader)
            first.stop(unregister=False)

            def is_alone() -> bool:
                return partition_states(cluster[1].partition_directory, "events")[-1].isr == (LEADER,)

            wait_for("the follower to be fenced", is_alone)
            second = BrokerStandIn(FOLLOWER, cluster, leader.address)
            second.start()
            produce(leader)
            yield Race(cluster, leader, topic_id, first.epoch, second.epoch)
        finally:
            if second is not None:
                second.stop(unregister=False)
            leader.stop()


def create_topic(cluster: Cluster, leader: BrokerDaemon) -> KafkaUuid:
    """Create a topic with one partition on both brokers, which the real broker leads, and return the topic's id."""
    admin = AdminClient({"bootstrap.servers": leader.bootstrap, "log_level": 0})

    def has_both() -> bool:
        try:
            return set(admin.list_topics(timeout=5).brokers) == {LEADER, FOLLOWER}
        except KafkaException:
            return False

    wait_for("the broker to know both brokers", has_both)
    topic = NewTopic("events", 1, replica_assignment=[[LEADER, FOLLOWER]])
    admin.create_topics([topic])["events"].result(PATIENCE_S)
    records = metadata_records(cluster[1].partition_directory)
    return next(each.topic_id for each in records if isinstance(each, TopicRecord))


def produce(leader: BrokerDaemon) -> None:
    """Produce records to the leader, which is alone in the ISR."""
    producer = Producer({"bootstrap.servers": leader.bootstrap, "acks": "all", "log_level": 0})
    for number in range(RECORDS):
        producer.produce("events", b"%d" % number)
    assert producer.flush(PATIENCE_S) == 0


def test_delayed_fetch_has_no_effect(race: Race) -> None:
    before = race.partition_epoch()
    assert race.fetch(race.first_epoch) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert race.fetch(race.second_epoch) == ErrorCode.NONE
    # Only the fetch of the second incarnation shows that its log is complete.
    wait_for("the follower to be in sync", lambda: set(race.isr()) == {LEADER, FOLLOWER})
    assert race.partition_epoch() == before + 1


def test_delayed_alter_partition_is_rejected(race: Race) -> None:
    sender = race.leader_epoch_of_broker()
    assert race.alter_partition(sender, race.first_epoch) == (ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA)
    assert race.alter_partition(sender - 1, race.second_epoch)[0] == ErrorCode.STALE_BROKER_EPOCH
    assert race.isr() == (LEADER,)
    assert race.alter_partition(sender, race.second_epoch) == (ErrorCode.NONE, ErrorCode.NONE)
    assert set(race.isr()) == {LEADER, FOLLOWER}
