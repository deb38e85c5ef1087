"""Clocks of leaders that were wrong: found where time goes back from one epoch to the next, and put right.

Records carry the wall clock of the leader that wrote them. Within an epoch that is one clock; between epochs it is
another node's. Of all epochs as many are believed as go together, each beginning no earlier than the one before;
any other one is moved, as a whole, to where the epoch before it ended. A clock that was ahead and never fell back is
not found out.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from quorumd.pipeline.history.history import History

Integers = npt.NDArray[np.int64]


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

    def right(self, times: Any, offsets: Any) -> Any:
        """The times of records at these offsets as they should be; both may be null, columns of pyarrow."""
        if not self.moved:
            return times
        shifts = self.shifts_us[_epoch_at(self.begins, pc.fill_null(offsets, 0).to_numpy())]
        moved = pc.add(pc.cast(times, pa.int64()), pa.array(shifts))
        return pc.if_else(pc.is_null(offsets), times, pc.cast(moved, times.type))


def clocks_of(history: History) -> Clocks:
    """Those of a history; of one in which time never goes back only the epochs are read."""
    epochs = history.read("epochs", ["start_offset", "start_ts"]).sort_by("start_offset")
    epochs = epochs.filter(pc.is_valid(epochs["start_ts"]))
    begins, starts_us = epochs["start_offset"].to_numpy(), micros(epochs["start_ts"])
    if not np.any(np.diff(starts_us) < 0):
        return Clocks(begins, np.zeros(len(begins), np.int64))
    states = history.states(["from_offset", "from_ts"])
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
    reached = int(starts_us[believed[0]] - (ends_us - starts_us)[: believed[0]].sum())
    for i in range(len(begins)):
        if i not in believed:
            found[i] = reached - starts_us[i]
        reached = max(reached, int(ends_us[i] + found[i]))
    return found


def micros(times: Any) -> Integers:
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
