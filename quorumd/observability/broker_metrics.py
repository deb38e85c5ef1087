"""Metrics of the broker role, without samples on other nodes; `kip` has the names in Kafka's brokers.

No metric has a sample per partition, since the number of partitions is not limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from quorumd.node.node import Node
from quorumd.observability.broker_statistics import BrokerStatistics, LogDirectoryStatistics
from quorumd.observability.node_metric import NodeMetric, Read, Sample, SampledState


def _value(read: Callable[[BrokerStatistics], int]) -> Read:
    return lambda node, sampled: [] if sampled.broker is None else [((), read(sampled.broker))]


def _by_directory(read: Callable[[LogDirectoryStatistics], int]) -> Read:
    """A sample per log directory, without unknown values (-1)."""

    def samples(node: Node, sampled: SampledState) -> Iterator[Sample]:
        directories = () if sampled.broker is None else sampled.broker.log_directories
        for directory in directories:
            value = read(directory)
            if value >= 0:
                yield (directory.path,), value

    return samples


_DIRECTORY: Final = ("directory",)

BROKER_METRICS: Final[tuple[NodeMetric, ...]] = (
    NodeMetric(
        "quorumd_broker_state",
        "gauge",
        "State of the broker: 1 starting, 2 recovering its logs, 3 running, 6 in controlled shutdown, 7 stopping.",
        _value(lambda statistics: statistics.state),
        kip=("BrokerState",),
    ),
    NodeMetric(
        "quorumd_broker_partitions",
        "gauge",
        "Partitions with a replica on this broker.",
        _value(lambda statistics: statistics.partitions),
        kip=("PartitionCount",),
    ),
    NodeMetric(
        "quorumd_broker_leaders",
        "gauge",
        "Partitions that this broker leads.",
        _value(lambda statistics: statistics.leaders),
        kip=("LeaderCount",),
    ),
    NodeMetric(
        "quorumd_broker_under_replicated_partitions",
        "gauge",
        "Partitions that this broker leads and in which a replica is not in sync.",
        _value(lambda statistics: statistics.under_replicated),
        kip=("UnderReplicatedPartitions",),
    ),
    NodeMetric(
        "quorumd_broker_under_min_isr_partitions",
        "gauge",
        "Partitions that this broker leads and whose ISR is below min.insync.replicas.",
        _value(lambda statistics: statistics.under_min_isr),
        kip=("UnderMinIsrPartitionCount",),
    ),
    NodeMetric(
        "quorumd_broker_offline_log_directories",
        "gauge",
        "Log directories that have failed.",
        _value(lambda statistics: sum(not each.is_online for each in statistics.log_directories)),
        kip=("OfflineLogDirectoryCount",),
    ),
    NodeMetric(
        "quorumd_broker_cordoned_log_directories",
        "gauge",
        "Log directories that get no new replicas (cordoned.log.dirs).",
        _value(lambda statistics: sum(each.is_cordoned for each in statistics.log_directories)),
        kip=("CordonedLogDirectoryCount",),
    ),
    NodeMetric(
        "quorumd_broker_log_bytes",
        "gauge",
        "Size of the logs in each log directory, including logs of replicas that move to it.",
        _by_directory(lambda directory: directory.log_bytes),
        _DIRECTORY,
    ),
    NodeMetric(
        "quorumd_broker_log_directory_offline",
        "gauge",
        "1 for a log directory that has failed, otherwise 0.",
        _by_directory(lambda directory: not directory.is_online),
        _DIRECTORY,
        ("LogDirectoryOffline",),
    ),
    NodeMetric(
        "quorumd_broker_log_directory_cordoned",
        "gauge",
        "1 for a log directory that gets no new replicas, otherwise 0.",
        _by_directory(lambda directory: directory.is_cordoned),
        _DIRECTORY,
    ),
    NodeMetric(
        "quorumd_broker_log_directory_total_bytes",
        "gauge",
        "Size of the file system of each log directory that is online.",
        _by_directory(lambda directory: directory.space.total_bytes),
        _DIRECTORY,
    ),
    NodeMetric(
        "quorumd_broker_log_directory_usable_bytes",
        "gauge",
        "Free space in the file system of each log directory that is online.",
        _by_directory(lambda directory: directory.space.usable_bytes),
        _DIRECTORY,
    ),
    NodeMetric(
        "quorumd_broker_future_replicas",
        "gauge",
        "Replicas that move to each log directory from another one of this broker.",
        _by_directory(lambda directory: directory.future_replicas),
        _DIRECTORY,
    ),
    NodeMetric(
        "quorumd_broker_messages_in",
        "counter",
        "Records appended to partitions that this broker leads.",
        _value(lambda statistics: statistics.messages_in),
        kip=("MessagesInPerSec",),
    ),
    NodeMetric(
        "quorumd_broker_compaction_unread_batches",
        "counter",
        "Batches that compactions kept unchanged because their records could not be read.",
        _value(lambda statistics: statistics.unread_batches),
    ),
)
