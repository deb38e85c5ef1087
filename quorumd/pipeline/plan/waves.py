"""Divides moves into consecutive waves, within the limits of Kafka and of brokers.

A wave is one AlterPartitionReassignments request. Per wave and broker, `limit` bounds the received replicas, the
removed replicas, and the copied partitions that the broker leads. Replicas of drained and unregistered brokers move
first; partitions of which only the order of replicas changes come last, when all replicas are in place.
"""

from __future__ import annotations

import numpy as np

from quorumd.pipeline.plan.arrays import (
    NONE,
    Ints,
    Mask,
    Rows,
    all_in_row,
    any_in_row,
    mixed,
    not_in,
    sum_of_row,
)

RECORDS_OF_A_REQUEST = 10_000
"""Kafka's controller rejects requests that write more records (MAX_RECORDS_PER_USER_OP): one per partition."""


def waves(old: Rows, new: Rows, leaders: Ints, first: Mask, limit: int | None) -> Ints:
    """Return the wave of each partition, from 1; 0 for unchanged partitions.

    `leaders` are indexes of brokers, negative for none. `first` are urgent partitions.
    """
    found = np.zeros(len(old), np.int64)
    width = max(old.shape[1], new.shape[1])
    same = all_in_row(_widened(old, width) == _widened(new, width))
    copied = any_in_row(not_in(new, old))
    lost = any_in_row(not_in(old, new))
    moving = np.flatnonzero(copied | lost)
    moving = moving[np.lexsort((mixed(moving, 0), ~first[moving]))]
    if limit is None:
        found[moving] = 1 + np.arange(len(moving)) // RECORDS_OF_A_REQUEST
    else:
        found[moving] = _first_fit(_touched(old, new, leaders, moving), limit)
    reordered = np.flatnonzero(~same & ~copied & ~lost)
    found[reordered] = 1 + int(found.max(initial=0)) + np.arange(len(reordered)) // RECORDS_OF_A_REQUEST
    return found


def _touched(old: Rows, new: Rows, leaders: Ints, moving: Ints) -> Ints:
    """Return the limits that each partition uses: 3 * broker + 0 for receiving, + 1 for removing, + 2 for sending,
    padded with NONE."""
    gets, loses = not_in(new, old)[moving], not_in(old, new)[moving]
    sends = any_in_row(gets) & (leaders[moving] >= 0)
    columns = [np.where(gets, new[moving] * 3, NONE), np.where(loses, old[moving] * 3 + 1, NONE)]
    return np.asarray(np.c_[*columns, np.where(sends, leaders[moving] * 3 + 2, NONE)])


def _first_fit(touched: Ints, limit: int) -> list[int]:
    """Assign each partition to the first wave in which none of its limits is exhausted."""
    used_limits = touched != NONE
    each_used = touched[used_limits].tolist()
    limits = int(touched.max(initial=NONE)) + 1
    exhausted = [0] * limits
    """The waves in which each limit is exhausted, as bits."""
    full = start = 0
    used: list[list[int]] = []
    sizes: list[int] = []
    found = []
    for end in np.cumsum(sum_of_row(used_limits)).tolist():
        row, start = each_used[start:end], end
        closed = full
        for each in row:
            closed |= exhausted[each]
        # The lowest bit that is not set.
        first_open = ~closed & (closed + 1)
        wave = first_open.bit_length() - 1
        if wave == len(used):
            used.append([0] * limits)
            sizes.append(0)
        counts = used[wave]
        for each in row:
            counts[each] += 1
            if counts[each] == limit:
                exhausted[each] |= first_open
        sizes[wave] += 1
        if sizes[wave] == RECORDS_OF_A_REQUEST:
            full |= first_open
        found.append(wave + 1)
    return found


def _widened(rows: Rows, width: int) -> Rows:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=-1)
