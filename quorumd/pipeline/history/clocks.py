"""Clocks of leaders that were wrong: found where time goes back from one epoch to the next, and put right.

Records carry the wall clock of the leader that wrote them. Within an epoch that is one clock; between epochs it is
another node's. Of all epochs as many are believed as go together, each beginning no earlier than the one before;
any other one is moved, as a whole, to where the epoch before it ended. A clock that was ahead and never fell back is
not found out.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quorumd.pipeline.history.tables import Manifest, read_files

Integers = npt.NDArray[np.int64]

_FROM_TO = {"from_ts": "from_offset", "to_ts": "to_offset"}
TIMES: Final[dict[str, dict[str, str]]] = {
    "events": {"ts": "offset"},
    "epochs": {"start_ts": "start_offset", "end_ts": "end_offset"},
    "voters": {"from_ts": "from_offset"},
    "brokers": _FROM_TO,
    "topics": {"created_ts": "created_offset", "deleted_ts": "deleted_offset"},
    "partition_states": _FROM_TO,
    "partition_current": _FROM_TO,
}
"""Of each table: times of records, and at which offset that record is. Files have them as they were recorded."""


class Clocks:
    """`begins`: offsets at which epochs begin, in order. `shifts_us`: what their times have to be moved by."""

    __slots__ = ("begins", "shifts_us")

    def __init__(self, begins: Integers, shifts_us: Integers) -> None:
        self.begins = begins
        self.shifts_us = shifts_us

    @property
    def moved(self) -> int:
        """How many epochs have other times than their records say."""
        return int(np.count_nonzero(self.shifts_us))

    def right(self, times: pa.ChunkedArray, offsets: pa.ChunkedArray) -> pa.ChunkedArray:
        """The times of records at these offsets as they should be; both may be null."""
        if not self.moved:
            return times
        shifts = self.shifts_us[_epoch_at(self.begins, pc.fill_null(offsets, 0).to_numpy())]
        moved = pc.add(pc.cast(times, pa.int64()), pa.array(shifts))
        return pc.if_else(pc.is_null(offsets), times, pc.cast(moved, times.type))

    def shift_us(self, offset: int) -> int:
        """What the time of the record at this offset has to be moved by."""
        return int(self.shifts_us[_epoch_at(self.begins, np.array([offset]))][0]) if self.moved else 0

    def sql(self, time: str, offset: str) -> str:
        """`right` as an expression of Spark's SQL, of columns with these names."""
        ends = [*self.begins[1:].tolist(), np.iinfo(np.int64).max]
        epochs = zip([-1, *self.begins[1:].tolist()], ends, self.shifts_us.tolist(), strict=True)
        cases = (
            f"WHEN {offset} >= {begin} AND {offset} < {end} THEN {shift}"
            for begin, end, shift in epochs
            if shift
        )
        return f"timestamp_micros(unix_micros({time}) + CASE {' '.join(cases)} ELSE 0 END)"


def clocks_of(folder: Path, manifest: Manifest) -> Clocks:
    """Those of a history; of one in which time never goes back only the epochs are read."""
    columns = ["start_offset", "start_ts"]
    epochs = read_files(folder, manifest.paths("epochs"), "epochs", columns).sort_by("start_offset")
    epochs = epochs.filter(pc.is_valid(epochs["start_ts"]))
    begins, starts_us = epochs["start_offset"].to_numpy(), micros(epochs["start_ts"])
    if not np.any(np.diff(starts_us) < 0):
        return Clocks(begins, np.zeros(len(begins), np.int64))
    paths = manifest.paths("partition_states") + manifest.paths("partition_current")
    states = read_files(folder, paths, "partition_states", ["from_offset", "from_ts"])
    states = states.filter(pc.is_valid(states["from_ts"]))
    return Clocks(
        begins, shifts(begins, starts_us, states["from_offset"].to_numpy(), micros(states["from_ts"]))
    )


def shifts(begins: Integers, starts_us: Integers, offsets: Integers, times_us: Integers) -> Integers:
    """What the times of each epoch have to be moved by, in microseconds.

    `begins` and `starts_us` are where and when epochs begin, `offsets` and `times_us` are of whatever is known to
    have been written; the latest of each epoch is taken for its end.
    """
    found = np.zeros(len(begins), np.int64)
    ends_us = starts_us.copy()
    within = offsets >= begins[0]
    np.maximum.at(ends_us, _epoch_at(begins, offsets[within]), times_us[within])
    believed = _longest_in_order(starts_us)
    first = believed[0]
    reached = int(starts_us[first] - (ends_us - starts_us)[:first].sum())
    is_believed = np.zeros(len(begins), np.bool_)
    is_believed[believed] = True
    for i in range(len(begins)):
        if not is_believed[i]:
            found[i] = reached - starts_us[i]
        reached = max(reached, int(ends_us[i] + found[i]))
    return found


def micros(times: pa.ChunkedArray) -> Integers:
    """Times without nulls as microseconds since 1970."""
    found: Integers = pc.cast(times, pa.int64()).to_numpy()
    return found


def _epoch_at(begins: Integers, offsets: Integers) -> Integers:
    found: Integers = np.maximum(np.searchsorted(begins, offsets, "right") - 1, 0)
    return found


def _longest_in_order(times: Integers) -> list[int]:
    """Positions of a longest subsequence that never goes back."""
    lowest: list[int] = []
    at: list[int] = []
    before = [-1] * len(times)
    for position, time in enumerate(times.tolist()):
        length = bisect_right(lowest, time)
        before[position] = at[length - 1] if length else -1
        lowest[length : length + 1] = [time]
        at[length : length + 1] = [position]
    found, position = [], at[-1]
    while position >= 0:
        found.append(position)
        position = before[position]
    return found[::-1]
