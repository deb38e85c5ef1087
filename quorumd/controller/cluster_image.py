"""The cluster image: the state after applying the metadata records up to an offset.

The image consists of dictionaries, and every change sets or removes keys of one of them (see `undo_log`), so that a
leader can undo its uncommitted records.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

from quorumd.controller.broker import Broker, BrokerEndpoint, BrokerFeature
from quorumd.controller.image_hash import (
    HASH_MASK,
    broker_row,
    config_change,
    opaque_row,
    partition_row,
    producer_ids_row,
    replace_row,
    text_row,
)
from quorumd.controller.intern_pool import InternPool
from quorumd.controller.opaque_records import (
    OPAQUE_KEYS,
    OpaqueRecordKey,
    canonical_frame,
    check_removal,
    is_removal,
)
from quorumd.controller.partition import Partition, PartitionId, partition_from_record
from quorumd.controller.partition_configs import allows_unclean_election, parse_min_isr
from quorumd.controller.partition_index import PartitionIndex
from quorumd.controller.prepared_partitions import PreparedPartitions
from quorumd.controller.registered_controllers import RegisteredController, apply_controller
from quorumd.controller.security_records import SecurityState
from quorumd.controller.topic_ids import TopicIds
from quorumd.controller.topic_names import has_collision_chars, normalized
from quorumd.controller.undo_log import ABSENT, UndoEntry, add_all, assign, remove
from quorumd.errors import MalformedMessage
from quorumd.ids import KafkaUuid
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.clear_elr_record import ClearElrRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.producer_ids_record import ProducerIdsRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.wire import Message

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELR_VERSION = "eligible.leader.replicas.version"
MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"

Resource = tuple[int, str]
"""(ConfigResourceType, name). The broker with the name "" stands for the default of all brokers."""

ALL_BROKERS: Resource = (int(ConfigResourceType.BROKER), "")
_TOPIC: Final = int(ConfigResourceType.TOPIC)

_TRANSACTION_MARKERS = frozenset({BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord})


class Topic:
    """A topic and its partitions by number."""

    __slots__ = ("id", "name", "partitions")

    def __init__(self, name: str, topic_id: KafkaUuid) -> None:
        self.name = name
        self.id = topic_id
        self.partitions: dict[int, Partition] = {}


class ClusterImage:
    """The state of the cluster at one offset of the log.

    `next_producer_id`: the first not allocated to a broker. `names_with_collision_chars`: topic names that contain
    '.' or '_', by their unified name (see `topic_names`). `opaque_records`: frames of records as written (see
    `quorumd.controller.opaque_records`); `controllers` and `security`: their content, parsed. `shared`: the pool of
    tuples that many partitions share.
    """

    __slots__ = ("_rows", "_scalars", "_transaction", "brokers", "configs", "controllers", "feature_changes",
                 "features", "index", "names_with_collision_chars", "opaque_records", "security", "shared",
                 "topic_ids", "topics")  # fmt: skip

    def __init__(self) -> None:
        self.configs: dict[Resource, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.feature_changes = 0
        """The number of feature records applied so far, including those undone."""
        self.brokers: dict[int, Broker] = {}
        self.controllers: dict[int, RegisteredController] = {}
        self.topics: dict[KafkaUuid, Topic] = {}
        self.topic_ids = TopicIds()
        self.names_with_collision_chars: dict[str, str] = {}
        self.opaque_records: dict[OpaqueRecordKey, bytes] = {}
        self.security = SecurityState()
        self.index = PartitionIndex()
        self._scalars: dict[str, int] = {"hash": 0, "next producer id": 0}
        self._rows: dict[KafkaUuid, int] = {}
        """The contribution of each topic's partitions to the hash, by topic id."""
        self.shared = InternPool()
        self._transaction: dict[int, tuple[Message, bytes | None]] = {}
        """The records of the open transaction, its BeginTransactionRecord first, with their frames."""

    @property
    def hash(self) -> int:
        """A hash of 48 bits, equal for equal images whatever records led to them; see `image_hash`."""
        return self._scalars["hash"]

    @property
    def next_producer_id(self) -> int:
        return self._scalars["next producer id"]

    @property
    def metadata_version(self) -> int:
        """The finalized metadata.version, 0 if the log has none yet."""
        return self.features.get(METADATA_VERSION, 0)

    @property
    def elr_enabled(self) -> bool:
        """Whether eligible leader replicas are enabled (KIP-966)."""
        return self.features.get(ELR_VERSION, 0) >= 1

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open, whose records are not applied yet (KIP-868)."""
        return bool(self._transaction)

    def apply(self, record: Message, changes: list[UndoEntry], frame: bytes | None = None) -> None:
        """Apply one metadata record and add its undo entries to `changes`.

        `frame` is the encoded record, None if it has not been encoded yet. Records of a transaction are applied
        together at its end (KIP-868). Raises MalformedMessage for a record that contradicts the image.
        """
        kind = type(record)
        if self._transaction and kind not in _TRANSACTION_MARKERS:
            assign(self._transaction, len(self._transaction), (record, frame), changes)
            return
        if kind in OPAQUE_KEYS:
            self._store_opaque(record, frame, changes)
            apply_controller(self.controllers, record, changes)
            self.security.apply(record, changes)
        else:
            _REPLAY[kind](self, record, changes)

    # Configs and features

    def set_config(self, resource: Resource, key: str, value: str | None, changes: list[UndoEntry]) -> None:
        """Set one config, or delete it with None."""
        configs = self.configs.get(resource)
        previous = configs.get(key) if configs is not None else None
        if value is None and previous is None:
            return
        if configs is None:
            configs = {}
            assign(self.configs, resource, configs, changes)
        changes.append((configs, key, ABSENT if previous is None else previous))
        if value is not None:
            configs[key] = value
        else:
            del configs[key]
            if not configs:
                remove(self.configs, resource, changes)
        self._replace_row(0, config_change(resource, key, previous, value), changes)

    def config(self, resource: Resource) -> dict[str, str]:
        """Return the configs of a resource, empty if none is set. The caller must not modify them."""
        return self.configs.get(resource, {})

    def apply_config(self, record: ConfigRecord, changes: list[UndoEntry]) -> None:
        """Apply a ConfigRecord, as `apply` does but without its dispatch."""
        self.set_config((record.resource_type, record.resource_name), record.name, record.value, changes)

    def topic_config(self, topic: str, key: str) -> str | None:
        """Return the value for a topic: its own, or else the cluster-wide one, None if neither is set."""
        own = self.config((_TOPIC, topic)).get(key)
        return own if own is not None else self.config(ALL_BROKERS).get(key)

    def min_isr(self, topic: str) -> int:
        """Return min.insync.replicas of a topic, at least 1."""
        return parse_min_isr(self.topic_config(topic, MIN_INSYNC_REPLICAS))

    def unclean_election(self, topic: str) -> bool:
        """Whether the topic allows unclean leader election."""
        return allows_unclean_election(self.topic_config(topic, UNCLEAN_ELECTION))

    def _apply_feature_level(self, record: FeatureLevelRecord, changes: list[UndoEntry]) -> None:
        """Set a feature level; 0 removes it. kraft.version is ignored: the quorum itself stores it (KIP-853)."""
        if record.name == KRAFT_VERSION:
            return
        self.feature_changes += 1
        before = self.features.get(record.name)
        old_row = text_row("feature", record.name, str(before)) if before is not None else 0
        if record.feature_level == 0:
            remove(self.features, record.name, changes)
            self._replace_row(old_row, 0, changes)
            return
        assign(self.features, record.name, record.feature_level, changes)
        self._replace_row(old_row, text_row("feature", record.name, str(record.feature_level)), changes)

    # Brokers

    def _register_broker(self, record: RegisterBrokerRecord, changes: list[UndoEntry]) -> None:
        self._set_broker(
            Broker(
                record.broker_id,
                record.broker_epoch,
                record.incarnation_id,
                tuple(BrokerEndpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
                tuple(
                    BrokerFeature(f.name, f.min_supported_version, f.max_supported_version)
                    for f in record.features
                ),
                record.rack,
                record.fenced,
                record.in_controlled_shutdown,
                tuple(record.log_dirs),
                _optional_tuple(record.cordoned_log_dirs),
                record.is_migrating_zk_broker,
            ),
            changes,
        )

    def _change_broker(self, record: BrokerRegistrationChangeRecord, changes: list[UndoEntry]) -> None:
        broker = self._registered_broker(record.broker_id, record.broker_epoch)
        if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
            raise MalformedMessage(
                f"a record changes broker {broker.id} with unknown values: fenced {record.fenced}, in "
                f"controlled shutdown {record.in_controlled_shutdown}"
            )
        self._set_broker(
            broker._replace(
                is_fenced=record.fenced > 0 if record.fenced else broker.is_fenced,
                in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown > 0,
                directories=tuple(record.log_dirs) or broker.directories,
                cordoned=broker.cordoned
                if record.cordoned_log_dirs is None
                else tuple(record.cordoned_log_dirs),
            ),
            changes,
        )

    def _fence_broker(self, record: FenceBrokerRecord, changes: list[UndoEntry]) -> None:
        self._set_broker(self._registered_broker(record.id, record.epoch)._replace(is_fenced=True), changes)

    def _unfence_broker(self, record: UnfenceBrokerRecord, changes: list[UndoEntry]) -> None:
        self._set_broker(self._registered_broker(record.id, record.epoch)._replace(is_fenced=False), changes)

    def _unregister_broker(self, record: UnregisterBrokerRecord, changes: list[UndoEntry]) -> None:
        broker = self._registered_broker(record.broker_id, record.broker_epoch)
        remove(self.brokers, broker.id, changes)
        self._replace_row(broker_row(broker), 0, changes)

    def _set_broker(self, broker: Broker, changes: list[UndoEntry]) -> None:
        before = self.brokers.get(broker.id)
        assign(self.brokers, broker.id, broker, changes)
        self._replace_row(broker_row(before) if before is not None else 0, broker_row(broker), changes)

    def _registered_broker(self, broker_id: int, epoch: int) -> Broker:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            actual = "not registered" if broker is None else f"registered with epoch {broker.epoch}"
            raise MalformedMessage(
                f"a record names broker {broker_id} with epoch {epoch}, but it is {actual}"
            )
        return broker

    # Topics and partitions

    def partition(self, tp: PartitionId) -> Partition | None:
        """Return the partition, None if it does not exist."""
        topic = self.topics.get(tp.topic_id)
        return topic.partitions.get(tp.number) if topic is not None else None

    def topic_by_name(self, name: str) -> Topic | None:
        """Return the topic of this name, None if it does not exist."""
        topic_id = self.topic_ids.get(name)
        return self.topics[topic_id] if topic_id is not None else None

    def topic_revision(self, topic_id: KafkaUuid) -> Hashable:
        """Return a value that changes whenever a partition of the topic or any broker does."""
        return self._rows.get(topic_id, 0), tuple(self.brokers.values())

    def _add_topic(self, record: TopicRecord, changes: list[UndoEntry]) -> None:
        if record.name in self.topic_ids or record.topic_id in self.topics:
            raise MalformedMessage(
                f"a record creates topic {record.name!r} ({record.topic_id}), which already exists"
            )
        assign(self.topics, record.topic_id, Topic(record.name, record.topic_id), changes)
        assign(self.topic_ids, record.name, record.topic_id, changes)
        if has_collision_chars(record.name):
            assign(self.names_with_collision_chars, normalized(record.name), record.name, changes)
        self._replace_row(0, text_row("topic", record.name, str(record.topic_id)), changes)

    def _remove_topic(self, record: RemoveTopicRecord, changes: list[UndoEntry]) -> None:
        """Remove a topic with its partitions and configs, which have no removal records of their own."""
        topic = self._topic(record.topic_id)
        self.index.remove(topic.id, topic.partitions, changes)
        self._replace_row(self._rows.get(topic.id, 0), 0, changes)
        remove(self._rows, topic.id, changes)
        resource = (_TOPIC, topic.name)
        for key in list(self.config(resource)):
            self.set_config(resource, key, None, changes)
        remove(self.topic_ids, topic.name, changes)
        if self.names_with_collision_chars.get(normalized(topic.name)) == topic.name:
            remove(self.names_with_collision_chars, normalized(topic.name), changes)
        remove(self.topics, topic.id, changes)
        self._replace_row(text_row("topic", topic.name, str(topic.id)), 0, changes)

    def _add_partition(self, record: PartitionRecord, changes: list[UndoEntry]) -> None:
        topic = self._topic(record.topic_id)
        self.set_partition(topic, record.partition_id, partition_from_record(record, self.shared), changes)

    def apply_partition_change(self, record: PartitionChangeRecord, changes: list[UndoEntry]) -> None:
        """Apply a PartitionChangeRecord, as `apply` does. Raises MalformedMessage for an unknown partition."""
        topic = self._topic(record.topic_id)
        partition = topic.partitions.get(record.partition_id)
        if partition is None:
            raise MalformedMessage(
                f"a record changes partition {record.partition_id} of topic {topic.id}, which does not exist"
            )
        self.set_partition(topic, record.partition_id, partition.apply(record, self.shared), changes)

    def set_partition(
        self, topic: Topic, number: int, partition: Partition, changes: list[UndoEntry]
    ) -> None:
        """Add a partition to a topic, or replace one. Raises MalformedMessage for a state that Kafka rejects."""
        partition.check()
        before = topic.partitions.get(number)
        # All states of a partition and all entries of the index share one id: there are millions.
        tp = partition.id = PartitionId(topic.id, number) if before is None else before.id
        assign(topic.partitions, number, partition, changes)
        self.index.update(tp, before, partition, changes)
        old_row = before.row if before is not None else 0
        new_row = partition.row = partition_row(tp, partition)
        self._replace_row(old_row, new_row, changes)
        self._replace_topic_row(topic.id, old_row, new_row, changes)

    def load_partition(self, topic: Topic, number: int, partition: Partition) -> None:
        """Add a new partition, neither being reassigned nor with an ELR, as `set_partition` does, but without undo
        entries: of an image that is being loaded."""
        partition.check()
        tp = partition.id = PartitionId(topic.id, number)
        topic.partitions[number] = partition
        self.index.load(tp, partition)
        row = partition.row = partition_row(tp, partition)
        self._scalars["hash"] = replace_row(self.hash, 0, row)
        self._rows[topic.id] = replace_row(self._rows.get(topic.id, 0), 0, row)

    def add_prepared(self, prepared: PreparedPartitions, changes: list[UndoEntry]) -> None:
        """Add prepared partitions, all of them new, as if their records were applied one by one."""
        add_all(self._topic(prepared.topic_id).partitions, prepared.partitions, changes)
        self.index.add(prepared.index, changes)
        self._replace_row(0, prepared.rows, changes)
        self._replace_topic_row(prepared.topic_id, 0, prepared.rows, changes)

    def _replace_topic_row(
        self, topic_id: KafkaUuid, old_row: int, new_row: int, changes: list[UndoEntry]
    ) -> None:
        rows = self._rows
        before = rows.get(topic_id)
        changes.append((rows, topic_id, ABSENT if before is None else before))
        rows[topic_id] = replace_row(before or 0, old_row, new_row)

    def _clear_elr(self, record: ClearElrRecord, changes: list[UndoEntry]) -> None:
        """Clear the ELRs of one topic, or with the name "" of all topics."""
        topic = self.topic_by_name(record.topic_name)
        if record.topic_name and topic is None:
            raise MalformedMessage(f"a record clears the ELR of unknown topic {record.topic_name!r}")
        for each in [topic] if topic is not None else list(self.topics.values()):
            for index, before in list(each.partitions.items()):
                if before.elr or before.last_known_elr:
                    self.set_partition(each, index, before.without_elr(), changes)

    def _topic(self, topic_id: KafkaUuid) -> Topic:
        topic = self.topics.get(topic_id)
        if topic is None:
            raise MalformedMessage(f"a record names topic {topic_id}, which does not exist")
        return topic

    # Transactions

    def _begin_transaction(self, record: BeginTransactionRecord, changes: list[UndoEntry]) -> None:
        if self._transaction:
            raise MalformedMessage("a transaction begins inside another transaction")
        assign(self._transaction, 0, (record, None), changes)

    def _end_transaction(self, record: EndTransactionRecord, changes: list[UndoEntry]) -> None:
        for pending, frame in self._close_transaction(record, changes):
            self.apply(pending, changes, frame)

    def _abort_transaction(self, record: AbortTransactionRecord, changes: list[UndoEntry]) -> None:
        self._close_transaction(record, changes)

    def _close_transaction(
        self, record: Message, changes: list[UndoEntry]
    ) -> list[tuple[Message, bytes | None]]:
        """Close the open transaction and return its records with their frames."""
        if not self._transaction:
            raise MalformedMessage(f"a {type(record).__name__} without an open transaction")
        _, *pending = self._transaction.values()
        for position in reversed(range(len(self._transaction))):
            remove(self._transaction, position, changes)
        return pending

    # Other records

    def _store_opaque(self, record: Message, frame: bytes | None, changes: list[UndoEntry]) -> None:
        key = OPAQUE_KEYS[type(record)](record)
        before = self.opaque_records.get(key)
        old_row = opaque_row(before) if before is not None else 0
        if not is_removal(record):
            # Each of these record types has only one version.
            stored = encode_record(record, record.MAX_VERSION) if frame is None else frame
            assign(self.opaque_records, key, stored, changes)
            self._replace_row(old_row, opaque_row(stored), changes)
        elif before is not None:
            remove(self.opaque_records, key, changes)
            self._replace_row(old_row, 0, changes)
        else:
            check_removal(record)

    def _apply_noop(self, record: NoOpRecord, changes: list[UndoEntry]) -> None:
        """Ignore a record without state."""

    def _apply_producer_ids(self, record: ProducerIdsRecord, changes: list[UndoEntry]) -> None:
        old_row, new_row = self.next_producer_id, record.next_producer_id
        assign(self._scalars, "next producer id", new_row, changes)
        self._replace_row(producer_ids_row(old_row), producer_ids_row(new_row), changes)

    def _replace_row(self, old_row: int, new_row: int, changes: list[UndoEntry]) -> None:
        # Runs once per record: `assign` and `replace_row` are inlined.
        numbers = self._scalars
        before = numbers["hash"]
        changes.append((numbers, "hash", before))
        numbers["hash"] = before - old_row + new_row & HASH_MASK

    def fingerprint(self) -> tuple[object, ...]:
        """Return values that are equal for equal images and show where others differ. Reads the whole image."""
        configs = tuple(
            (resource, tuple(sorted(values.items())))
            for resource, values in sorted(self.configs.items())
            if values
        )
        topics = tuple(
            (
                name,
                topic_id,
                tuple((i, p.as_tuple()) for i, p in sorted(self.topics[topic_id].partitions.items())),
            )
            for name, topic_id in sorted(self.topic_ids.items())
        )
        brokers = tuple(broker.canonical for _, broker in sorted(self.brokers.items()))
        features = tuple(sorted(self.features.items()))
        stored = tuple((key, canonical_frame(frame)) for key, frame in sorted(self.opaque_records.items()))
        return configs, features, brokers, topics, self.next_producer_id, stored


def _optional_tuple(directories: list[KafkaUuid] | None) -> tuple[KafkaUuid, ...] | None:
    return None if directories is None else tuple(directories)


_REPLAY: dict[type, Callable[[ClusterImage, Any, list[UndoEntry]], None]] = {
    ConfigRecord: ClusterImage.apply_config,
    FeatureLevelRecord: ClusterImage._apply_feature_level,
    RegisterBrokerRecord: ClusterImage._register_broker,
    BrokerRegistrationChangeRecord: ClusterImage._change_broker,
    FenceBrokerRecord: ClusterImage._fence_broker,
    UnfenceBrokerRecord: ClusterImage._unfence_broker,
    UnregisterBrokerRecord: ClusterImage._unregister_broker,
    TopicRecord: ClusterImage._add_topic,
    RemoveTopicRecord: ClusterImage._remove_topic,
    PartitionRecord: ClusterImage._add_partition,
    PartitionChangeRecord: ClusterImage.apply_partition_change,
    ClearElrRecord: ClusterImage._clear_elr,
    ProducerIdsRecord: ClusterImage._apply_producer_ids,
    BeginTransactionRecord: ClusterImage._begin_transaction,
    EndTransactionRecord: ClusterImage._end_transaction,
    AbortTransactionRecord: ClusterImage._abort_transaction,
    NoOpRecord: ClusterImage._apply_noop,
}
"""By record type. Functions, not bound methods: an image without reference cycles is freed once it is replaced."""
