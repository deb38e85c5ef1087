"""The fleet behaves like brokers, also with a real node, and acknowledgements to it are compared with the log."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from quorumd.controller.broker import Broker
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import Partition, PartitionId, partition_record
from quorumd.controller.record_versions import record_version
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch
from quorumd.protocol.wire import Message
from tests.chaos.fleet.history import NO_RESPONSE, OK, CommittedIsr, FleetHistory, HistoryWriter
from tests.chaos.fleet.process import FleetProcess
from tests.chaos.fleet.replication import COPIES_S, Copies, is_whole
from tests.chaos.fleet.request_channel import Channel
from tests.chaos.image_hashes import (
    ImageStatistics,
    fold,
    image_differences,
    reported_statistics,
    unfulfilled_acknowledgements,
)
from tests.chaos.machine import MachineWatch, Patience
from tests.support.client.fake_node import FakeNode
from tests.support.processes.daemons import Cluster, wait_for

TOPIC = KafkaUuid(b"the id of orders")
WHERE = PartitionId(TOPIC, 0)
BROKERS = [1, 2, 3]
METADATA_VERSION = 25
LATER = COPIES_S[1] + 0.1


def image_of(isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> ClusterImage:
    """Return an image of three brokers and one partition, led by the first broker of its ISR."""
    image = ClusterImage()
    for record in records(Partition(replicas, isr, isr[0], 3, 7)):
        image.apply(record, [])
    return image


def records(partition: Partition) -> list[Message]:
    made: list[Message] = [
        record
        for broker in BROKERS
        for record in (
            RegisterBrokerRecord(broker, incarnation_id=TOPIC, broker_epoch=broker * 10),
            UnfenceBrokerRecord(broker, broker * 10),
        )
    ]
    return [*made, TopicRecord("orders", TOPIC), partition_record(WHERE, partition)]


def fence(image: ClusterImage, broker_id: int) -> None:
    broker: Broker = image.brokers[broker_id]
    image.brokers[broker_id] = broker._replace(is_fenced=True)


class TestCopies:
    def test_replicas_that_are_in_sync_stay_so(self) -> None:
        copies, image = Copies(Random(1)), image_of((1, 2, 3))
        for now in range(10):
            copies.advance(image, now, falls_behind=0.0)
            assert copies.proposals(image, 1, now) == []

    def test_lagging_follower_leaves_the_isr_and_rejoins_once_caught_up(self) -> None:
        copies, image = Copies(Random(1)), image_of((1, 2, 3))
        copies.advance(image, 0.0, falls_behind=1.0)
        (shrunk,) = copies.proposals(image, 1, 0.1)
        assert (shrunk.partition, shrunk.leader_epoch, shrunk.partition_epoch) == (WHERE, 3, 7)
        assert shrunk.isr == ((1, 10),)
        image = image_of((1,))
        copies.advance(image, 0.2, falls_behind=1.0)
        assert copies.proposals(image, 1, 0.2) == []
        (expanded,) = copies.proposals(image, 1, LATER)
        assert expanded.isr == ((1, 10), (2, 20), (3, 30))

    def test_new_replica_has_to_copy_first(self) -> None:
        copies, image = Copies(Random(1)), image_of((1, 2))
        copies.advance(image, 0.0, falls_behind=0.0)
        assert copies.proposals(image, 1, 0.0) == []
        assert len(copies.proposals(image, 1, LATER)) == 1

    def test_fenced_broker_is_not_proposed_until_it_has_caught_up_again(self) -> None:
        copies, fenced = Copies(Random(1)), image_of((1, 2))
        fence(fenced, 3)
        for now in (0.0, LATER):
            copies.advance(fenced, now, falls_behind=0.0)
            assert copies.proposals(fenced, 1, now) == []
        back = image_of((1, 2))
        copies.advance(back, LATER, falls_behind=0.0)
        assert copies.proposals(back, 1, LATER) == []
        assert len(copies.proposals(back, 1, LATER + LATER)) == 1

    def test_only_leaders_propose(self) -> None:
        copies, image = Copies(Random(1)), image_of((1, 2))
        copies.advance(image, 0.0)
        assert copies.proposals(image, 2, LATER) == []

    def test_image_is_whole_when_all_brokers_are_active_and_in_sync(self) -> None:
        assert is_whole(image_of((3, 1, 2)), BROKERS)
        assert not is_whole(image_of((1, 2)), BROKERS)
        assert not is_whole(image_of((1, 2, 3)), [*BROKERS, 4])
        fenced = image_of((1, 2), (1, 2))
        fence(fenced, 3)
        assert not is_whole(fenced, BROKERS)


@pytest.mark.asyncio
async def test_not_controller_closes_the_connection() -> None:
    codes = [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_CONTROLLER, ErrorCode.NONE]
    connections = []
    async with FakeNode(lambda request: BrokerHeartbeatResponse(0, codes.pop(0))) as node:
        channel = Channel("broker")
        while codes:
            await channel.send(node.address, BrokerHeartbeatRequest(1, 2))
            connections.append(node.connections)
        channel.close()
        await node.stop()
        assert await channel.send(node.address, BrokerHeartbeatRequest(1, 2)) is None
    assert connections == [1, 1, 1, 2]


ISR = CommittedIsr(str(TOPIC), 0, 7, 3, (1, 2))


def write_history(path: Path) -> FleetHistory:
    with path.open("w") as file:
        history_writer = HistoryWriter(file)
        history_writer.record("CreateTopics", OK, "orders")
        history_writer.record("CreateTopics", NO_RESPONSE, "lost")
        history_writer.record("DeleteTopics", OK, "orders")
        history_writer.record("AlterPartition", OK, ISR)
        history_writer.record("AlterPartition", "NEW_LEADER_ELECTED (108)")
    return FleetHistory.read(path)


def write_log(directory: Path, *made: Message) -> int:
    """Write one batch per record, and return the end offset."""
    values = [encode_record(record, record_version(record, METADATA_VERSION)) for record in made]
    encoded = [encode_batch(offset, 1, 0, [value]) for offset, value in enumerate(values)]
    (directory / f"{0:020}.log").write_bytes(b"".join(encoded))
    return len(encoded)


class TestJudgement:
    def test_history_is_read_as_it_was_written(self, tmp_path: Path) -> None:
        history = write_history(tmp_path / "fleet")
        assert (history.created, history.deleted, history.isrs) == (["orders"], ["orders"], [ISR])
        assert history.outcomes["CreateTopics", NO_RESPONSE] == 1
        assert history.outcomes["AlterPartition", "NEW_LEADER_ELECTED (108)"] == 1

    def test_acknowledged_changes_are_in_the_log(self, tmp_path: Path) -> None:
        partition = Partition((1, 2, 3), (1, 2), 1, 3, 7)
        end_offset = write_log(tmp_path, *records(partition), RemoveTopicRecord(TOPIC))
        folded = fold(tmp_path, [end_offset])
        assert list(unfulfilled_acknowledgements(write_history(tmp_path / "fleet"), folded)) == []

    def test_acknowledged_changes_missing_in_the_log_are_reported(self, tmp_path: Path) -> None:
        partition = Partition((1, 2, 3), (1, 2, 3), 1, 3, 7)
        history = write_history(tmp_path / "fleet")
        end_offset = write_log(tmp_path, *records(partition))
        isr, deleted = unfulfilled_acknowledgements(history, fold(tmp_path, [end_offset]))
        assert "isr=(1, 2)" in isr
        assert "orders was deleted" in deleted
        end_offset = write_log(tmp_path, RegisterBrokerRecord(1))
        _, created, _ = unfulfilled_acknowledgements(history, fold(tmp_path, [end_offset]))
        assert "orders was acknowledged" in created

    def test_images_are_compared_where_they_are(self, tmp_path: Path) -> None:
        partition = Partition((1, 2, 3), (1, 2), 1, 3, 7)
        end_offset = write_log(tmp_path, *records(partition), RemoveTopicRecord(TOPIC))
        log = fold(tmp_path, [end_offset - 1, end_offset])
        early, late = log.hashes[end_offset - 1], log.hashes[end_offset]
        assert early != late
        reported = {1: ImageStatistics(end_offset - 1, early), 2: ImageStatistics(end_offset, late)}
        assert list(image_differences(reported, {1: log, 2: log}, end_offset)) == []
        reported[2] = ImageStatistics(end_offset, early)
        (difference,) = image_differences(reported, {1: log, 2: log}, end_offset)
        assert "the image of node 2" in difference
        shorter = fold(tmp_path, [end_offset - 1])
        (difference,) = image_differences({}, {1: log, 2: shorter}, end_offset)
        assert "different images" in difference


def heartbeats(fleet: FleetProcess) -> int:
    """Return the number of acknowledged heartbeats so far."""
    return fleet.so_far().outcomes["BrokerHeartbeat", OK]


def test_fleet_works_with_a_real_node_across_its_death(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 1, "broker.session.timeout.ms=3000\n")
    machine = MachineWatch(tmp_path)
    try:
        cluster.start()
        fleet = FleetProcess(tmp_path, cluster.addresses, 3)
        try:
            wait_for("the fleet to work", lambda: heartbeats(fleet) > 20 and fleet.so_far().created)
            cluster[1].kill()
            cluster[1].start()
            before = heartbeats(fleet)
            wait_for("the fleet to continue", lambda: heartbeats(fleet) > before + 10)
            fleet.rest(Patience(300, machine))
            figures = reported_statistics(cluster[1], cluster.wait_until_level())
        finally:
            fleet.stop()
    finally:
        machine.stop()
        cluster.stop()
    folded = fold(cluster[1].partition_directory, [figures.applied_offset])
    assert folded.hashes == {figures.applied_offset: figures.hash}
    assert is_whole(folded.image, sorted(folded.image.brokers))
    assert len(folded.image.brokers) == 4
    assert folded.image.topics
    assert list(unfulfilled_acknowledgements(fleet.history, folded)) == []
