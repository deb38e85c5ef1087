"""What partitions are folded from, in the order in which it happened to each: states, records, and what befell many
partitions at once (a removed topic, a cleared ELR, another min.insync.replicas)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quorumd.pipeline.history.packed import Flags, Ints

PARTITION_RECORD: Final = 3
PARTITION_CHANGE: Final = 5

# Kinds of rows.
STATE: Final = 0
"""The state that a partition is in before the records."""
CREATE: Final = 1
CHANGE: Final = 2
CLEAR_ELR: Final = 3
MIN_ISR: Final = 4
REMOVE: Final = 5

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


@dataclass(frozen=True, slots=True)
class Moment:
    """When something befell many partitions. `topic_id` None is all of them; of MIN_ISR, `topic` says whose."""

    kind: int
    offset: int
    ts_us: int
    epoch: int
    topic_id: bytes | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """A value of min.insync.replicas from an offset on: of a topic's name, or of all with the name "". None removes
    it. What was set before the records has offset -1."""

    offset: int
    topic: str
    value: int | None


@dataclass(slots=True)
class Surroundings:
    """What else there was while the records were written: all but the records of partitions."""

    names: dict[bytes, str] = field(default_factory=dict)
    """Of topics, by id."""
    moments: list[Moment] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    """In the order of their offsets."""
    snapshot_offset: int | None = None
    """PartitionRecords at this offset are not news: a snapshot says so."""


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
    inputs: Any
    """pyarrow.Table: the states, then the records."""
    topic_ids: Any
    """pyarrow.Array: by the number of the topic."""

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
        )

    @property
    def topic(self) -> Ints:
        """Numbers of topics."""
        return self.key >> 32

    @property
    def first(self) -> Flags:
        """Whether a row is the first of its partition."""
        flags = np.empty(len(self.key), np.bool_)
        flags[:1] = True
        np.not_equal(self.key[1:], self.key[:-1], out=flags[1:])
        return flags

    def __len__(self) -> int:
        return len(self.key)


def arrange(states: Any, records: Any, surroundings: Surroundings) -> Rows:
    """All that happened, in its order, without what happened to partitions that were not there.

    `states`: Table of the states before (schemas.PARTITION_STATES, packed); `records`: Table of RECORD_COLUMNS.
    """
    shared = ["topic_id", "partition", *("leader", "leader_epoch", "partition_epoch"), *LISTS]
    inputs = pa.concat_tables([states.select(shared), records.select(shared)]).combine_chunks()
    topics = inputs["topic_id"].combine_chunks().dictionary_encode() if len(inputs) else None
    topic_ids = topics.dictionary if topics is not None else pa.array([], pa.binary())
    numbers = topics.indices.to_numpy().astype(np.int64) if topics is not None else np.empty(0, np.int64)
    key = (numbers << 32) | inputs["partition"].to_numpy().astype(np.int64)
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
    )
    rows = _with_moments(rows, surroundings.moments)
    order = np.lexsort((rows.offset, rows.key))
    rows = Rows(
        rows.key[order],
        rows.offset[order],
        rows.ts[order],
        rows.epoch[order],
        rows.kind[order],
        rows.source[order],
        inputs,
        topic_ids,
    )
    return rows.keep(_is_there(rows))


def _micros(times: Any) -> Ints:
    micros: Ints = pc.cast(times, pa.int64()).to_numpy()
    return micros


def _with_moments(rows: Rows, moments: list[Moment]) -> Rows:
    """Rows, and a row for each partition that a moment befell; not in order."""
    if not moments:
        return rows
    keys = np.unique(rows.key)
    number_of = {topic_id: number for number, topic_id in enumerate(rows.topic_ids.to_pylist())}
    parts: list[tuple[Moment, Ints]] = []
    for moment in moments:
        if moment.topic_id is None:
            parts.append((moment, keys))
        elif (number := number_of.get(moment.topic_id)) is not None:
            low, high = np.searchsorted(keys, [number << 32, (number + 1) << 32])
            parts.append((moment, keys[low:high]))
    sizes = [len(part) for _, part in parts]

    def spread(values: list[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        return np.repeat(np.array(values, dtype), sizes)

    return Rows(
        np.concatenate([rows.key, *(part for _, part in parts)]),
        np.concatenate([rows.offset, spread([moment.offset for moment, _ in parts], np.int64)]),
        np.concatenate([rows.ts, spread([moment.ts_us for moment, _ in parts], np.int64)]),
        np.concatenate([rows.epoch, spread([moment.epoch for moment, _ in parts], np.int32)]),
        np.concatenate([rows.kind, spread([moment.kind for moment, _ in parts], np.int8)]),
        np.concatenate([rows.source, np.full(sum(sizes), -1, np.int64)]),
        rows.inputs,
        rows.topic_ids,
    )


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
