"""A profile: the ranges from which a seed draws its options.

All numbers are drawn, including probabilities (swarm testing): runs in which one kind of fault is
frequent and another never happens find bugs that a uniform mix does not (Groce et al., "Swarm
Testing", 2012).
"""

from __future__ import annotations

from dataclasses import dataclass

from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.protocol.connection import LARGE_REQUEST
from quorumd.simulator.options import BROKER_FAULT_NAMES, FAULT_NAMES

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Profile:
    """Ranges of the options of a seed. Times are in milliseconds, sizes in bytes."""

    name: str
    description: str
    """One sentence, shown by `--profile help`."""
    faults: tuple[str, ...] = FAULT_NAMES
    """The possible faults."""
    fault_share: Range = (0.1, 0.9)
    """Probability that a seed uses each of the possible faults."""
    rare_faults: tuple[str, ...] = ()
    """Further possible faults."""
    rare_share: float = 0.0
    """Probability that a seed uses each of the rare faults."""
    separate_faults: tuple[str, ...] = ()
    """Possible faults that are drawn separately, so that the draws of all others do not depend on them."""
    separate_share: float = 0.0
    """Probability that a seed uses each of the separate faults."""
    fault_interval_ms: Range = (150.0, 2500.0)
    voters: tuple[int, ...] = (1, 2, 3, 3, 3, 3, 4, 5, 5, 6, 7)
    observers: tuple[int, ...] = (0, 0, 0, 0, 1, 1, 2, 3, 4, 5)
    stock_voters: tuple[int, ...] = (0,)
    """Number of voters that behave like stock controllers, at most all but one."""
    safety_ms: Range = (4e3, 12e3)
    short_share: float = 0.25
    """Share of seeds that end during the first election and the first records."""
    election_timeout_ms: Range = (150.0, 1000.0)
    clock_drift: Range = (1e-4, 0.08)
    segment_bytes: Range = (1024.0, 1e6)
    snapshot_bytes: Range = (1e3, 1e6)
    maintenance_interval_ms: Range = (100.0, 5000.0)
    chunk_bytes: Range = (100.0, 1e6)
    """Maximum size of a chunk of a fetched snapshot."""
    disk_ms: Range = (0.05, 5.0)
    """Minimum duration of a disk operation."""
    clients: tuple[int, ...] = (1, 2, 3, 4, 6)
    think_ms: Range = (3.0, 40.0)
    """Minimum pause of clients; the maximum is a multiple of it."""
    kept_records: float = 0.3
    """Share of seeds with kept records (`workload.kept_records`)."""
    kept_records_ms: Range = (30.0, 1000.0)
    """Mean time between two batches of kept records."""
    kept_records_at_once: int = 4
    configs: float = 0.3
    """Share of seeds with an administrator of configs."""
    configs_ms: Range = (20.0, 500.0)
    """Mean time between two requests of the administrator of configs."""
    access: float = 0.0
    """Share of seeds with an authorizer, an administrator of access and clients without rights of their own."""
    access_ms: Range = (20.0, 500.0)
    """Mean time between two requests of the administrator of access, and of each of these clients."""
    logins: float = 0.0
    """Share of seeds whose nodes have a listener with SASL and delegation tokens, and clients that log in."""
    logins_ms: Range = (20.0, 500.0)
    """Mean time between two connections of each of these clients, and between two changes of their passwords."""
    peer_logins: float = 0.0
    """Share of seeds whose nodes log in to each other, if no client is authorized and no node has the broker role."""
    peer_session_ms: Range = (1300.0, 5000.0)
    """How long such a login is valid: more than a second, in which nodes refuse to renew it."""
    mistakes: float = 0.0
    """Share of seeds with a careless administrator, half of which have remote storage."""
    mistakes_ms: Range = (10.0, 200.0)
    """Mean time between two requests of the careless administrator."""
    impolite: float = 0.0
    """Share of seeds with a client that pipelines, does not read, and hangs up."""
    impolite_ms: Range = (100.0, 1000.0)
    """Mean time between two connections of the impolite client."""
    unread: float = 0.0
    """Share of seeds with a client that requests megabytes and does not read them."""
    unread_ms: Range = (300.0, 2000.0)
    """Mean time between two groups of its connections."""
    reads: float = 0.0
    """Share of seeds with a client that reads topics, brokers, features and the quorum."""
    reads_ms: Range = (10.0, 300.0)
    """Mean time between two requests of the reading client."""
    consumers: float = 0.0
    """Share of seeds with a consumer of the metadata log."""
    consumer_ms: Range = (5.0, 200.0)
    """Mean time between two fetches of the consumer."""
    copies: float = 0.0
    """Share of seeds in which an operator recovers copies of the nodes' files."""
    copies_ms: Range = (100.0, 1000.0)
    """Mean time between two such copies."""
    features: float = 0.2
    """Share of seeds with drawn initial feature levels."""
    credentials: float = 0.1
    """Share of seeds that are formatted with SCRAM credentials."""
    feature_changes: float = 0.6
    """Share of the seeds with drawn feature levels that change the levels."""
    feature_changes_ms: Range = (100.0, 2000.0)
    """Mean time between two requests for other levels."""
    old_brokers: float = 0.5
    """Share of brokers, in seeds with drawn feature levels, that at first support only the initial metadata
    version."""
    registrations: float = 0.0
    """Share of seeds in which nodes register as controllers."""
    auto_join: float = 0.0
    """Share of seeds without voter changes in which observers use auto join."""
    record_ms: Range = (0.003, 0.3)
    """Processor time per record."""
    disks_with_voter_changes: float = 0.0
    """Share of seeds with voter changes in which disks are replaced, if that is a fault of the profile."""
    transfers: float = 0.15
    """Share of seeds in which sending and receiving take processor time, and some machines are slow."""
    transfer_load: Range = (0.002, 0.1)
    """CPU time for one message from every peer on the slowest machine, as a fraction of the election timeout."""
    slowness: Range = (1.5, 8.0)
    """Factor of the processor times on the slowest machine."""
    brokers: tuple[int, ...] = (0,)
    """Number of brokers."""
    broker_nodes: tuple[tuple[int, int], ...] = ((0, 0),)
    """Number of nodes that are only brokers, and of voters that are brokers too; not used with models of brokers."""
    broker_faults: tuple[str, ...] = BROKER_FAULT_NAMES
    """The possible faults of brokers."""
    broker_session_ms: Range = (300.0, 3000.0)
    controller_patience: Range = (0.3, 4.0)
    """Timeout of a broker's requests to the controller, in session timeouts."""
    admin_ms: Range = (100.0, 1500.0)
    max_partitions_per_step: tuple[int, ...] = (10_000,)
    max_partitions_per_part: tuple[int, ...] = (MAX_PARTITIONS_PER_PART,)
    large_request_bytes: tuple[int, ...] = (LARGE_REQUEST,)
    racks: tuple[int, ...] = (0, 0, 2, 3)
    """Number of racks, 0 for brokers without a rack."""
    only_topics: bool = False
    long_intervals: float = 0.25
    """Share of seeds that scale each long interval down (`LongIntervals`)."""
    long_interval_ms: Range = (300.0, 6000.0)
    """Range of each long interval that is scaled down."""
    idle_interval_ms: Range | None = None
    """Time after which an idle leader writes a NoOpRecord; None for never."""
    balance_ms: Range | None = None
    """Interval of leader balance; None for never."""
    cordon_ms: Range | None = None
    """Mean time between two changes of cordoned directories; None for never."""
    idle_share: float = 1.0
    """Share of seeds in which idle leaders write records."""
    balance_share: float = 1.0
    """Share of seeds with leader balance, and with cordoned directories."""
    log_directories: tuple[int, ...] = (1,)
    """Number of directories per broker."""
    moves_ms: Range = (50.0, 1000.0)
    """Mean time between two requests to move replicas of broker nodes with several directories."""
    moves_share: float = 0.5
    """Share of the seeds with several directories per broker node in which replicas move."""
    operators: tuple[str, ...] = ()
    """The possible operators, in addition to the administrator."""
    operator_share: float = 1.0
    """Probability that a seed has each of the possible operators, and that ELR is switched."""
    operator_ms: Range = (50.0, 1500.0)
    """Mean time between two requests of each operator."""
    elr_switches_ms: Range | None = None
    """Mean time between two requests to switch ELR on or off; None for never."""
    alter_partition_versions: tuple[int, ...] = (3,)
    """The versions of AlterPartition that brokers may send."""
    ineligible_proposals: float = 0.0
    """Share of seeds that draw the versions of AlterPartition, and `BrokerOptions.ineligible_proposals`."""
    partition_mistakes: float = 0.0
    """Share of seeds with brokers that have an operator with mistakes about partitions, half of which split requests
    into parts of one to three partitions."""
    partition_mistakes_ms: Range = (20.0, 300.0)
    """Mean time between two requests of this operator."""
    rare_broker_faults: tuple[str, ...] = ()
    """The possible faults of brokers with several log directories."""
