"""What one seed simulates: sizes, timings, and which faults happen how often (swarm testing).

Every number is itself drawn from the seed: runs in which one kind of fault is frequent and another never
happens find bugs that an average of everything does not (Groce et al., "Swarm Testing", 2012).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from quorumd.simulator.disk import DiskLatency
from quorumd.simulator.stream import LinkConditions
from quorumd.simulator.workload import WorkloadOptions

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
)


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Times in milliseconds of virtual time, sizes in bytes."""

    voters: int = 3
    observers: int = 0
    safety_ms: float = 12_000.0
    """How long faults happen while the promises of safety are checked."""
    liveness_ms: float = 30_000.0
    """Within this time after the last fault the cluster must be whole again."""
    fault_interval_ms: float = 600.0
    """Mean time between two faults."""
    faults: Mapping[str, float] = field(default_factory=dict)
    """Weight of each fault that may happen, by name."""
    election_timeout_ms: int = 500
    fetch_timeout_ms: int = 1000
    clock_drift: float = 0.0
    """How much faster or slower than virtual time the machines' clocks may run, as a part of 1."""
    segment_bytes: int = 64 * 1024
    allocate_bytes: int = 4096
    disk: DiskLatency = field(default_factory=DiskLatency)
    links: LinkConditions = field(default_factory=LinkConditions)
    workload: WorkloadOptions = field(default_factory=WorkloadOptions)

    @classmethod
    def drawn(cls, random: Random) -> SimulationOptions:
        """The options of one seed."""
        kinds = [name for name in FAULT_NAMES if random.random() < 0.5] or [random.choice(FAULT_NAMES)]
        election_timeout_ms = random.choice((150, 300, 1000))
        clients = random.choice((1, 2, 4, 6))
        return cls(
            voters=random.choice((1, 2, 3, 3, 3, 3, 4, 5, 5)),
            observers=random.choice((0, 0, 1, 2)),
            # Short ones end amid the first election and the first records.
            safety_ms=random.choice((random.uniform(200.0, 2000.0), *[random.uniform(5e3, 15e3)] * 3)),
            fault_interval_ms=random.choice((200.0, 500.0, 1000.0, 2000.0)),
            faults={name: random.choice((1.0, 3.0, 10.0)) for name in kinds},
            election_timeout_ms=election_timeout_ms,
            fetch_timeout_ms=random.choice((1, 2, 3)) * election_timeout_ms,
            clock_drift=random.choice((0.0, 0.001, 0.05)),
            segment_bytes=random.choice((2048, 16 * 1024, 1024 * 1024)),
            allocate_bytes=random.choice((0, 1024, 64 * 1024)),
            disk=DiskLatency(
                usual_ms=random.choice(((0.05, 0.5), (0.5, 4.0), (5.0, 25.0))),
                slow_ms=random.choice((20.0, 200.0)),
                slow_probability=random.choice((0.0, 0.01, 0.1)),
            ),
            links=LinkConditions(
                latency_ms=random.choice(((0.05, 0.3), (0.5, 3.0), (5.0, 40.0))),
                slow_ms=random.choice((20.0, 300.0)),
                slow_probability=random.choice((0.0, 0.01, 0.1)),
                split_probability=random.choice((0.0, 0.05, 0.3)),
            ),
            workload=WorkloadOptions(
                clients=clients,
                readers=random.choice((0, clients // 2, clients - 1)),
                keys=random.choice((1, 1, 3)),
                read_share=random.choice((0.1, 0.5, 0.9)),
                think_ms=random.choice(((2.0, 30.0), (20.0, 200.0))),
                timeout_ms=random.choice((500.0, 3000.0)),
            ),
        )
