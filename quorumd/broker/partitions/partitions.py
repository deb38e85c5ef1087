"""The partitions that a broker hosts: opens and closes them as the metadata requires, and appends to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from quorumd.broker.log.appended import Appended
from quorumd.broker.log.offset_checkpoint import CLEANER_OFFSETS, HIGH_WATERMARKS
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log.transaction_marker import TransactionMarker
from quorumd.broker.log.validation import Origin
from quorumd.broker.log_management.directories import LogDirectories, LogDirectory
from quorumd.broker.log_management.disk_operations import is_disk_failure
from quorumd.broker.log_management.log_manager import LogManager
from quorumd.broker.log_management.partition_directory import DirectoryKey
from quorumd.broker.log_management.topic_settings import TopicSettings
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.broker.metadata.metadata_delta import MetadataDelta
from quorumd.broker.partitions.append_result import AppendDone as AppendDone
from quorumd.broker.partitions.append_result import AppendResult as AppendResult
from quorumd.broker.partitions.append_result import FlushGate, after_flush
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.partitions.partition_listener import PartitionListener
from quorumd.broker.partitions.write_expiry import WriteExpiry
from quorumd.broker.replication.isr_proposal import CommittedIsr, IsrProposal
from quorumd.broker.replication.replica import NOT_GIVEN, Replica, Transition
from quorumd.broker.settings.broker_settings import BrokerSettings
from quorumd.controller.broker import MIGRATING
from quorumd.controller.partition import Partition, PartitionId
from quorumd.errors import ErrorCode, RequestError, StorageError
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.ports import Clock, Disk, Entropy
from quorumd.protocol.config_resource_type import ConfigResourceType

logger = logging.getLogger("quorumd.broker")

ALL_REPLICAS = -1
"""acks=all."""
OPEN_RETRY_MS = 30_000.0


class Partitions:
    """Hosts the partitions that have a replica here according to the metadata; none before `begin`.

    It is the `ReplicaContext` of the replicas. `propose` proposes an ISR to the controller. `on_directory_failed` is
    called when a log directory has failed.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        disk: Disk,
        entropy: Entropy,
        metadata: BrokerMetadata,
        directories: LogDirectories,
        propose: Callable[[IsrProposal], bool],
        on_directory_failed: Callable[[LogDirectory], None],
    ) -> None:
        self.directories = directories
        self.metadata = metadata
        self.logs = LogManager(clock, disk, entropy, directories, self._partition_freed, self.fail_directory)
        self._settings = settings
        self._broker_id = settings.broker_id
        self._clock = clock
        self._propose = propose
        self._on_directory_failed = on_directory_failed
        self.hosted_by_id: dict[PartitionId, HostedPartition] = {}
        """The partitions with an open replica here; only `Partitions` modifies the dictionary."""
        self._opening: dict[PartitionId, None] = {}
        self._offline: dict[PartitionId, None] = {}
        self._listeners: list[PartitionListener] = []
        self._on_ready: Callable[[], None] | None = None
        self._is_active = False
        self._expiry = WriteExpiry(clock)
        self.flush_gate: FlushGate | None = None
        """Delays the acknowledgement of appends to logs with `flush.messages`."""

    # Lookups

    def __len__(self) -> int:
        return len(self.hosted_by_id)

    @property
    def is_serving(self) -> bool:
        """Whether `begin` has opened the logs of all partitions in the metadata."""
        return self._is_active and self._on_ready is None

    def hosted(self, id: PartitionId) -> HostedPartition | None:
        """Return the partition if it has an open replica here."""
        return self.hosted_by_id.get(id)

    def all(self) -> list[HostedPartition]:
        """Return the partitions with an open replica here, in the order in which they were opened."""
        return list(self.hosted_by_id.values())

    def is_offline(self, id: PartitionId) -> bool:
        """Whether the replica here is offline: its log directory failed, or its log could not be opened."""
        return id in self._offline

    def is_served(self, id: PartitionId) -> bool:
        """Whether the replica here is open or offline, rather than still being opened."""
        return id in self.hosted_by_id or id in self._offline

    @property
    def opening(self) -> Collection[PartitionId]:
        """The partitions whose replicas here are still being opened."""
        return self._opening.keys()

    def find(self, topic: KafkaUuid | str, number: int) -> HostedPartition:
        """Find a partition by topic id or name. Raises RequestError."""
        image = self.metadata.image
        topic_id: KafkaUuid | None
        if isinstance(topic, str):
            topic_id = image.topic_ids.get(topic)
            if topic_id is None:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            topic_id = topic
        hosted = self.hosted_by_id.get(PartitionId(topic_id, number))
        if hosted is not None:
            return hosted
        raise RequestError(self._lookup_error(PartitionId(topic_id, number)))

    def _lookup_error(self, id: PartitionId) -> ErrorCode:
        known = self.metadata.image.topics.get(id.topic_id)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if id.number not in known.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if id in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def leader(self, id: PartitionId, leader_epoch: int = NOT_GIVEN) -> HostedPartition:
        """Return a partition that this broker leads, in `leader_epoch` if it is given. Raises RequestError."""
        hosted = self.hosted_by_id.get(id)
        if hosted is None:
            raise RequestError(self._lookup_error(id))
        error = hosted.replica.check_leader(leader_epoch)
        if error is not ErrorCode.NONE:
            raise RequestError(error)
        return hosted

    def add_listener(self, listener: PartitionListener) -> None:
        """Add a listener, which is called after the listeners that were added before."""
        self._listeners.append(listener)

    # Metadata

    def begin(self, on_ready: Callable[[], None]) -> None:
        """Host the partitions in the metadata, which must be caught up: the logs of other partitions are deleted.

        `on_ready` is called once their logs are open.
        """
        self._on_ready = on_ready
        self.logs.partition_directories.scan(
            lambda found: self.assigned_directory(PartitionId(found.topic_id or ZERO_UUID, found.number)),
            self._scanned,
        )

    def assigned_directory(self, id: PartitionId) -> KafkaUuid | None:
        """Return the directory id that the metadata has for a replica of this broker, None if there is no replica."""
        topic = self.metadata.image.topics.get(id.topic_id)
        partition = topic.partitions.get(id.number) if topic is not None else None
        if partition is None or self._broker_id not in partition.replicas:
            return None
        if not partition.directories:
            return MIGRATING
        return partition.directories[partition.replicas.index(self._broker_id)]

    def _scanned(self) -> None:
        self._is_active = True
        now_ms = self._clock.now_ms()
        for topic in list(self.metadata.image.topics.values()):
            for number, partition in topic.partitions.items():
                if self._broker_id in partition.replicas:
                    self._reconcile(PartitionId(topic.id, number), now_ms)
        self._check_ready()

    def _check_ready(self) -> None:
        if self._on_ready is not None and self._is_active and not self._opening:
            on_ready, self._on_ready = self._on_ready, None
            on_ready()

    def apply(self, delta: MetadataDelta, now_ms: float) -> None:
        """Apply a metadata change."""
        if not self._is_active:
            return
        for removed in delta.removed_topics:
            for number in removed.partitions:
                self._reconcile(PartitionId(removed.id, number), now_ms)
        if delta.configs or delta.is_snapshot:
            self._apply_configs(delta, now_ms)
        for each in delta.partitions:
            self._reconcile(each, now_ms)

    def _reconcile(self, id: PartitionId, now_ms: float) -> None:
        """Open, change or delete a replica as the metadata requires, if that is possible now."""
        topic = self.metadata.image.topics.get(id.topic_id)
        partition = topic.partitions.get(id.number) if topic is not None else None
        hosted = self.hosted_by_id.get(id)
        if topic is None or partition is None or self._broker_id not in partition.replicas:
            self._offline.pop(id, None)
            if hosted is not None:
                self._remove(hosted)
                self.logs.delete(
                    (hosted.topic, id.number), hosted.log, hosted.log.settings.file_delete_delay_ms
                )
        elif hosted is not None:
            self._change(hosted, partition, now_ms)
        elif id not in self._offline and id not in self._opening:
            self._open(id, topic.name)

    def _change(self, hosted: HostedPartition, partition: Partition, now_ms: float) -> None:
        transition = hosted.replica.apply(partition, now_ms)
        if transition is Transition.LEADS or transition is Transition.STILL_LEADS:
            hosted.replica.report_recovery()
        if transition is not Transition.NONE:
            self._notify(hosted, transition)

    def _notify(self, hosted: HostedPartition, transition: Transition) -> None:
        for listener in self._listeners:
            listener.changed(hosted, transition)

    def _remove(self, hosted: HostedPartition) -> None:
        """Stop hosting a partition. After that, the disk thread may use its log."""
        del self.hosted_by_id[hosted.id]
        self._expiry.remove(hosted)
        hosted.is_open = False
        hosted.replica.resign()
        self._notify(hosted, Transition.REMOVED)

    # Opening

    def _open(self, id: PartitionId, topic: str) -> None:
        if self.logs.is_busy((topic, id.number)):
            return  # `_partition_freed` will reconcile it.
        assigned = self.assigned_directory(id)
        if assigned is None:
            return
        settings = self._topic_settings().log_settings(topic)

        def opened(directory: LogDirectory, outcome: PartitionLog | BaseException) -> None:
            del self._opening[id]
            self._opened(id, topic, directory, outcome)
            self._check_ready()

        if self.logs.open(id, topic, assigned, settings, opened):
            self._opening[id] = None
        else:
            self._offline[id] = None

    def _opened(
        self,
        id: PartitionId,
        topic: str,
        directory: LogDirectory,
        outcome: PartitionLog | BaseException,
    ) -> None:
        key = (topic, id.number)
        if isinstance(outcome, BaseException):
            self._offline[id] = None
            if not is_disk_failure(outcome):
                self._clock.call_at(self._clock.now_ms() + OPEN_RETRY_MS, lambda: self._retry(id))
            return
        if not self._is_active or not directory.is_online:
            self._offline[id] = None
            self.logs.abandon(outcome)
            return
        outcome.first_dirty_offset = max(
            directory.checkpoints[CLEANER_OFFSETS].pop(key, 0), outcome.first_dirty_offset
        )
        replica = Replica(
            id,
            self._broker_id,
            outcome,
            self,
            directory.checkpoints[HIGH_WATERMARKS].pop(key, 0),
            self._settings.replica_lag_time_max_ms,
        )
        min_isr = self._topic_settings().min_isr(topic)
        self.hosted_by_id[id] = HostedPartition(id, topic, directory, replica, min_isr)
        self._reconcile(id, self._clock.now_ms())

    def _retry(self, id: PartitionId) -> None:
        if self._is_active and id in self._offline:
            del self._offline[id]
            self._reconcile(id, self._clock.now_ms())

    def _partition_freed(self, key: DirectoryKey) -> None:
        topic_id = self.metadata.image.topic_ids.get(key[0])
        if self._is_active and topic_id is not None:
            self._reconcile(PartitionId(topic_id, key[1]), self._clock.now_ms())

    # Configs

    def _topic_settings(self) -> TopicSettings:
        return TopicSettings(self.metadata.image, self._broker_id, self._settings.log_defaults)

    def _apply_configs(self, delta: MetadataDelta, now_ms: float) -> None:
        is_for_all = delta.changes_broker_configs(self._broker_id)
        topics = {name: None for kind, name in delta.configs if kind == ConfigResourceType.TOPIC}
        settings = self._topic_settings()
        for hosted in self.all():
            if is_for_all or hosted.topic in topics:
                hosted.log.settings = settings.log_settings(hosted.topic)
                hosted.min_isr = settings.min_isr(hosted.topic)
                hosted.replica.advance_high_watermark(now_ms)

    # Appending

    def append(
        self,
        hosted: HostedPartition,
        records: bytes,
        acks: int,
        timeout_ms: float,
        done: AppendDone,
        origin: Origin = Origin.CLIENT,
    ) -> None:
        """Append one batch as the leader.

        `done` is called once: immediately or, with acks=-1, when the high watermark has reached the end of the batch,
        at the latest after `timeout_ms`.
        """
        clock = self._clock

        def append(epoch: int) -> Appended:
            return hosted.log.append_as_leader(records, epoch, clock.now_ms(), clock.wall_ms(), origin)

        self._append(hosted, append, acks, timeout_ms, done)

    def append_marker(
        self,
        hosted: HostedPartition,
        producer_id: int,
        producer_epoch: int,
        marker: TransactionMarker,
        timeout_ms: float,
        done: AppendDone,
        transaction_version: int = 0,
    ) -> None:
        """Append a transaction marker as the leader, with acks=all; see `append`."""
        clock = self._clock

        def append(epoch: int) -> Appended:
            return hosted.log.append_marker(
                producer_id,
                producer_epoch,
                marker,
                epoch,
                clock.now_ms(),
                clock.wall_ms(),
                transaction_version,
            )

        self._append(hosted, append, ALL_REPLICAS, timeout_ms, done)

    def _append(
        self,
        hosted: HostedPartition,
        append: Callable[[int], Appended],
        acks: int,
        timeout_ms: float,
        done: AppendDone,
    ) -> None:
        replica = hosted.replica
        error = replica.check_produce(acks)
        if error is not ErrorCode.NONE:
            done(AppendResult(error))
            return
        try:
            appended = append(replica.leader_epoch)
        except RequestError as refused:
            done(AppendResult(refused.error, log_start_offset=hosted.log.start_offset, message=str(refused)))
            return
        except StorageError as fault:
            done(AppendResult(self.handle_log_error(hosted, fault), message=str(fault)))
            return
        if self.flush_gate is not None and self.flush_gate.is_required(hosted):
            done = after_flush(self.flush_gate, hosted, appended.last_offset + 1, done)
        now_ms = self._clock.now_ms()
        if not appended.is_duplicate:
            replica.handle_append(now_ms)
            for listener in self._listeners:
                listener.appended(hosted)

        def complete(outcome: ErrorCode) -> None:
            start_offset = hosted.log.start_offset
            done(
                AppendResult(
                    outcome,
                    appended.base_offset,
                    appended.log_append_time_ms,
                    start_offset,
                    None,
                    appended.last_offset,
                )
            )

        if acks != ALL_REPLICAS:
            complete(ErrorCode.NONE)
            return
        replica.await_replication(appended.last_offset + 1, now_ms + timeout_ms, complete)
        if replica.leadership is not None and replica.leadership.pending:
            self._expiry.add(hosted, now_ms + timeout_ms)

    # ReplicaContext

    def min_isr(self, partition: PartitionId) -> int:
        """See `ReplicaContext`."""
        return self.hosted_by_id[partition].min_isr

    def broker_epoch(self, broker_id: int) -> int:
        """See `ReplicaContext`."""
        return self.metadata.broker_epoch(broker_id)

    def is_eligible(self, broker_id: int) -> bool:
        """See `ReplicaContext`."""
        return self.metadata.is_eligible(broker_id)

    def propose(self, proposal: IsrProposal) -> bool:
        """See `ReplicaContext`."""
        return self._propose(proposal)

    def handle_proposal_response(
        self, proposal: IsrProposal, error: ErrorCode, committed: CommittedIsr | None
    ) -> None:
        """Handle the final response of the controller to an ISR proposal."""
        hosted = self.hosted_by_id.get(proposal.partition)
        if hosted is not None:
            outcome = error.name if committed is None else f"the ISR is {list(committed.isr)}"
            logger.info("%s: proposed the ISR %s: %s", hosted.name, list(proposal.members), outcome)
            hosted.replica.handle_proposal_response(proposal, error, committed, self._clock.now_ms())

    def high_watermark_advanced(self, replica: Replica[PartitionLog], before: int) -> None:
        """See `ReplicaContext`."""
        hosted = self.hosted_by_id[replica.partition]
        for listener in self._listeners:
            listener.high_watermark_advanced(hosted)

    def truncated(self, replica: Replica[PartitionLog], before: int, high_watermark: int) -> None:
        """See `ReplicaContext`."""
        hosted = self.hosted_by_id[replica.partition]
        end = replica.log.end_offset
        level = logging.WARNING if end < high_watermark else logging.INFO
        logger.log(
            level,
            "%s: truncated from offset %d to %d (high watermark %d)",
            hosted.name, before, end, high_watermark,
        )  # fmt: skip

    # Failures and shutdown

    def handle_log_error(self, hosted: HostedPartition, fault: BaseException) -> ErrorCode:
        """Handle an error of a log, and return the error for the client. A full disk takes no directory offline."""
        if is_disk_failure(fault):
            self.fail_directory(hosted.directory, f"{hosted.name}: {fault}")
        else:
            logger.error("%s: %s", hosted.name, fault)
        return ErrorCode.KAFKA_STORAGE_ERROR

    def fail_directory(self, directory: LogDirectory, reason: str) -> None:
        """Take a log directory offline with all its partitions."""
        if not directory.is_online:
            return
        directory.is_online = False
        logger.error("log directory %s is offline: %s", directory.path, reason)
        for hosted in self.all():
            if hosted.directory is directory:
                self._offline[hosted.id] = None
                self._remove(hosted)
                self.logs.abandon(hosted.log)
        self._on_directory_failed(directory)

    def close(self) -> list[HostedPartition]:
        """Stop hosting partitions, and return those that were hosted; their logs remain open."""
        self._is_active = False
        self._on_ready = None
        self._expiry.stop()
        closed = self.all()
        for hosted in closed:
            self._remove(hosted)
        return closed
