"""Topics, partitions, brokers and features in the committed log over time, without the controller's code."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.clear_elr_record import ClearElrRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.logs import CommittedDataIsImmutable

TOPIC, PARTITION, BROKER, FEATURE = "topic", "partition", "broker", "feature"
NO_CHANGE: Final = -2
"""The leader in a record that keeps the leader."""
ASSUMED_ONLINE: Final = (ZERO_UUID, KafkaUuid(bytes(15) + b"\x01"))
"""Directories of replicas that their brokers have not reported yet (KIP-858)."""
LOST: Final = KafkaUuid(bytes(15) + b"\x02")


class PartitionState(NamedTuple):
    """A partition in the committed log."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    directories: tuple[KafkaUuid, ...]


class BrokerState(NamedTuple):
    """A registered broker in the committed log."""

    epoch: int
    is_fenced: bool
    rack: str | None
    directories: tuple[KafkaUuid, ...]

    def is_online(self, directory: KafkaUuid | None) -> bool:
        """Whether a replica in this directory, None if unknown, is online."""
        if self.is_fenced or directory == LOST:
            return False
        known = bool(self.directories) and directory is not None and directory not in ASSUMED_ONLINE
        return not known or directory in self.directories


Key = tuple[str, str, int]
"""A kind, a name, and for brokers and partitions a number."""
Value = PartitionState | BrokerState | str | int | None
"""A partition, a broker, the id of a topic, or the level of a feature; None if there is none."""


class Claim(NamedTuple):
    """A statement of a response about the values of these keys."""

    text: str
    keys: tuple[Key, ...]
    holds: Callable[..., bool]
    """Called with the values."""


def topic_key(name: str) -> Key:
    return TOPIC, name, -1


def partition_key(topic_id: str, number: int) -> Key:
    return PARTITION, topic_id, number


def broker_key(broker_id: int) -> Key:
    return BROKER, "", broker_id


def feature_key(name: str) -> Key:
    return FEATURE, name, -1


class CommittedState:
    """The values after every committed record, not only after every batch: a batch may have the records of several
    requests, and a response of a leader may show the state between them."""

    def __init__(self, committed: CommittedDataIsImmutable) -> None:
        self._committed = committed
        self._read = 0
        self._values: dict[Key, Value] = {}
        self._histories: dict[Key, tuple[list[int], list[Value]]] = {}
        """The end offsets of the records that changed a value, and the values."""
        self._names: dict[str, str] = {}
        """The names of all topics by id, also of deleted ones."""
        self._changed: dict[Key, None] = {}

    @property
    def end_offset(self) -> int:
        return self._committed.end_offset

    def name_of(self, topic_id: str) -> str:
        """Return the name of a topic, also of a deleted one; "" if it never existed."""
        return self._names.get(topic_id, "")

    def follow(self) -> None:
        """Apply the batches committed since the last call."""
        batches = self._committed.batches
        while self._read < len(batches):
            batch = batches[self._read]
            self._read += 1
            if not batch.is_control:
                self.apply(batch.base_offset, _records(batch.data))

    def apply(self, base_offset: int, records: Iterable[Message]) -> None:
        """Apply the records of a batch."""
        for end_offset, record in enumerate(records, base_offset + 1):
            self._apply(record)
            for key in self._changed:
                offsets, history = self._histories.setdefault(key, ([], []))
                value = self._values.get(key)
                if value != (history[-1] if history else None):
                    offsets.append(end_offset)
                    history.append(value)
            self._changed.clear()

    def value_at(self, key: Key, offset: int) -> Value:
        """Return a value after all records below this offset."""
        offsets, history = self._histories.get(key, ([], []))
        count = bisect_right(offsets, offset)
        return history[count - 1] if count else None

    def keys(self, kind: str, since: int) -> list[Key]:
        """Return the keys of a kind that had a value at this offset or later."""
        return [
            key
            for key, (offsets, _) in self._histories.items()
            if key[0] == kind and (offsets[-1] > since or self.value_at(key, since) is not None)
        ]

    def was_absent(self, key: Key) -> bool:
        """Whether the key never had a value, or lost it at some time."""
        history = self._histories.get(key, ([], []))[1]
        return not history or None in history

    def first_match(self, claims: list[Claim], since: int) -> int | None:
        """Return the lowest offset, `since` or above, at which all claims hold; None if there is none."""
        candidates = {since}
        for key in {key for claim in claims for key in claim.keys}:
            offsets = self._histories.get(key, ([], []))[0]
            candidates.update(offsets[bisect_right(offsets, since) :])
        return next(
            (offset for offset in sorted(candidates) if not self.first_contradiction(claims, offset)), None
        )

    def first_contradiction(self, claims: list[Claim], offset: int) -> str:
        """Describe the first claim that does not hold at this offset, "" if all hold."""
        for claim in claims:
            found = [self.value_at(key, offset) for key in claim.keys]
            if not claim.holds(*found):
                return f"{claim.text}, but at offset {offset} there is {found}"
        return ""

    # Records

    def _set(self, key: Key, value: Value) -> None:
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value
        self._changed[key] = None

    def _apply(self, record: Message) -> None:
        if isinstance(record, TopicRecord):
            self._names[str(record.topic_id)] = record.name
            self._set(topic_key(record.name), str(record.topic_id))
        elif isinstance(record, RemoveTopicRecord):
            self._remove_topic(str(record.topic_id))
        elif isinstance(record, PartitionRecord):
            self._set(partition_key(str(record.topic_id), record.partition_id), _new_partition(record))
        elif isinstance(record, PartitionChangeRecord):
            key = partition_key(str(record.topic_id), record.partition_id)
            before = self._values[key]
            assert isinstance(before, PartitionState)
            self._set(key, _changed_partition(before, record))
        elif isinstance(record, ClearElrRecord):
            self._clear_elr(record.topic_name)
        elif isinstance(record, FeatureLevelRecord):
            self._set(feature_key(record.name), record.feature_level or None)
        else:
            self._apply_to_broker(record)

    def _remove_topic(self, topic_id: str) -> None:
        self._set(topic_key(self._names[topic_id]), None)
        for key in [key for key in self._values if key[:2] == (PARTITION, topic_id)]:
            self._set(key, None)

    def _clear_elr(self, name: str) -> None:
        """Clear the ELRs of one topic, or with the name "" of all topics."""
        for key, value in list(self._values.items()):
            if isinstance(value, PartitionState) and name in ("", self._names[key[1]]):
                self._set(key, value._replace(elr=(), last_known_elr=()))

    def _apply_to_broker(self, record: Message) -> None:
        if isinstance(record, RegisterBrokerRecord):
            state = BrokerState(record.broker_epoch, record.fenced, record.rack, tuple(record.log_dirs))
            self._set(broker_key(record.broker_id), state)
        elif isinstance(record, UnregisterBrokerRecord):
            self._set(broker_key(record.broker_id), None)
        elif isinstance(record, FenceBrokerRecord | UnfenceBrokerRecord):
            known = self._values[broker_key(record.id)]
            assert isinstance(known, BrokerState)
            is_fenced = isinstance(record, FenceBrokerRecord)
            self._set(broker_key(record.id), known._replace(is_fenced=is_fenced))
        elif isinstance(record, BrokerRegistrationChangeRecord):
            known = self._values[broker_key(record.broker_id)]
            assert isinstance(known, BrokerState)
            if record.fenced:
                known = known._replace(is_fenced=record.fenced > 0)
            if record.log_dirs:
                known = known._replace(directories=tuple(record.log_dirs))
            self._set(broker_key(record.broker_id), known)


def _records(data: bytes) -> Iterator[Message]:
    for header in headers(data):
        for frame in values(data, header):
            yield decode_record(frame)


def _new_partition(record: PartitionRecord) -> PartitionState:
    return PartitionState(
        record.leader,
        record.leader_epoch,
        tuple(record.replicas),
        tuple(record.isr),
        tuple(record.eligible_leader_replicas or ()),
        tuple(record.last_known_elr or ()),
        tuple(record.adding_replicas),
        tuple(record.removing_replicas),
        tuple(record.directories),
    )


def _changed_partition(before: PartitionState, record: PartitionChangeRecord) -> PartitionState:
    names_leader = record.leader != NO_CHANGE
    directories = record.directories
    return PartitionState(
        record.leader if names_leader else before.leader,
        before.leader_epoch + names_leader,
        _changed(before.replicas, record.replicas),
        _changed(before.isr, record.isr),
        _changed(before.elr, record.eligible_leader_replicas),
        _changed(before.last_known_elr, record.last_known_elr),
        _changed(before.adding, record.adding_replicas),
        _changed(before.removing, record.removing_replicas),
        before.directories if directories is None else tuple(directories),
    )


def _changed(before: tuple[int, ...], after: list[int] | None) -> tuple[int, ...]:
    return before if after is None else tuple(after)
