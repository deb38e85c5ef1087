"""What a seed draws its options from: ranges, as data.

Every number is drawn, and so is how probable things are (swarm testing): runs in which one kind of fault is
frequent and another never happens find bugs that an average of everything does not (Groce et al., "Swarm
Testing", 2012).
"""

from __future__ import annotations

from dataclasses import dataclass

from quorumd.node.sessions.request_splitting import MAX_PARTITIONS_PER_PART
from quorumd.protocol.connection import LARGE_REQUEST
from quorumd.simulator.options import BROKER_FAULT_NAMES, FAULT_NAMES

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Profile:
    """Ranges of what a seed draws. Times in milliseconds, sizes in bytes."""

    name: str
    description: str
    """What it is for, in one sentence; shown to people."""
    faults: tuple[str, ...] = FAULT_NAMES
    """What may be drawn."""
    fault_share: Range = (0.1, 0.9)
    """How probable each of them is to happen in a seed at all."""
    fault_interval_ms: Range = (150.0, 2500.0)
    voters: tuple[int, ...] = (1, 2, 3, 3, 3, 3, 4, 5, 5, 6, 7)
    observers: tuple[int, ...] = (0, 0, 0, 0, 1, 1, 2, 3, 4, 5)
    stock_voters: tuple[int, ...] = (0,)
    """How many voters speak as stock controllers, at most all but one."""
    safety_ms: Range = (4e3, 12e3)
    short_share: float = 0.25
    """Of the seeds: so many end amid the first election and the first records."""
    election_timeout_ms: Range = (150.0, 1000.0)
    clock_drift: Range = (1e-4, 0.08)
    segment_bytes: Range = (1024.0, 1e6)
    snapshot_bytes: Range = (1e3, 1e6)
    maintenance_interval_ms: Range = (100.0, 5000.0)
    disk_ms: Range = (0.05, 5.0)
    """What a disk needs at least for a call."""
    clients: tuple[int, ...] = (1, 2, 3, 4, 6)
    think_ms: Range = (3.0, 40.0)
    """The shortest wait of clients; the longest is some times that."""
    kept_records: float = 0.3
    """Of the seeds: so many have records that quorumd keeps for others."""
    kept_records_ms: Range = (30.0, 1000.0)
    """Mean time between two batches of them."""
    kept_records_at_once: int = 4
    features: float = 0.2
    """Of the seeds: so many begin with levels of features that are drawn,"""
    feature_changes: float = 0.6
    """and of these, so many change them."""
    feature_changes_ms: Range = (100.0, 2000.0)
    """Mean time between two requests for other levels."""
    old_brokers: float = 0.5
    """Of the brokers in such a seed: so many know only the metadata version that it begins with, at first."""
    registrations: float = 0.0
    """Of the seeds: in so many of them nodes register themselves as controllers."""
    auto_join: float = 0.0
    """Of those without voter changes: in so many of them observers request votes by themselves."""
    record_ms: Range = (0.003, 0.3)
    """Processor time of a record."""
    brokers: tuple[int, ...] = (0,)
    """How many there are."""
    broker_faults: tuple[str, ...] = BROKER_FAULT_NAMES
    """What may be drawn where there are some."""
    broker_session_ms: Range = (300.0, 3000.0)
    controller_patience: Range = (0.3, 4.0)
    """How many sessions a broker waits for the controller's answer."""
    admin_ms: Range = (100.0, 1500.0)
    max_partitions_per_step: tuple[int, ...] = (10_000,)
    max_partitions_per_part: tuple[int, ...] = (MAX_PARTITIONS_PER_PART,)
    large_request_bytes: tuple[int, ...] = (LARGE_REQUEST,)
    racks: tuple[int, ...] = (0, 0, 2, 3)
    """How many brokers are in, 0 for brokers without."""
    only_topics: bool = False
    idle_interval_ms: Range | None = None
    """When a leader that wrote nothing writes a NoOpRecord; None for never."""
    balance_ms: Range | None = None
    """How often leaders are balanced; None for never."""
    cordon_ms: Range | None = None
    """Mean time between two directories of brokers that are cordoned or are so no longer; None for never."""
    idle_share: float = 1.0
    """Of the seeds: in so many of them idle leaders write;"""
    balance_share: float = 1.0
    """in so many leaders are balanced, and in as many directories are cordoned."""
    log_directories: tuple[int, ...] = (1,)
    """How many directories each broker has."""
