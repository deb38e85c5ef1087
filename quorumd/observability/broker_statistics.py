"""Statistics of the broker role, collected on the event thread."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.broker.log_management.directories import DirectorySpace
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.partitions.partitions import Partitions
from quorumd.node.node import Node


class LogDirectoryStatistics(NamedTuple):
    """A log directory."""

    path: str
    is_online: bool
    is_cordoned: bool
    log_bytes: int
    """Size of the logs in the directory, including logs of future replicas."""
    future_replicas: int
    """Replicas of this broker that move to the directory."""
    space: DirectorySpace
    """The space of its file system."""


class BrokerStatistics(NamedTuple):
    """The replicas of a broker, collected on the event thread, and its log directories in the order of `log.dirs`."""

    state: int
    partitions: int
    leaders: int
    under_replicated: int
    under_min_isr: int
    messages_in: int
    log_directories: tuple[LogDirectoryStatistics, ...] = ()
    unread_batches: int = 0


def is_under_replicated(hosted: HostedPartition) -> bool:
    """Whether a replica is not in sync, apart from replicas that a reassignment adds, as in Kafka."""
    partition = hosted.replica.metadata
    return partition is not None and len(partition.isr) < len(partition.replicas) - len(partition.adding)


def collect_broker_statistics(node: Node) -> BrokerStatistics | None:
    """Collect the current statistics; None without the broker role."""
    if node.broker is None:
        return None
    state = int(node.broker.state)
    broker = node.broker.broker
    if broker is None:
        return BrokerStatistics(state, 0, 0, 0, 0, 0)
    hosted = broker.partitions.all()
    leaders = under_replicated = under_min_isr = 0
    for each in hosted:
        replica = each.replica
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
        node.broker.counters.messages_in,
        collect_log_directory_statistics(broker.partitions),
        broker.housekeeping.cleaner.unread_batches,
    )


def collect_log_directory_statistics(partitions: Partitions) -> tuple[LogDirectoryStatistics, ...]:
    """Collect the current statistics of each directory of `log.dirs`."""
    log_bytes: dict[str, int] = {}
    future_replicas: dict[str, int] = {}
    for each in partitions.all():
        log_bytes[each.directory.path] = log_bytes.get(each.directory.path, 0) + each.log.size_bytes
        future = each.future
        if future is not None:
            path = future.directory.path
            future_replicas[path] = future_replicas.get(path, 0) + 1
            log_bytes[path] = log_bytes.get(path, 0) + (
                future.log.size_bytes if future.log is not None else 0
            )
    return tuple(
        LogDirectoryStatistics(
            directory.path,
            directory.is_online,
            directory.is_cordoned,
            log_bytes.get(directory.path, 0),
            future_replicas.get(directory.path, 0),
            partitions.logs.space(directory),
        )
        for directory in partitions.directories.all
    )
