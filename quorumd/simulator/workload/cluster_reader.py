"""A client that reads the cluster through all nodes: topics, brokers, features, reassignments and the quorum."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final

from quorumd.ids import METADATA_TOPIC
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from quorumd.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.reads import Process, ReadsAreCommitted
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment import event_heap
from quorumd.simulator.workload.request_connection import RequestConnection

HOST: Final = "10.0.8.1"
NAME: Final = "cluster reader"
TIMEOUT_MS: Final = 1000.0
OF_NODES: Final[tuple[tuple[Message, int], ...]] = (
    (MetadataRequest(None), 12),
    (DescribeTopicPartitionsRequest([], 2000), 0),
    (DescribeClusterRequest(include_fenced_brokers=True), 2),
    (ApiVersionsRequest(), 4),
)
"""Reads that every node serves by itself, with their versions."""
OF_LEADERS: Final[tuple[tuple[Message, int], ...]] = (
    (ListPartitionReassignmentsRequest(), 0),
    (DescribeQuorumRequest([TopicData(METADATA_TOPIC, [PartitionData(0)])]), 2),
)


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
        request, version = self._random.choice((*OF_NODES, *OF_LEADERS))
        machine = self._random.choice(list(self._cluster.machines.values()))
        on_response = partial(self._on_response, machine, machine.incarnation, self._checker.end_offset)
        self._timer = self._heap.call_later(TIMEOUT_MS, partial(on_response, None), b"timeout", self._process)
        self._link = RequestConnection(NAME, request, version, on_response)
        self._network.connect(machine.host, machine.port, self._link)

    def _on_response(
        self, machine: Machine, incarnation: int, requested_at: int, message: Message | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._link is not None:
            self._link.abandon()
        if message is not None:
            is_same = machine.incarnation == incarnation
            process: Process | None = (machine.node_id, incarnation) if is_same else None
            self._checker.responded(message, process, requested_at)
        self.start()
