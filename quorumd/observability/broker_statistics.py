"""Statistics of the broker role, collected on the event thread."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.node.node import Node


class BrokerStatistics(NamedTuple):
    """The replicas of a broker, collected on the event thread."""

    state: int
    partitions: int
    leaders: int
    under_replicated: int
    under_min_isr: int
    offline_directories: int
    cordoned_directories: int
    log_bytes: int
    messages_in: int


def is_under_replicated(hosted: HostedPartition) -> bool:
    """Whether a replica is not in sync, apart from those that a reassignment adds, as in Kafka."""
    partition = hosted.replica.metadata
    return partition is not None and len(partition.isr) < len(partition.replicas) - len(partition.adding)


def collect_broker_statistics(node: Node) -> BrokerStatistics | None:
    """Collect the current statistics; None without the broker role."""
    if node.broker is None:
        return None
    state = int(node.broker.state)
    broker = node.broker.broker
    if broker is None:
        return BrokerStatistics(state, 0, 0, 0, 0, 0, 0, 0, 0)
    hosted = broker.partitions.all()
    leaders = under_replicated = under_min_isr = log_bytes = 0
    for each in hosted:
        replica = each.replica
        log_bytes += replica.log.size_bytes
        if replica.leadership is not None:
            leaders += 1
            under_replicated += is_under_replicated(each)
            under_min_isr += len(replica.isr) < each.min_isr
    return BrokerStatistics(
        state,
        len(hosted),
        leaders,
        under_replicated,
        under_min_isr,
        sum(not directory.is_online for directory in broker.directories.all),
        sum(directory.is_cordoned for directory in broker.directories.all),
        log_bytes,
        node.broker.counters.messages_in,
    )
