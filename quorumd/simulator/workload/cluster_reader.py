"""A client that reads the cluster through all nodes: topics, brokers, features, reassignments and the quorum."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final

from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.read_scope import scope_of
from quorumd.simulator.checkers.reads import Process, ReadsAreCommitted
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.workload.cluster_reads import ClusterReads, Read
from quorumd.simulator.workload.request_loop import Drawn, RequestLoop

HOST: Final = "10.0.8.1"
NAME: Final = "cluster reader"
TIMEOUT_MS: Final = 1000.0


class ClusterReader(RequestLoop):
    """Reads from random nodes, or from a deposed leader, and reports responses to `checker`."""

    def __init__(
        self, cluster: Cluster, random: Random, interval_ms: float, checker: ReadsAreCommitted
    ) -> None:
        super().__init__(cluster, HOST, NAME, random, interval_ms, TIMEOUT_MS)
        self._reads = ClusterReads(random, lambda: checker.topics)
        self._checker = checker

    def draw(self) -> Drawn:
        """Draw a read, and the node that serves it."""
        read = self._reads.next()
        drawn = self._random.choice(list(self._cluster.machines.values()))
        machine = self._deposed_leader() or drawn
        handle = partial(self._on_response, read, machine, machine.incarnation, self._checker.end_offset)
        return Drawn(*read, (machine.host, machine.port), handle)

    def _deposed_leader(self) -> Machine | None:
        """Return a leader that does not know yet that it was replaced, so that its reads may be stale."""
        leaders = [
            (machine.node.engine.epoch, machine.node_id)
            for machine in self._cluster.running()
            if machine.node is not None and not machine.exiting and machine.node.engine.is_leader
        ]
        return self._cluster.machines[min(leaders)[1]] if len(leaders) > 1 else None

    def _on_response(
        self, read: Read, machine: Machine, incarnation: int, requested_at: int, message: Message | None
    ) -> None:
        if message is not None:
            is_same = machine.incarnation == incarnation
            process: Process | None = (machine.node_id, incarnation) if is_same else None
            scope = scope_of(read.request, read.version, message)
            is_split = self._cluster.options.max_partitions_per_part < MAX_PARTITIONS_PER_PART
            self._checker.responded(message, process, requested_at, scope._replace(is_split=is_split))
            if isinstance(message, DescribeTopicPartitionsResponse):
                self._reads.page_received(message.next_cursor)
