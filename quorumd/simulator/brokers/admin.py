"""Administrators: requests for topics, reassignments, elections and configs, one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from quorumd.broker.api.topic_messages import INTERNAL_TOPICS
from quorumd.controller.cluster_image import ALL_BROKERS, MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION, Topic
from quorumd.controller.partition import PartitionId
from quorumd.controller.reassignment import original_replicas_of
from quorumd.errors import ErrorCode
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages import (
    alter_partition_reassignments_request,
    alter_partition_reassignments_response,
    create_partitions_request,
    create_topics_request,
    delete_topics_request,
    elect_leaders_request,
    incremental_alter_configs_request,
    list_partition_reassignments_request,
)
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.observation import Observation
from quorumd.simulator.brokers.options import BrokerOptions
from quorumd.simulator.environment.event_heap import EventHeap, Process, Scheduled
from quorumd.simulator.environment.network import SimulatedNetwork
from quorumd.simulator.workload.request_connection import RequestConnection

HOST: Final = "10.0.4.1"
TIMEOUT_MS: Final = 2000.0
MAX_TOPICS: Final = 4
MAX_PARTITIONS: Final = 3
NAMES: Final = ("a", "b", "c", "d", "e")
PREFERRED: Final = 0
SET: Final = 0
DELETE: Final = 1

AdminRequest = tuple[Message, int] | None
"""A request and its version; None if none is possible."""


class Administrator:
    """Sends requests that fit the committed metadata to random nodes, as a client would."""

    def __init__(
        self,
        heap: EventHeap,
        network: SimulatedNetwork,
        random: Random,
        options: BrokerOptions,
        observation: Observation,
        nodes: Sequence[tuple[str, int]],
        broker_ids: Sequence[int],
    ) -> None:
        self.running = True
        self.counters: Counter[str] = Counter()
        self._heap = heap
        self._process = Process("administrator")
        self._network = network.host(HOST, self._process)
        self._random = random
        self._options = options
        self._observation = observation
        self._nodes = nodes
        self._broker_ids = broker_ids
        self._link: RequestConnection | None = None
        self._timer: Scheduled | None = None
        self._requests: list[tuple[float, Callable[[], AdminRequest]]] = [
            (3.0, self._create),
            (0.4, self._delete),
            (0.5, self._grow),
            (5.0, self._reassign),
            (1.5, self._override),
            (1.5, self._cancel),
            (2.0, self._elect),
            (1.0, self._list),
            (1.5 if options.raises_min_isr else 0.0, self._change_min_isr),
        ]
        if options.only_topics:
            self._requests = [(3.0, self._create), (2.0, self._delete), (1.0, self._grow)]
        self._revertible: tuple[str, int] | None = None
        """A partition whose cancellation was refused."""

    def start(self) -> None:
        self._next()

    def _next(self) -> None:
        if self.running:
            wait_ms = self._random.random() * 2 * self._options.admin_ms
            self._heap.call_later(wait_ms, self._next_request, b"administrator", self._process)

    def _next_request(self) -> None:
        if not self.running:
            return
        weights = [weight for weight, _ in self._requests]
        ((_, build),) = self._random.choices(self._requests, weights)
        wanted = self._revert() or (build() if self._own_topics() else self._create())
        if wanted is None:
            self._next()
            return
        request, version = wanted
        self._observation.admin_request_sent(request)
        on_response = partial(self._on_response, request)
        self._timer = self._heap.call_later(TIMEOUT_MS, partial(on_response, None), b"timeout", self._process)
        self._link = RequestConnection("administrator", request, version, on_response)
        host, port = self._random.choice(self._nodes)
        self._network.connect(host, port, self._link)

    def _on_response(self, request: Message, message: Message | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._link is not None:
            self._link.abandon()
        name = type(request).__name__.removesuffix("Request")
        if message is None:
            self.counters[f"{name}: no response"] += 1
        else:
            for code in [code for code, _ in errors_in(message)] or [ErrorCode.NONE]:
                self.counters[f"{name}: {ErrorCode(code).name}"] += 1
            self._observation.admin_request_completed(request, message)
            self._revertible = rejected_cancel(request, message)
        self._next()

    # Requests

    def _topics(self) -> list[Topic]:
        image = self._observation.view.image
        return [image.topics[topic_id] for _, topic_id in sorted(image.topic_ids.items())]

    def _own_topics(self) -> list[Topic]:
        """Return the topics that are not internal topics of brokers."""
        return [topic for topic in self._topics() if topic.name not in INTERNAL_TOPICS]

    def _one(self, reassigning: bool | None = None) -> list[tuple[Topic, int]]:
        """Draw partitions of one topic: under reassignment, not under reassignment, or (None) any."""
        topic = self._random.choice(self._topics())
        numbers = [
            number
            for number, row in topic.partitions.items()
            if reassigning is None or row.is_reassigning == reassigning
        ]
        count = min(len(numbers), self._random.choice((1, 1, MAX_PARTITIONS)))
        return [(topic, number) for number in self._random.sample(numbers, count)]

    def _create(self) -> AdminRequest:
        if len(self._own_topics()) >= MAX_TOPICS:
            return None
        random, wire = self._random, create_topics_request
        replicas = min(len(self._broker_ids), random.choice((1, 2, 3, 3, 3, 4)))
        least = min(replicas, random.choice((1, 2, 2, 2, 3)))
        configs = [wire.CreatableTopicConfig(MIN_INSYNC_REPLICAS, str(least))]
        if random.random() < self._options.unclean_topics:
            configs.append(wire.CreatableTopicConfig(UNCLEAN_ELECTION, "true"))
        partitions = 1 + random.randrange(MAX_PARTITIONS)
        topic = wire.CreatableTopic(random.choice(NAMES), partitions, replicas, [], configs)
        return wire.CreateTopicsRequest([topic], int(TIMEOUT_MS)), 7

    def _delete(self) -> AdminRequest:
        wire, topics = delete_topics_request, self._own_topics()
        topic = self._random.choice(topics)
        return wire.DeleteTopicsRequest([wire.DeleteTopicState(topic.name)], [], int(TIMEOUT_MS)), 6

    def _grow(self) -> AdminRequest:
        wire, topic = create_partitions_request, self._random.choice(self._own_topics())
        count = len(topic.partitions) + 1
        if count > MAX_PARTITIONS + 1:
            return None
        return wire.CreatePartitionsRequest(
            [wire.CreatePartitionsTopic(topic.name, count, None)], int(TIMEOUT_MS)
        ), 3

    def _reassign(self) -> AdminRequest:
        return self._move(self._one(), self._targets)

    def _override(self) -> AdminRequest:
        return self._move(self._one(reassigning=True), self._targets)

    def _cancel(self) -> AdminRequest:
        return self._move(
            self._one(reassigning=None if self._random.random() < 0.1 else True), lambda topic: None
        )

    def _revert(self) -> AdminRequest:
        """Request the reassignment that a refused cancellation suggests: to the original replicas."""
        if self._revertible is None:
            return None
        (name, number), self._revertible = self._revertible, None
        topic = self._observation.view.image.topic_by_name(name)
        row = topic.partitions.get(number) if topic is not None else None
        if topic is None or row is None or not row.is_reassigning:
            return None
        target = list(original_replicas_of(row))
        return self._move([(topic, number)], lambda topic: target)

    def _targets(self, topic: Topic) -> list[int]:
        count = self._random.choice((1, 2, 3, 3, 3, 4))
        return self._random.sample(self._broker_ids, min(count, len(self._broker_ids)))

    def _move(
        self, partitions: list[tuple[Topic, int]], target: Callable[[Topic], list[int] | None]
    ) -> AdminRequest:
        if not partitions:
            return None
        wire = alter_partition_reassignments_request
        moved = [wire.ReassignablePartition(number, target(topic)) for topic, number in partitions]
        for (topic, number), wanted in zip(partitions, moved, strict=True):
            if wanted.replicas is not None:
                self._observation.target_requested(PartitionId(topic.id, number), tuple(wanted.replicas))
        topics = [wire.ReassignableTopic(partitions[0][0].name, moved)]
        return wire.AlterPartitionReassignmentsRequest(int(TIMEOUT_MS), True, topics), 1

    def _elect(self) -> AdminRequest:
        wire = elect_leaders_request
        partitions = self._one()
        topics = [wire.TopicPartitions(topic.name, [number]) for topic, number in partitions]
        return wire.ElectLeadersRequest(PREFERRED, topics, int(TIMEOUT_MS)), 2

    def _list(self) -> AdminRequest:
        return list_partition_reassignments_request.ListPartitionReassignmentsRequest(
            int(TIMEOUT_MS), None
        ), 0

    def _change_min_isr(self) -> AdminRequest:
        """Change min.insync.replicas of a topic, or sometimes remove the cluster-wide value, which the controller
        must refuse."""
        wire, topic = incremental_alter_configs_request, self._random.choice(self._own_topics())
        if self._random.random() < 0.1:
            config = wire.AlterableConfig(MIN_INSYNC_REPLICAS, DELETE, None)
            return wire.IncrementalAlterConfigsRequest([wire.AlterConfigsResource(*ALL_BROKERS, [config])]), 1
        name, least = self._decisive_min_isr() or (topic.name, self._random.choice((1, 2, 2, 3)))
        config = wire.AlterableConfig(MIN_INSYNC_REPLICAS, SET, str(least))
        resource = wire.AlterConfigsResource(int(ConfigResourceType.TOPIC), name, [config])
        return wire.IncrementalAlterConfigsRequest([resource]), 1

    def _decisive_min_isr(self) -> tuple[str, int] | None:
        """Return a topic and a min.insync.replicas on which one of its reassignments depends: a value that completes
        it if its new replicas are in sync, a value that delays it otherwise. None without such a reassignment."""
        view = self._observation.view
        for topic in self._own_topics():
            for number, row in topic.partitions.items():
                staying = set(row.isr) - set(row.removing)
                if not row.is_reassigning or row.elr or len(staying) == len(row.target):
                    continue
                is_waiting = set(row.adding) <= staying
                if is_waiting and view.min_isr(PartitionId(topic.id, number)) > len(staying) > 0:
                    return topic.name, len(staying)
                if not is_waiting and set(row.target) - set(row.adding) - staying:
                    return topic.name, len(row.target)
        return None


def rejected_cancel(request: Message, message: Message) -> tuple[str, int] | None:
    """Return topic and number of a partition whose reassignment could not be cancelled because its original replicas
    may lack records, None if there is none."""
    if not isinstance(
        request, alter_partition_reassignments_request.AlterPartitionReassignmentsRequest
    ) or not isinstance(message, alter_partition_reassignments_response.AlterPartitionReassignmentsResponse):
        return None
    cancelled = {
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if partition.replicas is None
    }
    for topic in message.responses:
        for result in topic.partitions:
            if (
                result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
                and (topic.name, result.partition_index) in cancelled
            ):
                return topic.name, result.partition_index
    return None
