"""Settings of the coordinators, with Kafka's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

MINUTE_MS = 60_000


class MigrationPolicy(Enum):
    """The values of `group.consumer.migration.policy`: in which direction groups with members may change between the
    classic and the consumer protocol."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        """Whether a classic group with members may become a consumer group."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        """Whether a consumer group with members may become a classic group."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of the group coordinator, with the property of each. Times are in milliseconds."""

    min_session_timeout_ms: int = 6_000
    """`group.min.session.timeout.ms`."""
    max_session_timeout_ms: int = 1_800_000
    """`group.max.session.timeout.ms`."""
    initial_rebalance_delay_ms: int = 3_000
    """`group.initial.rebalance.delay.ms`: how long the first rebalance of an empty group waits for more members."""
    max_size: int = 2_147_483_647
    """`group.max.size`: members of a classic group, including assigned member ids that have not joined yet."""
    offset_metadata_max_bytes: int = 4_096
    """`offset.metadata.max.bytes`, in UTF-16 code units despite its name."""
    offsets_retention_ms: int = 10_080 * MINUTE_MS
    """`offsets.retention.minutes`."""
    offsets_retention_check_interval_ms: int = 600_000
    """`offsets.retention.check.interval.ms`."""
    commit_timeout_ms: int = 5_000
    """`offsets.commit.timeout.ms`: the longest wait for the replication of a write."""
    topic_partitions: int = 50
    """`offsets.topic.num.partitions`."""
    topic_replication_factor: int = 3
    """`offsets.topic.replication.factor`: with fewer brokers, the topic cannot be created."""
    topic_segment_bytes: int = 104_857_600
    """`offsets.topic.segment.bytes`."""
    load_buffer_bytes: int = 5_242_880
    """`offsets.load.buffer.size`: bytes per read of the log while a partition is loaded."""
    consumer_session_timeout_ms: int = 45_000
    """`group.consumer.session.timeout.ms`."""
    consumer_heartbeat_interval_ms: int = 5_000
    """`group.consumer.heartbeat.interval.ms`."""
    consumer_max_size: int = 2_147_483_647
    """`group.consumer.max.size`."""
    consumer_regex_refresh_interval_ms: int = 600_000
    """`group.consumer.regex.refresh.interval.ms`: regular expressions are evaluated again after this time, even if no
    topic has been created."""
    consumer_regex_min_interval_ms: int = 10_000
    """The minimum time between evaluations of the regular expressions of one group; a constant in Kafka."""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """`group.consumer.assignors`; the first is the default."""
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    """`group.consumer.migration.policy`."""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Settings of the transaction coordinator, with the property of each. Times are in milliseconds."""

    max_timeout_ms: int = 900_000
    """`transaction.max.timeout.ms`."""
    abort_timed_out_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`."""
    id_expiration_ms: int = 604_800_000
    """`transactional.id.expiration.ms`."""
    remove_expired_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`."""
    topic_partitions: int = 50
    """`transaction.state.log.num.partitions`."""
    topic_replication_factor: int = 3
    """`transaction.state.log.replication.factor`: with fewer brokers, the topic cannot be created."""
    topic_min_isr: int = 2
    """`transaction.state.log.min.isr`."""
    topic_segment_bytes: int = 104_857_600
    """`transaction.state.log.segment.bytes`."""
    load_buffer_bytes: int = 5_242_880
    """`transaction.state.log.load.buffer.size`."""
    write_timeout_ms: int = 5_000
    """The longest wait for the replication of a write (Kafka: `request.timeout.ms` of the coordinator)."""
