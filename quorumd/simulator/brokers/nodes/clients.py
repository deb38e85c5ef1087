"""The connections of a simulated client to brokers, and its knowledge of topics and coordinators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from quorumd.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.event_heap import Process, Scheduled
from quorumd.simulator.workload.request_connection import RequestConnection

METADATA_VERSION: Final = 12
FIND_COORDINATOR_VERSION: Final = 4
TIMEOUT_MS: Final = 1000.0
BACKOFF_MS: Final = 30.0
GROUP: Final = 0
TRANSACTION: Final = 1
"""Key types of FindCoordinator."""

Done = Callable[[Any], None]
"""The callback of a request, with None if there is no response."""


class KnownPartition(NamedTuple):
    """A partition in the last Metadata response."""

    id: PartitionId
    topic: str
    leader: int
    leader_epoch: int


class BrokerClient:
    """Sends the requests of one client, at most one at a time per broker and purpose."""

    def __init__(self, name: str, host: str, cluster: Cluster, random: Random) -> None:
        self.name = name
        self.random = random
        self.heap = cluster.heap
        self.process = Process(name)
        self.partitions: dict[PartitionId, KnownPartition] = {}
        self.topic_ids: dict[str, KafkaUuid] = {}
        self._cluster = cluster
        self._network = cluster.network.host(host, self.process)
        self._links: dict[tuple[int, str], RequestConnection] = {}

    def later(self, delay_ms: float, callback: Callable[[], object]) -> Scheduled:
        """Call back after a delay."""

        def run() -> None:
            callback()

        return self.heap.call_later(delay_ms, run, self.name.encode(), self.process)

    def call(
        self,
        broker_id: int,
        request: Message,
        version: int,
        done: Done,
        timeout_ms: float = TIMEOUT_MS,
        purpose: str = "",
    ) -> None:
        """Send a request to a broker, and call back once with the response, None if there is none in time."""
        key = broker_id, purpose
        is_done = False

        def complete(message: Message | None) -> None:
            nonlocal is_done
            if is_done:
                return
            is_done = True
            timer.cancel()
            if message is None:
                # An earlier request on the same connection may have abandoned it.
                if key in self._links:
                    self._links.pop(key).abandon()
                # Called outside the callback of the failed connection, since the client may retry at once.
                self.later(0.0, partial(done, None))
            else:
                done(message)

        link = self._links.get(key)
        timer = self.later(timeout_ms, partial(complete, None))
        if link is not None and not link.is_over:
            link.send(request, version, complete)
            return
        link = self._links[key] = RequestConnection(self.name, request, version, complete)
        self._network.connect(*self._cluster.broker_address(broker_id), link)

    def send_without_response(self, broker_id: int, request: Message, version: int) -> None:
        """Send a request that gets no response."""
        link = self._links.get((broker_id, "no response"))
        if link is None or link.is_over:
            link = RequestConnection(self.name, request, version, _ignore)
            self._links[broker_id, "no response"] = link
            self._network.connect(*self._cluster.broker_address(broker_id), link)
        else:
            link.send(request, version, _ignore)

    def close(self) -> None:
        """End the process of the client."""
        self.process.alive = False
        self._cluster.network.process_ended(self.process)

    def any_broker(self) -> int:
        return self.random.choice(self._cluster.broker_ids)

    # Metadata

    def refresh(self, done: Callable[[], object]) -> None:
        """Request the metadata of all topics from any broker; call back whether or not it responds."""

        def responded(response: Any) -> None:
            if isinstance(response, MetadataResponse):
                self._learn(response)
                done()
            else:
                self.later(BACKOFF_MS, done)

        self.call(self.any_broker(), MetadataRequest(None), METADATA_VERSION, responded)

    def _learn(self, response: MetadataResponse) -> None:
        self.partitions.clear()
        self.topic_ids.clear()
        for topic in response.topics:
            if topic.error_code or topic.name is None or topic.is_internal:
                continue
            self.topic_ids[topic.name] = topic.topic_id
            for each in topic.partitions:
                id = PartitionId(topic.topic_id, each.partition_index)
                self.partitions[id] = KnownPartition(id, topic.name, each.leader_id, each.leader_epoch)

    def led_partitions(self) -> list[KnownPartition]:
        """Return the partitions that have a leader, as far as this client knows."""
        return [each for each in self.partitions.values() if each.leader >= 0]

    # Coordinators

    def find_coordinator(self, key: str, key_type: int, done: Callable[[int], None]) -> None:
        """Look up the coordinator of a group or transaction; call back with its id, -1 if it is unknown."""

        def responded(response: Any) -> None:
            if isinstance(response, FindCoordinatorResponse):
                found = response.coordinators[0]
                if found.error_code == ErrorCode.NONE:
                    done(found.node_id)
                    return
            self.later(2 * BACKOFF_MS, lambda: done(-1))

        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        self.call(self.any_broker(), request, FIND_COORDINATOR_VERSION, responded)


def _ignore(message: Message | None) -> None:
    """Ignore the missing response."""


def topics_of(values: Mapping[PartitionId, object]) -> dict[KafkaUuid, list[PartitionId]]:
    """Group partitions by topic."""
    topics: dict[KafkaUuid, list[PartitionId]] = {}
    for each in values:
        topics.setdefault(each.topic_id, []).append(each)
    return topics
