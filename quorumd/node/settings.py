"""The settings of one node; `quorumd.config` reads them from a properties file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from quorumd.controller.controller import ControllerSettings
from quorumd.ids import Endpoint
from quorumd.log import LogSettings
from quorumd.node.broker_settings import BrokerRoleSettings
from quorumd.node.readiness import MAX_LAG
from quorumd.protocol.connection import LARGE_REQUEST
from quorumd.quotas.client_quotas import QuotaSettings
from quorumd.raft.settings import RaftSettings
from quorumd.security.authorizer import AuthorizerSettings

MAINTENANCE_INTERVAL_MS = 5000.0
MAX_PARTITIONS_PER_PART = 250
"""The number of partitions of one request that are changed at once: a few milliseconds of work."""
MAX_UNSENT_BYTES = 16 * 1024 * 1024
MAX_HELD_BYTES = 48 * 1024 * 1024
CLIENT_ID_PREFIX = "quorumd-"
"""Prefix of the client ids of quorum nodes; brokers use their node ids."""


class NodeListener(NamedTuple):
    """A listener: the endpoint to bind, and the one that others connect to. Port 0 binds any free port,
    which is then advertised."""

    listen: Endpoint
    advertised: Endpoint


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The settings of one node. Times are in milliseconds, sizes in bytes."""

    node_id: int
    data_directory: str
    listen: Endpoint
    """Name, address and port to bind; port 0 binds any free port."""
    advertised: Endpoint
    """The endpoint that others connect to; port 0 stands for the bound port."""
    other_listeners: tuple[NodeListener, ...] = ()
    """Further listeners of the quorum; listeners for clients if the process is only a broker."""
    security_protocols: Mapping[str, int] = field(default_factory=dict)
    """Kafka's number of the security protocol by listener name; 0, PLAINTEXT, for others."""
    token_secret_key: str | None = field(default=None, repr=False)
    """`delegation.token.secret.key`; without it there are no delegation tokens."""
    bootstrap_servers: tuple[tuple[str, int], ...] = ()
    voter_addresses: tuple[tuple[int, str, int], ...] = ()
    """Addresses of `quorum.voters` given as id@host:port: seeds of the address book."""
    bootstrap_voters: tuple[int, ...] = ()
    """Ids of `quorum.voters`: the nodes that may found a quorum if none is discovered (see `founding`)."""
    raft: RaftSettings = field(default_factory=RaftSettings)
    log: LogSettings = field(default_factory=LogSettings)
    controller: ControllerSettings = field(default_factory=ControllerSettings)
    request_timeout_ms: int = 2000
    maintenance_interval_ms: float = MAINTENANCE_INTERVAL_MS
    """Interval of checkpoints of the high watermark, and of checks whether snapshots or segments are due."""
    ready_max_lag: int = MAX_LAG
    """The number of committed records that a ready node may not have applied yet."""
    max_request_bytes: int = 100 * 1024 * 1024
    """`socket.request.max.bytes`."""
    max_connections: int = 10_000
    max_connections_per_host: int = 10_000
    connections_max_idle_ms: int = 600_000
    failed_authentication_delay_ms: int = 100
    """`connection.failed.authentication.delay.ms`."""
    private_apis: bool = True
    """Whether the node supports the APIs that only quorumd has. Without them it behaves like a stock controller, as
    some simulated nodes do."""
    registers: bool = False
    """Whether the node registers itself as a controller (KIP-919), as daemons do; some simulated nodes do not."""
    auto_join: bool = False
    """`controller.quorum.auto.join.enable`: whether the node joins the voters automatically (KIP-1186)."""
    slice_partitions: int = 400
    """Partitions encoded for clients per iteration of the event loop: a few milliseconds."""
    max_partitions_per_part: int = MAX_PARTITIONS_PER_PART
    """Approximate number of partitions changed per iteration of the event loop: a few milliseconds."""
    large_request_bytes: int = LARGE_REQUEST
    """Requests above this size are decoded in slices."""
    max_unsent_bytes: int = MAX_UNSENT_BYTES
    """Responses that a client has not read, in addition to its largest response."""
    max_held_bytes: int = MAX_HELD_BYTES
    """Requests and unread responses of all connections."""
    static_configs: tuple[tuple[str, str], ...] = ()
    """The properties that the file sets, in Kafka's units, for DescribeConfigs of this broker."""
    default_configs: tuple[tuple[str, str | None], ...] = ()
    """The defaults of the other properties; None if there is none."""
    controllers_name: str = ""
    """The name of the controllers' listeners, if it differs from the name of `advertised`."""
    authorizer: AuthorizerSettings | None = None
    """`authorizer.class.name`: None if every client may do everything."""
    quotas: QuotaSettings = field(default_factory=QuotaSettings)
    broker: BrokerRoleSettings | None = None
    """The broker role, None without it."""

    @property
    def engine_settings(self) -> RaftSettings:
        """`raft`, without the features that stock controllers lack if this node behaves like one."""
        return replace(self.raft, epoch_tokens=self.private_apis)

    @property
    def client_id(self) -> str:
        """The client id of this node's requests to other nodes."""
        return f"{CLIENT_ID_PREFIX}{self.node_id}"

    @property
    def quorum_listeners(self) -> tuple[Endpoint, ...]:
        """The advertised endpoints at which other nodes reach this node, `advertised` first."""
        is_shared = self.broker is not None and not self.broker.listen
        others = () if is_shared else tuple(each.advertised for each in self.other_listeners)
        return (self.advertised, *others)

    @property
    def controller_listener_name(self) -> str:
        return self.controllers_name or self.advertised.name

    @property
    def data_directories(self) -> tuple[str, ...]:
        """The directories that `quorumd format` prepares, the directory of the metadata log first."""
        partitions = self.broker.template.log_directories if self.broker is not None else ()
        return tuple(dict.fromkeys((self.data_directory, *partitions)))
