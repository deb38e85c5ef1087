"""The settings of every node: identity, listeners, quorum, metadata log, controller, metrics and logging.

Fields hold times in milliseconds and sizes in bytes, unless their name has another unit. Defaults are Kafka's where
Kafka has the setting; they are written as in a properties file and validated like values in one.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict

from quorumd.config.setting import setting
from quorumd.config.values import (
    ADDRESSES,
    ADVERTISED_LISTENERS,
    AUTHORIZER,
    DIRECTORIES,
    DIRECTORY,
    LISTENERS,
    NAMES,
    OPTIONAL_ADDRESS,
    PLAINTEXT,
    PRINCIPALS,
    PROTOCOL_MAP,
    ROLES,
    SECURITY_PROTOCOLS,
    SWITCH,
    TEXT,
    VOTERS,
    VoterAddress,
    choice,
    duration,
    integer,
    or_any,
    size,
)
from quorumd.ids import Endpoint
from quorumd.quotas.connection_rates import NO_RATE_LIMIT

PER_LISTENER_FIELDS = frozenset({"max_connection_creation_rate"})
"""Settings of one listener if their key has the prefix `listener.name.<name>.`, besides those of TLS and SASL."""


class NodeFields(BaseModel):
    """The settings that do not depend on the roles of the process."""

    # Only the validator of the last subclass, Settings, is used. Pydantic builds it at its first use.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    node_id: Annotated[int, integer(0, 2**31 - 1)] = setting(
        "node.id", "broker.id", about="Id of this node, as voter and as broker."
    )
    log_directories: Annotated[tuple[str, ...], DIRECTORIES] = setting(
        "log.dirs",
        "log.dir",
        default="",
        about="Log directories, formatted by `quorumd format`; required. A broker spreads its replicas over all of "
        "them. A node without the broker role has one, or metadata.log.dir instead.",
    )
    metadata_directory: Annotated[str, DIRECTORY] = setting(
        "metadata.log.dir",
        default="",
        about="Directory of the metadata log; by default the first directory of log.dirs.",
    )
    process_roles: Annotated[tuple[str, ...], ROLES] = setting(
        "process.roles",
        default="",
        about="The roles of this process: a controller is part of the metadata quorum, a broker stores the data of "
        "topics. Empty means controller. Whether a controller is a voter depends on the voter set, not on this.",
    )

    listeners: Annotated[tuple[Endpoint, ...], LISTENERS] = setting(
        "listeners",
        about="Names, addresses and ports to bind. A node with both roles needs at least one listener for clients "
        "and one for the quorum. An empty host binds all IPv4 addresses.",
    )
    advertised_listeners: Annotated[tuple[Endpoint, ...], ADVERTISED_LISTENERS] = setting(
        "advertised.listeners",
        default="",
        about="Addresses to which other nodes and clients connect, with the names in listeners; required for a "
        "listener on a wildcard address.",
    )
    controller_listener_names: Annotated[tuple[str, ...], NAMES] = setting(
        "controller.listener.names",
        default="",
        about="Names of the controllers' listeners. Nodes connect to controllers through the first one, which every "
        "controller must have. A node without the broker role may omit this: all its listeners are controllers'.",
    )
    inter_broker_listener_name: Annotated[tuple[str, ...], NAMES] = setting(
        "inter.broker.listener.name",
        default="",
        about="Name of the listener on which brokers replicate from each other. By default the one with the name of "
        "security.inter.broker.protocol, or else the first one for clients.",
    )
    listener_security_protocol_map: Annotated[tuple[tuple[str, str], ...], PROTOCOL_MAP] = setting(
        "listener.security.protocol.map",
        default="",
        about="Security protocol by listener name. By default a listener named like a protocol uses it, and "
        "CONTROLLER uses PLAINTEXT.",
    )
    security_inter_broker_protocol: Annotated[str, choice(*SECURITY_PROTOCOLS)] = setting(
        "security.inter.broker.protocol",
        default=PLAINTEXT,
        about="Brokers replicate on the listener with the name of this protocol, unless inter.broker.listener.name "
        "is set.",
    )
    max_request_bytes: Annotated[int, size("64KiB", "1GiB")] = setting(
        "socket.request.max.bytes",
        default="100MiB",
        about="Maximum request size; a larger request closes its connection.",
    )
    max_connections: Annotated[int, integer(1, 1_000_000)] = setting(
        "max.connections", default="10000", about="Maximum number of accepted connections."
    )
    max_connections_per_host: Annotated[int, integer(1, 1_000_000)] = setting(
        "max.connections.per.ip",
        default="10000",
        about="Maximum number of accepted connections per IP address.",
    )
    max_connection_creation_rate: Annotated[int, integer(1, NO_RATE_LIMIT)] = setting(
        "max.connection.creation.rate",
        default=str(NO_RATE_LIMIT),
        about="Maximum number of connections accepted per second; further ones wait. The prefix "
        "`listener.name.<name>.` limits one listener. If the node has several listeners, the limit of the node does "
        "not apply to those of the quorum and of brokers.",
    )
    connections_max_idle_ms: Annotated[int, duration("1s", "24h")] = setting(
        "connections.max.idle.ms",
        default="10m",
        about="An accepted connection is closed once it has been idle for this long.",
    )
    failed_authentication_delay_ms: Annotated[int, duration("0ms", "10s")] = setting(
        "connection.failed.authentication.delay.ms",
        default="100ms",
        about="A failed authentication gets its response, and its connection is closed, after this long.",
    )

    quorum_voters: Annotated[tuple[VoterAddress, ...], VOTERS] = setting(
        "quorum.voters",
        "controller.quorum.voters",
        default="",
        about="The voters of the first election, the same on every node. Afterwards the voters are in the log.",
    )
    bootstrap_servers: Annotated[tuple[tuple[str, int], ...], ADDRESSES] = setting(
        "bootstrap.servers",
        "controller.quorum.bootstrap.servers",
        default="",
        about="Nodes through which this node discovers the quorum. They may be any nodes of the cluster.",
    )
    auto_join: Annotated[bool, SWITCH] = setting(
        "quorum.auto.join.enable",
        "controller.quorum.auto.join.enable",
        default="false",
        about="Whether this node adds itself to the voters once it has caught up, replacing the entry of a log "
        "directory that it lost. Cannot be combined with quorum.voters.",
    )
    unauthenticated_stock_voters: Annotated[bool, SWITCH] = setting(
        "quorum.unauthenticated.stock.voters",
        default="true",
        about="Whether fetches of voters that are Kafka controllers count on connections without authentication. "
        "Nothing else proves that they are from that voter; fetches of quorumd's voters have the token of the epoch.",
    )
    fetch_timeout_ms: Annotated[int, duration("10ms", "1h")] = setting(
        "quorum.fetch.timeout.ms",
        "controller.quorum.fetch.timeout.ms",
        default="2000",
        about="A voter without a successful fetch for this long starts an election; a leader without fetches from a "
        "majority for 1.5 times as long resigns.",
    )
    election_timeout_ms: Annotated[int, duration("10ms", "1h")] = setting(
        "quorum.election.timeout.ms",
        "controller.quorum.election.timeout.ms",
        default="1000",
        about="How long a candidate waits for votes at least; the actual wait is random and less than twice as long.",
    )
    election_backoff_max_ms: Annotated[int, duration("1ms", "1h")] = setting(
        "quorum.election.jitter.max.ms",
        "controller.quorum.election.backoff.max.ms",
        default="1000",
        about="Maximum random wait after an election without a winner.",
    )
    request_timeout_ms: Annotated[int, duration("10ms", "1h")] = setting(
        "quorum.request.timeout.ms",
        "controller.quorum.request.timeout.ms",
        default="2000",
        about="A request to another node fails if there is no response within this time.",
    )
    retry_backoff_ms: Annotated[int, duration("1ms", "1h")] = setting(
        "quorum.retry.backoff.ms",
        "controller.quorum.retry.backoff.ms",
        default="20",
        about="Wait before the first retry of a failed request; it doubles with every retry (KIP-580).",
    )
    retry_backoff_max_ms: Annotated[int, duration("1ms", "1h")] = setting(
        "quorum.retry.backoff.max.ms",
        "controller.quorum.retry.backoff.max.ms",
        default="1000",
        about="Maximum wait before a failed request is retried.",
    )
    append_linger_ms: Annotated[int, duration("0ms", "1h")] = setting(
        "quorum.append.linger.ms",
        "controller.quorum.append.linger.ms",
        default="0",
        about="Accepted for compatibility, but without effect: writes are batched only while a flush is in progress.",
    )

    segment_bytes: Annotated[int, size("64KiB", "2047MiB")] = setting(
        "metadata.log.segment.bytes",
        default="1GiB",
        about="A new segment is started once the current one has this size.",
    )
    segment_ms: Annotated[int, duration("1s", "3650d")] = setting(
        "metadata.log.segment.ms",
        default="7d",
        about="A new segment is started once the current one has this age.",
    )
    reserve_bytes: Annotated[int, size("0", "1024GiB")] = setting(
        "metadata.log.reserve.bytes",
        default="16MiB",
        about="Specific to quorumd: after a full disk, the log accepts writes again once this much space is free.",
    )

    snapshot_bytes: Annotated[int, size("1", "1024GiB")] = setting(
        "metadata.log.max.record.bytes.between.snapshots",
        default="20MiB",
        about="A snapshot is built once records of this size have been committed since the newest snapshot.",
    )
    snapshot_ms: Annotated[int, duration("0ms", "3650d")] = setting(
        "metadata.log.max.snapshot.interval.ms",
        default="1h",
        about="A snapshot is built this long after the newest one if records have been committed since; 0 disables "
        "this.",
    )
    retention_bytes: Annotated[int, or_any(size("0", "1024GiB"))] = setting(
        "metadata.max.retention.bytes",
        default="100MiB",
        about="Segments covered by a snapshot are deleted while the log is larger than this.",
    )
    retention_ms: Annotated[int, or_any(duration("0ms", "3650d"))] = setting(
        "metadata.max.retention.ms",
        default="7d",
        about="Segments covered by a snapshot are deleted once their last record is older than this.",
    )
    snapshot_max_bytes: Annotated[int, size("1KiB", "128MiB")] = setting(
        "quorum.fetch.snapshot.max.bytes",
        "controller.quorum.fetch.snapshot.max.bytes",
        default="1MiB",
        about="Maximum bytes of a snapshot per fetch request and response.",
    )

    broker_session_timeout_ms: Annotated[int, duration("100ms", "1h")] = setting(
        "broker.session.timeout.ms",
        default="9s",
        about="A broker without a heartbeat for this long is fenced, and other replicas take over its leadership.",
    )
    default_replication_factor: Annotated[int, integer(1, 32_767)] = setting(
        "default.replication.factor",
        default="1",
        about="Replication factor of a new topic if the request does not set it.",
    )
    num_partitions: Annotated[int, integer(1, 1_000_000)] = setting(
        "num.partitions",
        default="1",
        about="Number of partitions of a new topic if the request does not set it.",
    )

    auto_leader_rebalance: Annotated[str, choice("true", "false")] = setting(
        "auto.leader.rebalance.enable",
        default="true",
        about="Whether preferred leaders are elected again automatically once they are in sync.",
    )
    leader_imbalance_check_interval_s: Annotated[int, integer(1, 10**9)] = setting(
        "leader.imbalance.check.interval.seconds",
        default="300",
        about="Interval in seconds between checks for partitions that their preferred leader does not lead.",
    )
    max_idle_interval_ms: Annotated[int, duration("0ms", "1h")] = setting(
        "metadata.max.idle.interval.ms",
        default="500",
        about="A leader without writes for this long appends a NoOpRecord, which shows brokers that they are up to "
        "date; 0 disables this.",
    )

    min_insync_replicas: Annotated[int, integer(1, 32_767)] = setting(
        "min.insync.replicas",
        default="1",
        about="Cluster-wide default, recorded when the cluster is created; `quorumd configs set` changes it later.",
    )

    remote_storage: Annotated[bool, SWITCH] = setting(
        "remote.log.storage.system.enable",
        default="false",
        about="Whether topics may set remote.storage.enable=true; must be the same on every controller and broker.",
    )

    authorizer_class: Annotated[str, AUTHORIZER] = setting(
        "authorizer.class.name",
        default="",
        about="The authorizer, which decides by the cluster's ACLs. If empty, every client may do everything. It "
        "must be the same on all nodes and brokers.",
    )
    super_users: Annotated[frozenset[str], PRINCIPALS] = setting(
        "super.users",
        default="",
        about="Principals that may do everything. They must include those of all nodes and brokers, unless ACLs "
        "grant these CLUSTER_ACTION.",
    )
    allows_without_acl: Annotated[bool, SWITCH] = setting(
        "allow.everyone.if.no.acl.found",
        default="false",
        about="Whether a resource without any ACL is open to every client.",
    )
    early_start_listeners: Annotated[tuple[str, ...], NAMES] = setting(
        "early.start.listeners",
        default="",
        about="Names of the listeners that serve super users before the ACLs are loaded. Empty means the "
        "controllers' listeners.",
    )
    token_secret_key: Annotated[str, TEXT] = setting(
        "delegation.token.secret.key",
        default="",
        about="Secret from which delegation tokens are derived, the same on every node and broker; empty disables "
        "tokens.",
    )
    token_max_lifetime_ms: Annotated[int, duration("1ms", "36500d")] = setting(
        "delegation.token.max.lifetime.ms",
        default="7d",
        about="Time after which a delegation token can no longer be renewed.",
    )
    token_expiry_time_ms: Annotated[int, duration("1ms", "36500d")] = setting(
        "delegation.token.expiry.time.ms",
        default="1d",
        about="Time after which a delegation token expires unless it is renewed.",
    )
    token_check_interval_ms: Annotated[int, duration("1ms", "36500d")] = setting(
        "delegation.token.expiry.check.interval.ms",
        default="1h",
        about="Interval at which the leader removes expired delegation tokens.",
    )
    quota_windows: Annotated[int, integer(1, 10_000)] = setting(
        "quota.window.num",
        default="11",
        about="Number of windows over which the usage of client quotas is measured; see quota.window.size.seconds.",
    )
    quota_window_s: Annotated[int, integer(1, 86_400)] = setting(
        "quota.window.size.seconds",
        default="1",
        about="Length in seconds of each window of quota.window.num; also the longest throttle time for "
        "request_percentage.",
    )
    mutation_quota_windows: Annotated[int, integer(1, 10_000)] = setting(
        "controller.quota.window.num",
        default="11",
        about="Number of windows over which controller_mutation_rate is measured (KIP-599).",
    )
    mutation_quota_window_s: Annotated[int, integer(1, 86_400)] = setting(
        "controller.quota.window.size.seconds",
        default="1",
        about="Length in seconds of each window of controller.quota.window.num.",
    )

    metrics_listener: Annotated[tuple[str, int] | None, OPTIONAL_ADDRESS] = setting(
        "metrics.listener",
        default="",
        about="Specific to quorumd: HTTP address of /metrics, /healthz and /readyz; empty disables them.",
    )
    log_level: Annotated[str, choice("DEBUG", "INFO", "WARNING", "ERROR")] = setting(
        "log.level", default="INFO", about="Specific to quorumd: minimum level of logged messages."
    )
    log_format: Annotated[str, choice("text", "json")] = setting(
        "log.format",
        default="text",
        about="Specific to quorumd: log as text, or as one JSON object per line.",
    )
