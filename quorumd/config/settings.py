"""Every setting of a node in one list, and how settings depend on each other.

Times are milliseconds, sizes are bytes. Defaults are Kafka's where Kafka has the setting; they are written as
a properties file would give them and pass the same validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from os.path import abspath
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from quorumd.config.values import (
    ADDRESSES,
    ADVERTISED_LISTENER,
    FOLDER,
    LISTENER,
    NAMES,
    OPTIONAL_ADDRESS,
    PLAINTEXT,
    PLAINTEXT_ONLY,
    PROTOCOL_MAP,
    ROLES,
    SECURITY_PROTOCOLS,
    SWITCH,
    VOTERS,
    WILDCARD_HOSTS,
    Kind,
    VoterAddress,
    choice,
    duration,
    integer,
    or_any,
    size,
)
from quorumd.controller.controller import ControllerSettings
from quorumd.ids import Endpoint
from quorumd.log import LogSettings
from quorumd.node.settings import NodeSettings
from quorumd.raft.settings import RaftSettings

FETCH_MAX_WAIT_MS = 500
FETCH_MAX_BYTES = 8 * 1024 * 1024


class Problem(NamedTuple):
    """Settings that contradict each other. `fields` are the settings involved, the one to change first."""

    fields: tuple[str, ...]
    wrong: str
    allowed: str


class SettingDocumentation(NamedTuple):
    """One row of the documentation; `default` is "required" if there is none."""

    keys: tuple[str, ...]
    kind: str
    default: str
    meaning: str
    allowed: str


INTERNAL = "internal."
"""Prefix of keys that inject faults, for tests of quorumd; neither documentation nor errors mention them."""


def setting(*keys: str, about: str, default: str | None = None) -> Any:
    """A field with its keys in a properties file; errors suggest the first key."""
    extra: dict[str, Any] = {"keys": keys}
    if default is None:
        return Field(description=about, json_schema_extra=extra)
    return Field(default, validate_default=True, description=about, json_schema_extra=extra)


class Settings(BaseModel):
    """The settings of one node, created by `load` or from field names and texts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node_id: Annotated[int, integer(0, 2**31 - 1)] = setting(
        "node.id", "broker.id", about="Id of this node; also its voter id."
    )
    data_directory: Annotated[str, FOLDER] = setting(
        "log.dirs", "log.dir", "metadata.log.dir", about="Data folder, formatted by `quorumd format`."
    )
    process_roles: Annotated[tuple[str, ...], ROLES] = setting(
        "process.roles",
        default="",
        about="As in Kafka; only controller is supported. Voters are defined by the voter set, not by this.",
    )

    listener: Annotated[Endpoint, LISTENER] = setting(
        "listeners", about="Name, address and port to bind. An empty host binds all IPv4 addresses."
    )
    advertised_listener: Annotated[Endpoint | None, ADVERTISED_LISTENER] = setting(
        "advertised.listeners",
        default="",
        about="Address that other nodes and clients connect to; required if listeners has a wildcard address.",
    )
    controller_listener_names: Annotated[tuple[str, ...], NAMES] = setting(
        "controller.listener.names",
        default="",
        about="As in Kafka; the first name must be the listener's, which also serves controllers.",
    )
    inter_broker_listener_name: Annotated[tuple[str, ...], NAMES] = setting(
        "inter.broker.listener.name", default="", about="As in Kafka; must be the listener's name."
    )
    listener_security_protocol_map: Annotated[tuple[tuple[str, str], ...], PROTOCOL_MAP] = setting(
        "listener.security.protocol.map",
        default="",
        about="Security protocol by listener name. The listener must map to PLAINTEXT, the only supported one.",
    )
    security_inter_broker_protocol: Annotated[str, PLAINTEXT_ONLY] = setting(
        "security.inter.broker.protocol", default=PLAINTEXT, about="Security protocol between nodes."
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
    connections_max_idle_ms: Annotated[int, duration("1s", "24h")] = setting(
        "connections.max.idle.ms",
        default="10m",
        about="An accepted connection is closed after being idle for this long.",
    )

    quorum_voters: Annotated[tuple[VoterAddress, ...], VOTERS] = setting(
        "quorum.voters",
        "controller.quorum.voters",
        default="",
        about="The voters of the first election, the same on every node. Afterwards the log holds the voters.",
    )
    bootstrap_servers: Annotated[tuple[tuple[str, int], ...], ADDRESSES] = setting(
        "bootstrap.servers",
        "controller.quorum.bootstrap.servers",
        default="",
        about="Nodes from which this node discovers the quorum; any nodes of the cluster.",
    )
    auto_join: Annotated[bool, SWITCH] = setting(
        "quorum.auto.join.enable",
        "controller.quorum.auto.join.enable",
        default="false",
        about="true: once this node has caught up it adds itself to the voters, replacing the entry of a lost data "
        "folder. Cannot be combined with quorum.voters.",
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
        about="How long a candidate waits for votes.",
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
        about="A request to another node fails without a response within this time.",
    )
    retry_backoff_ms: Annotated[int, duration("1ms", "1h")] = setting(
        "quorum.retry.backoff.ms",
        "controller.quorum.retry.backoff.ms",
        default="20",
        about="Initial wait before a failed request is retried; it doubles with every attempt (KIP-580).",
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
        about="Accepted for compatibility, without effect: writes are batched only while a flush is in progress.",
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
        about="Specific to quorumd: free space required before the log accepts writes again after a full disk.",
    )

    snapshot_bytes: Annotated[int, size("1", "1024GiB")] = setting(
        "metadata.log.max.record.bytes.between.snapshots",
        default="20MiB",
        about="A snapshot is built once this much of the log was committed since the newest snapshot.",
    )
    snapshot_ms: Annotated[int, duration("0ms", "3650d")] = setting(
        "metadata.log.max.snapshot.interval.ms",
        default="1h",
        about="A snapshot is built this long after the newest one if records were committed since; 0 disables this.",
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
        about="Whether preferred leaders become leaders again automatically once they are in sync.",
    )
    leader_imbalance_check_interval_s: Annotated[int, integer(1, 10**9)] = setting(
        "leader.imbalance.check.interval.seconds",
        default="300",
        about="Interval in seconds between checks for such preferred leaders.",
    )
    max_idle_interval_ms: Annotated[int, duration("0ms", "1h")] = setting(
        "metadata.max.idle.interval.ms",
        default="500",
        about="A leader without writes for this long appends a NoOpRecord, by which brokers know that they are up to "
        "date; 0 disables this.",
    )

    min_insync_replicas: Annotated[int, integer(1, 32_767)] = setting(
        "min.insync.replicas",
        default="1",
        about="Cluster-wide default, written when a cluster is created; `quorumd configs set` changes it later.",
    )

    remote_storage: Annotated[bool, SWITCH] = setting(
        "remote.log.storage.system.enable",
        default="false",
        about="Whether topics may set remote.storage.enable=true; must be the same on every controller and broker.",
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

    clock_offset_ms: Annotated[int, integer(-(10**13), 10**13)] = setting(
        "internal.clock.offset.ms",
        default="0",
        about="Milliseconds by which this node's wall clock is wrong.",
    )
    fail_flush_after: Annotated[int, integer(0, 10**9)] = setting(
        "internal.fail.flush.after",
        default="0",
        about="Number of flushes that succeed before all fail; 0 disables this.",
    )

    properties: tuple[tuple[str, str], ...] = ()
    """Keys and values as given; not a setting."""
    file_warnings: tuple[str, ...] = ()
    """Warnings about keys without effect; not a setting."""

    @model_validator(mode="after")
    def _check_dependencies(self) -> Settings:
        problems = list(_problems(self))
        if problems:
            text = "\n".join(
                f"{problem.fields[0]}: {problem.wrong}; {problem.allowed}" for problem in problems
            )
            raise PydanticCustomError("dependent", "{text}", {"text": text, "problems": problems})
        return self

    def node_settings(self) -> NodeSettings:
        """The settings of a Node. A long poll takes at most half of the fetch or request timeout."""
        return NodeSettings(
            node_id=self.node_id,
            data_directory=abspath(self.data_directory),
            listen=self.listener,
            advertised=self.advertised_listener or self.listener,
            bootstrap_servers=self.bootstrap_servers,
            voter_addresses=tuple(
                (voter.id, voter.host, voter.port) for voter in self.quorum_voters if voter.port
            ),
            bootstrap_voters=tuple(voter.id for voter in self.quorum_voters),
            raft=self._raft_settings(),
            log=self._log_settings(),
            controller=self._controller_settings(),
            request_timeout_ms=self.request_timeout_ms,
            max_request_bytes=self.max_request_bytes,
            max_connections=self.max_connections,
            max_connections_per_host=self.max_connections_per_host,
            connections_max_idle_ms=self.connections_max_idle_ms,
            registers=True,
            auto_join=self.auto_join,
            static_configs=self.static_properties(),
        )

    def _raft_settings(self) -> RaftSettings:
        shortest_timeout = min(self.fetch_timeout_ms, self.request_timeout_ms)
        return RaftSettings(
            fetch_timeout_ms=self.fetch_timeout_ms,
            election_timeout_ms=self.election_timeout_ms,
            election_backoff_max_ms=self.election_backoff_max_ms,
            retry_backoff_ms=self.retry_backoff_ms,
            retry_backoff_max_ms=self.retry_backoff_max_ms,
            fetch_max_wait_ms=min(FETCH_MAX_WAIT_MS, shortest_timeout // 2),
            fetch_max_bytes=min(FETCH_MAX_BYTES, self.max_request_bytes // 2),
            snapshot_max_bytes=min(self.snapshot_max_bytes, self.max_request_bytes // 2),
        )

    def _log_settings(self) -> LogSettings:
        return LogSettings(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            allocate_bytes=min(LogSettings().allocate_bytes, self.segment_bytes),
            reserve_bytes=self.reserve_bytes,
            snapshot_bytes=self.snapshot_bytes,
            snapshot_ms=self.snapshot_ms,
            retention_bytes=self.retention_bytes,
            retention_ms=self.retention_ms,
        )

    def _controller_settings(self) -> ControllerSettings:
        rebalances = self.auto_leader_rebalance == "true"
        return ControllerSettings(
            broker_session_timeout_ms=self.broker_session_timeout_ms,
            default_replication_factor=self.default_replication_factor,
            num_partitions=self.num_partitions,
            min_insync_replicas=self.min_insync_replicas,
            leader_imbalance_check_interval_ms=self.leader_imbalance_check_interval_s * 1000.0 * rebalances,
            max_idle_interval_ms=self.max_idle_interval_ms,
            remote_storage=self.remote_storage,
        )

    def static_properties(self) -> tuple[tuple[str, str], ...]:
        """Keys and values as given, for DescribeConfigs of this broker."""
        return self.properties

    def warnings(self) -> tuple[str, ...]:
        """Warnings about valid but probably unintended settings; the daemon logs them at start."""
        return (*self.file_warnings, *_warnings(self))


def _problems(settings: Settings) -> Iterator[Problem]:
    yield from _listener_problems(settings)
    yield from _quorum_problems(settings)
    if settings.connections_max_idle_ms <= settings.fetch_timeout_ms:
        yield Problem(
            ("connections_max_idle_ms", "fetch_timeout_ms"),
            "connections of waiting followers would be closed",
            f"more than quorum.fetch.timeout.ms ({settings.fetch_timeout_ms})",
        )


def _listener_problems(settings: Settings) -> Iterator[Problem]:
    listener, advertised = settings.listener, settings.advertised_listener
    if advertised is None and listener.host in WILDCARD_HOSTS:
        yield Problem(
            ("listener", "advertised_listener"),
            "other nodes cannot connect to a wildcard address",
            f"a specific address, or add advertised.listeners={listener.name}://<host>:{listener.port}",
        )
    if advertised is not None and advertised.name != listener.name:
        yield Problem(
            ("advertised_listener", "listener"),
            f"no listener is named {advertised.name}",
            f"{listener.name}://host:port",
        )
    protocols = {name: name for name in SECURITY_PROTOCOLS} | {"CONTROLLER": PLAINTEXT}
    protocols |= dict(settings.listener_security_protocol_map)
    protocol = protocols.get(listener.name)
    if protocol != PLAINTEXT:
        wrong = (
            f"{protocol} is not supported yet" if protocol else f"{listener.name} has no security protocol"
        )
        yield Problem(
            ("listener", "listener_security_protocol_map"),
            wrong,
            f"a listener named {PLAINTEXT}, or listener.security.protocol.map={listener.name}:{PLAINTEXT}",
        )
    for field in ("controller_listener_names", "inter_broker_listener_name"):
        names = getattr(settings, field)
        if names and names[0] != listener.name:
            wrong = f"no listener is named {names[0]}; one listener serves clients, brokers and controllers"
            yield Problem((field, "listener"), wrong, listener.name)
    metrics = settings.metrics_listener
    if metrics is not None and metrics[1] == listener.port != 0:
        hosts = {metrics[0], listener.host}
        if len(hosts) == 1 or hosts.intersection(WILDCARD_HOSTS):
            yield Problem(("metrics_listener", "listener"), "listeners uses the same port", "another port")


def _quorum_problems(settings: Settings) -> Iterator[Problem]:
    voters, servers = settings.quorum_voters, settings.bootstrap_servers
    unreachable = [str(voter.id) for voter in voters if not voter.port and voter.id != settings.node_id]
    if unreachable and not servers:
        yield Problem(
            ("quorum_voters", "bootstrap_servers", "node_id"),
            f"no address is known for voter {', '.join(unreachable)}",
            "id@host:port for each, or bootstrap.servers=host:port of any node",
        )
    if settings.auto_join and voters:
        yield Problem(
            ("auto_join", "quorum_voters"),
            "cannot be combined with quorum.voters",
            "bootstrap.servers instead of quorum.voters, or false",
        )


def _warnings(settings: Settings) -> Iterator[str]:
    if settings.fetch_timeout_ms < settings.election_timeout_ms:
        yield (
            f"quorum.fetch.timeout.ms ({settings.fetch_timeout_ms}) is shorter than "
            f"quorum.election.timeout.ms ({settings.election_timeout_ms}): "
            "a slow election can outlast the fetch timeout of the voters"
        )
    if settings.retry_backoff_ms > settings.retry_backoff_max_ms:
        yield (
            f"quorum.retry.backoff.ms ({settings.retry_backoff_ms}) is above quorum.retry.backoff.max.ms "
            f"({settings.retry_backoff_max_ms}): every wait is the maximum"
        )
    if settings.append_linger_ms:
        yield "controller.quorum.append.linger.ms has no effect: writes are batched only while a flush is in progress"
    if settings.clock_offset_ms or settings.fail_flush_after:
        yield "faults are injected into this node: remove the properties that begin with internal."


def keys_of(field: str) -> tuple[str, ...]:
    """The keys of one setting in a properties file; () for a field that is not a setting."""
    extra = Settings.model_fields[field].json_schema_extra
    return tuple(extra["keys"]) if isinstance(extra, dict) else ()  # type: ignore[arg-type]  # JSON typing


def documentation() -> list[SettingDocumentation]:
    """One row per setting in the order of this file, without those for tests."""
    rows = []
    for name, field in Settings.model_fields.items():
        keys = keys_of(name)
        kind = next((entry for entry in field.metadata if isinstance(entry, Kind)), None)
        if keys and kind is not None and not keys[0].startswith(INTERNAL):
            default = "required" if field.is_required() else str(field.default)
            rows.append(SettingDocumentation(keys, kind.name, default, field.description or "", kind.allowed))
    return rows
