"""The settings of a broker, from the properties of its node."""

from __future__ import annotations

from os.path import abspath

from quorumd.broker.settings.api_settings import ApiSettings
from quorumd.broker.settings.broker_settings import (
    ALL_DIRECTORIES,
    BrokerSettings,
    HousekeepingSettings,
    ReplicaFetchSettings,
)
from quorumd.broker.settings.coordinator_settings import (
    MINUTE_MS,
    GroupSettings,
    MigrationPolicy,
    TransactionSettings,
)
from quorumd.config.broker_fields import RACK_AWARE_SELECTOR, BrokerFields
from quorumd.controller.broker import BrokerEndpoint


def broker_settings(
    fields: BrokerFields, broker_id: int, endpoints: tuple[BrokerEndpoint, ...], inter_broker_listener: str
) -> BrokerSettings:
    """Return the broker's settings, with an empty cluster id.

    `endpoints` are the advertised ones, with the configured ports, of which 0 stands for any free port.
    """
    return BrokerSettings(
        broker_id=broker_id,
        cluster_id="",
        log_directories=tuple(map(abspath, fields.log_directories)),
        cordoned_directories=tuple(
            each if each == ALL_DIRECTORIES else abspath(each) for each in fields.cordoned_log_directories
        ),
        listeners=endpoints,
        inter_broker_listener=inter_broker_listener,
        rack=fields.broker_rack or None,
        replica_lag_time_max_ms=fields.replica_lag_time_max_ms,
        heartbeat_interval_ms=fields.broker_heartbeat_interval_ms,
        registration_timeout_ms=fields.broker_registration_timeout_ms,
        directory_failure_timeout_ms=fields.log_directory_failure_timeout_ms,
        controlled_shutdown=fields.controlled_shutdown,
        auto_create_topics=fields.auto_create_topics,
        num_partitions=fields.num_partitions,
        default_replication_factor=fields.default_replication_factor,
        log_defaults=fields.topic_defaults(),
        groups=_group_settings(fields),
        transactions=_transaction_settings(fields),
        fetch=ReplicaFetchSettings(
            wait_max_ms=fields.replica_fetch_wait_max_ms,
            min_bytes=fields.replica_fetch_min_bytes,
            max_bytes=fields.replica_fetch_max_bytes,
            response_max_bytes=fields.replica_fetch_response_max_bytes,
            backoff_ms=fields.replica_fetch_backoff_ms,
        ),
        housekeeping=HousekeepingSettings(
            high_watermark_checkpoint_ms=fields.high_watermark_checkpoint_interval_ms,
            offset_checkpoint_ms=fields.recovery_point_checkpoint_interval_ms,
            retention_check_ms=fields.log_retention_check_interval_ms,
            cleaner_backoff_ms=fields.log_cleaner_backoff_ms,
        ),
        api=ApiSettings(
            fetch_max_bytes=fields.fetch_max_bytes,
            fetch_session_slots=fields.fetch_session_slots,
            is_rack_aware=fields.replica_selector_class == RACK_AWARE_SELECTOR,
        ),
    )


def _group_settings(fields: BrokerFields) -> GroupSettings:
    return GroupSettings(
        min_session_timeout_ms=fields.group_min_session_timeout_ms,
        max_session_timeout_ms=fields.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=fields.group_initial_rebalance_delay_ms,
        max_size=fields.group_max_size,
        offset_metadata_max_bytes=fields.offset_metadata_max_bytes,
        offsets_retention_ms=fields.offsets_retention_minutes * MINUTE_MS,
        offsets_retention_check_interval_ms=fields.offsets_retention_check_interval_ms,
        commit_timeout_ms=fields.offsets_commit_timeout_ms,
        topic_partitions=fields.offsets_topic_partitions,
        topic_replication_factor=fields.offsets_topic_replication_factor,
        topic_segment_bytes=fields.offsets_topic_segment_bytes,
        consumer_session_timeout_ms=fields.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=fields.group_consumer_heartbeat_interval_ms,
        consumer_regex_refresh_interval_ms=fields.group_consumer_regex_refresh_interval_ms,
        consumer_max_size=fields.group_consumer_max_size,
        consumer_migration_policy=MigrationPolicy(fields.group_consumer_migration_policy),
    )


def _transaction_settings(fields: BrokerFields) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=fields.transaction_max_timeout_ms,
        abort_timed_out_interval_ms=fields.transaction_timeout_check_interval_ms,
        id_expiration_ms=fields.transactional_id_expiration_ms,
        remove_expired_interval_ms=fields.transactional_id_check_interval_ms,
        topic_partitions=fields.transaction_log_partitions,
        topic_replication_factor=fields.transaction_log_replication_factor,
        topic_min_isr=fields.transaction_log_min_isr,
        topic_segment_bytes=fields.transaction_log_segment_bytes,
    )
