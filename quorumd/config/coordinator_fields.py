"""The settings of the coordinators of groups and transactions, which every broker runs."""

from __future__ import annotations

from typing import Annotated

from quorumd.broker.settings.coordinator_settings import MigrationPolicy
from quorumd.config.setting import setting
from quorumd.config.topic_default_fields import TopicDefaultFields
from quorumd.config.values import choice, duration, integer, size

_MIGRATION_POLICY = choice(*(policy.value for policy in MigrationPolicy))


class CoordinatorFields(TopicDefaultFields):
    """Settings of consumer groups, committed offsets and transactions."""

    group_initial_rebalance_delay_ms: Annotated[int, duration("0ms", "1h")] = setting(
        "group.initial.rebalance.delay.ms",
        default="3s",
        about="How long the first rebalance of a new group waits for more members.",
    )
    group_min_session_timeout_ms: Annotated[int, duration("1ms", "24h")] = setting(
        "group.min.session.timeout.ms",
        default="6s",
        about="Minimum session timeout of a member of a classic group.",
    )
    group_max_session_timeout_ms: Annotated[int, duration("1ms", "24h")] = setting(
        "group.max.session.timeout.ms",
        default="30m",
        about="Maximum session timeout of a member of a classic group.",
    )
    group_max_size: Annotated[int, integer(1, 2**31 - 1)] = setting(
        "group.max.size", default="2147483647", about="Maximum number of members of a classic group."
    )
    group_consumer_session_timeout_ms: Annotated[int, duration("1ms", "24h")] = setting(
        "group.consumer.session.timeout.ms",
        default="45s",
        about="Session timeout of members of consumer groups (KIP-848).",
    )
    group_consumer_heartbeat_interval_ms: Annotated[int, duration("1ms", "24h")] = setting(
        "group.consumer.heartbeat.interval.ms",
        default="5s",
        about="Heartbeat interval of members of consumer groups (KIP-848).",
    )
    group_consumer_regex_refresh_interval_ms: Annotated[int, duration("10s", "24d")] = setting(
        "group.consumer.regex.refresh.interval.ms",
        default="10m",
        about="Interval at which regular expressions of consumer groups are evaluated again without new topics.",
    )
    group_consumer_max_size: Annotated[int, integer(1, 2**31 - 1)] = setting(
        "group.consumer.max.size",
        default="2147483647",
        about="Maximum number of members of a consumer group (KIP-848).",
    )
    group_consumer_migration_policy: Annotated[str, _MIGRATION_POLICY] = setting(
        "group.consumer.migration.policy",
        default="bidirectional",
        about="Whether a group with members becomes a consumer group when a member joins with the consumer protocol "
        "(upgrade), and a classic group when the last such member leaves (downgrade).",
    )

    offsets_topic_partitions: Annotated[int, integer(1, 10_000)] = setting(
        "offsets.topic.num.partitions",
        default="50",
        about="Number of partitions of __consumer_offsets; must not change once the topic exists.",
    )
    offsets_topic_replication_factor: Annotated[int, integer(1, 32_767)] = setting(
        "offsets.topic.replication.factor", default="3", about="Replication factor of __consumer_offsets."
    )
    offsets_topic_segment_bytes: Annotated[int, size("1MiB", "2047MiB")] = setting(
        "offsets.topic.segment.bytes",
        default="100MiB",
        about="Segment size of __consumer_offsets; small segments make coordinators load faster.",
    )
    offsets_retention_minutes: Annotated[int, integer(1, 2**31 - 1)] = setting(
        "offsets.retention.minutes",
        default="10080",
        about="An offset expires this many minutes after its commit, or after its group became empty if that is "
        "later. Offsets of topics to which the members of a group subscribe do not expire.",
    )
    offsets_retention_check_interval_ms: Annotated[int, duration("1ms", "24h")] = setting(
        "offsets.retention.check.interval.ms",
        default="10m",
        about="Interval of checks for offsets that have exceeded their retention.",
    )
    offset_metadata_max_bytes: Annotated[int, size("0", "1GiB")] = setting(
        "offset.metadata.max.bytes",
        default="4096",
        about="Maximum bytes of the metadata that a client commits with an offset.",
    )
    offsets_commit_timeout_ms: Annotated[int, duration("1ms", "1h")] = setting(
        "offsets.commit.timeout.ms",
        default="5s",
        about="An offset commit fails if it is not replicated within this time.",
    )

    transaction_log_partitions: Annotated[int, integer(1, 10_000)] = setting(
        "transaction.state.log.num.partitions",
        default="50",
        about="Number of partitions of __transaction_state; must not change once the topic exists.",
    )
    transaction_log_replication_factor: Annotated[int, integer(1, 32_767)] = setting(
        "transaction.state.log.replication.factor",
        default="3",
        about="Replication factor of __transaction_state.",
    )
    transaction_log_min_isr: Annotated[int, integer(1, 32_767)] = setting(
        "transaction.state.log.min.isr",
        default="2",
        about="min.insync.replicas of __transaction_state when it is created.",
    )
    transaction_log_segment_bytes: Annotated[int, size("1MiB", "2047MiB")] = setting(
        "transaction.state.log.segment.bytes", default="100MiB", about="Segment size of __transaction_state."
    )
    transaction_max_timeout_ms: Annotated[int, duration("1ms", "24h")] = setting(
        "transaction.max.timeout.ms",
        default="15m",
        about="Maximum transaction timeout that a producer may request.",
    )
    transactional_id_expiration_ms: Annotated[int, duration("1ms", "3650d")] = setting(
        "transactional.id.expiration.ms",
        default="7d",
        about="A transactional id is removed once it has been idle for this long.",
    )
    transactional_id_check_interval_ms: Annotated[int, duration("1ms", "24h")] = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        default="1h",
        about="Interval of checks for transactional ids that have expired.",
    )
    transaction_timeout_check_interval_ms: Annotated[int, duration("1ms", "24h")] = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        default="10s",
        about="Interval of checks for transactions that have timed out.",
    )
