"""Options of brokers and their clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PARTITION_MISTAKES = "partition mistakes"
UNREGISTRATIONS = "unregistrations"
"""An operator that is drawn separately, so that the draws of the others do not depend on it."""
OPERATOR_NAMES = (
    "topics",
    "configs",
    "elections",
    "invalid ISR changes",
    UNREGISTRATIONS,
    PARTITION_MISTAKES,
)
"""The operators in addition to the administrator, see `BrokerOptions.operators`."""


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Options of one run. Times are in milliseconds of virtual time; Kafka's names are in brackets."""

    count: int = 0
    """Number of brokers that are models."""
    nodes: int = 0
    """Number of nodes that have only the broker role."""
    combined: int = 0
    """Number of voters that have the broker role as well."""
    segment_bytes: int = 1 << 20
    """[log.segment.bytes] of nodes with the broker role"""
    producers: int = 3
    """Number of producers without transactions, for nodes with the broker role."""
    consumers: int = 2
    """Number of consumers without a group, for nodes with the broker role."""
    transactional: int = 0
    """Number of producers with transactions, for nodes with the broker role."""
    members: int = 0
    """Number of members of consumer groups, for nodes with the broker role."""
    migrates_groups: bool = False
    """Whether all members share one group, which they leave from time to time to return with either protocol."""
    racks: int = 0
    """Number of racks, 0 for none."""
    session_timeout_ms: float = 2000.0
    """[broker.session.timeout.ms]"""
    heartbeat_ms: float = 400.0
    """[broker.heartbeat.interval.ms]"""
    longest_lag_ms: float = 1500.0
    """[replica.lag.time.max.ms]"""
    fetch_wait_ms: float = 300.0
    """[replica.fetch.wait.max.ms]"""
    flush_ms: float = 500.0
    """Mean interval at which the kernel writes appended data back."""
    write_timeout_ms: float = 1500.0
    write_ms: float = 30.0
    """Mean time between two produced records."""
    admin_ms: float = 300.0
    """Mean time between two requests of administrators."""
    controller_timeout_ms: float = 1000.0
    """Timeout of a broker's requests to the controller, after which it closes the connection."""
    shutdown_timeout_ms: float = 4000.0
    """Timeout of a controlled shutdown, after which the broker stops."""
    max_partitions_per_step: int = 10_000
    """Partitions changed in one step when a broker joins or leaves. Steps need a small value, since simulated brokers
    have few partitions."""
    balance_ms: float = 0.0
    """[leader.imbalance.check.interval.seconds]; 0 for never."""
    cordon_ms: float = 0.0
    """Mean time between two changes of cordoned directories; 0 for never."""
    log_directories: int = 1
    """Number of directories per broker [log.dirs]."""
    flushes_messages: bool = False
    """Whether nodes with the broker role flush each record before its response [log.flush.interval.messages]."""
    moves_ms: float = 0.0
    """Mean time between two requests to move replicas between directories of a broker node; 0 for never."""
    raises_min_isr: bool = False
    """Whether administrators change min.insync.replicas of topics in use."""
    only_topics: bool = False
    """Whether administrators only create, grow and delete topics."""
    unclean_topics: float = 0.0
    """Share of topics with unclean leader election."""
    operators: Mapping[str, float] = field(default_factory=dict)
    """Mean time between two requests of each operator, by name."""
    alter_partition_versions: tuple[int, ...] = (3,)
    """The versions of AlterPartition, from which each incarnation of a broker draws one."""
    ineligible_proposals: float = 0.0
    """Share of incarnations whose leaders propose replicas that they know to be fenced or shutting down."""
