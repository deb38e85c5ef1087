"""The broker nodes of a simulation, their observation and their clients.

They run on machines of the cluster, so that all faults of nodes apply to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from quorumd.simulator.brokers.checkers.histories import TRANSACTIONS_TOPIC, require_atomic, topic_holds
from quorumd.simulator.brokers.checkers.liveness import missing
from quorumd.simulator.brokers.nodes.clients import BrokerClient
from quorumd.simulator.brokers.nodes.consumers import READ_COMMITTED, UNBOUNDED, Consumer
from quorumd.simulator.brokers.nodes.curious_client import CuriousClient
from quorumd.simulator.brokers.nodes.hanging_transactions import HangingTransactions
from quorumd.simulator.brokers.nodes.migrating_member import PROTOCOLS, MigratingMember
from quorumd.simulator.brokers.nodes.probe import BrokerProbe
from quorumd.simulator.brokers.nodes.producers import ALL, Producer
from quorumd.simulator.brokers.nodes.record import Recorder
from quorumd.simulator.brokers.nodes.replica_moves import LastMoves, ReplicaMover, replicas_of
from quorumd.simulator.brokers.nodes.transactional_producer import TransactionalProducer
from quorumd.simulator.brokers.options import BrokerOptions
from quorumd.simulator.brokers.partition_history import Outcome
from quorumd.simulator.brokers.population import BrokerPopulation
from quorumd.simulator.cluster import WALL_START_MS, Cluster, Machine
from quorumd.simulator.inspection.log_mirror import Batch

ACKS: Final = (ALL, ALL, ALL, 1, 0)


class Workload(Protocol):
    """A client that sends requests until `running` is False."""

    running: bool

    def start(self) -> None:
        """Begin to send requests."""


class BrokerNodes(BrokerPopulation):
    """All nodes with the broker role."""

    def __init__(self, cluster: Cluster, options: BrokerOptions, committed: Sequence[Batch]) -> None:
        super().__init__(cluster, options, committed, cluster.broker_ids)
        self.observation.view.brokers_are_nodes = True
        self._probe = BrokerProbe(self.observation)
        self._recorder = Recorder(self.observation, lambda: int(WALL_START_MS + cluster.heap.now_ms))
        self._streams = cluster.streams
        self._clients = 0
        self._last_consumer: Consumer | None = None
        self._last_moves: LastMoves | None = None
        self._operator: HangingTransactions | None = None
        self._workload: list[Workload] = [
            *(self._producer(number == 0) for number in range(options.producers)),
            *(self._consumer(number % 2) for number in range(options.consumers)),
            *(self._transactional_producer() for _ in range(options.transactional)),
            *(self._member(number) for number in range(options.members)),
            *(self._mover() for _ in range(options.moves_ms > 0)),
            CuriousClient(self._client("curious")),
        ]

    def _client(self, name: str) -> BrokerClient:
        self._clients += 1
        host = f"10.0.7.{self._clients}"
        return BrokerClient(name, host, self.cluster, self._streams.stream("broker client", self._clients))

    def _producer(self, waits_for_all: bool) -> Producer:
        client = self._client(f"producer-{self._clients + 1}")
        is_idempotent = client.random.random() < 0.5
        acks = ALL if is_idempotent or waits_for_all else client.random.choice(ACKS)
        return Producer(client, self.options, self._recorder, acks, is_idempotent)

    def _transactional_producer(self) -> TransactionalProducer:
        client = self._client(f"transactions-{self._clients + 1}")
        return TransactionalProducer(client, self.options, self._recorder, client.random.random() < 0.5)

    def _member(self, number: int) -> Workload:
        client = self._client(f"member-{self._clients + 1}")
        if self.options.migrates_groups:
            return MigratingMember(client, self.options, self._recorder, "group")
        # Members of one protocol share a group.
        kind = number % len(PROTOCOLS)
        return PROTOCOLS[kind](client, self.options, self._recorder, f"group-{kind}")

    def _mover(self) -> ReplicaMover:
        return ReplicaMover(self._client("mover"), self.cluster, self.observation.view, self._recorder)

    def _consumer(self, isolation_level: int) -> Consumer:
        client = self._client(f"consumer-{self._clients + 1}")
        rack = f"rack-{client.random.randrange(self.options.racks)}" if self.options.racks else ""
        return Consumer(client, self.options, self._recorder, self._probe.cache, isolation_level, rack)

    # The simulation

    def start(self) -> None:
        """Start the clients. The cluster starts the nodes."""
        for each in self._workload:
            each.start()
        self.administrators.start()

    def look(self, machine: Machine) -> None:
        """Check a node after an event. Raises InvariantViolation."""
        if machine.node_id in self.observation.view.brokers:
            self._probe.look(machine)

    def ended(self, machine: Machine, how: str) -> None:
        """Check the disk of a node whose process has ended or whose disk was replaced."""
        if machine.node_id in self.observation.view.brokers:
            self._probe.ended(machine, how)

    @property
    def acknowledged(self) -> int:
        return self.observation.counters[Outcome.ACKNOWLEDGED]

    def end_faults(self) -> None:
        self.administrators.stop()
        self.observation.on_move = lambda broker_id, is_flushed: None
        for broker_id in self.cluster.broker_ids:
            node = self.cluster.machines[broker_id].node
            broker = node.broker.broker if node is not None and node.broker is not None else None
            if broker is None:
                continue
            replicas = replicas_of(self.observation.view, broker_id)
            if broker.partitions.directories.offline_ids or any(map(broker.partitions.is_offline, replicas)):
                # The operator restarts the node: a failed log directory stays offline until then, and a log that
                # could not be created on a full disk for half a minute.
                self.cluster.kill(broker_id)
                self.cluster.restart_later(broker_id)

    def end_traffic(self) -> None:
        for each in self._workload:
            each.running = False

    def missing(self) -> str:
        for broker_id in self.cluster.broker_ids:
            if self.cluster.machines[broker_id].node is None:
                return f"broker {broker_id} is down"
        return missing(self.observation.view) or self._moving() or self._unread()

    def _moving(self) -> str:
        """Describe a move between log directories that is not complete."""
        if not self.options.moves_ms or any(each.running for each in self._workload):
            return ""
        if self._last_moves is None:
            client = self._client("last mover")
            self._last_moves = LastMoves(client, self.cluster, self.observation.view)
            self._last_moves.start()
        return self._last_moves.missing()

    def _unread(self) -> str:
        """Describe what the last consumer has not read yet, and check transactions once it has read everything."""
        if not self.options.transactional or any(each.running for each in self._workload):
            return ""
        if self._last_consumer is None:
            client = self._client("last consumer")
            self._recorder.visible = {}
            cache = self._probe.cache
            self._last_consumer = Consumer(
                client, self.options, self._recorder, cache, READ_COMMITTED, "", UNBOUNDED
            )
            self._last_consumer.start()
        view = self.observation.view
        if self._operator is None and not topic_holds(view, TRANSACTIONS_TOPIC):
            # Only an operator can end transactions that their coordinators have lost.
            client = self._client("operator of transactions")
            self._operator = HangingTransactions(client, self.cluster.broker_ids, self._recorder)
            self._operator.start()
        for where, history in view.histories.items():
            topic = view.image.topics.get(where.topic_id)
            row = view.row(where)
            if topic is None or row is None or row.leader < 0 or topic.name.startswith("__"):
                continue
            position = self._last_consumer.positions.get(where, 0)
            if history.holds and position < history.high_watermark:
                end = history.high_watermark
                return f"only {position} of {end} records of {topic.name}-{where.number} can be read"
        self._last_consumer.running = False
        if self._operator is not None:
            self._operator.running = False
        require_atomic(view, self._recorder.visible or {})
        return ""

    def counters(self) -> dict[str, int]:
        observation = self.observation
        written = {f"records {outcome.value}": count for outcome, count in observation.counters.items()}
        return {
            "partition elections": observation.elections,
            "joins of an ISR": observation.joins,
            **written,
            **dict(sorted(self._recorder.counts.items())),
            **self.administrators.counters(),
        }
