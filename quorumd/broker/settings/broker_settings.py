"""The settings of a broker, with Kafka's defaults. Times are in milliseconds, sizes in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quorumd.broker.settings.api_settings import ApiSettings
from quorumd.broker.settings.coordinator_settings import GroupSettings, TransactionSettings
from quorumd.controller.broker import BrokerEndpoint

ALL_DIRECTORIES: Final = "*"
"""The value of `cordoned.log.dirs` that stands for all log directories."""


@dataclass(frozen=True, slots=True)
class ReplicaFetchSettings:
    """How followers fetch from their leaders."""

    wait_max_ms: int = 500
    """`replica.fetch.wait.max.ms`: how long a leader may delay its response until there are new records."""
    min_bytes: int = 1
    """`replica.fetch.min.bytes`."""
    max_bytes: int = 1024 * 1024
    """`replica.fetch.max.bytes`, per partition."""
    response_max_bytes: int = 10 * 1024 * 1024
    """`replica.fetch.response.max.bytes`."""
    backoff_ms: float = 1_000.0
    """`replica.fetch.backoff.ms`: the wait after an error."""
    timeout_ms: float = 30_000.0
    """`replica.socket.timeout.ms`."""


@dataclass(frozen=True, slots=True)
class HousekeepingSettings:
    """Intervals of the periodic maintenance of logs."""

    high_watermark_checkpoint_ms: float = 5_000.0
    """`replica.high.watermark.checkpoint.interval.ms`."""
    offset_checkpoint_ms: float = 60_000.0
    """`log.flush.offset.checkpoint.interval.ms`, which applies to log start offsets too."""
    flush_check_ms: float = 1_000.0
    """How often logs are examined for sealed segments and for `flush.ms`."""
    retention_check_ms: float = 300_000.0
    """`log.retention.check.interval.ms`."""
    cleaner_backoff_ms: float = 15_000.0
    """`log.cleaner.backoff.ms`: how often logs are examined for compaction."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The settings of one broker, with the settings of its parts."""

    broker_id: int
    cluster_id: str
    log_directories: tuple[str, ...]
    """`log.dirs`: paths of formatted directories."""
    listeners: tuple[BrokerEndpoint, ...]
    """`advertised.listeners`."""
    inter_broker_listener: str = "PLAINTEXT"
    rack: str | None = None
    replica_lag_time_max_ms: float = 30_000.0
    heartbeat_interval_ms: float = 2_000.0
    registration_timeout_ms: float = 60_000.0
    directory_failure_timeout_ms: float = 30_000.0
    metadata_directory: str = ""
    """The directory of the metadata log, without which the node cannot run; it may be one of `log_directories`."""
    cordoned_directories: tuple[str, ...] = ()
    """`cordoned.log.dirs` of the properties file."""
    controlled_shutdown: bool = True
    """`controlled.shutdown.enable`."""
    auto_create_topics: bool = True
    num_partitions: int = 1
    default_replication_factor: int = 1
    log_defaults: Mapping[str, str] = field(default_factory=dict)
    """Defaults of topic configs, by topic config, from the `log.*` properties."""
    groups: GroupSettings = field(default_factory=GroupSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    fetch: ReplicaFetchSettings = ReplicaFetchSettings()
    housekeeping: HousekeepingSettings = HousekeepingSettings()
    api: ApiSettings = field(default_factory=ApiSettings)
