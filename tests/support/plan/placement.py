"""Where a live cluster's partitions are: their replicas, leaders and ISRs, as its nodes tell clients."""

from __future__ import annotations

import asyncio

from quorumd.client.admin import AdminClient
from quorumd.protocol.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponsePartition,
)
from tests.support.processes.daemons import Cluster


def partitions(cluster: Cluster) -> dict[str, DescribeTopicPartitionsResponsePartition]:
    """All of them, by names such as `orders-0`."""

    async def ask() -> dict[str, DescribeTopicPartitionsResponsePartition]:
        async with AdminClient(cluster.addresses) as admin:
            return {
                f"{topic.name}-{partition.partition_index}": partition
                for topic in await admin.describe_topics()
                for partition in topic.partitions
            }

    return asyncio.run(ask())


def placed(cluster: Cluster) -> dict[str, list[int]]:
    """Their replicas, the preferred leader first."""
    return {name: partition.replica_nodes for name, partition in partitions(cluster).items()}
