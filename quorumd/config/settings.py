"""The model of all settings of a node, and its conversion to the settings of the node's parts.

The fields are in `node_fields`, `topic_default_fields`, `coordinator_fields`, `broker_fields` and `security_fields`.
"""

from __future__ import annotations

from dataclasses import replace
from os.path import abspath
from typing import Annotated

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from quorumd.config.broker_conversion import broker_settings
from quorumd.config.broker_fields import BrokerFields
from quorumd.config.contradictions import problems, suspicions
from quorumd.config.node_fields import PER_LISTENER_FIELDS, NodeFields
from quorumd.config.security import PROTOCOL_NUMBERS, ListenerProperties, ListenerProperty, ListenerSecurity
from quorumd.config.security_fields import NodeLogins, SecurityFields
from quorumd.config.setting import INTERNAL, SettingDocumentation, setting
from quorumd.config.values import PLAINTEXT, SECURITY_PROTOCOLS, Kind, integer
from quorumd.controller.broker import BrokerEndpoint
from quorumd.controller.controller import ControllerSettings
from quorumd.errors import ConfigError
from quorumd.ids import Endpoint
from quorumd.log import LogSettings
from quorumd.node.broker_settings import BrokerRoleSettings
from quorumd.node.settings import NodeListener, NodeSettings
from quorumd.quotas.client_quotas import QuotaSettings
from quorumd.quotas.connection_rates import ConnectionRateLimits
from quorumd.raft.settings import RaftSettings
from quorumd.security.authorizer import AuthorizerSettings

FETCH_MAX_WAIT_MS = 500
FETCH_MAX_BYTES = 8 * 1024 * 1024

BROKER_ONLY_FIELDS = frozenset(BrokerFields.model_fields) - frozenset(NodeFields.model_fields)
"""Settings without effect unless the node is a broker."""


class Settings(NodeLogins, SecurityFields, BrokerFields):
    """The settings of one node, created by `load`, or from values by field name.

    Raises pydantic's ValidationError for invalid values and for settings that contradict each other.
    """

    clock_offset_ms: Annotated[int, integer(-(10**13), 10**13)] = setting(
        "internal.clock.offset.ms",
        default="0",
        about="Milliseconds by which the wall clock of this node is ahead; negative if it is behind.",
    )
    fail_flush_after: Annotated[int, integer(0, 10**9)] = setting(
        "internal.fail.flush.after",
        default="0",
        about="Number of flushes that succeed before all fail; 0 disables this.",
    )

    properties: tuple[tuple[str, str], ...] = ()
    """The given keys, without secrets, and their values, for DescribeConfigs of this broker; not a setting."""
    default_properties: tuple[tuple[str, str | None], ...] = ()
    """The other keys and their defaults; not a setting."""
    listener_properties: tuple[ListenerProperty, ...] = ()
    """The properties with the prefix listener.name.; not a setting."""
    file_warnings: tuple[str, ...] = ()
    """Warnings about keys without effect; not a setting."""

    @model_validator(mode="after")
    def _check_dependencies(self) -> Settings:
        found = list(problems(self))
        if found:
            text = "\n".join(f"{problem.fields[0]}: {problem.wrong}; {problem.allowed}" for problem in found)
            raise PydanticCustomError("dependent", "{text}", {"text": text, "problems": found})
        return self

    @property
    def is_broker(self) -> bool:
        """Whether the process has the broker role."""
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        """Whether the process has the controller role, which is the default."""
        return "controller" in self.process_roles or not self.process_roles

    @property
    def data_directory(self) -> str:
        """The directory of the metadata log, as given."""
        return self.metadata_directory or self.log_directories[0]

    @property
    def data_directories(self) -> tuple[str, ...]:
        """All data directories, as given. The first is that of the metadata log."""
        partitions = self.log_directories if self.is_broker else ()
        return tuple(dict.fromkeys((self.data_directory, *partitions)))

    @property
    def listener(self) -> Endpoint:
        """The listener through which other nodes connect to this one: the controllers' listener, else the first."""
        by_name = {each.name: each for each in self.listeners}
        named = (by_name[name] for name in self.controller_listener_names if name in by_name)
        return next(named, self.listeners[0])

    @property
    def client_listeners(self) -> tuple[Endpoint, ...]:
        """The broker's listeners for clients; none without the broker role."""
        names = self.controller_listener_names
        return tuple(each for each in self.listeners if self.is_broker and each.name not in names)

    @property
    def other_listeners(self) -> tuple[Endpoint, ...]:
        """Further listeners that serve the same APIs as `listener`."""
        clients = self.client_listeners if self.is_controller else ()
        return tuple(each for each in self.listeners if each != self.listener and each not in clients)

    @property
    def quorum_listener_names(self) -> tuple[str, ...]:
        """The names of the listeners on which this node serves the quorum; none without the controller role."""
        clients = self.client_listeners
        return tuple(each.name for each in self.listeners if self.is_controller and each not in clients)

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener on which brokers replicate. The node must have the broker role."""
        names = [each.name for each in self.client_listeners]
        wanted = (*self.inter_broker_listener_name, self.security_inter_broker_protocol)
        return next((name for name in wanted if name in names), names[0])

    def protocol_of(self, listener: str) -> str:
        """The security protocol of a listener name, "" if it has none."""
        protocols = {name: name for name in SECURITY_PROTOCOLS} | {"CONTROLLER": PLAINTEXT}
        return (protocols | dict(self.listener_security_protocol_map)).get(listener, "")

    def security(self) -> dict[str, ListenerSecurity]:
        """The security of this node's listeners and of those to which it connects, by name. Raises ConfigError."""
        names = [each.name for each in self.listeners]
        logins = {self.controller_listener_name: self.sasl_mechanism_controller_protocol}
        if self.client_listeners:
            logins[self.inter_broker_listener] = self.sasl_mechanism_inter_broker_protocol
        found = {}
        for name in dict.fromkeys((*names, *logins)):
            protocol = self.protocol_of(name)
            if protocol.startswith("SASL") and logins.get(name) == "":
                is_controllers = name == self.controller_listener_name
                key = "controller" if is_controllers else "inter.broker"
                raise ConfigError(f"listener {name} uses SASL: set sasl.mechanism.{key}.protocol")
            properties = ListenerProperties(name, self, self.listener_properties)
            found[name] = properties.security(protocol, logins.get(name, ""), name in names)
        return found

    def connection_rates(self) -> ConnectionRateLimits:
        """The limits on the rate of new connections (KIP-612)."""
        own = [each for each in self.listener_properties if each.field in PER_LISTENER_FIELDS]
        protected = self.quorum_listener_names
        if self.client_listeners:
            protected = (*protected, self.inter_broker_listener)
        return ConnectionRateLimits(
            self.max_connection_creation_rate,
            {each.listener: each.value for each in own},
            frozenset(protected if len(self.listeners) > 1 else ()),
            self.quota_windows,
            self.quota_window_s,
        )

    def advertised(self, listener: Endpoint) -> Endpoint:
        """The advertised endpoint of a listener, by default the listener itself."""
        named = (each for each in self.advertised_listeners if each.name == listener.name)
        return next(named, listener)

    @property
    def controller_listener_name(self) -> str:
        """The name of the listener through which nodes connect to controllers."""
        names = self.controller_listener_names
        return names[0] if names and self.is_broker else self.listener.name

    def node_settings(self) -> NodeSettings:
        """Convert to the settings of a Node. Raft's long polls take at most half of the fetch or request timeout."""
        return NodeSettings(
            node_id=self.node_id,
            data_directory=abspath(self.data_directory),
            listen=self.listener,
            advertised=self.advertised(self.listener),
            other_listeners=tuple(NodeListener(each, self.advertised(each)) for each in self.other_listeners),
            security_protocols={
                each.name: number
                for each in self.listeners
                if (number := PROTOCOL_NUMBERS[self.protocol_of(each.name)])
            },
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
            failed_authentication_delay_ms=self.failed_authentication_delay_ms,
            registers=self.is_controller,
            auto_join=self.auto_join,
            static_configs=self.properties,
            default_configs=self.default_properties,
            controllers_name=self.controller_listener_name if self.is_broker else "",
            authorizer=self._authorizer_settings(),
            token_secret_key=self.token_secret_key or None,
            quotas=QuotaSettings(
                self.quota_windows,
                self.quota_window_s,
                self.mutation_quota_windows,
                self.mutation_quota_window_s,
            ),
            broker=self._broker_settings(),
        )

    def _authorizer_settings(self) -> AuthorizerSettings | None:
        if not self.authorizer_class:
            return None
        early = self.early_start_listeners or self.quorum_listener_names
        return AuthorizerSettings(self.super_users, self.allows_without_acl, frozenset(early))

    def _broker_settings(self) -> BrokerRoleSettings | None:
        listeners = self.client_listeners
        if not listeners:
            return None
        endpoints = tuple(
            BrokerEndpoint(*self.advertised(each), PROTOCOL_NUMBERS[self.protocol_of(each.name)])
            for each in listeners
        )
        template = broker_settings(self, self.node_id, endpoints, self.inter_broker_listener)
        template = replace(template, metadata_directory=abspath(self.data_directory))
        return BrokerRoleSettings(template, listeners if self.is_controller else ())

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
            unauthenticated_stock_voters=self.unauthenticated_stock_voters,
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
            has_authorizer=bool(self.authorizer_class),
            token_secret_key=self.token_secret_key,
            token_max_lifetime_ms=self.token_max_lifetime_ms,
            token_expiry_ms=self.token_expiry_time_ms,
            token_check_interval_ms=self.token_check_interval_ms,
        )

    def warnings(self) -> tuple[str, ...]:
        """Warnings about valid but probably unintended settings; the daemon logs them at start."""
        return (*self.file_warnings, *suspicions(self))


def keys_of(field: str) -> tuple[str, ...]:
    """The keys of a field in a properties file; () if the field is not a setting."""
    extra = Settings.model_fields[field].json_schema_extra
    return tuple(extra["keys"]) if isinstance(extra, dict) else ()  # type: ignore[arg-type]  # JSON typing


def documentation() -> list[SettingDocumentation]:
    """One row per setting in the order of the model's fields, without those that inject faults."""
    rows = []
    for name, field in Settings.model_fields.items():
        keys = keys_of(name)
        kind = next((entry for entry in field.metadata if isinstance(entry, Kind)), None)
        if keys and kind is not None and not keys[0].startswith(INTERNAL):
            default = "required" if field.is_required() else str(field.default)
            rows.append(SettingDocumentation(keys, kind.name, default, field.description or "", kind.allowed))
    return rows
