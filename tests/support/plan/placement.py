"""The replicas, leaders and ISRs of a live cluster's partitions, as its nodes report them to clients."""

from __future__ import annotations

import asyncio

from quorumd.client.admin import AdminClient
from quorumd.protocol.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponsePartition,
)
from tests.support.processes.daemons import Cluster


def partitions(cluster: Cluster) -> dict[str, DescribeTopicPartitionsResponsePartition]:
    """Return all partitions, by names such as `orders-0`."""

    async def describe() -> dict[str, DescribeTopicPartitionsResponsePartition]:
        async with AdminClient(cluster.addresses) as admin:
            return {
                f"{topic.name}-{partition.partition_index}": partition
                for topic in await admin.describe_topics()
                for partition in topic.partitions
            }

    return asyncio.run(describe())


def placed(cluster: Cluster) -> dict[str, list[int]]:
    """Return the replicas of all partitions, the preferred leader first."""
    return {name: partition.replica_nodes for name, partition in partitions(cluster).items()}
