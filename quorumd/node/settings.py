"""What one node is told before it starts; `quorumd.config` makes this from a properties file."""

from __future__ import annotations

from dataclasses import dataclass, field

from quorumd.controller.controller import ControllerSettings
from quorumd.ids import Endpoint
from quorumd.log import LogSettings
from quorumd.node.readiness import MAX_LAG
from quorumd.node.sessions.request_splitting import MAX_PARTITIONS_PER_PART
from quorumd.protocol.connection import LARGE_REQUEST
from quorumd.raft.settings import RaftSettings

MAINTENANCE_INTERVAL_MS = 5000.0


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Times in milliseconds, sizes in bytes."""

    node_id: int
    data_directory: str
    listen: Endpoint
    """Name, address and port to bind; port 0 takes any free one."""
    advertised: Endpoint
    """What others are told; port 0: the port that was bound."""
    bootstrap_servers: tuple[tuple[str, int], ...] = ()
    voter_addresses: tuple[tuple[int, str, int], ...] = ()
    """Addresses of `quorum.voters` given as id@host:port: seeds of the address book."""
    bootstrap_voters: tuple[int, ...] = ()
    """Ids of `quorum.voters`: who may found a quorum where none can be discovered (see `founding`)."""
    raft: RaftSettings = field(default_factory=RaftSettings)
    log: LogSettings = field(default_factory=LogSettings)
    controller: ControllerSettings = field(default_factory=ControllerSettings)
    request_timeout_ms: int = 2000
    maintenance_interval_ms: float = MAINTENANCE_INTERVAL_MS
    """How often the high watermark is saved, and it is seen whether a snapshot is due or something superfluous."""
    ready_max_lag: int = MAX_LAG
    """How many committed records a node that is ready may have to apply yet."""
    max_request_bytes: int = 100 * 1024 * 1024
    """`socket.request.max.bytes`."""
    max_connections: int = 10_000
    max_connections_per_host: int = 10_000
    connections_max_idle_ms: int = 600_000
    private_apis: bool = True
    """Whether it speaks the APIs that only quorumd nodes have. Without them it is to others what a stock controller
    is: simulated nodes try that."""
    registers: bool = False
    """Whether it registers itself as a controller (KIP-919), as daemons do: simulated nodes also run without."""
    auto_join: bool = False
    """`controller.quorum.auto.join.enable`: whether it requests a vote by itself (KIP-1186)."""
    slice_partitions: int = 400
    """How many partitions clients are told of in one turn of the loop: some milliseconds."""
    max_partitions_per_part: int = MAX_PARTITIONS_PER_PART
    """How many partitions of one request are changed in one turn of the loop, about: some milliseconds."""
    large_request_bytes: int = LARGE_REQUEST
    """Above this size requests are decoded in slices."""
    static_configs: tuple[tuple[str, str], ...] = ()
    """The properties of the file as given, for DescribeConfigs of this broker."""
