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
    """Settings that do not go together. `fields` are the ones involved, first the one to be changed."""

    fields: tuple[str, ...]
    wrong: str
    allowed: str


class SettingDocumentation(NamedTuple):
    """One row of the documentation: `default` is "required" where there is none."""

    keys: tuple[str, ...]
    kind: str
    default: str
    meaning: str
    allowed: str


INTERNAL = "internal."
"""Keys that begin so hurt a node on purpose, for tests of quorumd: no documentation and no error names them."""


def setting(*keys: str, about: str, default: str | None = None) -> Any:
    """A field with its keys in a properties file, first the one that errors suggest."""
    extra: dict[str, Any] = {"keys": keys}
    if default is None:
        return Field(description=about, json_schema_extra=extra)
    return Field(default, validate_default=True, description=about, json_schema_extra=extra)


class Settings(BaseModel):
    """What one properties file says. Made by `load`, or from field names and texts by a program."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node_id: Annotated[int, integer(0, 2**31 - 1)] = setting(
        "node.id", "broker.id", about="Id of this node; also its voter id."
    )
    data_directory: Annotated[str, FOLDER] = setting(
        "log.dirs", "log.dir", "metadata.log.dir", about="The folder that `quorumd format` made."
    )
    process_roles: Annotated[tuple[str, ...], ROLES] = setting(
        "process.roles",
        default="",
        about="Kafka's roles: controller, if given. The voter set decides who votes.",
    )

    listener: Annotated[Endpoint, LISTENER] = setting(
        "listeners", about="Name, address and port to bind. An empty host is every IPv4 address."
    )
    advertised_listener: Annotated[Endpoint | None, ADVERTISED_LISTENER] = setting(
        "advertised.listeners",
        default="",
        about="What other nodes and clients are told; needed where the bound address is a wildcard.",
    )
    controller_listener_names: Annotated[tuple[str, ...], NAMES] = setting(
        "controller.listener.names",
        default="",
        about="As in Kafka; the first one must name the listener, which serves controllers too.",
    )
    inter_broker_listener_name: Annotated[tuple[str, ...], NAMES] = setting(
        "inter.broker.listener.name", default="", about="As in Kafka; must name the listener."
    )
    listener_security_protocol_map: Annotated[tuple[tuple[str, str], ...], PROTOCOL_MAP] = setting(
        "listener.security.protocol.map",
        default="",
        about="Security protocol by listener name. The listener must map to PLAINTEXT, the only one so far.",
    )
    security_inter_broker_protocol: Annotated[str, PLAINTEXT_ONLY] = setting(
        "security.inter.broker.protocol", default=PLAINTEXT, about="Security protocol between nodes."
    )
    max_request_bytes: Annotated[int, size("64KiB", "1GiB")] = setting(
        "socket.request.max.bytes",
        default="100MiB",
        about="Largest request; a larger one closes its connection.",
    )
    max_connections: Annotated[int, integer(1, 1_000_000)] = setting(
        "max.connections", default="10000", about="Connections accepted at one time."
    )
    max_connections_per_host: Annotated[int, integer(1, 1_000_000)] = setting(
        "max.connections.per.ip", default="10000", about="Connections accepted at one time from one address."
    )
    connections_max_idle_ms: Annotated[int, duration("1s", "24h")] = setting(
        "connections.max.idle.ms",
        default="10m",
        about="An accepted connection that says nothing for this long is closed.",
    )

    quorum_voters: Annotated[tuple[VoterAddress, ...], VOTERS] = setting(
        "quorum.voters",
        "controller.quorum.voters",
        default="",
        about="The voters of the very first election, the same on every node. The log knows them afterwards.",
    )
    bootstrap_servers: Annotated[tuple[tuple[str, int], ...], ADDRESSES] = setting(
        "bootstrap.servers",
        "controller.quorum.bootstrap.servers",
        default="",
        about="Nodes to ask for the addresses of all others; any node will do.",
    )
    auto_join: Annotated[bool, SWITCH] = setting(
        "quorum.auto.join.enable",
        "controller.quorum.auto.join.enable",
        default="false",
        about="true: once this node has caught up it makes itself a voter, also in the place of a data folder "
        "that it lost. Not together with quorum.voters.",
    )
    fetch_timeout_ms: Annotated[int, duration("10ms", "1h")] = setting(
        "quorum.fetch.timeout.ms",
        "controller.quorum.fetch.timeout.ms",
        default="2000",
        about="A voter without a successful fetch for this long starts an election; a leader that no "
        "majority fetches from for 1.5 times as long resigns.",
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
        about="Longest random wait after an election that nobody won.",
    )
    request_timeout_ms: Annotated[int, duration("10ms", "1h")] = setting(
        "quorum.request.timeout.ms",
        "controller.quorum.request.timeout.ms",
        default="2000",
        about="A request to another node has failed after this long without an answer.",
    )
    retry_backoff_ms: Annotated[int, duration("1ms", "1h")] = setting(
        "quorum.retry.backoff.ms",
        "controller.quorum.retry.backoff.ms",
        default="20",
        about="First wait before a failed request is sent again; it doubles from try to try (KIP-580).",
    )
    retry_backoff_max_ms: Annotated[int, duration("1ms", "1h")] = setting(
        "quorum.retry.backoff.max.ms",
        "controller.quorum.retry.backoff.max.ms",
        default="1000",
        about="Longest wait before a failed request is sent again.",
    )
    append_linger_ms: Annotated[int, duration("0ms", "1h")] = setting(
        "quorum.append.linger.ms",
        "controller.quorum.append.linger.ms",
        default="0",
        about="Accepted for Kafka's files, without effect: writes gather only while a flush runs.",
    )

    segment_bytes: Annotated[int, size("64KiB", "2047MiB")] = setting(
        "metadata.log.segment.bytes",
        default="1GiB",
        about="A segment of this size is closed and a new one begun.",
    )
    segment_ms: Annotated[int, duration("1s", "3650d")] = setting(
        "metadata.log.segment.ms", default="7d", about="A segment of this age is closed and a new one begun."
    )
    reserve_bytes: Annotated[int, size("0", "1024GiB")] = setting(
        "metadata.log.reserve.bytes",
        default="16MiB",
        about="quorumd's own: room that must be free before a log whose disk was full takes writes again.",
    )

    snapshot_bytes: Annotated[int, size("1", "1024GiB")] = setting(
        "metadata.log.max.record.bytes.between.snapshots",
        default="20MiB",
        about="A snapshot is built when this much of the log was committed since the newest one.",
    )
    snapshot_ms: Annotated[int, duration("0ms", "3650d")] = setting(
        "metadata.log.max.snapshot.interval.ms",
        default="1h",
        about="A snapshot is built this long after the newest one, if anything was committed since; 0 for never.",
    )
    retention_bytes: Annotated[int, or_any(size("0", "1024GiB"))] = setting(
        "metadata.max.retention.bytes",
        default="100MiB",
        about="Segments that a snapshot makes superfluous are removed while the log is larger than this.",
    )
    retention_ms: Annotated[int, or_any(duration("0ms", "3650d"))] = setting(
        "metadata.max.retention.ms",
        default="7d",
        about="Segments that a snapshot makes superfluous are removed when their last record is older than this.",
    )
    snapshot_max_bytes: Annotated[int, size("1KiB", "128MiB")] = setting(
        "quorum.fetch.snapshot.max.bytes",
        "controller.quorum.fetch.snapshot.max.bytes",
        default="1MiB",
        about="How much of a snapshot one request fetches, and one answer brings.",
    )

    broker_session_timeout_ms: Annotated[int, duration("100ms", "1h")] = setting(
        "broker.session.timeout.ms",
        default="9s",
        about="A broker that is not heard of for this long is fenced: others lead in its place.",
    )
    default_replication_factor: Annotated[int, integer(1, 32_767)] = setting(
        "default.replication.factor",
        default="1",
        about="Replicas of a new topic's partitions, where whoever makes it does not say.",
    )
    num_partitions: Annotated[int, integer(1, 1_000_000)] = setting(
        "num.partitions",
        default="1",
        about="Partitions of a new topic, where whoever makes it does not say.",
    )

    auto_leader_rebalance: Annotated[str, choice("true", "false")] = setting(
        "auto.leader.rebalance.enable",
        default="true",
        about="Whether preferred leaders that are in sync again lead again by themselves.",
    )
    leader_imbalance_check_interval_s: Annotated[int, integer(1, 10**9)] = setting(
        "leader.imbalance.check.interval.seconds",
        default="300",
        about="Seconds between two looks for such preferred leaders.",
    )
    max_idle_interval_ms: Annotated[int, duration("0ms", "1h")] = setting(
        "metadata.max.idle.interval.ms",
        default="500",
        about="A leader that wrote nothing for this long writes a NoOpRecord: brokers see that they are up to date; "
        "0 for never.",
    )

    min_insync_replicas: Annotated[int, integer(1, 32_767)] = setting(
        "min.insync.replicas",
        default="1",
        about="Of all topics and brokers, written when a cluster is new; `configs set` changes it later.",
    )

    remote_storage: Annotated[bool, SWITCH] = setting(
        "remote.log.storage.system.enable",
        default="false",
        about="Whether topics may have remote.storage.enable=true; the same on every controller and broker.",
    )

    metrics_listener: Annotated[tuple[str, int] | None, OPTIONAL_ADDRESS] = setting(
        "metrics.listener",
        default="",
        about="quorumd's own: address of /metrics, /healthz and /readyz over HTTP; nothing turns them off.",
    )
    log_level: Annotated[str, choice("DEBUG", "INFO", "WARNING", "ERROR")] = setting(
        "log.level", default="INFO", about="quorumd's own: least important messages that are still logged."
    )
    log_format: Annotated[str, choice("text", "json")] = setting(
        "log.format", default="text", about="quorumd's own: log lines for people, or one JSON object a line."
    )

    clock_offset_ms: Annotated[int, integer(-(10**13), 10**13)] = setting(
        "internal.clock.offset.ms",
        default="0",
        about="Milliseconds by which this node's wall clock is wrong.",
    )
    fail_flush_after: Annotated[int, integer(0, 10**9)] = setting(
        "internal.fail.flush.after", default="0", about="This many flushes work, then all fail; 0 for never."
    )

    properties: tuple[tuple[str, str], ...] = ()
    """The settings as they were given; not a setting."""
    file_warnings: tuple[str, ...] = ()
    """What the file holds that does nothing here; not a setting."""

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
        """What a Node takes. Derived: a long poll never outlasts half of the fetch or request timeout."""
        shortest_timeout = min(self.fetch_timeout_ms, self.request_timeout_ms)
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
            raft=RaftSettings(
                fetch_timeout_ms=self.fetch_timeout_ms,
                election_timeout_ms=self.election_timeout_ms,
                election_backoff_max_ms=self.election_backoff_max_ms,
                retry_backoff_ms=self.retry_backoff_ms,
                retry_backoff_max_ms=self.retry_backoff_max_ms,
                fetch_max_wait_ms=min(FETCH_MAX_WAIT_MS, shortest_timeout // 2),
                fetch_max_bytes=min(FETCH_MAX_BYTES, self.max_request_bytes // 2),
                snapshot_max_bytes=min(self.snapshot_max_bytes, self.max_request_bytes // 2),
            ),
            log=LogSettings(
                segment_bytes=self.segment_bytes,
                segment_ms=self.segment_ms,
                allocate_bytes=min(LogSettings().allocate_bytes, self.segment_bytes),
                reserve_bytes=self.reserve_bytes,
                snapshot_bytes=self.snapshot_bytes,
                snapshot_ms=self.snapshot_ms,
                retention_bytes=self.retention_bytes,
                retention_ms=self.retention_ms,
            ),
            controller=ControllerSettings(
                broker_session_timeout_ms=self.broker_session_timeout_ms,
                default_replication_factor=self.default_replication_factor,
                num_partitions=self.num_partitions,
                min_insync_replicas=self.min_insync_replicas,
                leader_imbalance_check_interval_ms=self.leader_imbalance_check_interval_s * 1000.0
                if self.auto_leader_rebalance == "true"
                else 0.0,
                max_idle_interval_ms=self.max_idle_interval_ms,
                remote_storage=self.remote_storage,
            ),
            request_timeout_ms=self.request_timeout_ms,
            max_request_bytes=self.max_request_bytes,
            max_connections=self.max_connections,
            max_connections_per_host=self.max_connections_per_host,
            connections_max_idle_ms=self.connections_max_idle_ms,
            registers=True,
            auto_join=self.auto_join,
            static_configs=self.static_properties(),
        )

    def static_properties(self) -> tuple[tuple[str, str], ...]:
        """Keys and values as the file gave them, for DescribeConfigs of this broker."""
        return self.properties

    def warnings(self) -> tuple[str, ...]:
        """What is allowed and probably not meant; the daemon logs each line when it starts."""
        return (*self.file_warnings, *_warnings(self))


def _problems(settings: Settings) -> Iterator[Problem]:
    yield from _listener_problems(settings)
    yield from _quorum_problems(settings)
    if settings.connections_max_idle_ms <= settings.fetch_timeout_ms:
        yield Problem(
            ("connections_max_idle_ms", "fetch_timeout_ms"),
            "the connections of waiting followers would be closed",
            f"more than quorum.fetch.timeout.ms ({settings.fetch_timeout_ms})",
        )


def _listener_problems(settings: Settings) -> Iterator[Problem]:
    listener, advertised = settings.listener, settings.advertised_listener
    if advertised is None and listener.host in WILDCARD_HOSTS:
        yield Problem(
            ("listener", "advertised_listener"),
            "others cannot be told a wildcard address",
            f"name the address, or add advertised.listeners={listener.name}://<host>:{listener.port}",
        )
    if advertised is not None and advertised.name != listener.name:
        yield Problem(
            ("advertised_listener", "listener"),
            f"there is no listener {advertised.name}",
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
            wrong = f"there is no listener {names[0]}; one listener answers clients, brokers and controllers"
            yield Problem((field, "listener"), wrong, listener.name)
    metrics = settings.metrics_listener
    if metrics is not None and metrics[1] == listener.port != 0:
        hosts = {metrics[0], listener.host}
        if len(hosts) == 1 or hosts.intersection(WILDCARD_HOSTS):
            yield Problem(("metrics_listener", "listener"), "listeners has this port", "another port")


def _quorum_problems(settings: Settings) -> Iterator[Problem]:
    voters, servers = settings.quorum_voters, settings.bootstrap_servers
    unreachable = [str(voter.id) for voter in voters if not voter.port and voter.id != settings.node_id]
    if unreachable and not servers:
        yield Problem(
            ("quorum_voters", "bootstrap_servers", "node_id"),
            f"no way to find voter {', '.join(unreachable)}",
            "id@host:port for each, or bootstrap.servers=host:port of any node",
        )
    if settings.auto_join and voters:
        yield Problem(
            ("auto_join", "quorum_voters"),
            "quorum.voters names who votes, and this node would change that",
            "bootstrap.servers in the place of quorum.voters, or false",
        )


def _warnings(settings: Settings) -> Iterator[str]:
    if settings.fetch_timeout_ms < settings.election_timeout_ms:
        yield (
            f"quorum.fetch.timeout.ms ({settings.fetch_timeout_ms}) is shorter than "
            f"quorum.election.timeout.ms ({settings.election_timeout_ms}): "
            "a slow election can outlast the patience of the voters"
        )
    if settings.retry_backoff_ms > settings.retry_backoff_max_ms:
        yield (
            f"quorum.retry.backoff.ms ({settings.retry_backoff_ms}) is above quorum.retry.backoff.max.ms "
            f"({settings.retry_backoff_max_ms}): every wait is the maximum"
        )
    if settings.append_linger_ms:
        yield "controller.quorum.append.linger.ms has no effect: writes gather only while a flush runs"
    if settings.clock_offset_ms or settings.fail_flush_after:
        yield "this node is hurt on purpose: remove the properties that begin with internal."


def keys_of(field: str) -> tuple[str, ...]:
    """The keys of one setting in a properties file; () for a field that is no setting."""
    extra = Settings.model_fields[field].json_schema_extra
    return tuple(extra["keys"]) if isinstance(extra, dict) else ()  # type: ignore[arg-type]  # JSON typing


def documentation() -> list[SettingDocumentation]:
    """One row a setting, in the order of this file; not those that only tests need."""
    rows = []
    for name, field in Settings.model_fields.items():
        keys = keys_of(name)
        kind = next((entry for entry in field.metadata if isinstance(entry, Kind)), None)
        if keys and kind is not None and not keys[0].startswith(INTERNAL):
            default = "required" if field.is_required() else str(field.default)
            rows.append(SettingDocumentation(keys, kind.name, default, field.description or "", kind.allowed))
    return rows
