"""One incarnation of a broker: its metadata, its replicas, and its requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final, Protocol

from quorumd.broker.controller_requests.alter_partition import AlterPartitionChannel
from quorumd.broker.replication.isr_proposal import CommittedIsr, IsrProposal
from quorumd.broker.replication.replica import FetchResult, Replica, Transition
from quorumd.broker.replication.replica_fetch import ReplicaFetch
from quorumd.controller.metadata_versions import SupportedFeature
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.ports import Network
from quorumd.protocol.messages import broker_heartbeat_request, broker_heartbeat_response
from quorumd.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers import directories
from quorumd.simulator.brokers.broker_disk import Disk
from quorumd.simulator.brokers.data_log import DataLog, Record
from quorumd.simulator.brokers.fetch_codec import FetchPartitions, ReceivedPartition
from quorumd.simulator.brokers.fetch_server import FetchServer
from quorumd.simulator.brokers.isr_channel import IsrChannel
from quorumd.simulator.brokers.lifecycle import Lifecycle, State, registration_of
from quorumd.simulator.brokers.metadata import MetadataBatch, MetadataObserver
from quorumd.simulator.brokers.options import BrokerOptions
from quorumd.simulator.brokers.partition_history import Outcome
from quorumd.simulator.brokers.replica_fetcher import ReplicaFetcher
from quorumd.simulator.brokers.request_channel import Address, Channel
from quorumd.simulator.environment.clock import SimulatedClock
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.environment.network import Host

BACKOFF_MS: Final = 50.0
METADATA_WAIT_MS: Final = 500.0
WRITE_SWEEP_MS: Final = 250.0
DIRECTORIES_MS: Final = 200.0
PRODUCER_IDS_MS: Final = 1500.0
DATA_PORT: Final = 9092
ALL_REPLICAS: Final = -1
"""acks=all"""

DataReplica = Replica[DataLog]


class Watcher(Protocol):
    """Receives the events of brokers."""

    def changed(self, broker: Broker, where: PartitionId) -> None:
        """A replica was changed, created or removed."""

    def metadata_applied(self, broker: Broker, batch: MetadataBatch) -> None: ...

    def high_watermark_moved(self, broker: Broker, replica: DataReplica, before: int) -> None: ...

    def truncated(self, broker: Broker, replica: DataReplica, removed: int) -> None:
        """The log of a follower lost this number of records."""

    def leads(self, broker: Broker, replica: DataReplica) -> None:
        """The replica became leader in a new epoch."""

    def settled(self, where: PartitionId, value: int, outcome: Outcome) -> None:
        """A write has an outcome."""

    def proposed(self, broker: Broker, proposal: IsrProposal) -> None: ...

    def proposal_completed(
        self, broker: Broker, proposal: IsrProposal, error: ErrorCode, committed: CommittedIsr | None
    ) -> None: ...

    def registered(self, broker: Broker) -> None: ...

    def heartbeat_completed(
        self, broker: Broker, request: broker_heartbeat_request.BrokerHeartbeatRequest,
        response: broker_heartbeat_response.BrokerHeartbeatResponse,
    ) -> None: ...  # fmt: skip

    def heartbeat_failed(
        self, broker: Broker, request: broker_heartbeat_request.BrokerHeartbeatRequest
    ) -> None: ...

    def admin_request_completed(self, request: Message, response: Message) -> None:
        """An administrator, or a broker that needs producer ids, received a response."""

    def shutdown_granted(self, broker: Broker) -> None:
        """The controller has completed the broker's controlled shutdown."""


class Broker:
    """One incarnation of a broker."""

    def __init__(
        self,
        broker_id: int,
        address: Address,
        disk: Disk,
        heap: EventHeap,
        network: Network,
        isr_network: Host,
        process: Process,
        random: Random,
        options: BrokerOptions,
        nodes: Sequence[Address],
        watcher: Watcher,
    ) -> None:
        self.id = broker_id
        self.process = process
        self.disk = disk
        self.metadata = MetadataObserver(broker_id, self._metadata_applied)
        self.is_published = False
        """Whether it has caught up and acts on the metadata."""
        self.needs_producer_ids = True
        self.replicas: dict[PartitionId, DataReplica] = {
            where: Replica(where, broker_id, log, self, high_watermark, options.longest_lag_ms)
            for where, (log, high_watermark) in disk.logs.items()
        }
        self.fetchers: dict[int, ReplicaFetcher] = {}
        self._address = address
        self._heap = heap
        self._network = network
        self._random = random
        self._options = options
        self._nodes = nodes
        self._watcher = watcher
        self._metadata_channel = self._channel("metadata", METADATA_WAIT_MS + options.session_timeout_ms / 2)
        self._server = FetchServer(heap, process, self._replica_in_use)
        self._directories = self._channel("directories", options.session_timeout_ms / 2)
        self._producer_ids = self._channel("producer ids", options.session_timeout_ms / 2)
        self.isr_network = isr_network
        """The network of AlterPartition requests, which faults delay."""
        self.isr_channel = Channel(
            f"broker-{broker_id}-isr", heap, isr_network, process, options.controller_timeout_ms
        )
        versions = options.alter_partition_versions
        self.alter_partition_version = random.choice(versions) if len(versions) > 1 else versions[0]
        self._changes = self._alter_partition_channel()
        self._leaves_checks = (
            options.ineligible_proposals > 0 and random.random() < options.ineligible_proposals
        )

    def start(self, cluster_id: str, incarnation_id: KafkaUuid, features: Sequence[SupportedFeature]) -> None:
        """Start; the clean-shutdown file is removed before anything is appended."""
        options = self._options
        self.previous_epoch, self.disk.clean_epoch = self.disk.clean_epoch, -1
        rack = f"rack-{self.id % options.racks}" if options.racks else None
        self.lifecycle = Lifecycle(
            registration_of(self.id, cluster_id, incarnation_id, self._address, self.disk.directory_ids,
                            self.previous_epoch, rack, features),
            self._heap, self.process, self._channel("lifecycle", options.session_timeout_ms / 2),
            options.heartbeat_ms, lambda: self.metadata.leader, lambda: self.metadata.end_offset,
            lambda: self.is_published, lambda: self.disk.cordoned_ids,
            lambda: self.disk.lost_ids, self,
        )  # fmt: skip
        self._network.listen(*self._address, self._server.accept)
        self._fetch_metadata()
        self.lifecycle.begin()
        self._repeat(options.longest_lag_ms / 2, self._shrink_isrs)
        self._repeat(options.flush_ms, self._flush)
        self._repeat(WRITE_SWEEP_MS, self._time_out_writes)
        self._repeat(DIRECTORIES_MS, self._assign_directories)
        self._repeat(PRODUCER_IDS_MS, self._allocate_producer_ids)

    @property
    def epoch(self) -> int:
        return self.lifecycle.epoch

    @property
    def incarnation_id(self) -> KafkaUuid:
        return self.lifecycle.registration.incarnation_id

    @property
    def awaits_heartbeat(self) -> bool:
        """Whether a heartbeat has no response yet."""
        return self.lifecycle.is_waiting

    @property
    def is_shutting_down(self) -> bool:
        return self.lifecycle.state is State.SHUTTING_DOWN

    def shut_down(self) -> None:
        """Request a controlled shutdown."""
        self.lifecycle.shut_down()

    def led(self) -> list[DataReplica]:
        return [replica for replica in self.replicas.values() if replica.leadership is not None]

    def write(self, where: PartitionId, value: int) -> None:
        """Write a producer's record with acks=all; refused if this broker does not lead the partition."""
        replica = self.replicas.get(where)
        if replica is not None and replica.leadership is not None:
            self._append(replica, value)
            self._touched(where)

    def _append(self, replica: DataReplica, value: int) -> None:
        if replica.check_produce(ALL_REPLICAS) is not ErrorCode.NONE:
            self._watcher.settled(replica.partition, value, Outcome.REFUSED)
            return
        now_ms, log = self._heap.now_ms, replica.log
        log.append([Record(replica.leader_epoch, value)])
        replica.handle_append(now_ms)
        completed = partial(self._write_completed, replica.partition, value)
        replica.await_replication(log.end_offset, now_ms + self._options.write_timeout_ms, completed)

    def _write_completed(self, where: PartitionId, value: int, error: ErrorCode) -> None:
        outcome = Outcome.ACKNOWLEDGED if error is ErrorCode.NONE else Outcome.UNKNOWN
        self._watcher.settled(where, value, outcome)

    def _channel(self, purpose: str, timeout_ms: float) -> Channel:
        return Channel(f"broker-{self.id}-{purpose}", self._heap, self._network, self.process, timeout_ms)

    def _alter_partition_channel(self) -> AlterPartitionChannel:
        heap, process, version = self._heap, self.process, self.alter_partition_version
        channel = IsrChannel(heap, process, self.isr_channel, self._controller, self._name_of, version)
        clock = SimulatedClock(heap, process)
        return AlterPartitionChannel(clock, channel, self.id, lambda: self.epoch, self._proposal_completed)

    def _repeat(self, every_ms: float, what: Callable[[], None]) -> None:
        def again() -> None:
            what()
            self._repeat(every_ms, what)

        self._heap.call_later(every_ms * (0.5 + self._random.random()), again, b"repeated", self.process)

    # Metadata

    def _controller(self) -> Address | None:
        leader = self.metadata.leader
        return leader.address if leader is not None else None

    def _fetch_metadata(self) -> None:
        address = self._controller() or self._random.choice(self._nodes)
        request, version = self.metadata.request(METADATA_WAIT_MS)
        self._metadata_channel.send(address, request, version, self._metadata_received)

    def _metadata_received(self, message: Message | None) -> None:
        if message is None:
            self.metadata.leader = None
        elif self.metadata.handle_response(message):
            self._publish()
            self._heap.call_later(0.0, self._fetch_metadata, b"metadata", self.process)
            return
        self._heap.call_later(BACKOFF_MS, self._fetch_metadata, b"metadata", self.process)

    def _metadata_applied(self, batch: MetadataBatch) -> None:
        self._watcher.metadata_applied(self, batch)

    def _publish(self) -> None:
        """Act on the applied metadata: on the current state of partitions, not on single changes."""
        image = self.metadata.image
        if not self.is_published:
            # Until the broker has caught up, the metadata may name its previous incarnation as a leader.
            if not self.lifecycle.is_caught_up or not self.metadata.has_caught_up:
                return
            self.is_published = True
            self.metadata.take_changed()
            changed = None
        else:
            changed = self.metadata.take_changed()
        if changed is None:
            named = [
                PartitionId(topic.id, number)
                for topic in image.topics.values()
                for number in topic.partitions
            ]
            changed = dict.fromkeys([*self.replicas, *named])
        for where in changed:
            self._update(where)
        self._follow()
        self._server.wake(changed)

    def _update(self, where: PartitionId) -> None:
        partition = self.metadata.image.partition(where)
        replica = self.replicas.get(where)
        if partition is None or self.id not in partition.replicas:
            self.disk.remove(where)
            if replica is not None:
                replica.resign()
                del self.replicas[where]
                self._watcher.changed(self, where)
            return
        if replica is None:
            if where in self.disk.lost_places:
                return
            replica = Replica(where, self.id, DataLog(), self, max_lag_ms=self._options.longest_lag_ms)
            self.replicas[where] = replica
            self.disk.place(where)
            self.disk.logs[where] = (replica.log, 0)
        if replica.apply(partition, self._heap.now_ms) is Transition.LEADS:
            self._watcher.leads(self, replica)
        replica.report_recovery()
        self._watcher.changed(self, where)

    # Replication

    def _replica_in_use(self, where: PartitionId) -> DataReplica | None:
        return self.replicas.get(where) if self.is_published else None

    def _follow(self) -> None:
        """Start a fetcher for every leader that a replica follows."""
        for replica in self.replicas.values():
            if replica.metadata is None or replica.leadership is not None:
                continue
            leader_id = replica.metadata.leader
            if leader_id >= 0 and leader_id not in self.fetchers:
                fetcher = self.fetchers[leader_id] = ReplicaFetcher(
                    leader_id, self._heap, self.process,
                    self._channel(f"fetch-{leader_id}", self._options.fetch_wait_ms + 1000.0),
                    self._options.fetch_wait_ms, self, partial(self._unfollow, leader_id),
                )  # fmt: skip
                fetcher.next()

    def _unfollow(self, leader_id: int) -> None:
        del self.fetchers[leader_id]

    def fetches_from(self, leader_id: int) -> FetchPartitions:
        return [
            (where, replica.next_fetch(self.epoch))
            for where, replica in self.replicas.items()
            if replica.metadata is not None
            and replica.leadership is None
            and replica.metadata.leader == leader_id
        ]

    def address_of(self, broker_id: int) -> Address | None:
        broker = self.metadata.image.brokers.get(broker_id)
        return (broker.endpoints[0].host, broker.endpoints[0].port) if broker is not None else None

    def fetched(self, fetch: ReplicaFetch, received: ReceivedPartition) -> None:
        replica = self.replicas.get(received.where)
        if replica is not None:
            result = replica.handle_fetched(fetch, received.fetched, self._heap.now_ms)
            if result is FetchResult.OUT_OF_RANGE:
                replica.handle_leader_offsets(fetch, replica.log.start_offset, received.end_offset)
            self._watcher.changed(self, received.where)

    def _touched(self, where: PartitionId) -> None:
        """Wake delayed fetches of followers after a change of a leader's replica."""
        self._watcher.changed(self, where)
        self._server.wake((where,))

    def _shrink_isrs(self) -> None:
        for replica in self.led():
            replica.shrink_isr(self._heap.now_ms)
            replica.report_recovery()
            self._watcher.changed(self, replica.partition)

    def _time_out_writes(self) -> None:
        for replica in self.led():
            replica.expire_produces(self._heap.now_ms)

    def _flush(self) -> None:
        for where, replica in self.replicas.items():
            replica.log.flush()
            self.disk.logs[where] = (replica.log, replica.high_watermark)

    def _proposal_completed(
        self, proposal: IsrProposal, error: ErrorCode, committed: CommittedIsr | None
    ) -> None:
        self._watcher.proposal_completed(self, proposal, error, committed)
        replica = self.replicas.get(proposal.partition)
        if replica is not None:
            replica.handle_proposal_response(proposal, error, committed, self._heap.now_ms)
            self._touched(proposal.partition)

    def misplaced_replicas(self) -> list[PartitionId]:
        """Return the replicas that the metadata has in other directories, including those in lost directories."""
        known = {where: replica.metadata for where, replica in self.replicas.items()}
        known |= {where: self.metadata.image.partition(where) for where in self.disk.lost_places}
        return directories.misplaced_replicas(self.id, self.disk.directory_of, known)

    def lose_directory(self, number: int) -> dict[PartitionId, DataLog]:
        """Stop the replicas in a directory that failed; return their logs."""
        lost = self.disk.lose(number)
        for where in lost:
            replica = self.replicas.pop(where, None)
            if replica is not None:
                replica.resign()
                self._watcher.changed(self, where)
        return lost

    def _assign_directories(self) -> None:
        address = self._controller()
        wrong = self.misplaced_replicas()
        if wrong and address is not None and not self._directories.is_waiting:
            request = directories.request_of(self.id, self.epoch, self.disk.directory_of, wrong)
            self._directories.send(address, request, directories.VERSION, lambda message: None)

    def _allocate_producer_ids(self) -> None:
        address = self._controller() if self.needs_producer_ids else None
        if address is not None and self.epoch >= 0 and not self._producer_ids.is_waiting:
            request = AllocateProducerIdsRequest(self.id, self.epoch)
            self._producer_ids.send(address, request, 0, partial(self._producer_ids_received, request))

    def _producer_ids_received(self, request: Message, message: Message | None) -> None:
        if message is not None:
            self._watcher.admin_request_completed(request, message)

    # ReplicaContext

    def min_isr(self, partition: PartitionId) -> int:
        topic = self.metadata.image.topics.get(partition.topic_id)
        return self.metadata.image.min_isr(topic.name) if topic is not None else 1

    def broker_epoch(self, broker_id: int) -> int:
        broker = self.metadata.image.brokers.get(broker_id)
        return broker.epoch if broker is not None else -1

    def is_eligible(self, broker_id: int) -> bool:
        broker = self.metadata.image.brokers.get(broker_id)
        return self._leaves_checks or (broker is not None and broker.is_active)

    def _name_of(self, topic_id: KafkaUuid) -> str:
        topic = self.metadata.image.topics.get(topic_id)
        return topic.name if topic is not None else ""

    def propose(self, proposal: IsrProposal) -> bool:
        if not self._changes.propose(proposal):
            return False
        self._watcher.proposed(self, proposal)
        return True

    def high_watermark_advanced(self, replica: DataReplica, before: int) -> None:
        if replica.leadership is not None:
            self._watcher.high_watermark_moved(self, replica, before)

    def truncated(self, replica: DataReplica, before: int, high_watermark: int) -> None:
        self._watcher.truncated(self, replica, before - replica.log.end_offset)

    # LifecycleListener

    def registered(self, epoch: int) -> None:
        del epoch
        self._watcher.registered(self)

    def heartbeat_completed(
        self, request: broker_heartbeat_request.BrokerHeartbeatRequest,
        response: broker_heartbeat_response.BrokerHeartbeatResponse,
    ) -> None:  # fmt: skip
        self._watcher.heartbeat_completed(self, request, response)
        if not self.is_published:
            self._publish()

    def heartbeat_failed(self, request: broker_heartbeat_request.BrokerHeartbeatRequest) -> None:
        self._watcher.heartbeat_failed(self, request)

    def shutdown_granted(self) -> None:
        self._watcher.shutdown_granted(self)
