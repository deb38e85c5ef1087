"""What partitions are folded from, in the order in which it happened to each: states, records, and what befell many
partitions at once (a removed topic, a cleared ELR, another min.insync.replicas)."""

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
"""The state that a partition is in before the records."""
CREATE: Final = 1
CHANGE: Final = 2
CLEAR_ELR: Final = 3
MIN_ISR: Final = 4
REMOVE: Final = 5

_Integer = TypeVar("_Integer", bound=np.integer)
_PARTITION: Final = (1 << 32) - 1
"""The bits of a key with the partition's number."""
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
"""PartitionRecords and PartitionChangeRecords as the source gives them with packed lists."""


@dataclass(slots=True)
class Moments:
    """When something befell many partitions, by columns: there may be very many, and workers are sent them.

    A topic's id None means all partitions.
    """

    kind: list[int] = field(default_factory=list)
    """CLEAR_ELR, MIN_ISR or REMOVE."""
    offset: list[int] = field(default_factory=list)
    ts_us: list[int] = field(default_factory=list)
    epoch: list[int] = field(default_factory=list)
    topic_id: list[bytes | None] = field(default_factory=list)

    def add(self, kind: int, offset: int, ts_us: int, epoch: int, topic_id: bytes | None) -> None:
        self.kind.append(kind)
        self.offset.append(offset)
        self.ts_us.append(ts_us)
        self.epoch.append(epoch)
        self.topic_id.append(topic_id)

    def __len__(self) -> int:
        return len(self.kind)


class Setting(NamedTuple):
    """A value of min.insync.replicas from an offset on: of a topic's name, or of all with the name "". None removes
    it. What was set before the records has offset -1."""

    offset: int
    topic: str
    value: int | None


@dataclass(slots=True)
class ReplicaContext:
    """What else there was while the records were written: all but the records of partitions."""

    topics: pa.Table = field(default_factory=lambda: _topics({}))
    """The topic_id and the name, topic, of the topics that records mention."""
    moments: Moments = field(default_factory=Moments)
    settings: list[Setting] = field(default_factory=list)
    """In the order of their offsets."""
    aborted: list[tuple[int, int]] = field(default_factory=list)
    """Offsets [begin, end) of transactions that were aborted: their records never were."""
    snapshot_offset: int | None = None
    """PartitionRecords at this offset are not news: a snapshot says so."""

    def name(self, topics: Mapping[bytes, str]) -> None:
        """Say what topics are called, by id."""
        self.topics = _topics(topics)

    def names_of(self, topic_ids: pa.Array) -> pa.Array:
        """pyarrow.Array of the names that go with these ids; null where nothing says it."""
        rows = pc.index_in(topic_ids, self.topics["topic_id"].combine_chunks())
        return self.topics["topic"].combine_chunks().take(rows)


def _topics(names: Mapping[bytes, str]) -> pa.Table:
    ids = pa.array(list(names), pa.binary())
    return pa.table({"topic_id": ids, "topic": pa.array(list(names.values()), pa.string())})


@dataclass(slots=True)
class Rows:
    """Rows by partition, and in the order of offsets within it; equal lengths."""

    key: Ints
    """Number of the topic * 2**32 + number of the partition."""
    offset: Ints
    ts: Ints
    epoch: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int8]
    source: Ints
    """Row of `inputs`; -1 where none is behind it."""
    inputs: pa.Table
    """The states, then the records."""
    topic_ids: pa.Array
    """By the number of the topic."""
    names: pa.Array
    """By the number of the topic; null where nothing says it."""

    def keep(self, flags: Flags) -> Rows:
        """Only these rows."""
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
        """Numbers of topics."""
        return self.key >> 32

    @property
    def partition(self) -> npt.NDArray[np.int32]:
        """Numbers of partitions."""
        return (self.key & _PARTITION).astype(np.int32)

    @property
    def first(self) -> Flags:
        """Whether a row is the first of its partition."""
        flags = np.empty(len(self.key), np.bool_)
        flags[:1] = True
        np.not_equal(self.key[1:], self.key[:-1], out=flags[1:])
        return flags

    def __len__(self) -> int:
        return len(self.key)


def without_aborted(records: pa.Table, surroundings: ReplicaContext) -> pa.Table:
    """The records (Table of RECORD_COLUMNS) that count."""
    if not surroundings.aborted:
        return records
    begins, ends = (np.array(column) for column in zip(*surroundings.aborted, strict=True))
    offsets = records["offset"].to_numpy()
    last = np.searchsorted(begins, offsets, side="right") - 1
    return records.filter(pa.array((last < 0) | (offsets >= ends[last])))


def arrange(states: pa.Table, records: pa.Table, surroundings: ReplicaContext) -> Rows:
    """All that happened, in its order, without what happened to partitions that were not there.

    `states`: Table of the states before (schemas.PARTITION_STATES, packed); `records`: Table of RECORD_COLUMNS.
    """
    shared = ["topic_id", "partition", *("leader", "leader_epoch", "partition_epoch"), *LISTS]
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
        _names(topic_ids, numbers, states["topic"], surroundings),
    )
    rows = _with_moments(rows, surroundings.moments)
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
    topic_ids: pa.Array, numbers: Ints, of_states: pa.ChunkedArray, surroundings: ReplicaContext
) -> pa.Array:
    """By the number of a topic: as records that are folded say it, else as its states do."""
    found = surroundings.names_of(topic_ids)
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


def _with_moments(rows: Rows, moments: Moments) -> Rows:
    """Rows, and a row for each partition that a moment befell; not in order."""
    if not moments:
        return rows
    number = pc.index_in(pa.array(moments.topic_id, pa.binary()), rows.topic_ids)
    number = number.fill_null(-1).to_numpy().astype(np.int64)
    of_all = np.array([topic_id is None for topic_id in moments.topic_id])
    befallen_topics = np.zeros(len(rows.topic_ids), np.bool_)
    befallen_topics[number[number >= 0]] = True
    keys = np.unique(rows.key if of_all.any() else rows.key[befallen_topics[rows.topic]])
    low = np.where(of_all, 0, np.searchsorted(keys, number << 32))
    high = np.where(of_all, len(keys), np.searchsorted(keys, (number + 1) << 32))
    sizes = np.where(of_all | (number >= 0), high - low, 0)
    # The keys low[0], low[0] + 1, ... high[0] - 1, low[1], ...
    befallen = np.arange(sizes.sum()) + np.repeat(low - np.cumsum(sizes) + sizes, sizes)

    def spread(values: list[int], dtype: type[_Integer]) -> npt.NDArray[_Integer]:
        return np.repeat(np.array(values, dtype), sizes)

    return Rows(
        np.concatenate([rows.key, keys[befallen]]),
        np.concatenate([rows.offset, spread(moments.offset, np.int64)]),
        np.concatenate([rows.ts, spread(moments.ts_us, np.int64)]),
        np.concatenate([rows.epoch, spread(moments.epoch, np.int32)]),
        np.concatenate([rows.kind, spread(moments.kind, np.int8)]),
        np.concatenate([rows.source, np.full(len(befallen), -1, np.int64)]),
        rows.inputs,
        rows.topic_ids,
        rows.names,
    )


def _in_order(key: Ints, offset: Ints, inputs: int) -> Ints:
    """The rows by key, and by offset where that is the same. Those of `inputs` ascend but for the states, which are
    before all else; the others ascend, too."""
    by_time = np.arange(inputs)
    if inputs < len(key):
        places = np.searchsorted(offset[:inputs], offset[inputs:], side="right")
        by_time = np.insert(by_time, places, np.arange(inputs, len(key)))
        key = key[by_time]
    if not len(key):
        return by_time
    # Key and place in one number: sorting such is several times as quick as sorting places by key.
    partition = key & _PARTITION
    partition_bits, place_bits = int(partition.max()).bit_length(), len(key).bit_length()
    if (int(key.max()) >> 32).bit_length() + partition_bits + place_bits > 63:
        return by_time[np.argsort(key, kind="stable")]
    both = ((((key >> 32) << partition_bits) | partition) << place_bits) | np.arange(len(key))
    both.sort()
    places = both & ((1 << place_bits) - 1)
    return np.asarray(by_time[places])


def _is_there(rows: Rows) -> Flags:
    """Whether the partition is there at each row: created, or in a state, and not removed since."""
    index = np.arange(len(rows))
    creates = rows.kind <= CREATE
    last_create = np.maximum.accumulate(np.where(creates, index, -1))
    last_remove = np.maximum.accumulate(np.where(rows.kind == REMOVE, index, -1))
    removed_before = np.concatenate([np.array([-1]), last_remove[:-1]]) if len(rows) else last_remove
    start = np.maximum.accumulate(np.where(rows.first, index, 0))
    there: Flags = (last_create >= start) & (last_create > removed_before)
    return there
