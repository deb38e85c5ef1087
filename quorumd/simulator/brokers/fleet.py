"""The model brokers of a simulation on their machines, with producers, consumers and administrators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from random import Random

from quorumd.broker.controller_requests.alter_partition import BROKER_EPOCHS_SINCE
from quorumd.controller.record_versions import CORDONED_SINCE
from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.simulator.brokers.broker import DATA_PORT, Broker
from quorumd.simulator.brokers.broker_disk import Disk
from quorumd.simulator.brokers.checkers.liveness import missing
from quorumd.simulator.brokers.options import UNREGISTRATIONS, BrokerOptions
from quorumd.simulator.brokers.population import BrokerPopulation
from quorumd.simulator.brokers.traffic import Traffic
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.entropy import SimulatedEntropy
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.inspection.log_mirror import Batch

FIRST_BROKER = 101
RETRY_MS = 100.0
RESTART_MS = 500.0
MAX_PARTITIONS = 1000
"""More partitions than a simulated broker has."""


class Loss(Enum):
    """The data that a broker's disk loses when its process ends."""

    NOTHING = "nothing"
    UNFLUSHED = "what was not flushed"
    EVERYTHING = "everything"


@dataclass(slots=True)
class BrokerMachine:
    """The machine of one broker."""

    id: int
    host: str
    disk: Disk
    broker: Broker | None = None
    """The running broker."""
    incarnation: int = 0


class BrokerFleet(BrokerPopulation):
    """Starts, stops and crashes brokers for faults and for the simulation."""

    def __init__(self, cluster: Cluster, options: BrokerOptions, committed: Sequence[Batch]) -> None:
        super().__init__(cluster, options, committed, range(FIRST_BROKER, FIRST_BROKER + options.count))
        self.observation.view.drains_in_batches = options.max_partitions_per_step < MAX_PARTITIONS
        self.observation.view.unregisters_in_parts = (
            cluster.options.max_partitions_per_part < MAX_PARTITIONS_PER_PART
            and UNREGISTRATIONS in options.operators
        )
        self.observation.view.proposals_have_epochs = (
            min(options.alter_partition_versions) >= BROKER_EPOCHS_SINCE
        )
        self.observation.on_shutdown_granted = self._stopped
        self.observation.on_stale = self._restart_after_stale_epoch
        self.machines: dict[int, BrokerMachine] = {}
        self.counts: Counter[str] = Counter()
        for broker_id in range(FIRST_BROKER, FIRST_BROKER + options.count):
            entropy = SimulatedEntropy(cluster.streams.stream("broker machine", broker_id))
            host = f"10.0.3.{broker_id - FIRST_BROKER + 1}"
            directory_ids = [entropy.uuid() for _ in range(options.log_directories)]
            disk = Disk(directory_ids, knows_cordons=options.cordon_ms > 0)
            self.machines[broker_id] = BrokerMachine(broker_id, host, disk)
        self._cordons = cluster.streams.stream("cordons")
        self._is_repaired = False
        self.traffic = Traffic(
            cluster.heap, cluster.streams.stream("traffic"), options, self.observation, self.running
        )

    def start(self) -> None:
        for broker_id in self.machines:
            self._later(self.cluster.streams.stream("broker boot", broker_id).random() * 500.0, broker_id)
        self.traffic.start()
        self.administrators.start()
        self._cordon_later()

    def _cordon_later(self) -> None:
        if self.options.cordon_ms:
            delay_ms = self._cordons.random() * 2 * self.options.cordon_ms
            self.cluster.heap.call_later(delay_ms, self._cordon, b"cordon")

    def _cordon(self) -> None:
        """Cordon or uncordon a directory. At least one broker keeps accepting new replicas."""
        if self._is_repaired:
            return
        disk = self._cordons.choice(list(self.machines.values())).disk
        assert disk.cordoned is not None
        count = len(disk.directory_ids)
        number = self._cordons.randrange(count) if count > 1 else 0
        disk.cordoned ^= {number}
        if all(machine.disk.is_cordoned for machine in self.machines.values()):
            disk.cordoned ^= {number}
        elif number in disk.cordoned:
            self.counts["cordons"] += 1
            self.counts["cordons of one of several directories"] += not disk.is_cordoned
        self._cordon_later()

    def hosts(self) -> list[str]:
        return [machine.host for machine in self.machines.values()]

    def running(self) -> list[Broker]:
        return [machine.broker for machine in self.machines.values() if machine.broker is not None]

    # Starts and ends

    def boot(self, broker_id: int) -> None:
        """Start a process unless one runs, as soon as the cluster id is known."""
        machine, cluster = self.machines[broker_id], self.cluster
        if machine.broker is not None:
            return
        known = (m.node.cluster_id for m in cluster.running() if m.node is not None and m.set_aside is None)
        cluster_id = next(filter(None, known), None)
        if cluster_id is None:
            self._later(RETRY_MS, broker_id)
            return
        machine.incarnation += 1
        process = Process(f"broker-{broker_id}", -1, machine.incarnation)
        random = cluster.streams.stream("broker", broker_id, machine.incarnation)
        machine.disk.replace_lost(SimulatedEntropy(random).uuid)
        cluster.network.power_on(machine.host)
        machine.broker = broker = Broker(
            broker_id, (machine.host, DATA_PORT), machine.disk, cluster.heap,
            cluster.network.host(machine.host, process), cluster.network.host(machine.host, process), process,
            random, self.options, cluster.addresses(), self.observation,
        )  # fmt: skip
        cluster.heap.touched = process
        self.counts["broker starts"] += 1
        features = cluster.options.features
        is_old = cluster.streams.stream("old broker", broker_id).random() < features.old_brokers
        broker.start(cluster_id, SimulatedEntropy(random).uuid(), features.ranges(is_old))
        self.observation.begins(broker, machine.incarnation)

    def _later(self, delay_ms: float, broker_id: int) -> None:
        self.cluster.heap.call_later(delay_ms, partial(self.boot, broker_id), b"broker boot")

    def restart_later(self, broker_id: int) -> None:
        machine = self.machines[broker_id]
        random = self.cluster.streams.stream("broker restart", broker_id, machine.incarnation)
        self._later(random.random() ** 2 * 4 * RESTART_MS, broker_id)

    def shut_down(self, broker_id: int) -> None:
        """Start a controlled shutdown, with a timeout."""
        broker = self.machines[broker_id].broker
        if broker is not None and not broker.is_shutting_down:
            broker.shut_down()
            self.observation.view.brokers[broker_id].may_request_fence = True
            self.cluster.heap.call_later(
                self.options.shutdown_timeout_ms, partial(self._stopped, broker), b"shutdown", broker.process
            )

    def stop(self, broker_id: int) -> None:
        """Stop a broker cleanly, without a controlled shutdown."""
        broker = self.machines[broker_id].broker
        if broker is not None:
            self._stopped(broker)

    def _stopped(self, broker: Broker) -> None:
        machine = self.machines[broker.id]
        if machine.broker is not broker:
            return
        # Flush the logs before writing the clean-shutdown file.
        for replica in broker.replicas.values():
            replica.log.flush()
            machine.disk.logs[replica.partition] = (replica.log, replica.high_watermark)
        # A start counts as one after an unclean shutdown unless every directory has the file.
        machine.disk.clean_epoch = -1 if machine.disk.lost else broker.epoch
        self.counts["clean ends of brokers"] += 1
        self._end(machine, "ends cleanly", without_power=False)
        self.restart_later(broker.id)

    def crash(self, broker_id: int, loss: Loss, random: Random) -> None:
        """End a process, and lose data on its disk."""
        machine = self.machines[broker_id]
        broker = machine.broker
        if broker is None:
            return
        self.counts[f"brokers that lost {loss.value}"] += 1
        disk, lost = machine.disk, []
        for where, (log, high_watermark) in list(disk.logs.items()):
            before = log.end_offset
            if loss is Loss.UNFLUSHED:
                log.truncate(log.flushed + random.randrange(log.end_offset - log.flushed + 1))
            elif loss is Loss.EVERYTHING:
                log.truncate(0)
            if loss is not Loss.EVERYTHING:
                disk.logs[where] = log, min(high_watermark, log.end_offset)
            if log.end_offset < before:
                lost.append(where)
        if loss is Loss.EVERYTHING:
            entropy = SimulatedEntropy(random)
            disk.exchange([entropy.uuid() for _ in disk.directory_ids])
        self._end(machine, f"crashes and loses {loss.value}", without_power=loss is not Loss.NOTHING)
        for where in lost:
            self.observation.lost_log(broker_id, machine.incarnation, where)
        if lost:
            self.observation.check_lost_records()
        self.restart_later(broker_id)

    def lose_directory(self, broker_id: int, number: int) -> None:
        """Lose a directory of a running broker, which continues with its other directories. When it restarts, an
        empty directory takes its place."""
        machine = self.machines[broker_id]
        assert machine.broker is not None
        self.counts["lost directories"] += 1
        lost = [where for where, log in machine.broker.lose_directory(number).items() if log.end_offset]
        for where in lost:
            self.observation.lost_log(broker_id, machine.incarnation, where)
        if lost:
            self.observation.check_lost_records()

    def _restart_after_stale_epoch(self, broker: Broker) -> None:
        """Restart a broker that a late registration of an earlier incarnation has replaced."""
        self._later(RETRY_MS, broker.id)
        if self.machines[broker.id].broker is broker:
            self.counts["brokers that lost their place"] += 1
            self._end(self.machines[broker.id], "has a stale broker epoch", without_power=False)

    def _end(self, machine: BrokerMachine, how: str, *, without_power: bool) -> None:
        broker = machine.broker
        assert broker is not None
        for replica in broker.replicas.values():
            replica.resign()
        broker.process.alive = False
        machine.broker = None
        self.cluster.network.process_ended(broker.process, silently=without_power)
        if without_power:
            self.cluster.network.power_off(machine.host)
        self.observation.ends(broker, {where: log for where, (log, _) in machine.disk.logs.items()}, how)

    # The end of the run

    def end_faults(self) -> None:
        """End faults, start all brokers, and stop administrators."""
        self.administrators.stop()
        self._is_repaired = True
        self.observation.on_proposal = lambda broker, proposal: None
        for machine in self.machines.values():
            if machine.broker is None:
                self.boot(machine.id)
            else:
                machine.broker.process.callback_ms = 0.0
                if machine.disk.lost:
                    self.stop(machine.id)

    @property
    def acknowledged(self) -> int:
        return self.traffic.acknowledged

    def end_traffic(self) -> None:
        self.traffic.running = False

    def stop_background_requests(self) -> None:
        """Stop requests that write records."""
        for broker in self.running():
            broker.needs_producer_ids = False

    def missing(self) -> str:
        """Describe a condition that is not met yet, "" if all are."""
        for machine in self.machines.values():
            if machine.broker is None:
                return f"broker {machine.id} is down"
            known, reported = self.observation.view.image.brokers.get(machine.id), machine.disk.cordoned_ids
            knows_cordons = self.observation.view.image.metadata_version >= CORDONED_SINCE
            if (
                known is not None
                and reported is not None
                and knows_cordons
                and set(known.cordoned or ()) != set(reported)
            ):
                return f"broker {machine.id} reports that {reported} are cordoned, committed is {known!r}"
            if machine.broker.misplaced_replicas():
                return f"the metadata has replicas of broker {machine.id} in other directories"
        return missing(self.observation.view)

    def counters(self) -> dict[str, int]:
        observation = self.observation
        written = {f"records {outcome.value}": count for outcome, count in observation.counters.items()}
        return {
            "partition elections": observation.elections,
            "joins of an ISR": observation.joins,
            "records read": self.traffic.read,
            **written,
            **dict(sorted(self.counts.items())),
            **self.administrators.counters(),
        }
