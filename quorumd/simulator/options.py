"""Options of one simulated run: sizes, timings, and fault weights. `profiles` draws them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.protocol.connection import LARGE_REQUEST
from quorumd.simulator.brokers.options import BrokerOptions
from quorumd.simulator.environment.disk_latency import DiskLatency
from quorumd.simulator.environment.link_conditions import LinkConditions
from quorumd.simulator.peer_logins import PeerLogins
from quorumd.simulator.workload import WorkloadOptions
from quorumd.simulator.workload.feature_options import FeatureOptions

FAULT_NAMES = (
    "power loss",
    "power loss in a disk call",
    "kill",
    "shutdown",
    "paused process",
    "slow process",
    "partition",
    "one-way partition",
    "ring partition",
    "isolated leader",
    "clogged link",
    "broken link",
    "delayed connection",
    "replayed connection",
    "disk stall",
    "disk full",
    "failed sync",
    "clock jump",
    "corrupt segment",
    "replaced disk",
    "wrong cluster id",
    "swapped directories",
    "copied directory",
    "voter change",
)

INTERRUPTED_TRANSFER = "interrupted transfer"

RARE_FAULT_NAMES = (
    "removal without majority",
    "raft voter change",
    "copied snapshots",
    "newer record version",
    "kill all",
    "wiped disks",
    "moved quorum",
    "unregistration",
    "stalled event loop",
    "moved node",
    "hostile peer",
    "failed directory sync",
    "failed read",
    "damaged file",
    "disturbed transfer",
    "repeated format",
    "refused request",
    "failed write",
    "interrupted installation",
    "unchanged voter",
    "faulty leader",
    "invalid peer request",
    INTERRUPTED_TRANSFER,
    "failed segment",
    "damaged indexes",
)
"""Severe faults, used by the profiles made for them and by few seeds of plain swarm."""

BROKER_FAULT_NAMES = (
    "broker crash",
    "broker disk loss",
    "broker shutdown",
    "controlled shutdown",
    "paused broker",
    "slow broker",
    "isolated broker",
    "delayed ISR change",
)
"""Faults of clusters with brokers."""

BROKER_NODE_FAULT_NAMES = ("lost ISR response", "late metadata")
"""Faults that only nodes with the broker role have."""

BROKER_NODE_FAULTS = (
    "power loss",
    "kill",
    "shutdown",
    "paused process",
    "slow process",
    "partition",
    "one-way partition",
    "isolated leader",
    "clogged link",
    "broken link",
    "delayed connection",
    "disk stall",
    "disk full",
    "failed sync",
    "clock jump",
    *BROKER_NODE_FAULT_NAMES,
)
"""Faults of clusters whose nodes have the broker role."""

RARE_BROKER_NODE_FAULT_NAMES = ("raised min.insync.replicas", "refused directory")
"""Faults of nodes with the broker role that few seeds have."""

MOVE_FAULT_NAMES = ("power loss after a move",)
"""Faults of nodes with the broker role that move replicas between log directories."""

RARE_BROKER_FAULT_NAMES = ("lost directory",)
"""Faults of brokers with several log directories."""


PEER_LOGIN_FAULT_NAMES = ("refused login",)
"""Faults that only nodes that log in to each other have."""

PEER_LOGIN_FAULTS = (*PEER_LOGIN_FAULT_NAMES, "invalid peer request")
"""Further faults of clusters whose nodes log in to each other."""


@dataclass(frozen=True, slots=True)
class LongIntervals:
    """Settings of minutes to days in production, which a seed scales down to seconds of virtual time."""

    segment_ms: int = 7 * 24 * 3600 * 1000
    """A segment is sealed when its records span this time."""
    snapshot_ms: int = 3600 * 1000
    """A snapshot is built this long after the newest one."""
    retention_ms: int = 7 * 24 * 3600 * 1000
    """Age of segments and snapshots at which they are removed."""
    observer_session_ms: int = 300_000
    """Observers that have not fetched for this long are removed from the quorum's state."""
    unclean_election_ms: float = 300_000.0
    """Interval of the periodic unclean elections of leaderless partitions."""


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Options of one run. Times are in milliseconds of virtual time, sizes in bytes."""

    profile: str = ""
    """The profile that the options were drawn from, "" if they were not drawn."""
    voters: int = 3
    observers: int = 0
    stock_voters: int = 0
    """Number of voters, the last ones, that use no private APIs, like a stock Kafka controller."""
    registers: bool = False
    """Whether nodes register themselves as controllers."""
    auto_join: bool = False
    """Whether observers request to become voters by themselves (controller.quorum.auto.join.enable)."""
    initial_controllers: bool = True
    """Whether the voters are formatted with initial controllers; otherwise only `quorum.voters` names them."""
    formatted_by_kafka: bool = False
    """Whether initial controllers and records are in a snapshot of offset 0, as Kafka's `kafka-storage format` writes
    it."""
    safety_ms: float = 12_000.0
    """Duration of the safety phase, in which faults are injected."""
    liveness_ms: float = 30_000.0
    """The cluster must recover within this time after the last fault."""
    fault_interval_ms: float = 600.0
    """Mean time between two faults."""
    faults: Mapping[str, float] = field(default_factory=dict)
    """Weight of each possible fault, by name."""
    only_faults: tuple[int, ...] | None = None
    """Inject only the drawn faults with these indexes, from 0; None for all."""
    election_timeout_ms: int = 500
    fetch_timeout_ms: int = 1000
    clock_drift: float = 0.0
    """Maximum relative difference of the rate of a machine's clock from virtual time."""
    segment_bytes: int = 64 * 1024
    allocate_bytes: int = 4096
    snapshot_bytes: int = 20 * 1024 * 1024
    """A node builds a snapshot after this many bytes of committed batches."""
    maintenance_interval_ms: float = 5000.0
    """Interval at which a node checks whether a snapshot is due."""
    retention_bytes: int = -1
    """Maximum size of the log below the newest snapshot, -1 for no limit."""
    chunk_bytes: int = 1024 * 1024
    """Maximum size of a FetchSnapshot response's data."""
    kept_records_ms: float = 0.0
    """Mean time between two batches of kept records (`workload.kept_records`) that a leader writes; 0 for none."""
    kept_records_at_once: int = 4
    """Maximum number of kept records in one batch."""
    configs_ms: float = 0.0
    """Mean time between two requests of the administrator of configs; 0 for none."""
    reads_ms: float = 0.0
    """Mean time between two requests of the client that reads topics, brokers and the quorum; 0 for none."""
    consumer_ms: float = 0.0
    """Mean time between two fetches of a consumer of the metadata log; 0 for none."""
    copies_ms: float = 0.0
    """Mean time between two copies of a node's files that an operator recovers; 0 for none."""
    access_ms: float = 0.0
    """Mean time between two requests of the administrator of access, and of each client without rights of its own; 0
    for nodes without an authorizer."""
    logins_ms: float = 0.0
    """Mean time between two connections of each client that logs in, and between two changes of passwords; 0 for
    nodes without a listener with SASL."""
    peer_logins: PeerLogins = field(default_factory=PeerLogins)
    mistakes_ms: float = 0.0
    """Mean time between two requests of the careless administrator; 0 for none."""
    impolite_ms: float = 0.0
    """Mean time between two connections of the impolite client; 0 for none."""
    unread_ms: float = 0.0
    """Mean time between two groups of connections of the client that does not read; 0 for none."""
    remote_storage: bool = False
    """Whether topics may use remote storage."""
    idle_interval_ms: float = 0.0
    """An idle leader writes a NoOpRecord after this time; 0 for never."""
    record_ms: float = 0.0
    """Processor time, during which the node is busy, to apply, encode or load a record."""
    request_ms: float = 0.0
    """Processor time to receive a request or response."""
    byte_ms: float = 0.0
    """Processor time per received or sent byte."""
    slowness: float = 1.0
    """Factor of the processor times on the slowest possible machine."""
    max_partitions_per_part: int = MAX_PARTITIONS_PER_PART
    """Approximate number of partitions of a request that a leader changes in one slice."""
    large_request_bytes: int = LARGE_REQUEST
    """Requests above this size are decoded in steps."""
    intervals: LongIntervals = field(default_factory=LongIntervals)
    features: FeatureOptions = field(default_factory=FeatureOptions)
    disk: DiskLatency = field(default_factory=DiskLatency)
    links: LinkConditions = field(default_factory=LinkConditions)
    workload: WorkloadOptions = field(default_factory=WorkloadOptions)
    brokers: BrokerOptions = field(default_factory=BrokerOptions)
