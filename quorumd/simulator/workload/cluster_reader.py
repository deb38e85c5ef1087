"""A client that reads the cluster through all nodes: topics, brokers, features, reassignments and the quorum."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final

from quorumd.node.sessions.request_splitting import MAX_PARTITIONS_PER_PART
from quorumd.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.read_scope import scope_of
from quorumd.simulator.checkers.reads import Process, ReadsAreCommitted
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment import event_heap
from quorumd.simulator.workload.cluster_reads import ClusterReads, Read
from quorumd.simulator.workload.request_connection import RequestConnection

HOST: Final = "10.0.8.1"
NAME: Final = "cluster reader"
TIMEOUT_MS: Final = 1000.0


class ClusterReader:
    """Sends one request at a time to a random node, at a mean interval of `interval_ms` until `running` is False.
    Reports responses to `checker`."""

    def __init__(
        self, cluster: Cluster, random: Random, interval_ms: float, checker: ReadsAreCommitted
    ) -> None:
        self.running = True
        self._cluster = cluster
        self._heap = cluster.heap
        self._process = event_heap.Process(NAME)
        self._network = cluster.network.host(HOST, self._process)
        self._random = random
        self._reads = ClusterReads(random, lambda: checker.topics)
        self._interval_ms = interval_ms
        self._checker = checker
        self._link: RequestConnection | None = None
        self._timer: event_heap.Scheduled | None = None

    def start(self) -> None:
        if self.running:
            wait_ms = self._random.random() * 2 * self._interval_ms
            self._heap.call_later(wait_ms, self._send_request, NAME.encode(), self._process)

    def _send_request(self) -> None:
        if not self.running:
            return
        read = self._reads.next()
        machine = self._random.choice(list(self._cluster.machines.values()))
        on_response = partial(self._on_response, read, machine, machine.incarnation, self._checker.end_offset)
        self._timer = self._heap.call_later(TIMEOUT_MS, partial(on_response, None), b"timeout", self._process)
        self._link = RequestConnection(NAME, *read, on_response)
        self._network.connect(machine.host, machine.port, self._link)

    def _on_response(
        self, read: Read, machine: Machine, incarnation: int, requested_at: int, message: Message | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._link is not None:
            self._link.abandon()
        if message is not None:
            is_same = machine.incarnation == incarnation
            process: Process | None = (machine.node_id, incarnation) if is_same else None
            scope = scope_of(read.request, read.version, message)
            is_split = self._cluster.options.max_partitions_per_part < MAX_PARTITIONS_PER_PART
            self._checker.responded(message, process, requested_at, scope._replace(is_split=is_split))
            if isinstance(message, DescribeTopicPartitionsResponse):
                self._reads.page_received(message.next_cursor)
        self.start()
