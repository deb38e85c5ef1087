"""The settings of the broker role: registration, replication, logs and fetches.

They have no effect without that role, and the loader warns about them.
"""

from __future__ import annotations

from typing import Annotated

from quorumd.config.coordinator_fields import CoordinatorFields
from quorumd.config.setting import setting
from quorumd.config.values import SWITCH, TEXT, TEXTS, choice, duration, integer, size

_PACKAGE = "org.apache.kafka.common.replica"
LEADER_SELECTOR = f"{_PACKAGE}.LeaderSelector"
RACK_AWARE_SELECTOR = f"{_PACKAGE}.RackAwareReplicaSelector"


class BrokerFields(CoordinatorFields):
    """Settings of a broker, besides those of its coordinators and the defaults of topic configs."""

    broker_rack: Annotated[str, TEXT] = setting(
        "broker.rack", default="", about="Rack of the broker; replicas are spread over racks."
    )
    auto_create_topics: Annotated[bool, SWITCH] = setting(
        "auto.create.topics.enable",
        default="true",
        about="Whether a topic is created when a client requests its metadata.",
    )
    controlled_shutdown: Annotated[bool, SWITCH] = setting(
        "controlled.shutdown.enable",
        default="true",
        about="Whether the controller moves the leaderships of a broker to other brokers before it stops.",
    )
    broker_heartbeat_interval_ms: Annotated[int, duration("10ms", "1h")] = setting(
        "broker.heartbeat.interval.ms", default="2s", about="Interval of heartbeats to the controller."
    )
    broker_registration_timeout_ms: Annotated[int, duration("1s", "24h")] = setting(
        "initial.broker.registration.timeout.ms",
        default="60s",
        about="A broker stops if it is not registered within this time after its start.",
    )
    cordoned_log_directories: Annotated[tuple[str, ...], TEXTS] = setting(
        "cordoned.log.dirs",
        default="",
        about="Directories of log.dirs that get no new replicas (KIP-1066), or * for all. The broker's config of the "
        "same name in the metadata log takes precedence.",
    )
    log_directory_failure_timeout_ms: Annotated[int, duration("1ms", "24h")] = setting(
        "log.dir.failure.timeout.ms",
        default="30s",
        about="A broker stops if it cannot report a failed log directory to the controller within this time.",
    )

    replica_lag_time_max_ms: Annotated[int, duration("10ms", "24h")] = setting(
        "replica.lag.time.max.ms",
        default="30s",
        about="A follower that has not caught up with the leader for this long leaves the ISR.",
    )
    replica_fetch_wait_max_ms: Annotated[int, duration("0ms", "1h")] = setting(
        "replica.fetch.wait.max.ms",
        default="500ms",
        about="How long a leader delays the response to a follower while there are no new records.",
    )
    replica_fetch_min_bytes: Annotated[int, size("0", "1GiB")] = setting(
        "replica.fetch.min.bytes",
        default="1",
        about="Minimum bytes of a response to a follower; the leader delays the response until it has them.",
    )
    replica_fetch_max_bytes: Annotated[int, size("0", "1GiB")] = setting(
        "replica.fetch.max.bytes",
        default="1MiB",
        about="Maximum bytes that a follower fetches per partition; a larger first batch is returned nevertheless.",
    )
    replica_fetch_response_max_bytes: Annotated[int, size("0", "1GiB")] = setting(
        "replica.fetch.response.max.bytes",
        default="10MiB",
        about="Maximum bytes that a follower fetches per request.",
    )
    replica_fetch_backoff_ms: Annotated[int, duration("0ms", "1h")] = setting(
        "replica.fetch.backoff.ms",
        default="1s",
        about="Wait before a failed fetch of a partition is retried.",
    )
    high_watermark_checkpoint_interval_ms: Annotated[int, duration("1ms", "24h")] = setting(
        "replica.high.watermark.checkpoint.interval.ms",
        default="5s",
        about="Interval at which the high watermarks of partitions are saved.",
    )

    recovery_point_checkpoint_interval_ms: Annotated[int, duration("1ms", "24h")] = setting(
        "log.flush.offset.checkpoint.interval.ms",
        default="60s",
        about="Interval at which the recovery points and log start offsets of partitions are saved.",
    )
    log_retention_check_interval_ms: Annotated[int, duration("1ms", "24h")] = setting(
        "log.retention.check.interval.ms",
        default="5m",
        about="Interval of checks for segments that have exceeded their retention.",
    )
    log_cleaner_backoff_ms: Annotated[int, duration("1ms", "24h")] = setting(
        "log.cleaner.backoff.ms",
        default="15s",
        about="Interval of checks for partitions that need compaction.",
    )

    fetch_max_bytes: Annotated[int, size("1KiB", "1GiB")] = setting(
        "fetch.max.bytes", default="55MiB", about="Maximum bytes of a response to a consumer's fetch."
    )
    fetch_session_slots: Annotated[int, integer(0, 1_000_000)] = setting(
        "max.incremental.fetch.session.cache.slots",
        default="1000",
        about="Maximum number of fetch sessions that the broker keeps (KIP-227).",
    )
    replica_selector_class: Annotated[str, choice(LEADER_SELECTOR, RACK_AWARE_SELECTOR, "")] = setting(
        "replica.selector.class",
        default="",
        about="RackAwareReplicaSelector lets consumers fetch from a replica in their rack (KIP-392). By default they "
        "fetch from the leader.",
    )
