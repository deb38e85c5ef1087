"""Folds partition records to states (schemas.PARTITION_STATES), in numpy.

A change record has only the changed fields, a state has all of them: the last reported value is filled forward per
partition. Partition epochs and leader epochs are counted, as all readers of the log do.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quorumd.pipeline.history.causes import CAUSES, Transitions, causes_of
from quorumd.pipeline.history.packed import Flags, Ints, PackedLists
from quorumd.pipeline.history.partition_rows import (
    CHANGE,
    CLEAR_ELR,
    CREATE,
    LEADER_UNCHANGED,
    LISTS,
    MIN_ISR,
    NO_LEADER,
    RECOVERY_UNCHANGED,
    REMOVE,
    STATE,
    ReplicaContext,
    Rows,
    Setting,
    arrange,
    without_aborted,
)
from quorumd.pipeline.tables.schemas import PARTITION_STATES, Table

STATES = Table(
    "partition_states",
    "Without the columns that are equal in all rows.",
    tuple(column for column in PARTITION_STATES.packed().columns if column.name != "cluster_id"),
)
_Scalar = TypeVar("_Scalar", bound=np.generic)
_NOT_THERE = np.iinfo(np.int64).min


class Folded(NamedTuple):
    """Ended and current states (tables of STATES). topic_id, topic and cause are dictionaries, which Parquet
    stores as such."""

    closed: pa.Table
    open: pa.Table
    orphans: int
    """The number of changes of partitions without a creating record."""
    partition_counts: dict[bytes, int]
    """By topic id: the largest partition id in the records + 1."""


def fold(states: pa.Table, records: pa.Table, context: ReplicaContext) -> Folded:
    """Fold records (RECORD_COLUMNS) onto the previous states (STATES)."""
    records = without_aborted(records, context)
    rows = arrange(states, records, context)
    orphans = len(records) - int(((rows.kind == CREATE) | (rows.kind == CHANGE)).sum())
    timeline = _Timeline(states, records, rows, context)
    timeline.drop_no_ops()
    return Folded(*timeline.states(states), orphans, _partition_counts(rows))


def _partition_counts(rows: Rows) -> dict[bytes, int]:
    made = rows.kind == CREATE
    counts = np.zeros(len(rows.topic_ids), np.int64)
    np.maximum.at(counts, rows.topic[made], rows.partition[made].astype(np.int64) + 1)
    topics = np.flatnonzero(counts)
    ids = rows.topic_ids.take(pa.array(topics)).to_pylist()
    return dict(zip(ids, counts[topics].tolist(), strict=True))


class _Timeline:
    """Rows, and for each field of a state the row that reported it last."""

    def __init__(self, states: pa.Table, records: pa.Table, rows: Rows, context: ReplicaContext) -> None:
        self.rows = rows
        self.context = context
        self.leader = _ints(rows.inputs["leader"], LEADER_UNCHANGED)
        recovering = np.concatenate(
            [
                pc.cast(states["recovering"], pa.int8()).to_numpy(),
                _ints(records["recovering"], RECOVERY_UNCHANGED),
            ]
        )
        self.recovering = recovering.astype(np.int8)
        self.leader_epoch = _ints(rows.inputs["leader_epoch"], -1)
        self.partition_epoch = _ints(rows.inputs["partition_epoch"], -1)
        self.lists: dict[str, PackedLists] = {}
        self.reported: dict[str, Flags] = {}
        empty = pa.array([b""], pa.binary())
        for name in LISTS:
            column = rows.inputs[name].combine_chunks()
            self.reported[name] = np.append(column.is_valid().to_numpy(zero_copy_only=False), True)
            # An empty list as the last row stands for removed and cleared lists.
            self.lists[name] = PackedLists.of(pa.concat_arrays([column, empty]))
        self.empty = len(rows.inputs)

    def last_reported(self, name: str) -> Ints:
        """Return for each row the row of `inputs` with the list of this name that is valid there."""
        rows = self.rows
        reported = (rows.kind <= CREATE) | (rows.kind == REMOVE)
        reported |= (rows.kind == CHANGE) & self.reported[name][rows.source]
        source = np.where(rows.kind == REMOVE, self.empty, rows.source)
        if name in ("elr", "last_known_elr"):
            reported |= rows.kind == CLEAR_ELR
            source = np.where(rows.kind == CLEAR_ELR, self.empty, source)
        return source[_filled(reported)]

    def under_min_isr(self, isr: Ints, replicas: Ints) -> Flags:
        """Return True where the ISR is below min.insync.replicas, capped by the number of replicas as leaders do."""
        replica_count = self.lists["replicas"].lengths[replicas]
        required = np.minimum(min_isr(self.rows, self.context), replica_count)
        return self.lists["isr"].lengths[isr] < required

    def drop_no_ops(self) -> None:
        """Drop rows that change nothing.

        These are clearings of an empty ELR, changes of min.insync.replicas that leave the partition on the same
        side of it, and records of a snapshot that repeat the known state.
        """
        rows = self.rows
        keep = np.ones(len(rows), np.bool_)
        cleared, minimum = rows.kind == CLEAR_ELR, rows.kind == MIN_ISR
        if cleared.any():
            eligible = self.lists["elr"].lengths[self.last_reported("elr")]
            eligible = eligible + self.lists["last_known_elr"].lengths[self.last_reported("last_known_elr")]
            keep &= ~cleared | (_before(eligible) > 0)
        if minimum.any():
            under = self.under_min_isr(self.last_reported("isr"), self.last_reported("replicas"))
            keep &= ~minimum | (_before(under) != under)
        if self.context.snapshot_offset is not None:
            keep &= ~self._reported_again()
        if not keep.all():
            self.rows = rows.keep(keep)

    def _reported_again(self) -> Flags:
        """Return True for rows of a snapshot that repeat the previous state of a partition."""
        rows = self.rows
        of_snapshot = (rows.kind == CREATE) & (rows.offset == self.context.snapshot_offset) & ~rows.first
        again = np.flatnonzero(of_snapshot & (_before(rows.kind) == STATE))
        reported, known = rows.source[again], rows.source[again - 1]
        same = np.ones(len(again), np.bool_)
        for numbers in (self.leader, self.leader_epoch, self.partition_epoch, self.recovering):
            same &= numbers[reported] == numbers[known]
        for name in LISTS:
            same &= ~self.lists[name].differ(reported, known)
        flags = np.zeros(len(rows), np.bool_)
        flags[again[same]] = True
        return flags

    def states(self, before: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Return the ended and the current states, a state per row."""
        rows = self.rows
        first = rows.first
        reported = {name: self.last_reported(name) for name in LISTS}
        leader, leader_epoch, partition_epoch, recovering = self._numbers()
        under = self.under_min_isr(reported["isr"], reported["replicas"])
        causes = causes_of(
            Transitions(rows, first, leader, recovering, reported, self.lists, self.context.snapshot_offset)
        )
        last = np.append(first[1:], True) if len(rows) else first
        is_open = last & (rows.kind != REMOVE)
        end = np.minimum(np.arange(1, len(rows) + 1), len(rows) - 1)
        end = np.where(rows.kind == REMOVE, np.arange(len(rows)), end)
        isr_length = self.lists["isr"].lengths[reported["isr"]]
        replica_count = self.lists["replicas"].lengths[reported["replicas"]]
        known = (rows.kind == STATE).nonzero()[0]
        source = rows.source[known]

        def kept(name: str, computed: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
            """Keep the values that previous states have recorded."""
            computed[known] = before[name].to_numpy()[source]
            return computed

        columns = {
            "partition": rows.partition,
            "from_offset": rows.offset,
            "from_ts": rows.ts,
            "to_offset": rows.offset[end],
            "to_ts": rows.ts[end],
            "epoch": rows.epoch,
            "partition_epoch": partition_epoch,
            "leader_epoch": leader_epoch,
            "leader": leader,
            "recovering": recovering == 1,
            "cause": _with_causes_before(causes.cause, known, before, source),
            "under_replicated": isr_length < replica_count,
            "under_min_isr": under,
            "leader_before": kept("leader_before", causes.leader_before),
            "isr_left": kept("isr_left", causes.isr_left),
            "isr_joined": kept("isr_joined", causes.isr_joined),
        }
        return self._table(columns, reported, ~is_open), self._table(columns, reported, is_open, lasting=True)

    def _table(
        self,
        columns: dict[str, npt.NDArray[np.generic]],
        reported: dict[str, Ints],
        wanted: Flags,
        lasting: bool = False,
    ) -> pa.Table:
        """Build a table of STATES from some rows, dictionary-encoded; current states have no end."""
        rows = np.flatnonzero(wanted)
        chosen = {name: pa.array(values[rows]) for name, values in columns.items()}
        if lasting:
            chosen["to_offset"] = chosen["to_ts"] = pa.nulls(len(rows), pa.int64())
        topics = pa.array(self.rows.topic[rows].astype(np.int32))
        chosen["topic_id"] = pa.DictionaryArray.from_arrays(topics, self.rows.topic_ids)
        names = self.rows.names
        # Parquet cannot store a dictionary with a null.
        named = names.null_count == 0
        chosen["topic"] = pa.DictionaryArray.from_arrays(topics, names) if named else names.take(topics)
        chosen["cause"] = pa.DictionaryArray.from_arrays(chosen["cause"], pa.array(CAUSES))
        for name in ("from_ts", "to_ts"):
            chosen[name] = chosen[name].cast(pa.timestamp("us", "UTC"))
        for name in LISTS:
            chosen[name] = self.lists[name].take(reported[name][rows])
        return pa.table({name: chosen[name] for name in STATES.names})

    def _numbers(self) -> tuple[npt.NDArray[np.int32], ...]:
        """Return leader, leader epoch, partition epoch and recovery state at each row."""
        rows = self.rows
        full, change = rows.kind <= CREATE, rows.kind == CHANGE
        base = _filled(full)
        has_leader = change & (self.leader[rows.source] != LEADER_UNCHANGED)
        leader = self.leader[rows.source[_filled(full | has_leader)]]
        leader[rows.kind == REMOVE] = NO_LEADER
        elections = np.cumsum(has_leader)
        leader_epoch = self.leader_epoch[rows.source[base]] + elections - elections[base]
        changes = np.cumsum(change | (rows.kind == CLEAR_ELR))
        partition_epoch = self.partition_epoch[rows.source[base]] + changes - changes[base]
        has_recovery_state = full | (change & (self.recovering[rows.source] != RECOVERY_UNCHANGED))
        recovering = self.recovering[rows.source[_filled(has_recovery_state)]]
        recovering[rows.kind == REMOVE] = 0
        return (
            leader.astype(np.int32),
            leader_epoch.astype(np.int32),
            partition_epoch.astype(np.int32),
            recovering.astype(np.int32),
        )


def min_isr(rows: Rows, context: ReplicaContext) -> Ints:
    """Return min.insync.replicas at each row: of the topic, otherwise of the cluster, otherwise 1."""
    common = [setting for setting in context.settings if setting.topic == ""]
    # This also replaces _NOT_THERE, which is below any value.
    values = np.maximum(1, _values_at(rows.offset, common))
    own: dict[str, list[Setting]] = {}
    for setting in context.settings:
        if setting.topic:
            own.setdefault(setting.topic, []).append(setting)
    if not own:
        return values
    names = rows.names.to_pylist()
    order = np.argsort(rows.topic, kind="stable")
    topics = rows.topic[order]
    for number, name in enumerate(names):
        if name in own:
            low, high = np.searchsorted(topics, [number, number + 1])
            these = order[low:high]
            found = _values_at(rows.offset[these], own[name])
            values[these] = np.where(found == _NOT_THERE, values[these], np.maximum(1, found))
    return values


def _values_at(offsets: Ints, settings: list[Setting]) -> Ints:
    """Return the value that is valid at each offset, _NOT_THERE if there is none."""
    starts = np.array([setting.offset for setting in settings], np.int64)
    found = [_NOT_THERE, *(_NOT_THERE if s.value is None else s.value for s in settings)]
    return np.array(found, np.int64)[np.searchsorted(starts, offsets, side="right")]


def _filled(reported: Flags) -> Ints:
    """Return for each row the last flagged row up to it; the first row is flagged."""
    rows = np.flatnonzero(reported)
    return np.repeat(rows, np.diff(rows, append=len(reported)))


def _before(values: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    return np.concatenate([values[:1], values[:-1]])


def _ints(column: pa.ChunkedArray, null: int) -> npt.NDArray[np.int64]:
    values: npt.NDArray[np.int64] = pc.cast(column.fill_null(null), pa.int64()).to_numpy()
    return values


def _with_causes_before(
    codes: npt.NDArray[np.int8], known: Ints, before: pa.Table, source: Ints
) -> npt.NDArray[np.int8]:
    """Return indexes in CAUSES, with the known ones of previous states."""
    if len(known):
        codes[known] = pc.index_in(before["cause"], pa.array(CAUSES)).combine_chunks().to_numpy()[source]
    return codes
