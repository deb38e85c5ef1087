"""What one seed simulates: sizes, timings, and which faults happen how often. `profiles` draws them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorumd.node.sessions.request_splitting import MAX_PARTITIONS_PER_PART
from quorumd.protocol.connection import LARGE_REQUEST
from quorumd.simulator.brokers.options import BrokerOptions
from quorumd.simulator.environment.disk import DiskLatency
from quorumd.simulator.environment.link_conditions import LinkConditions
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
    "swapped folders",
    "copied folder",
    "voter change",
)

RARE_FAULT_NAMES = (
    "removal without majority",
    "copied snapshots",
    "newer record version",
    "kill all",
    "wiped disks",
    "moved quorum",
    "unregistration",
)
"""Worst moments, only for profiles that are made for them."""

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
"""Where there are brokers."""


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Times in milliseconds of virtual time, sizes in bytes."""

    profile: str = ""
    """What they were drawn from; "" for options that were made by hand."""
    voters: int = 3
    observers: int = 0
    stock_voters: int = 0
    """So many of the voters, the last ones, speak as a stock Kafka controller does: nothing private."""
    registers: bool = False
    """Whether nodes register themselves as controllers."""
    auto_join: bool = False
    """Whether observers request votes by themselves."""
    initial_controllers: bool = True
    """Whether the voters are formatted to found a quorum together; else `quorum.voters` alone names them."""
    safety_ms: float = 12_000.0
    """How long faults happen while the promises of safety are checked."""
    liveness_ms: float = 30_000.0
    """Within this time after the last fault the cluster must be whole again."""
    fault_interval_ms: float = 600.0
    """Mean time between two faults."""
    faults: Mapping[str, float] = field(default_factory=dict)
    """Weight of each fault that may happen, by name."""
    only_faults: tuple[int, ...] | None = None
    """Of the faults drawn only these happen, by their number from 0 on; None for all."""
    election_timeout_ms: int = 500
    fetch_timeout_ms: int = 1000
    clock_drift: float = 0.0
    """How much faster or slower than virtual time the machines' clocks may run, as a part of 1."""
    segment_bytes: int = 64 * 1024
    allocate_bytes: int = 4096
    snapshot_bytes: int = 20 * 1024 * 1024
    """After so many bytes of committed batches a node builds a snapshot."""
    maintenance_interval_ms: float = 5000.0
    """How often a node sees whether a snapshot is due."""
    retention_bytes: int = -1
    """What a snapshot has made superfluous of a log is kept up to this size, -1 for any."""
    piece_bytes: int = 1024 * 1024
    """How much of a snapshot is fetched at once."""
    kept_records_ms: float = 0.0
    """Mean time between two batches of records that a leader writes and quorumd keeps for others; 0 for none."""
    kept_records_at_once: int = 4
    """How many of them a leader writes at most in one batch."""
    idle_interval_ms: float = 0.0
    """A leader that wrote nothing for this long writes a NoOpRecord; 0 for never."""
    record_ms: float = 0.0
    """Processor time that a node needs for a record which it applies, encodes or loads; it does nothing else then."""
    max_partitions_per_part: int = MAX_PARTITIONS_PER_PART
    """About how many partitions of one request a leader changes at once."""
    large_request_bytes: int = LARGE_REQUEST
    """Above this size requests are decoded in steps."""
    features: FeatureOptions = field(default_factory=FeatureOptions)
    disk: DiskLatency = field(default_factory=DiskLatency)
    links: LinkConditions = field(default_factory=LinkConditions)
    workload: WorkloadOptions = field(default_factory=WorkloadOptions)
    brokers: BrokerOptions = field(default_factory=BrokerOptions)
