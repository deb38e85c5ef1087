"""Metrics of the metadata, read from each node's own image; `kip` has the names in Kafka's controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorumd.observability.image_statistics import ImageStatistics
from quorumd.observability.node_metric import NodeMetric, Read, single


def _image_value(read: Callable[[ImageStatistics], int]) -> Read:
    return lambda node, sampled: [((), read(sampled.image))]


CONTROLLER_METRICS: Final[tuple[NodeMetric, ...]] = (
    NodeMetric(
        "quorumd_controller_registered_brokers",
        "gauge",
        "Registered brokers.",
        _image_value(lambda statistics: statistics.registered_brokers),
    ),
    NodeMetric(
        "quorumd_controller_fenced_brokers",
        "gauge",
        "Registered brokers that are fenced, and so lead no partition.",
        _image_value(lambda statistics: statistics.fenced_brokers),
        kip=("FencedBrokerCount",),
    ),
    NodeMetric(
        "quorumd_controller_active_brokers",
        "gauge",
        "Brokers that are neither fenced nor in controlled shutdown.",
        _image_value(lambda statistics: statistics.active_brokers),
        kip=("ActiveBrokerCount",),
    ),
    NodeMetric(
        "quorumd_controller_draining_brokers",
        "gauge",
        "Unfenced brokers in controlled shutdown.",
        _image_value(lambda statistics: statistics.draining_brokers),
        kip=("ControlledShutdownBrokerCount",),
    ),
    NodeMetric(
        "quorumd_controller_active",
        "gauge",
        "1 on the active controller, 0 on other nodes.",
        single(lambda node: node.controller.is_active),
        kip=("ActiveControllerCount",),
    ),
    NodeMetric(
        "quorumd_broker_registration_state",
        "gauge",
        "State of each registered broker: 10 fenced, 20 in controlled shutdown, 30 active.",
        lambda node, sampled: [((str(id),), state) for id, state in sampled.image.broker_states],
        ("broker",),
        ("BrokerRegistrationState",),
    ),
    NodeMetric(
        "quorumd_broker_heartbeat_age_seconds",
        "gauge",
        "Leader: time since the last heartbeat of each registered broker, at most the session timeout.",
        lambda node, sampled: [((str(id),), age) for id, age in sampled.image.heartbeat_ages_s],
        ("broker",),
        ("TimeSinceLastHeartbeatReceivedMs",),
    ),
    NodeMetric(
        "quorumd_controller_leader_changes",
        "counter",
        "Leaders that this node learned of, one per epoch, including itself.",
        single(lambda node: node.monitor.leaders_elected),
        kip=("NewActiveControllersCount",),
    ),
    NodeMetric(
        "quorumd_controller_expired_sessions",
        "counter",
        "Leader: brokers fenced because their session expired.",
        single(lambda node: node.statistics.sessions_expired),
        kip=("TimedOutBrokerHeartbeatCount",),
    ),
    NodeMetric(
        "quorumd_controller_last_known_leader_elections",
        "counter",
        "Leader: elections of the last known leader because every eligible replica was lost; committed records may "
        "be lost.",
        single(lambda node: node.statistics.last_known_leader_elections),
    ),
    NodeMetric(
        "quorumd_controller_unclean_leader_elections",
        "counter",
        "Leader: other unclean elections, allowed by a topic's config or an administrator; committed records may be "
        "lost.",
        single(lambda node: node.statistics.unclean_elections),
    ),
    NodeMetric(
        "quorumd_controller_eligible_leader_elections",
        "counter",
        "Leader: elections of an eligible leader replica (ELR), as no replica was in sync; no record is lost.",
        single(lambda node: node.controller.writer.eligible_elections),
        kip=("ElectionFromEligibleLeaderReplicasPerSec",),
    ),
    NodeMetric(
        "quorumd_controller_preferred_leader_elections",
        "counter",
        "Leader: elections of preferred leaders by automatic leader rebalancing.",
        single(lambda node: node.statistics.preferred_leader_elections),
    ),
    NodeMetric(
        "quorumd_controller_topics",
        "gauge",
        "Topics.",
        _image_value(lambda statistics: statistics.topics),
        kip=("GlobalTopicCount",),
    ),
    NodeMetric(
        "quorumd_controller_partitions",
        "gauge",
        "Partitions of all topics.",
        _image_value(lambda statistics: statistics.partitions),
        kip=("GlobalPartitionCount",),
    ),
    NodeMetric(
        "quorumd_controller_offline_partitions",
        "gauge",
        "Partitions without a leader, which cannot be read or written.",
        _image_value(lambda statistics: statistics.offline_partitions),
        kip=("OfflinePartitionsCount",),
    ),
    NodeMetric(
        "quorumd_controller_reassigning_partitions",
        "gauge",
        "Partitions with a reassignment in progress.",
        _image_value(lambda statistics: statistics.reassigning_partitions),
    ),
    NodeMetric(
        "quorumd_controller_imbalanced_partitions",
        "gauge",
        "Partitions not led by their preferred leader, including partitions without a leader.",
        _image_value(lambda statistics: statistics.imbalanced_partitions),
        kip=("PreferredReplicaImbalanceCount",),
    ),
    NodeMetric(
        "quorumd_metadata_version",
        "gauge",
        "Finalized level of metadata.version, 0 before the log has one.",
        _image_value(lambda statistics: statistics.metadata_version),
        kip=("CurrentMetadataVersion",),
    ),
    NodeMetric(
        "quorumd_metadata_applied_offset",
        "gauge",
        "Offset up to which the image has applied the log, exclusive.",
        _image_value(lambda statistics: statistics.applied_offset),
        kip=("LastAppliedRecordOffset",),
    ),
    NodeMetric(
        "quorumd_metadata_applied_timestamp_seconds",
        "gauge",
        "Unix time of the last record in the image, 0 before there is one.",
        lambda node, sampled: [((), sampled.image.applied_timestamp_ms / 1000)],
        kip=("LastAppliedRecordTimestamp",),
    ),
    NodeMetric(
        "quorumd_metadata_applied_lag_seconds",
        "gauge",
        "Age of the last record in the image; 0 on the leader.",
        lambda node, sampled: [((), sampled.applied_lag_s)],
        kip=("LastAppliedRecordLagMs",),
    ),
    NodeMetric(
        "quorumd_metadata_errors",
        "counter",
        "Snapshots that could not be built or were found damaged; at any other metadata error the node stops.",
        single(lambda node: node.statistics.snapshots_failed + node.log.snapshots.quarantined_count),
        kip=("MetadataErrorCount",),
    ),
    NodeMetric(
        "quorumd_metadata_image_hash",
        "gauge",
        "48-bit hash of the image, equal on all nodes with the same applied offset.",
        _image_value(lambda statistics: statistics.hash),
    ),
)
