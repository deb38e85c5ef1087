"""Brokers without data whose replicas are in sync as soon as they are added, so that reassignments complete."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from quorumd.client.admin import AdminClient
from quorumd.errors import QuorumdError
from quorumd.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.alter_partition_response import AlterPartitionResponse
from quorumd.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponseTopic
from tests.support.processes.daemons import Cluster
from tests.support.processes.fake_broker import BrokerStandIn

ROUND_S = 0.05


@contextmanager
def copying(cluster: Cluster, stand_ins: Sequence[BrokerStandIn]) -> Iterator[None]:
    """Let leaders among the stand-ins propose all replicas as in sync while the block runs."""
    over = threading.Event()
    by_id = {broker.broker_id: broker for broker in stand_ins}
    thread = threading.Thread(target=lambda: asyncio.run(_copy(cluster, by_id, over)), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


async def _copy(cluster: Cluster, brokers: Mapping[int, BrokerStandIn], over: threading.Event) -> None:
    epochs: dict[tuple[str, int], int] = {}
    async with AdminClient(cluster.addresses) as admin:
        while not over.is_set():
            try:
                for topic in await admin.describe_topics():
                    for proposal in _proposals(topic, epochs):
                        await _propose(admin, brokers, topic, proposal, epochs)
            except QuorumdError:
                # The topic was deleted, or the leader of the quorum has changed.
                continue
            await asyncio.sleep(ROUND_S)


def _proposals(
    topic: DescribeTopicPartitionsResponseTopic, epochs: Mapping[tuple[str, int], int]
) -> Iterator[tuple[int, PartitionData]]:
    """Yield (leader, new ISR) of partitions whose replicas are not all in sync."""
    for partition in topic.partitions:
        if set(partition.isr_nodes) != set(partition.replica_nodes) and partition.leader_id >= 0:
            data = PartitionData(partition.partition_index, partition.leader_epoch)
            data.partition_epoch = epochs.get((topic.name or "", partition.partition_index), 0)
            data.new_isr_with_epochs = [BrokerState(broker) for broker in partition.replica_nodes]
            yield partition.leader_id, data


async def _propose(
    admin: AdminClient,
    brokers: Mapping[int, BrokerStandIn],
    topic: DescribeTopicPartitionsResponseTopic,
    proposal: tuple[int, PartitionData],
    epochs: dict[tuple[str, int], int],
) -> None:
    """Propose one ISR. The partition epoch is found by trial, since no client API returns it."""
    leader, data = proposal
    where = (topic.name or "", data.partition_index)
    request = AlterPartitionRequest(leader, brokers[leader].epoch, [TopicData("", topic.topic_id, [data])])
    response = await admin.request(request, AlterPartitionResponse, "leader")
    (result,) = response.topics[0].partitions
    epochs[where] = result.partition_epoch if result.error_code == 0 else data.partition_epoch + 1
