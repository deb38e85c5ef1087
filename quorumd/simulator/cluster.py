"""The simulated machines and their nodes: formatting, starting, crashes and restarts.

A machine (disk, address, clock) outlives its processes. Ending a process drops the node object: its
timers never fire, its connections are closed, and after a power loss its unsynced data is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from quorumd.errors import ExitCode, StorageError
from quorumd.ids import Endpoint, KafkaUuid, ReplicaKey
from quorumd.log.meta_properties import partition_directory
from quorumd.log.quorum_state_file import Founder
from quorumd.node.builder import start_node
from quorumd.node.node import Node
from quorumd.node.ports import NodePorts
from quorumd.node.settings import NodeSettings
from quorumd.ports import ANONYMOUS
from quorumd.protocol.messages import voters_record
from quorumd.raft.voters import VoterSet
from quorumd.security.authorizer import AuthorizerSettings
from quorumd.security.sasl.settings import ListenerSasl
from quorumd.simulator import data_directories
from quorumd.simulator.brokers.nodes.roles import (
    FIRST_BROKER,
    LISTENER,
    broker_ids,
    broker_role,
    client_address,
    log_directories,
)
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.client_listener import SASL
from quorumd.simulator.environment.clock import MachineTime, SimulatedClock
from quorumd.simulator.environment.disk import DEFAULT_CAPACITY_BYTES, SimulatedDisk
from quorumd.simulator.environment.disk_latency import DiskLatency
from quorumd.simulator.environment.entropy import SimulatedEntropy, Streams
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.environment.link_conditions import LinkConditions
from quorumd.simulator.environment.network import SimulatedNetwork
from quorumd.simulator.environment.topic_regexes import compile_regex
from quorumd.simulator.inspection.log_mirror import Batch, DurableLog, LogMirror
from quorumd.simulator.node_settings import controller_settings, log_settings, raft_settings, with_clients
from quorumd.simulator.options import SimulationOptions
from quorumd.simulator.peer_logins import PASSWORDS, ClientLogins
from quorumd.simulator.voter_sets import voter_sets_of

if TYPE_CHECKING:
    from quorumd.simulator.brokers.fleet import BrokerFleet
    from quorumd.simulator.brokers.nodes.fleet import BrokerNodes

DATA_DIRECTORY = data_directories.DATA_DIRECTORY
PORT = 9092
LISTENER_NAME = "CONTROLLER"
AUTHORIZER = AuthorizerSettings(frozenset({ANONYMOUS}), early_start_listeners=frozenset({LISTENER_NAME}))
"""Nodes do not authenticate to each other; clients with limited rights do."""
HEALTHY_LINKS = LinkConditions(slow_probability=0.0)
HEALTHY_DISK = DiskLatency(slow_probability=0.0)
"""Conditions of the liveness phase: progress requires that messages and flushes are much faster than timeouts (Raft
paper 5.6)."""
EXITS_BY_DISK = (ExitCode.DATA_DIRECTORY, ExitCode.FLUSH_FAILED)
"""Exit codes that a failing or full disk can cause."""
WALL_START_MS = 1_750_000_000_000.0
RESTART_MS = 1000.0
READY_MAX_LAG = 20
"""The largest lag of a ready node, in records; small, because simulated logs are short."""


class Watcher(Protocol):
    """Receives the events of machines, and the voter changes that operators request."""

    def stopped(self, node_id: int, recoverable: list[Batch]) -> None:
        """Called when a process has ended; the next incarnation must find these batches."""

    def moved(self, node_id: int, directory_id: KafkaUuid) -> None:
        """Called when the log directory of a machine without a process is replaced."""

    def voter_change_requested(self, replica: ReplicaKey, is_added: bool) -> Callable[[], None]:
        """Called when an operator adds or removes a voter. Returns the callback for the acknowledgement."""


@dataclass(slots=True)
class Machine:
    """One machine and its current process."""

    node_id: int
    host: str
    disk: SimulatedDisk
    durable_log: DurableLog
    time: MachineTime
    directory_id: KafkaUuid
    process: Process | None = None
    node: Node | None = None
    """None without a process."""
    incarnation: int = 0
    directory_number: int = 0
    """Number of the current log directory. 0 is the initial directory; with any other, the node is another
    replica."""
    directories_made: int = 0
    log_directories: dict[str, KafkaUuid] = field(default_factory=dict)
    """The ids of its log directories for partitions by path, {} without the broker role."""
    slowness: float = 1.0
    """Factor of the processor time of all work."""
    port: int = PORT
    seeds: Sequence[int] | None = None
    """Voters whose addresses its properties name; None for all initial voters."""
    names_itself: bool = False
    """Whether its properties name it as the only voter, like the properties of the first node of a growing quorum."""
    set_aside: data_directories.SetAside | None = None
    """Its own log directory, while an operator runs the node with a wrong one."""
    mirror: LogMirror = field(default_factory=LogMirror)
    last_voter_sets: tuple[VoterSet, ...] = ()
    """Without a process: the voter sets that its log may have."""
    recoverable_batches: list[Batch] = field(default_factory=list)
    """Without a process: the batches that the next process must find."""
    initial_failed_syncs: int = 0
    retired: bool = False
    """Whether the machine never runs again."""
    calls_to_power_loss: int = 0
    """Number of the modifying disk call at which the next process loses power, 0 for never."""
    stopping: bool = False
    """Whether the process is shutting down on request."""
    exiting: bool = False
    """Whether the process is about to exit; its files are closed."""
    has_copies: bool = False
    """Whether an operator has copied files to it, which are not synced and may be torn by a power loss."""
    starting: bool = False
    """Whether its node is still starting, so that the mirror does not show its log yet."""
    users: dict[str, str] = field(default_factory=lambda: dict(PASSWORDS))
    """The passwords of the users that may log in, if nodes have SASL."""

    @property
    def sync_failed(self) -> bool:
        """Whether a sync of the current or last process has failed."""
        return self.disk.syncs_failed > self.initial_failed_syncs


class Cluster:
    """All machines by node id: voters first, then observers, then nodes that are only brokers."""

    def __init__(
        self,
        heap: EventHeap,
        streams: Streams,
        options: SimulationOptions,
        watcher: Watcher,
    ) -> None:
        self.heap = heap
        self.options = options
        self.network = SimulatedNetwork(heap, streams.stream("network"), options.links)
        self.counters: Counter[str] = Counter()
        self.voters = tuple(range(1, options.voters + 1))
        """The initial voters."""
        self.stock_voters = frozenset(self.voters[options.voters - options.stock_voters :])
        """Voters without private APIs, like stock controllers."""
        self.is_repaired = False
        """Whether faults have ended."""
        self.voters_changed = options.auto_join
        """Whether an operator, or a node by auto join, may have changed the voters."""
        self.machines: dict[int, Machine] = {}
        self.brokers: BrokerFleet | None = None
        """The brokers of the cluster, if any."""
        self.broker_nodes: BrokerNodes | None = None
        """The nodes with the broker role, if any."""
        self.streams = streams
        self.watcher = watcher
        self.broker_ids = broker_ids(options.brokers)
        """The nodes with the broker role."""
        for node_id in (
            *range(1, options.voters + options.observers + 1),
            *(broker_id for broker_id in self.broker_ids if broker_id >= FIRST_BROKER),
        ):
            self.machines[node_id] = self._make_machine(node_id)
        self._addresses: list[tuple[str, int]] = []
        if options.peer_logins.mechanism:
            self.network.wrap = ClientLogins(options.peer_logins, self.machines).wrap
        self._format_all()

    # ---- operations on machines

    def boot(self, node_id: int) -> None:
        """Start a process on a machine, unless one is running. Raises InvariantViolation if the node refuses its own
        files."""
        machine = self.machines[node_id]
        if machine.process is not None or machine.retired:
            return
        machine.incarnation += 1
        machine.process = process = Process(f"node-{node_id}", node_id, machine.incarnation)
        process.slowness = machine.slowness
        process.request_ms, process.byte_ms = self.options.request_ms, self.options.byte_ms
        machine.stopping = machine.exiting = False
        machine.starting = True
        machine.initial_failed_syncs = machine.disk.syncs_failed
        machine.disk.mount(process)
        machine.disk.lose_power_within(machine.calls_to_power_loss)
        machine.calls_to_power_loss = 0
        self.network.power_on(machine.host)
        self.heap.touched = process
        self.counters["starts"] += 1
        machine.mirror = LogMirror()
        try:
            machine.node = self.start_node(machine, process)
        except (StorageError, OSError) as error:
            if not self._is_disk_failure(machine):
                raise InvariantViolation(
                    "a node starts after every crash", f"node {node_id}: {error}"
                ) from error
            self._end_by_disk(machine)
            return
        machine.starting = False
        self.counters["installations completed at a start"] += (
            machine.node.recovery_report.restored_snapshot is not None
        )
        if machine.disk.is_corrupted:
            raise InvariantViolation("damaged files are detected at startup", f"node {node_id} runs on them")

    def start_node(self, machine: Machine, process: Process) -> Node:
        """Start a node in a process on a machine."""
        ports = NodePorts(
            SimulatedClock(self.heap, process, machine.time, self.options.record_ms),
            SimulatedEntropy(self.streams.stream("node", process.node_id, process.incarnation)),
            machine.disk,
            self.network.host(machine.host, process),
            compile_regex,
            self._sasl(machine, process),
        )
        return start_node(self.settings(machine), ports, partial(self._node_stopped, machine, process))

    def _sasl(self, machine: Machine, process: Process) -> Mapping[str, ListenerSasl]:
        """Return the SASL settings of the listeners of a node."""
        options, heap = self.options, self.heap
        if not options.peer_logins.mechanism:
            return SASL if options.logins_ms else {}
        clock = SimulatedClock(heap, process, machine.time)
        return {LISTENER_NAME: options.peer_logins.of_node(machine.users, lambda: heap.now_ms, clock.wall_ms)}

    def kill(self, node_id: int) -> None:
        """Kill the process with SIGKILL; its unsynced writes stay in the page cache."""
        machine = self.machines[node_id]
        if machine.process is not None:
            self._end(machine)

    def lose_power(self, node_id: int) -> None:
        """Turn the machine off; unsynced data may be lost."""
        machine = self.machines[node_id]
        if machine.process is not None:
            self._end(machine, without_power=True)

    def shut_down(self, node_id: int) -> None:
        """Shut the process down gracefully."""
        machine = self.machines[node_id]
        if machine.node is not None and machine.process is not None:
            machine.stopping = True
            self.heap.call_later(0.0, machine.node.shut_down, b"signal", machine.process)

    def moved(self, machine: Machine) -> None:
        """Report that the log directory of a machine without a process was replaced."""
        self.watcher.moved(machine.node_id, machine.directory_id)
        self.watcher.stopped(machine.node_id, machine.recoverable_batches)
        if self.broker_nodes is not None:
            self.broker_nodes.ended(machine, "has another disk")

    def restart_later(self, node_id: int) -> None:
        """Start a process on the machine after a random delay, unless one is running then."""
        incarnation = self.machines[node_id].incarnation
        delay = self.streams.stream("restart", node_id, incarnation).random() ** 2 * 4 * RESTART_MS
        self.heap.call_later(delay, partial(self.boot, node_id), b"boot")

    def repair(self) -> None:
        """End all faults; processes that are down stay down.

        Corrupted data of a running process is restored only once the process has detected it.
        """
        self.is_repaired = True
        self.network.heal()
        self.network.conditions = HEALTHY_LINKS
        for machine in self.machines.values():
            if machine.set_aside is not None:
                data_directories.restore_directory(self, machine)
        for side in self.network.sides():
            side.stream.delay_ms = 0.0
        for machine in self.machines.values():
            machine.disk.repair()
            machine.disk.latency = HEALTHY_DISK
            machine.users.update(PASSWORDS)
            machine.calls_to_power_loss = 0
            if machine.process is None:
                machine.disk.restore()
            else:
                machine.process.callback_ms = 0.0

    def retire(self, node_id: int) -> None:
        """Turn the machine off permanently."""
        self.machines[node_id].retired = True
        self.lose_power(node_id)

    def boot_and_lose_power(self, node_id: int, calls: int) -> None:
        """Start a process whose machine loses power at one of its first modifying disk calls."""
        self.machines[node_id].calls_to_power_loss = calls
        self.restart_later(node_id)

    def running(self) -> list[Machine]:
        """Return the machines with a process, by node id."""
        return [machine for machine in self.machines.values() if machine.process is not None]

    def hosts(self) -> list[str]:
        """Return the hosts of nodes, then of brokers."""
        hosts = [machine.host for machine in self.machines.values()]
        return hosts if self.brokers is None else hosts + self.brokers.hosts()

    def addresses(self) -> list[tuple[str, int]]:
        """Return the current addresses of all nodes except nodes that are only brokers: always the same list, updated
        in place."""
        nodes = [machine for machine in self.machines.values() if machine.node_id < FIRST_BROKER]
        self._addresses[:] = [(machine.host, machine.port) for machine in nodes]
        return self._addresses

    def broker_address(self, node_id: int) -> tuple[str, int]:
        """Return the address of the client listener of a node with the broker role."""
        machine = self.machines[node_id]
        return client_address(node_id, machine.host, machine.port)

    # ---- the end of processes

    def _node_stopped(self, machine: Machine, process: Process, exit_code: int, reason: str) -> None:
        """Handle the callback by which a node exits; it is still on the call stack."""
        if process.alive:
            machine.exiting = True
            self.heap.call_later(
                0.0, partial(self._exit, machine, process, exit_code, reason), b"exit", process
            )

    def _exit(self, machine: Machine, process: Process, exit_code: int, reason: str) -> None:
        self.counters[f"exits with code {exit_code}"] += 1
        if exit_code == ExitCode.DATA_DIRECTORY and machine.set_aside is not None:
            self.counters["wrong directories refused"] += 1
            self._end(machine)
        elif exit_code == ExitCode.DONE and machine.stopping:
            self._end(machine)
            self.restart_later(process.node_id)
        elif exit_code in EXITS_BY_DISK and self._is_disk_failure(machine):
            self._end_by_disk(machine)
        else:
            text = f"node {process.node_id}: code {exit_code}, {reason}"
            raise InvariantViolation("nodes do not exit unexpectedly", text)

    def _is_disk_failure(self, machine: Machine) -> bool:
        return (
            machine.disk.capacity < DEFAULT_CAPACITY_BYTES
            or machine.disk.is_corrupted
            or machine.disk.read_failed
            or machine.disk.change_failed
            or machine.sync_failed
        )

    def _end_by_disk(self, machine: Machine) -> None:
        if machine.sync_failed:
            # The content of the page cache is undefined: an operator reboots the machine, whatever the other faults
            # are.
            self._end(machine, without_power=True)
            self.restart_later(machine.node_id)
        elif machine.disk.is_corrupted:
            self.counters["damage noticed"] += 1
            self._end(machine)
            data_directories.repair_later(self, machine)
        else:
            self._end(machine)
            self.restart_later(machine.node_id)

    def lost_power(self, machine: Machine) -> None:
        """Turn a machine off after a disk call raised PowerLost."""
        self.lose_power(machine.node_id)
        self.restart_later(machine.node_id)

    def _end(self, machine: Machine, *, without_power: bool = False) -> None:
        process = machine.process
        assert process is not None
        # A process that is still starting has not changed the log that the previous process had to keep.
        log = machine.recoverable_batches if machine.starting else machine.mirror.batches
        # A failed sync has dropped its data, even if the process ended before it learned of the failure.
        loses = without_power or machine.sync_failed
        recoverable = log[: machine.durable_log.holds(log)] if loses else list(log)
        if machine.node is not None and not machine.starting:
            machine.last_voter_sets = voter_sets_of(machine.node)
        process.alive = False
        machine.process = machine.node = None
        self.network.process_ended(process, silently=without_power)
        if without_power:
            self.network.power_off(machine.host)
            loss = machine.disk.lose_power()
            self.counters["power losses"] += 1
            self.counters["lost sectors"] += loss.lost_sectors
            self.counters["torn writes"] += loss.torn_writes
            self.counters["overtaking sectors"] += loss.overtaking_sectors
            self.counters["lost names"] += loss.lost_names
            self.counters["lost renames"] += loss.lost_renames
        machine.recoverable_batches = recoverable
        self.watcher.stopped(machine.node_id, recoverable)
        if self.broker_nodes is not None:
            self.broker_nodes.ended(machine, "loses power" if without_power else "ends")

    # ---- creation of machines

    def _format_all(self) -> None:
        voters = [self.machines[voter] for voter in self.voters]
        founders = [Founder(m.node_id, m.directory_id, m.host, m.port) for m in voters]
        bootstrap = self.options.features.bootstrap()
        if self.options.formatted_by_kafka and self.options.initial_controllers:
            self._format_all_like_kafka(voters)
            return
        for machine in self.machines.values():
            # Every second observer is formatted with --no-initial-controllers.
            others: list[Founder] | None = [] if machine.node_id % 2 else None
            named = (founders if machine in voters else others) if self.options.initial_controllers else None
            data_directories.format_durably(machine, None, named, bootstrap)

    def _format_all_like_kafka(self, voters: Sequence[Machine]) -> None:
        cluster_id = str(SimulatedEntropy(self.streams.stream("cluster id")).uuid())
        frames, wire = self.options.features.frames(), voters_record
        version = wire.KRaftVersionFeature(0, 1)
        named = [
            wire.Voter(m.node_id, m.directory_id, [wire.Endpoint(LISTENER_NAME, m.host, m.port)], version)
            for m in voters
        ]
        for machine in self.machines.values():
            record = wire.VotersRecord(0, named) if machine in voters else None
            by_kafka = data_directories.KafkaFormat(record, frames)
            data_directories.format_durably(machine, cluster_id, by_kafka=by_kafka)

    def _make_machine(self, node_id: int) -> Machine:
        disk = SimulatedDisk(self.heap, self.streams.stream("disk", node_id), self.options.disk)
        random = self.streams.stream("machine", node_id)
        drift = self.options.clock_drift
        directory_id = SimulatedEntropy(random).uuid()
        return Machine(
            node_id,
            f"10.0.0.{node_id}",
            disk,
            DurableLog(disk, partition_directory(DATA_DIRECTORY)),
            MachineTime(
                offset_ms=random.random() * 1e9,
                rate=1.0 + drift * (2 * random.random() - 1),
                wall_offset_ms=WALL_START_MS + node_id,
            ),
            directory_id,
            log_directories={
                path: SimulatedEntropy(random).uuid() for path in self._log_directories(node_id)
            },
            slowness=self._draw_slowness(node_id),
        )

    def _log_directories(self, node_id: int) -> tuple[str, ...]:
        return log_directories(self.options.brokers) if node_id in self.broker_ids else ()

    def _draw_slowness(self, node_id: int) -> float:
        random = self.streams.stream("slowness", node_id)
        slowest = self.options.slowness
        return 1.0 if slowest == 1.0 or random.random() < 0.5 else random.uniform(1.0, slowest)

    def settings(self, machine: Machine) -> NodeSettings:
        """Return the settings of a node on a machine."""
        options, node_id = self.options, machine.node_id
        listener = LISTENER if node_id >= FIRST_BROKER else LISTENER_NAME
        address = machine.host, machine.port
        endpoint = Endpoint(listener, *address)
        role = broker_role(node_id, *address, options.brokers) if node_id in self.broker_ids else None
        voters = (machine.node_id,) if machine.names_itself else self.voters
        seeds = [self.machines[n] for n in (voters if machine.seeds is None else machine.seeds)]
        others = [seed for seed in seeds if not machine.names_itself]
        settings = NodeSettings(
            node_id=machine.node_id,
            data_directory=DATA_DIRECTORY,
            listen=endpoint,
            advertised=endpoint,
            failed_authentication_delay_ms=options.peer_logins.failure_delay_ms,
            bootstrap_servers=tuple((seed.host, seed.port) for seed in others),
            voter_addresses=tuple((seed.node_id, seed.host, seed.port) for seed in seeds),
            bootstrap_voters=voters if machine.seeds is None else (),
            raft=raft_settings(options),
            log=log_settings(options),
            controller=controller_settings(options),
            request_timeout_ms=2 * options.election_timeout_ms,
            maintenance_interval_ms=options.maintenance_interval_ms,
            private_apis=machine.node_id not in self.stock_voters,
            ready_max_lag=READY_MAX_LAG,
            registers=options.registers,
            auto_join=options.auto_join,
            slice_partitions=2,
            max_partitions_per_part=options.max_partitions_per_part,
            large_request_bytes=options.large_request_bytes,
            authorizer=AUTHORIZER if options.access_ms else None,
            controllers_name=LISTENER_NAME if role is not None else "",
            broker=role,
        )
        return with_clients(settings, options)
