"""The input of the fold of partitions, ordered by partition and offset.

Rows are previous states, records, and changes that affect many partitions at once: a removed topic, a cleared ELR, a
change of min.insync.replicas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quorumd.pipeline.history.packed import Flags, Ints
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord

PARTITION_RECORD: Final = PartitionRecord.API_KEY
PARTITION_CHANGE: Final = PartitionChangeRecord.API_KEY

# Kinds of rows.
STATE: Final = 0
"""The state of a partition before the records."""
CREATE: Final = 1
CHANGE: Final = 2
CLEAR_ELR: Final = 3
MIN_ISR: Final = 4
REMOVE: Final = 5

_Integer = TypeVar("_Integer", bound=np.integer)
_PARTITION: Final = (1 << 32) - 1
"""The bits of a key that hold the partition id."""
LISTS: Final = ("replicas", "isr", "elr", "last_known_elr", "adding", "removing")
NO_LEADER: Final = -1
LEADER_UNCHANGED: Final = -2
RECOVERY_UNCHANGED: Final = -1

RECORD_COLUMNS: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("epoch", pa.int32()),
        ("type", pa.int16()),
        ("topic_id", pa.binary()),
        ("partition", pa.int32()),
        ("leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("partition_epoch", pa.int32()),
        ("recovering", pa.int8()),
        *((name, pa.binary()) for name in LISTS),
    ]
)
"""PartitionRecords and PartitionChangeRecords as the source returns them with packed lists."""


@dataclass(slots=True)
class BulkChanges:
    """Changes that affect many partitions, in columns: there may be very many, and they are sent to workers."""

    kind: list[int] = field(default_factory=list)
    """CLEAR_ELR, MIN_ISR or REMOVE."""
    offset: list[int] = field(default_factory=list)
    ts_us: list[int] = field(default_factory=list)
    epoch: list[int] = field(default_factory=list)
    topic_id: list[bytes | None] = field(default_factory=list)
    """None for all topics."""

    def add(self, kind: int, offset: int, ts_us: int, epoch: int, topic_id: bytes | None) -> None:
        self.kind.append(kind)
        self.offset.append(offset)
        self.ts_us.append(ts_us)
        self.epoch.append(epoch)
        self.topic_id.append(topic_id)

    def __len__(self) -> int:
        return len(self.kind)


class Setting(NamedTuple):
    """A value of min.insync.replicas from an offset on, for a topic or, with topic "", for the cluster.

    None removes the value. Values from before the records have offset -1.
    """

    offset: int
    topic: str
    value: int | None


@dataclass(slots=True)
class ReplicaContext:
    """Everything outside of partition records that the fold of partitions depends on."""

    topics: pa.Table = field(default_factory=lambda: _topics({}))
    """The columns topic_id and topic of the topics that the records refer to."""
    bulk_changes: BulkChanges = field(default_factory=BulkChanges)
    settings: list[Setting] = field(default_factory=list)
    """Ordered by offset."""
    aborted: list[tuple[int, int]] = field(default_factory=list)
    """The offsets [begin, end) of aborted transactions."""
    snapshot_offset: int | None = None
    """The offset of a seed snapshot: PartitionRecords there do not change the partition."""

    def name(self, topics: Mapping[bytes, str]) -> None:
        """Set the names of topics, by id."""
        self.topics = _topics(topics)

    def names_of(self, topic_ids: pa.Array) -> pa.Array:
        """Return the names for these ids; null if unknown."""
        rows = pc.index_in(topic_ids, self.topics["topic_id"].combine_chunks())
        return self.topics["topic"].combine_chunks().take(rows)


def _topics(names: Mapping[bytes, str]) -> pa.Table:
    ids = pa.array(list(names), pa.binary())
    return pa.table({"topic_id": ids, "topic": pa.array(list(names.values()), pa.string())})


@dataclass(slots=True)
class Rows:
    """Columns of equal length, ordered by partition and offset."""

    key: Ints
    """topic number * 2**32 + partition id."""
    offset: Ints
    ts: Ints
    epoch: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int8]
    source: Ints
    """The row of `inputs`; -1 for changes of many partitions."""
    inputs: pa.Table
    """The previous states, followed by the records."""
    topic_ids: pa.Array
    """By topic number."""
    names: pa.Array
    """By topic number; null if unknown."""

    def keep(self, flags: Flags) -> Rows:
        """Return only the flagged rows."""
        return Rows(
            self.key[flags],
            self.offset[flags],
            self.ts[flags],
            self.epoch[flags],
            self.kind[flags],
            self.source[flags],
            self.inputs,
            self.topic_ids,
            self.names,
        )

    @property
    def topic(self) -> Ints:
        """The topic numbers."""
        return self.key >> 32

    @property
    def partition(self) -> npt.NDArray[np.int32]:
        """The partition ids."""
        return (self.key & _PARTITION).astype(np.int32)

    @property
    def first(self) -> Flags:
        """True for the first row of each partition."""
        flags = np.empty(len(self.key), np.bool_)
        flags[:1] = True
        np.not_equal(self.key[1:], self.key[:-1], out=flags[1:])
        return flags

    def __len__(self) -> int:
        return len(self.key)


def without_aborted(records: pa.Table, context: ReplicaContext) -> pa.Table:
    """Drop the records (a table of RECORD_COLUMNS) of aborted transactions."""
    if not context.aborted:
        return records
    begins, ends = (np.array(column) for column in zip(*context.aborted, strict=True))
    offsets = records["offset"].to_numpy()
    last = np.searchsorted(begins, offsets, side="right") - 1
    return records.filter(pa.array((last < 0) | (offsets >= ends[last])))


def arrange(states: pa.Table, records: pa.Table, context: ReplicaContext) -> Rows:
    """Order states, records and bulk changes, and omit changes of partitions that do not exist at that offset.

    `states` has the previous states (schemas.PARTITION_STATES, packed), `records` the columns RECORD_COLUMNS.
    """
    shared = ["topic_id", "partition", "leader", "leader_epoch", "partition_epoch", *LISTS]
    inputs = pa.concat_tables([states.select(shared), records.select(shared)]).combine_chunks()
    topics = inputs["topic_id"].combine_chunks().dictionary_encode() if len(inputs) else None
    topic_ids = topics.dictionary if topics is not None else pa.array([], pa.binary())
    numbers = topics.indices.to_numpy().astype(np.int64) if topics is not None else np.empty(0, np.int64)
    key = (numbers << 32) | (inputs["partition"].to_numpy().astype(np.int64) & _PARTITION)
    kind = np.full(len(inputs), STATE, np.int8)
    types = records["type"].to_numpy()
    kind[len(states) :] = np.where(types == PARTITION_RECORD, CREATE, CHANGE)
    rows = Rows(
        key,
        np.concatenate([states["from_offset"].to_numpy(), records["offset"].to_numpy()]),
        np.concatenate([_micros(states["from_ts"]), _micros(records["ts"])]),
        np.concatenate([states["epoch"].to_numpy(), records["epoch"].to_numpy()]),
        kind,
        np.arange(len(inputs)),
        inputs,
        topic_ids,
        _names(topic_ids, numbers, states["topic"], context),
    )
    rows = _with_bulk_changes(rows, context.bulk_changes)
    order = _in_order(rows.key, rows.offset, len(inputs))
    rows = Rows(
        rows.key[order],
        rows.offset[order],
        rows.ts[order],
        rows.epoch[order],
        rows.kind[order],
        rows.source[order],
        inputs,
        topic_ids,
        rows.names,
    )
    there = _is_there(rows)
    return rows if there.all() else rows.keep(there)


def _names(
    topic_ids: pa.Array, numbers: Ints, of_states: pa.ChunkedArray, context: ReplicaContext
) -> pa.Array:
    """Return names by topic number: from records, otherwise from the previous states."""
    found = context.names_of(topic_ids)
    if not found.null_count:
        return found
    known, first = np.unique(numbers[: len(of_states)], return_index=True)
    row = np.full(len(topic_ids), -1)
    row[known] = first
    earlier = of_states.combine_chunks().take(pa.array(row, mask=row < 0))
    return pc.coalesce(found, earlier)


def _micros(times: pa.ChunkedArray) -> Ints:
    micros: Ints = pc.cast(times, pa.int64()).to_numpy()
    return micros


def _with_bulk_changes(rows: Rows, bulk_changes: BulkChanges) -> Rows:
    """Append a row for each partition that a bulk change affects; the result is not ordered."""
    if not bulk_changes:
        return rows
    number = pc.index_in(pa.array(bulk_changes.topic_id, pa.binary()), rows.topic_ids)
    number = number.fill_null(-1).to_numpy().astype(np.int64)
    of_all = np.array([topic_id is None for topic_id in bulk_changes.topic_id])
    affected_topics = np.zeros(len(rows.topic_ids), np.bool_)
    affected_topics[number[number >= 0]] = True
    keys = np.unique(rows.key if of_all.any() else rows.key[affected_topics[rows.topic]])
    low = np.where(of_all, 0, np.searchsorted(keys, number << 32))
    high = np.where(of_all, len(keys), np.searchsorted(keys, (number + 1) << 32))
    sizes = np.where(of_all | (number >= 0), high - low, 0)
    # The keys low[0], low[0] + 1, ... high[0] - 1, low[1], ...
    affected = np.arange(sizes.sum()) + np.repeat(low - np.cumsum(sizes) + sizes, sizes)

    def spread(values: list[int], dtype: type[_Integer]) -> npt.NDArray[_Integer]:
        return np.repeat(np.array(values, dtype), sizes)

    return Rows(
        np.concatenate([rows.key, keys[affected]]),
        np.concatenate([rows.offset, spread(bulk_changes.offset, np.int64)]),
        np.concatenate([rows.ts, spread(bulk_changes.ts_us, np.int64)]),
        np.concatenate([rows.epoch, spread(bulk_changes.epoch, np.int32)]),
        np.concatenate([rows.kind, spread(bulk_changes.kind, np.int8)]),
        np.concatenate([rows.source, np.full(len(affected), -1, np.int64)]),
        rows.inputs,
        rows.topic_ids,
        rows.names,
    )


def _in_order(key: Ints, offset: Ints, inputs: int) -> Ints:
    """Return the order of rows by key and offset.

    The first `inputs` rows are states, followed by records with ascending offsets; the offsets of the remaining rows
    ascend as well.
    """
    by_time = np.arange(inputs)
    if inputs < len(key):
        places = np.searchsorted(offset[:inputs], offset[inputs:], side="right")
        by_time = np.insert(by_time, places, np.arange(inputs, len(key)))
        key = key[by_time]
    if not len(key):
        return by_time
    # Sorting key and position in one integer is several times faster than an argsort by key.
    partition = key & _PARTITION
    partition_bits, place_bits = int(partition.max()).bit_length(), len(key).bit_length()
    if (int(key.max()) >> 32).bit_length() + partition_bits + place_bits > 63:
        return by_time[np.argsort(key, kind="stable")]
    both = ((((key >> 32) << partition_bits) | partition) << place_bits) | np.arange(len(key))
    both.sort()
    places = both & ((1 << place_bits) - 1)
    return np.asarray(by_time[places])


def _is_there(rows: Rows) -> Flags:
    """Return a mask of the rows at which their partition exists: created or in a previous state, and not removed
    since."""
    index = np.arange(len(rows))
    creates = rows.kind <= CREATE
    last_create = np.maximum.accumulate(np.where(creates, index, -1))
    last_remove = np.maximum.accumulate(np.where(rows.kind == REMOVE, index, -1))
    removed_before = np.concatenate([np.array([-1]), last_remove[:-1]]) if len(rows) else last_remove
    start = np.maximum.accumulate(np.where(rows.first, index, 0))
    there: Flags = (last_create >= start) & (last_create > removed_before)
    return there
