"""Metrics of the broker role, without samples on other nodes. `kip`: the names in Kafka's brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorumd.observability.broker_statistics import BrokerStatistics
from quorumd.observability.node_metric import NodeMetric, Read


def _value(read: Callable[[BrokerStatistics], int]) -> Read:
    return lambda node, sampled: [] if sampled.broker is None else [((), read(sampled.broker))]


BROKER_METRICS: Final[tuple[NodeMetric, ...]] = (
    NodeMetric(
        "quorumd_broker_state",
        "gauge",
        "State of the broker: 1 starting, 2 recovering its logs, 3 running, 6 in controlled shutdown, 7 stopping.",
        _value(lambda figures: figures.state),
        kip=("BrokerState",),
    ),
    NodeMetric(
        "quorumd_broker_partitions",
        "gauge",
        "Partitions with a replica on this broker.",
        _value(lambda figures: figures.partitions),
        kip=("PartitionCount",),
    ),
    NodeMetric(
        "quorumd_broker_leaders",
        "gauge",
        "Partitions that this broker leads.",
        _value(lambda figures: figures.leaders),
        kip=("LeaderCount",),
    ),
    NodeMetric(
        "quorumd_broker_under_replicated_partitions",
        "gauge",
        "Partitions that this broker leads and in which a replica is not in sync.",
        _value(lambda figures: figures.under_replicated),
        kip=("UnderReplicatedPartitions",),
    ),
    NodeMetric(
        "quorumd_broker_under_min_isr_partitions",
        "gauge",
        "Partitions that this broker leads and whose ISR is below min.insync.replicas.",
        _value(lambda figures: figures.under_min_isr),
        kip=("UnderMinIsrPartitionCount",),
    ),
    NodeMetric(
        "quorumd_broker_offline_log_directories",
        "gauge",
        "Log directories that have failed.",
        _value(lambda figures: figures.offline_directories),
        kip=("OfflineLogDirectoryCount",),
    ),
    NodeMetric(
        "quorumd_broker_cordoned_log_directories",
        "gauge",
        "Log directories that get no new replicas (cordoned.log.dirs).",
        _value(lambda figures: figures.cordoned_directories),
        kip=("CordonedLogDirectoryCount",),
    ),
    NodeMetric(
        "quorumd_broker_log_bytes",
        "gauge",
        "Size of the logs of all partitions on this broker.",
        _value(lambda figures: figures.log_bytes),
    ),
    NodeMetric(
        "quorumd_broker_messages_in",
        "counter",
        "Records appended to partitions that this broker leads.",
        _value(lambda figures: figures.messages_in),
        kip=("MessagesInPerSec",),
    ),
)
