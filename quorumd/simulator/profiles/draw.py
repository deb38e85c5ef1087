"""Draws the options of a seed within the ranges of its profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from random import Random

from quorumd.controller.cluster_image import ELR_VERSION
from quorumd.simulator.brokers.options import PARTITION_MISTAKES, BrokerOptions
from quorumd.simulator.environment.disk_latency import DiskLatency
from quorumd.simulator.environment.entropy import Streams
from quorumd.simulator.environment.link_conditions import LinkConditions
from quorumd.simulator.options import (
    BROKER_NODE_FAULTS,
    INTERRUPTED_TRANSFER,
    PEER_LOGIN_FAULTS,
    LongIntervals,
    SimulationOptions,
)
from quorumd.simulator.peer_logins import MECHANISMS, PeerLogins
from quorumd.simulator.profiles.brokers import NODE_PROFILES
from quorumd.simulator.profiles.mixes import draw_profile, mixed
from quorumd.simulator.profiles.profile import Profile, Range
from quorumd.simulator.profiles.registry import DEFAULT, PROFILES, VOTER_CHANGES
from quorumd.simulator.profiles.unmixed import UNMIXED_PROFILES
from quorumd.simulator.workload import WorkloadOptions
from quorumd.simulator.workload.feature_options import FeatureOptions, draw_credentials, draw_levels

REPLACED_DISK = "replaced disk"
FIXED_VOTER_FAULTS = (
    "corrupt segment",
    REPLACED_DISK,
    "wrong cluster id",
    "swapped directories",
    "copied directory",
    "wiped disks",
    "moved quorum",
)
"""Faults that remove a data directory only if a majority of the voters keeps theirs, and know only the initial
voters. Replaced disks are drawn again by profiles with `disks_with_voter_changes`."""
FLUSHES_SHARE = 0.3
"""Share of seeds with moves between log directories whose brokers flush every record."""
MIGRATIONS_SHARE = 0.5
"""Share of seeds with members of groups in which they change between the protocols."""
PEER_FAULTS_SHARE = 0.7
"""Share of seeds with logins between nodes in which some are refused, and in which a peer sends invalid requests."""
BROKER_NODES_SHARE = 0.08
"""Share of the seeds of plain swarm that have nodes with the broker role. Such a seed draws from one of their
profiles, since their clients do not expect the faults of all other profiles."""
SINGLE_SHARE = 0.25
"""Share of the seeds of plain swarm that draw from a single profile for what other seeds rarely reach."""
SINGLE_PROFILES = (
    *(profile.name for profile in UNMIXED_PROFILES),
    "features",
    "cluster reads",
    "operators",
    "invalid ISR changes",
    "directories",
    "controlled shutdowns",
)
"""The profiles of these seeds."""
SNAPSHOT_BYTES, CHUNK_BYTES = (300.0, 6e3), (100.0, 3e3)
"""Ranges of the sizes of snapshots and chunks in seeds with interrupted transfers."""
MORE_TRANSFERS, MAINTENANCE_MS = 5.0, 300.0
"""In these seeds: the weight that is added to that of the fault, and the longest interval at which a node checks
whether a snapshot is due."""
FAULTS_OF_SEGMENTS, SEGMENT_BYTES = frozenset({"failed segment", "damaged indexes"}), (600.0, 4e3)
"""Faults that need sealed segments, and the range of their sizes."""
MOVES = frozenset({"moved node", "moved quorum"})
"""Faults after which nodes must learn the new addresses of others."""
LARGE_TRANSFER_BYTES = 30_000
TYPICAL_MACHINES = 3
"""Number of machines above which runs are shorter, so that seeds take about the same time."""


def draw_options(seed: int, profile: str = DEFAULT) -> SimulationOptions:
    """Draw the options of one seed. Raises KeyError for an unknown profile."""
    streams = Streams(seed)
    drawn = _profile_of_swarm(streams) if profile == DEFAULT else PROFILES[profile]
    options = _Sampler(streams.stream("options")).options(drawn)
    options = _Sampler(streams.stream("leader balance")).with_balance(options, drawn)
    options = _Sampler(streams.stream("parts")).with_parts(options, drawn)
    options = _with_work_of_brokers(options, drawn, streams)
    options = _Sampler(streams.stream("transfers")).with_transfers(options, drawn)
    options = _Sampler(streams.stream("long intervals")).with_long_intervals(options, drawn)
    options = _Sampler(streams.stream("disks and voters")).with_replaced_disks(options, drawn)
    options = _Sampler(streams.stream("rare faults")).with_rare_faults(options, drawn)
    options = _Sampler(streams.stream("separate faults")).with_separate_faults(options, drawn)
    # A single voter needs another quorumd node to discover that no quorum exists; a stock voter does not report it.
    alone = options.voters == 1 or options.stock_voters > 0
    membership = streams.stream("membership")
    has_broker_nodes = options.brokers.nodes + options.brokers.combined > 0
    logins_ms = _Sampler(streams.stream("logins")).interval_ms(drawn.logins, drawn.logins_ms)
    mistakes_ms = _Sampler(streams.stream("mistakes")).interval_ms(drawn.mistakes, drawn.mistakes_ms)
    registers, joins = membership.random() < drawn.registrations, membership.random() < drawn.auto_join
    options = replace(
        options,
        registers=registers,
        auto_join=joins and VOTER_CHANGES.isdisjoint(options.faults),
        features=_Sampler(streams.stream("credentials")).with_credentials(
            drawn, _Sampler(streams.stream("features")).features(drawn, options.features)
        ),
        configs_ms=_Sampler(streams.stream("configs")).interval_ms(drawn.configs, drawn.configs_ms),
        access_ms=_Sampler(streams.stream("access")).interval_ms(drawn.access, drawn.access_ms),
        logins_ms=0.0 if has_broker_nodes else logins_ms,
        mistakes_ms=mistakes_ms,
        impolite_ms=_Sampler(streams.stream("impolite")).interval_ms(drawn.impolite, drawn.impolite_ms),
        unread_ms=_Sampler(streams.stream("unread")).interval_ms(drawn.unread, drawn.unread_ms),
        remote_storage=mistakes_ms > 0.0
        and not has_broker_nodes
        and streams.stream("remote storage").random() < 0.5,
        reads_ms=_Sampler(streams.stream("cluster reads")).interval_ms(drawn.reads, drawn.reads_ms),
        consumer_ms=_Sampler(streams.stream("consumer")).interval_ms(drawn.consumers, drawn.consumer_ms),
        copies_ms=_Sampler(streams.stream("copies")).interval_ms(drawn.copies, drawn.copies_ms),
        record_ms=_Sampler(streams.stream("processor")).record_ms(drawn),
        formatted_by_kafka=streams.stream("format").random() < 0.15,
        initial_controllers=alone or streams.stream("founding").random() < 0.5,
    )
    return _Sampler(streams.stream("peer logins")).with_peer_logins(options, drawn)


def _profile_of_swarm(streams: Streams) -> Profile:
    """Draw the profile of a seed of plain swarm, with its name: a single one, a mix, or the wide ranges."""
    single = streams.stream("share of broker nodes")
    share = single.random()
    if share < BROKER_NODES_SHARE:
        return replace(single.choice(NODE_PROFILES), name=DEFAULT)
    if share < BROKER_NODES_SHARE + SINGLE_SHARE:
        return mixed(single, PROFILES[DEFAULT], [PROFILES[single.choice(SINGLE_PROFILES)]])
    return draw_profile(streams.stream("mix"), PROFILES[DEFAULT])


def _with_work_of_brokers(
    options: SimulationOptions, profile: Profile, streams: Streams
) -> SimulationOptions:
    """Draw the operators of brokers that are models, or nodes with the broker role and their clients."""
    if options.brokers.count:
        options = _Sampler(streams.stream("operators")).with_operators(options, profile)
        return _Sampler(streams.stream("partition mistakes")).with_partition_mistakes(options, profile)
    options = _Sampler(streams.stream("broker nodes")).with_broker_nodes(options, profile)
    options = _Sampler(streams.stream("moves")).with_moves(options, profile)
    return _Sampler(streams.stream("migrations")).with_migrations(options)


class _Sampler:
    """Draws options from one stream."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._uniform = random.uniform

    def options(self, profile: Profile) -> SimulationOptions:
        random = self._random
        voters, observers = random.choice(profile.voters), random.choice(profile.observers)
        election_timeout_ms = int(self._log_uniform(*profile.election_timeout_ms))
        options = SimulationOptions(
            profile=profile.name,
            voters=voters,
            observers=observers,
            safety_ms=self._safety_ms(profile) * min(1.0, TYPICAL_MACHINES / (voters + observers)),
            fault_interval_ms=self._log_uniform(*profile.fault_interval_ms),
            faults=self._faults(profile),
            election_timeout_ms=election_timeout_ms,
            fetch_timeout_ms=int(self._uniform(1.0, 3.0) * election_timeout_ms),
            clock_drift=self._zero_or_log_uniform(*profile.clock_drift),
            segment_bytes=int(self._log_uniform(*profile.segment_bytes)),
            allocate_bytes=int(self._zero_or_log_uniform(512.0, 64e3)),
            snapshot_bytes=int(self._log_uniform(*profile.snapshot_bytes)),
            maintenance_interval_ms=self._log_uniform(*profile.maintenance_interval_ms),
            retention_bytes=int(self._zero_or_log_uniform(1e3, 100e3)),
            chunk_bytes=int(self._log_uniform(*profile.chunk_bytes)),
            disk=self._disk(profile),
            links=self._links(),
            workload=self._workload(profile),
        )
        # Drawn last, so that the earlier draws do not depend on it.
        count = random.choice(profile.brokers)
        if count:
            options = self._with_brokers(options, count, profile)
        options = replace(options, stock_voters=self._stock_voters(options, profile))
        return self._with_kept_records(options, profile)

    def _stock_voters(self, options: SimulationOptions, profile: Profile) -> int:
        """Draw the number of stock voters; none with voter changes, which operators request with a private API, nor
        with moves, after which only DiscoverBrokers finds a voter whose record has another address."""
        count = self._random.choice(profile.stock_voters)
        is_possible = (VOTER_CHANGES | MOVES).isdisjoint(options.faults)
        return min(count, options.voters - 1) if is_possible else 0

    def _with_kept_records(self, options: SimulationOptions, profile: Profile) -> SimulationOptions:
        if self._random.random() >= profile.kept_records:
            return options
        kept_records_ms = self._log_uniform(*profile.kept_records_ms)
        return replace(
            options, kept_records_ms=kept_records_ms, kept_records_at_once=profile.kept_records_at_once
        )

    def features(self, profile: Profile, without: FeatureOptions) -> FeatureOptions:
        """Draw feature options, from a separate stream; return `without` if the seed draws none."""
        random = self._random
        if random.random() >= profile.features:
            return without
        changes = random.random() < profile.feature_changes
        return FeatureOptions(
            draw_levels(random),
            self._log_uniform(*profile.feature_changes_ms) if changes else 0.0,
            profile.old_brokers,
        )

    def with_credentials(self, profile: Profile, features: FeatureOptions) -> FeatureOptions:
        """Draw the SCRAM credentials of the initial metadata, from a separate stream."""
        if self._random.random() >= profile.credentials:
            return features
        return replace(features, credentials=draw_credentials(self._random))

    def with_balance(self, options: SimulationOptions, profile: Profile) -> SimulationOptions:
        """Draw leader balance, cordons and records of idle logs, from a separate stream."""
        return replace(
            options,
            idle_interval_ms=self._log_uniform_or_zero(profile.idle_interval_ms, profile.idle_share),
            brokers=replace(
                options.brokers,
                balance_ms=self._log_uniform_or_zero(profile.balance_ms, profile.balance_share),
                cordon_ms=self._log_uniform_or_zero(profile.cordon_ms, profile.balance_share),
                log_directories=self._random.choice(profile.log_directories),
            ),
        )

    def with_operators(self, options: SimulationOptions, profile: Profile) -> SimulationOptions:
        """Draw the operators in addition to the administrator, from a separate stream."""
        share = profile.operator_share
        drawn = [name for name in profile.operators if self._random.random() < share]
        operators = {name: self._log_uniform(*profile.operator_ms) for name in drawn}
        switches_ms = self._log_uniform_or_zero(profile.elr_switches_ms, share)
        ineligible = 0.0
        versions: tuple[int, ...] = (3,)
        if self._random.random() < profile.ineligible_proposals:
            versions = self._random.choice(((3,), (2, 3), profile.alter_partition_versions))
            ineligible = self._random.choice((0.0, 0.5, 1.0))
        rare = [name for name in profile.rare_broker_faults if self._random.random() < share]
        rare_faults = {name: self._log_uniform(1.0, 10.0) for name in rare}
        return replace(
            options,
            faults={**options.faults, **rare_faults},
            brokers=replace(
                options.brokers,
                operators=operators,
                alter_partition_versions=versions,
                ineligible_proposals=ineligible,
            ),
            features=FeatureOptions(changes_ms=switches_ms, changed=(ELR_VERSION,) if switches_ms else ()),
        )

    def with_partition_mistakes(self, options: SimulationOptions, profile: Profile) -> SimulationOptions:
        """Draw an operator with mistakes about partitions, and small parts of requests, from a separate stream."""
        mistakes_ms = self.interval_ms(profile.partition_mistakes, profile.partition_mistakes_ms)
        if not mistakes_ms:
            return options
        operators = {**options.brokers.operators, PARTITION_MISTAKES: mistakes_ms}
        parts = self._random.choice((1, 3, options.max_partitions_per_part, options.max_partitions_per_part))
        return replace(
            options,
            max_partitions_per_part=parts,
            brokers=replace(options.brokers, operators=operators),
        )

    def with_broker_nodes(self, options: SimulationOptions, profile: Profile) -> SimulationOptions:
        """Draw nodes with the broker role, from a separate stream."""
        nodes, combined = self._random.choice(profile.broker_nodes)
        if not nodes + combined:
            return options
        options = self._with_brokers(options, 0, profile)
        brokers = replace(
            options.brokers,
            nodes=nodes,
            combined=min(combined, options.voters),
            producers=self._random.choice((2, 3, 4)),
            consumers=self._random.choice((1, 2, 3)),
            transactional=self._random.choice((0, 1, 1, 2)),
            members=self._random.choice((0, 0, 3, 4)),
            segment_bytes=int(self._log_uniform(1000.0, 1e6)),
            log_directories=self._random.choice(profile.log_directories),
            balance_ms=self._log_uniform_or_zero(profile.balance_ms, profile.balance_share),
        )
        faults = {name: weight for name, weight in options.faults.items() if name in BROKER_NODE_FAULTS}
        return replace(options, faults=faults, brokers=brokers)

    def with_moves(self, options: SimulationOptions, profile: Profile) -> SimulationOptions:
        """Draw moves between log directories, from a separate stream."""
        brokers = options.brokers
        if brokers.log_directories == 1 or not brokers.nodes + brokers.combined:
            return options
        moves_ms = self.interval_ms(profile.moves_share, profile.moves_ms)
        flushes = moves_ms > 0 and self._random.random() < FLUSHES_SHARE
        return replace(options, brokers=replace(brokers, moves_ms=moves_ms, flushes_messages=flushes))

    def with_migrations(self, options: SimulationOptions) -> SimulationOptions:
        """Draw whether the members of groups change between the protocols, from a separate stream."""
        if not options.brokers.members or self._random.random() >= MIGRATIONS_SHARE:
            return options
        return replace(options, brokers=replace(options.brokers, migrates_groups=True))

    def with_parts(self, options: SimulationOptions, profile: Profile) -> SimulationOptions:
        """Draw the limits for decoding in steps and for splitting requests, from a separate stream."""
        return replace(
            options,
            max_partitions_per_part=self._random.choice(profile.max_partitions_per_part),
            large_request_bytes=self._random.choice(profile.large_request_bytes),
        )

    def _log_uniform_or_zero(self, range_ms: Range | None, share: float) -> float:
        if range_ms is None or (share < 1.0 and self._random.random() >= share):
            return 0.0
        return self._log_uniform(*range_ms)

    def interval_ms(self, share: float, range_ms: Range) -> float:
        """Draw the mean time between two requests of a client that only this share of seeds has, 0 without it; from a
        separate stream."""
        return self._log_uniform(*range_ms) if self._random.random() < share else 0.0

    def record_ms(self, profile: Profile) -> float:
        """Draw the processor time per record, from a separate stream so that other draws do not depend on it."""
        return self._zero_or_log_uniform(*profile.record_ms)

    def with_replaced_disks(self, options: SimulationOptions, profile: Profile) -> SimulationOptions:
        """Replace disks in some of the seeds with voter changes, from a separate stream."""
        excluded = VOTER_CHANGES.isdisjoint(options.faults) or REPLACED_DISK not in profile.faults
        if excluded or self._random.random() >= profile.disks_with_voter_changes:
            return options
        return replace(options, faults={**options.faults, REPLACED_DISK: self._log_uniform(1.0, 10.0)})

    def with_rare_faults(self, options: SimulationOptions, profile: Profile) -> SimulationOptions:
        """Draw further faults, from a separate stream."""
        return self._with_faults(options, profile.rare_faults if profile.faults else (), profile.rare_share)

    def with_separate_faults(self, options: SimulationOptions, profile: Profile) -> SimulationOptions:
        """Draw the faults on which no other draw depends, from a separate stream."""
        names = profile.separate_faults if profile.faults else ()
        options = self._with_faults(options, names, profile.separate_share)
        if not FAULTS_OF_SEGMENTS.isdisjoint(options.faults):
            segment_bytes = int(self._log_uniform(*SEGMENT_BYTES))
            options = replace(options, segment_bytes=min(options.segment_bytes, segment_bytes))
        if INTERRUPTED_TRANSFER not in options.faults:
            return options
        # Frequent transfers of snapshots of several chunks, to an observer, whose disk any seed may replace.
        weight = options.faults[INTERRUPTED_TRANSFER]
        return replace(
            options,
            faults={**options.faults, INTERRUPTED_TRANSFER: weight + MORE_TRANSFERS},
            observers=max(1, options.observers),
            snapshot_bytes=min(options.snapshot_bytes, int(self._log_uniform(*SNAPSHOT_BYTES))),
            chunk_bytes=min(options.chunk_bytes, int(self._log_uniform(*CHUNK_BYTES))),
            maintenance_interval_ms=min(options.maintenance_interval_ms, MAINTENANCE_MS),
        )

    def with_peer_logins(self, options: SimulationOptions, profile: Profile) -> SimulationOptions:
        """Draw SASL between nodes and its fault, from a separate stream. Principals are left to seeds with an
        authorizer or with clients that log in; consumers and producers of broker nodes do not log in."""
        has_broker_nodes = options.brokers.nodes + options.brokers.combined > 0
        is_possible = not (options.access_ms or options.logins_ms or has_broker_nodes)
        if self._random.random() >= profile.peer_logins or not is_possible:
            return options
        logins = PeerLogins(
            self._random.choice(MECHANISMS),
            int(self._log_uniform(*profile.peer_session_ms)),
            self._random.choice((0, 50)),
        )
        options = replace(options, peer_logins=logins)
        names = PEER_LOGIN_FAULTS if profile.faults else ()
        return self._with_faults(options, names, PEER_FAULTS_SHARE)

    def _with_faults(
        self, options: SimulationOptions, names: Sequence[str], share: float
    ) -> SimulationOptions:
        drawn = [name for name in names if self._random.random() < share]
        rare = {name: self._log_uniform(1.0, 10.0) for name in drawn if name not in options.faults}
        return replace(options, faults={**options.faults, **rare})

    def with_long_intervals(self, options: SimulationOptions, profile: Profile) -> SimulationOptions:
        """Scale long intervals down, from a separate stream."""
        if self._random.random() >= profile.long_intervals:
            return options
        drawn = {
            field.name: int(self._log_uniform(*profile.long_interval_ms))
            for field in fields(LongIntervals)
            if self._random.random() < 0.6
        }
        return replace(options, intervals=LongIntervals(**drawn))

    def with_transfers(self, options: SimulationOptions, profile: Profile) -> SimulationOptions:
        """Draw the processor time to send and receive, from a separate stream. It is a share of the election timeout:
        with longer times no leader could keep its followers."""
        if self._random.random() >= profile.transfers:
            return options
        slowness = self._log_uniform(*profile.slowness)
        senders = (
            options.voters
            + options.observers
            + options.workload.clients
            + options.brokers.count
            + options.brokers.nodes
        )
        receive_ms, large_ms = (
            self._log_uniform(*profile.transfer_load) * options.election_timeout_ms / slowness
            for _ in range(2)
        )
        return replace(
            options,
            request_ms=receive_ms / (senders + 4 * (options.brokers.count + options.brokers.nodes)),
            byte_ms=large_ms / (LARGE_TRANSFER_BYTES * (options.voters + options.observers)),
            slowness=slowness,
        )

    def _with_brokers(self, options: SimulationOptions, count: int, profile: Profile) -> SimulationOptions:
        share = self._uniform(*profile.fault_share)
        drawn = [name for name in profile.broker_faults if self._random.random() < share]
        faults = {name: self._log_uniform(1.0, 10.0) for name in drawn}
        session_timeout_ms = self._log_uniform(*profile.broker_session_ms)
        brokers = BrokerOptions(
            count=count,
            session_timeout_ms=session_timeout_ms,
            heartbeat_ms=session_timeout_ms * self._uniform(0.1, 0.35),
            longest_lag_ms=self._log_uniform(200.0, 3000.0),
            fetch_wait_ms=self._log_uniform(50.0, 600.0),
            flush_ms=self._log_uniform(20.0, 3000.0),
            write_timeout_ms=self._log_uniform(300.0, 3000.0),
            write_ms=self._log_uniform(8.0, 80.0),
            admin_ms=self._log_uniform(*profile.admin_ms),
            controller_timeout_ms=session_timeout_ms * self._log_uniform(*profile.controller_patience),
            shutdown_timeout_ms=self._log_uniform(500.0, 8000.0),
            raises_min_isr=self._random.random() < 0.25,
            unclean_topics=self._zero_or_log_uniform(0.05, 0.5) if self._random.random() < 0.3 else 0.0,
            max_partitions_per_step=self._random.choice(profile.max_partitions_per_step),
            racks=min(count, self._random.choice(profile.racks)),
            only_topics=profile.only_topics,
        )
        return replace(options, faults={**options.faults, **faults}, brokers=brokers)

    def _safety_ms(self, profile: Profile) -> float:
        is_short = self._random.random() < profile.short_share
        return self._uniform(200.0, 2000.0) if is_short else self._uniform(*profile.safety_ms)

    def _faults(self, profile: Profile) -> dict[str, float]:
        if not profile.faults:
            return {}
        share = self._uniform(*profile.fault_share)
        drawn = [name for name in profile.faults if self._random.random() < share]
        if not VOTER_CHANGES.isdisjoint(drawn):
            drawn = [name for name in drawn if name not in FIXED_VOTER_FAULTS]
        return {name: self._log_uniform(1.0, 10.0) for name in drawn or [self._random.choice(profile.faults)]}

    def _disk(self, profile: Profile) -> DiskLatency:
        quick_ms = self._log_uniform(*profile.disk_ms)
        return DiskLatency(
            usual_ms=(quick_ms, quick_ms * self._uniform(2.0, 8.0)),
            slow_ms=self._log_uniform(20.0, 200.0),
            slow_probability=self._zero_or_log_uniform(0.002, 0.2),
        )

    def _links(self) -> LinkConditions:
        quick_ms = self._log_uniform(0.05, 5.0)
        return LinkConditions(
            latency_ms=(quick_ms, quick_ms * self._uniform(2.0, 8.0)),
            slow_ms=self._log_uniform(20.0, 300.0),
            slow_probability=self._zero_or_log_uniform(0.002, 0.2),
            split_probability=self._zero_or_log_uniform(0.01, 0.4),
        )

    def _workload(self, profile: Profile) -> WorkloadOptions:
        random = self._random
        clients = random.choice(profile.clients)
        shortest_ms = self._log_uniform(*profile.think_ms)
        return WorkloadOptions(
            clients=clients,
            readers=random.randrange(clients),
            keys=random.choice((1, 1, 2, 3)),
            read_share=self._uniform(0.05, 0.95),
            list_share=random.choice((0.0, 0.0, random.random(), 1.0)),
            longest_padding=random.choice((0, 1000, 3000, 10_000)),
            think_ms=(shortest_ms, shortest_ms * self._uniform(2.0, 15.0)),
            timeout_ms=self._log_uniform(300.0, 4000.0),
            append_attempts=1 + random.randrange(4),
        )

    def _log_uniform(self, low: float, high: float) -> float:
        """Draw from a log-uniform distribution."""
        return float(low * (high / low) ** self._random.random())

    def _zero_or_log_uniform(self, low: float, high: float) -> float:
        return 0.0 if self._random.random() < 0.35 else self._log_uniform(low, high)
