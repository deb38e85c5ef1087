"""Brokers on simulated disks, clocks and a simulated network, with a stand-in for the quorum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from quorumd.broker.api.fetch import FetchApis
from quorumd.broker.api.metadata import SLICE_PARTITIONS
from quorumd.broker.broker import Broker, BrokerPorts
from quorumd.broker.channels.controller_channel import NoResponse
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.partitions.partitions import AppendResult
from quorumd.broker.settings.broker_settings import BrokerSettings
from quorumd.controller.broker import BrokerEndpoint
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import Partition, PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.log.meta_properties import MetaProperties, save_meta_properties
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.protocol.apis import ApiKey, api, request_class, response_class
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values
from quorumd.protocol.routes import Route
from quorumd.protocol.wire import Message
from quorumd.simulator.environment.clock import SimulatedClock
from quorumd.simulator.environment.directory import Directory
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.entropy import SimulatedEntropy
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.environment.topic_regexes import compile_regex
from tests.support.broker.channels import Failure
from tests.support.broker.stand_in_controller import CLUSTER_ID, StandInController
from tests.support.log.data_batches import produced
from tests.support.node.recording_session import RecordingSession

LATENCY_MS = (0.5, 2.0)
NO_RESPONSE_MS = 2_000.0
"""Time without a response after which a broker closes a connection."""


class SimulatedBroker:
    """One machine with a broker, and the ports of the running broker. Satisfies `BrokerListener`."""

    def __init__(self, cluster: SimulatedBrokers, broker_id: int, settings: BrokerSettings) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.settings = settings
        self.disk = SimulatedDisk(cluster.heap, Random(f"{cluster.seed} disk {broker_id}"))
        self.incarnation = 0
        self.process = Process(f"broker {broker_id}", broker_id)
        self.process.alive = False
        self.applied = 0
        """The number of batches of the metadata log that the broker has received."""
        self.is_unfenced = False
        self.failures: list[str] = []
        self.is_isolated = False
        self.holds_metadata = False
        """Whether the broker receives no further metadata."""
        self.broker: Broker
        self.disks = 0
        self.replace_disk()

    def replace_disk(self) -> None:
        """Format a new disk. The broker must not be running."""
        self.disks += 1
        self.disk.exchange(Directory())
        self.disk.mount(self.process)
        for number, path in enumerate(self.settings.log_directories):
            self.disk.make_directory(path)
            directory_id = KafkaUuid(bytes([self.id, self.disks, number + 1, 1]) * 4)
            save_meta_properties(self.disk, path, MetaProperties(self.id, directory_id, CLUSTER_ID))
            self.disk.sync_directory(path)
        self.disk.sync_directory("/")

    def start(self, *, with_snapshot: bool = False) -> None:
        """Start a new incarnation, from a snapshot of the present metadata or from the start of the metadata log."""
        cluster = self.cluster
        self.incarnation += 1
        self.process = Process(f"broker {self.id}", self.id, self.incarnation)
        self.applied, self.is_unfenced = 0, False
        self.disk.mount(self.process)
        clock = SimulatedClock(cluster.heap, self.process)
        ports = BrokerPorts(
            clock,
            self.disk,
            SimulatedEntropy(Random(f"{cluster.seed} {self.id} {self.incarnation}")),
            self,
            lambda: _Channel(self),
            SliceScheduler(clock.call_soon, SLICE_PARTITIONS).begin,
            compile_regex,
        )
        self.broker = Broker(self.settings, ports, self)
        self.broker.start()
        if with_snapshot:
            image = ClusterImage()
            for data, header in cluster.controller.batches:
                for value in values(data, header):
                    image.apply(decode_record(value), [], value)
            self.applied = len(cluster.controller.batches)
            self.broker.load(image, cluster.controller.next_offset)
        self.catch_up()

    def kill(self, *, loses_power: bool = False) -> None:
        """End the process; with a power loss, unsynced data may be lost."""
        self.process.alive = False
        if loses_power:
            self.disk.lose_power()

    def stop(self) -> None:
        """Shut the broker down gracefully, and then end its process."""
        done: list[bool] = []
        self.broker.shut_down(lambda: done.append(True))
        self.cluster.run_until(lambda: bool(done))
        self.broker.stop()
        self.process.alive = False

    def catch_up(self) -> None:
        """Deliver the next batch of the metadata log, after the latency of the network."""
        if (
            self.process.alive
            and self.applied < len(self.cluster.controller.batches)
            and not (self.is_isolated or self.holds_metadata)
        ):
            self.cluster.later(self.process, self._apply_next)

    def _apply_next(self) -> None:
        batches = self.cluster.controller.batches
        if self.applied < len(batches) and not (self.is_isolated or self.holds_metadata):
            data, header = batches[self.applied]
            self.applied += 1
            self.broker.apply(data, header)
            self.catch_up()

    def on_unfenced(self) -> None:
        self.is_unfenced = True

    def on_failed(self, reason: str) -> None:
        self.failures.append(reason)
        self.broker.stop()
        self.process.alive = False

    def on_controller_timeout(self, reason: str) -> None:
        self.on_failed(reason)

    def send(
        self,
        broker_id: int,
        api_key: int,
        build: Callable[[int], Message],
        on_response: Callable[[Any], None],
        on_failure: Callable[[NoResponse], None],
        timeout_ms: float,
    ) -> None:
        """Send a request to another broker. Satisfies `BrokerClient`."""
        cluster, version = self.cluster, api(api_key).max_version
        message = cluster.through_the_wire(build(version), version)
        to = cluster.brokers[broker_id]
        process = to.process
        is_complete = False

        def complete(callback: Callable[[Any], None], outcome: Any) -> None:
            nonlocal is_complete
            if not is_complete:
                is_complete = True
                callback(outcome)

        def fail() -> None:
            cluster.later(self.process, lambda: complete(on_failure, Failure("the connection was closed")))

        def respond(response: bytes) -> None:
            if process.alive and not (self.is_isolated or to.is_isolated):
                decoded = decode(response_class(api_key), version, response)
                deliver = partial(cluster.later, self.process, lambda: complete(on_response, decoded))
                if cluster.holds_response(message):
                    cluster.held.append(deliver)
                else:
                    deliver()

        def handle() -> None:
            if not process.alive or self.is_isolated or to.is_isolated:
                fail()
                return
            request: Request[Message] = Request(api_key, version, 1, f"broker {self.id}", message, b"", 0)
            handler = next(each.handler for each in cluster.routes(broker_id) if each.api_key == api_key)
            handler(_BrokerSession(respond), request)

        if cluster.holds_request(message):
            cluster.held.append(handle)
        else:
            cluster.later(None, handle)
        cluster.heap.call_later(min(timeout_ms, NO_RESPONSE_MS), fail, b"timeout", self.process)


class _BrokerSession(RecordingSession):
    """The connection of another broker."""

    def __init__(self, respond: Callable[[bytes], None]) -> None:
        super().__init__()
        self._respond = respond

    def respond(self, request: Request[Message], message: Message) -> None:
        self._respond(encode(message, request.api_version))


class _Channel:
    """A broker's channel to the controller, which opens a new connection after a request without a response."""

    def __init__(self, owner: SimulatedBroker) -> None:
        self._owner = owner
        self._is_open = False
        self._connection = owner.cluster.next_connection()

    def send(
        self,
        api_key: int,
        build: Callable[[int], Message],
        on_response: Callable[[Any], None],
        on_failure: Callable[[NoResponse], None],
    ) -> None:
        assert not self._is_open, "one request at a time"
        self._is_open = True
        owner, cluster, version = self._owner, self._owner.cluster, api(api_key).max_version
        request, connection = cluster.through_the_wire(build(version), version), self._connection

        def handle() -> None:
            if owner.is_isolated or not owner.process.alive:
                fail("no route", 200.0)
                return
            response = cluster.controller.handle(request, version, connection)
            if response is None or cluster.loses_response(request):
                fail()
                return
            decoded = decode(response_class(api_key), version, encode(response, version))
            deliver = partial(cluster.later, owner.process, lambda: complete(on_response, decoded))
            if cluster.holds_response(request):
                cluster.held.append(deliver)
            else:
                deliver()

        def fail(reason: str = "no response", delay_ms: float = 0.0) -> None:
            cluster.later(owner.process, lambda: complete(on_failure, Failure(reason)), delay_ms)

        def complete(callback: Callable[[Any], None], outcome: Any) -> None:
            if self._connection == connection:
                self._is_open = False
                if callback is on_failure:
                    self._connection = cluster.next_connection()
                callback(outcome)

        if cluster.holds_request(request) or cluster.abandons_request(request):
            cluster.held.append(handle)
            if cluster.abandons_request(request):
                fail()
        else:
            cluster.later(None, handle)


class SimulatedBrokers:
    """Brokers, a controller and their network. `run_for` and `run_until` let time pass; the seed decides all
    draws."""

    def __init__(self, broker_ids: tuple[int, ...] = (1,), seed: int = 1, **settings: Any) -> None:
        self.seed = seed
        self.heap = EventHeap()
        self.random = Random(f"{seed} network")
        self.controller = StandInController(self.heap)
        self.controller.on_commit = self._on_commit
        self.brokers: dict[int, SimulatedBroker] = {}
        self.held: list[Callable[[], None]] = []
        """Callbacks that deliver the requests and responses which a test holds back."""
        self.holds_request: Callable[[Message], bool] = lambda request: False
        self.holds_response: Callable[[Message], bool] = lambda request: False
        self.abandons_request: Callable[[Message], bool] = lambda request: False
        """Whether a request is held back while its broker gives it up and reconnects."""
        self.loses_response: Callable[[Message], bool] = lambda request: False
        self._connections = 0
        self._routes: dict[Broker, list[Route]] = {}
        for broker_id in broker_ids:
            endpoint = BrokerEndpoint("PLAINTEXT", f"broker-{broker_id}", 9092, 0)
            base = BrokerSettings(broker_id, CLUSTER_ID, ("/data",), (endpoint,))
            self.brokers[broker_id] = SimulatedBroker(self, broker_id, replace(base, **settings))

    def start(self) -> None:
        """Start all brokers, and wait until they serve clients."""
        for broker in self.brokers.values():
            broker.start()
        self.run_until(lambda: all(broker.is_unfenced for broker in self.brokers.values()))

    def _on_commit(self) -> None:
        for broker in self.brokers.values():
            broker.catch_up()

    def later(self, process: Process | None, callback: Callable[[], None], delay_ms: float = 0.0) -> None:
        """Call back after the latency of the network."""
        low, high = LATENCY_MS
        self.heap.call_later(
            delay_ms + low + (high - low) * self.random.random(), callback, b"network", process
        )

    def next_connection(self) -> int:
        """Return the number of a new connection to the controller."""
        self._connections += 1
        return self._connections

    def through_the_wire(self, message: Message, version: int) -> Message:
        assert message.API_KEY is not None
        return decode(request_class(message.API_KEY), version, encode(message, version))

    def run_for(self, duration_ms: float) -> None:
        until_ms = self.heap.now_ms + duration_ms
        while self.heap.step(until_ms):
            pass

    def run_until(self, condition: Callable[[], bool], timeout_ms: float = 60_000.0) -> None:
        until_ms = self.heap.now_ms + timeout_ms
        while not condition():
            assert self.heap.step(until_ms), f"not within {timeout_ms} ms"

    def routes(self, broker_id: int) -> list[Route]:
        """Return the handlers of the running broker."""
        broker = self.brokers[broker_id].broker
        if broker not in self._routes:
            self._routes[broker] = list(broker.routes())
        return self._routes[broker]

    def fetch_apis(self, broker_id: int) -> FetchApis:
        """Return the Fetch APIs of the running broker."""
        handler: Any = next(each.handler for each in self.routes(broker_id) if each.api_key == ApiKey.FETCH)
        apis: FetchApis = handler.__self__
        return apis

    # Topics

    def create_topic(self, name: str, *replicas: tuple[int, ...], **configs: str) -> KafkaUuid:
        """Create a topic with these replicas per partition; '_' in the name of a config stands for '.'."""
        assignments = [CreatableReplicaAssignment(number, list(each)) for number, each in enumerate(replicas)]
        pairs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        request = CreateTopicsRequest([CreatableTopic(name, -1, -1, assignments, pairs)])
        response: Any = self.controller.handle(request, 7)
        assert response.topics[0].error_code == ErrorCode.NONE, response.topics[0].error_message
        topic_id: KafkaUuid = self.controller.image.topic_ids[name]
        return topic_id

    def delete_topic(self, name: str) -> None:
        response: Any = self.controller.handle(DeleteTopicsRequest([DeleteTopicState(name)]), 6)
        assert response.responses[0].error_code == ErrorCode.NONE, response.responses[0].error_message

    def partition(self, topic: str, number: int = 0) -> Partition:
        """Return the partition as the controller knows it."""
        found: Partition = self.controller.image.topic_by_name(topic).partitions[number]
        return found

    def leader(self, topic: str, number: int = 0) -> SimulatedBroker | None:
        """Return the broker that the controller has elected, None unless it leads by now."""
        broker = self.brokers.get(self.partition(topic, number).leader)
        if broker is None or not broker.process.alive:
            return None
        hosted = self.hosted(broker.id, topic, number)
        return broker if hosted is not None and hosted.is_leader else None

    def hosted(self, broker_id: int, topic: str, number: int = 0) -> HostedPartition | None:
        id = PartitionId(self.controller.image.topic_ids[topic], number)
        return self.brokers[broker_id].broker.partitions.hosted(id)

    def await_leader(self, topic: str, number: int = 0) -> SimulatedBroker:
        self.run_until(lambda: self.leader(topic, number) is not None)
        leader = self.leader(topic, number)
        assert leader is not None
        return leader

    def produce(
        self,
        topic: str,
        value: bytes = b"value",
        *,
        acks: int = -1,
        number: int = 0,
        timeout_ms: float = 1000.0,
    ) -> list[AppendResult]:
        """Produce one record to the leader. The returned list gets the result later."""
        results: list[AppendResult] = []
        leader = self.await_leader(topic, number)
        hosted = self.hosted(leader.id, topic, number)
        assert hosted is not None
        leader.broker.partitions.append(hosted, produced([(None, value)]), acks, timeout_ms, results.append)
        return results

    def append(
        self,
        leader: SimulatedBroker,
        hosted: HostedPartition,
        value: bytes,
        done: Callable[[AppendResult], None],
    ) -> None:
        """Append one record with acks=all."""
        leader.broker.partitions.append(hosted, produced([(None, value)]), -1, 5_000.0, done)

    def produce_and_wait(self, topic: str, value: bytes = b"value", *, number: int = 0) -> AppendResult:
        results = self.produce(topic, value, number=number)
        self.run_until(lambda: bool(results))
        return results[0]
