"""Corrects timestamps written by leaders with wrong clocks, detected where time goes back between epochs.

Records have the wall-clock time of the leader that wrote them: one clock within an epoch, another one in the next.
The largest set of epochs whose starts never go back is trusted. Every other epoch is shifted as a whole to the end
of the previous epoch. A clock that was ahead and never stepped back is not detected.
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
"""Per table, the columns of record timestamps and of the offsets of these records. Files have the original times."""


class Clocks:
    """The corrections of record times, by epoch.

    `begins` has the first offsets of epochs, ascending, `shifts_us` their corrections in microseconds.
    """

    __slots__ = ("begins", "shifts_us")

    def __init__(self, begins: Integers, shifts_us: Integers) -> None:
        self.begins = begins
        self.shifts_us = shifts_us

    @property
    def moved(self) -> int:
        """The number of epochs with corrected times."""
        return int(np.count_nonzero(self.shifts_us))

    def corrected(self, times: pa.ChunkedArray, offsets: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the corrected times of the records at these offsets; both may be null."""
        if not self.moved:
            return times
        shifts = self.shifts_us[_epoch_at(self.begins, pc.fill_null(offsets, 0).to_numpy())]
        moved = pc.add(pc.cast(times, pa.int64()), pa.array(shifts))
        return pc.if_else(pc.is_null(offsets), times, pc.cast(moved, times.type))

    def shift_us(self, offset: int) -> int:
        """Return the correction of the time of the record at this offset."""
        return int(self.shifts_us[_epoch_at(self.begins, np.array([offset]))][0]) if self.moved else 0

    def sql(self, time: str, offset: str) -> str:
        """Return `corrected` as a Spark SQL expression on the columns with these names."""
        ends = [*self.begins[1:].tolist(), np.iinfo(np.int64).max]
        epochs = zip([-1, *self.begins[1:].tolist()], ends, self.shifts_us.tolist(), strict=True)
        cases = (
            f"WHEN {offset} >= {begin} AND {offset} < {end} THEN {shift}"
            for begin, end, shift in epochs
            if shift
        )
        return f"timestamp_micros(unix_micros({time}) + CASE {' '.join(cases)} ELSE 0 END)"


def clocks_of(directory: Path, manifest: Manifest) -> Clocks:
    """Compute the corrections for a history; if time never goes back, only the epochs are read."""
    columns = ["start_offset", "start_ts"]
    epochs = read_files(directory, manifest.paths("epochs"), "epochs", columns).sort_by("start_offset")
    epochs = epochs.filter(pc.is_valid(epochs["start_ts"]))
    begins, starts_us = epochs["start_offset"].to_numpy(), micros(epochs["start_ts"])
    if not np.any(np.diff(starts_us) < 0):
        return Clocks(begins, np.zeros(len(begins), np.int64))
    paths = manifest.paths("partition_states") + manifest.paths("partition_current")
    states = read_files(directory, paths, "partition_states", ["from_offset", "from_ts"])
    states = states.filter(pc.is_valid(states["from_ts"]))
    return Clocks(
        begins, shifts(begins, starts_us, states["from_offset"].to_numpy(), micros(states["from_ts"]))
    )


def shifts(begins: Integers, starts_us: Integers, offsets: Integers, times_us: Integers) -> Integers:
    """Compute the correction of the times of each epoch, in microseconds.

    `begins` and `starts_us` are the first offsets and times of epochs. `offsets` and `times_us` are of any known
    records: the latest one of an epoch counts as its end.
    """
    found = np.zeros(len(begins), np.int64)
    ends_us = starts_us.copy()
    within = offsets >= begins[0]
    np.maximum.at(ends_us, _epoch_at(begins, offsets[within]), times_us[within])
    trusted = _longest_in_order(starts_us)
    first = trusted[0]
    reached = int(starts_us[first] - (ends_us - starts_us)[:first].sum())
    is_trusted = np.zeros(len(begins), np.bool_)
    is_trusted[trusted] = True
    for i in range(len(begins)):
        if not is_trusted[i]:
            found[i] = reached - starts_us[i]
        reached = max(reached, int(ends_us[i] + found[i]))
    return found


def micros(times: pa.ChunkedArray) -> Integers:
    """Convert times without nulls to microseconds since 1970."""
    found: Integers = pc.cast(times, pa.int64()).to_numpy()
    return found


def _epoch_at(begins: Integers, offsets: Integers) -> Integers:
    found: Integers = np.maximum(np.searchsorted(begins, offsets, "right") - 1, 0)
    return found


def _longest_in_order(times: Integers) -> list[int]:
    """Return the positions of a longest non-decreasing subsequence."""
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
