"""Divides moves into consecutive waves, within the limits of Kafka and of brokers.

A wave is one AlterPartitionReassignments request. In a wave, no broker receives more than `limit` replicas,
removes more, or leads more partitions that are copied. Replicas of drained and unregistered brokers move first;
partitions of which only the order of replicas changes come last, when all replicas are in place.
"""

from __future__ import annotations

import numpy as np

from quorumd.pipeline.plan.arrays import Ints, Mask, Rows, mixed, not_in

RECORDS_OF_A_REQUEST = 10_000
"""Kafka's controller rejects requests that write more records (MAX_RECORDS_PER_USER_OP): one per partition."""


def waves(old: Rows, new: Rows, leaders: Ints, first: Mask, limit: int | None) -> Ints:
    """Return the wave of each partition, from 1; 0 for unchanged partitions.

    `leaders` are indexes of brokers, negative for none. `first` are urgent partitions.
    """
    found = np.zeros(len(old), np.int64)
    width = max(old.shape[1], new.shape[1])
    same = (_widened(old, width) == _widened(new, width)).all(1)
    copied = not_in(new, old).any(1)
    lost = not_in(old, new).any(1)
    moving = np.flatnonzero(copied | lost)
    moving = moving[np.lexsort((mixed(moving, 0), ~first[moving]))]
    if limit is None:
        found[moving] = 1 + np.arange(len(moving)) // RECORDS_OF_A_REQUEST
    else:
        found[moving] = _first_fit(_touched(old, new, leaders, moving), limit)
    turned = np.flatnonzero(~same & ~copied & ~lost)
    found[turned] = 1 + int(found.max(initial=0)) + np.arange(len(turned)) // RECORDS_OF_A_REQUEST
    return found


def _touched(old: Rows, new: Rows, leaders: Ints, moving: Ints) -> list[list[int]]:
    """Return the limits that each partition uses: 3 * broker + 0 for receiving, + 1 for removing, + 2 for sending."""
    gets, loses = not_in(new, old), not_in(old, new)
    sends = gets.any(1) & (leaders >= 0)
    columns = [np.where(gets[moving], new[moving] * 3, -1), np.where(loses[moving], old[moving] * 3 + 1, -1)]
    columns.append(np.where(sends[moving], leaders[moving] * 3 + 2, -1)[:, None])
    return [[key for key in row if key >= 0] for row in np.concatenate(columns, axis=1).tolist()]


def _first_fit(touched: list[list[int]], limit: int) -> list[int]:
    """Assign each partition to the first wave in which none of its limits is exhausted."""
    keys = 1 + max((key for row in touched for key in row), default=0)
    used: list[list[int]] = []
    sizes: list[int] = []
    first_open = [0] * keys
    first_wave = 0
    found = []
    for row in touched:
        wave = max([first_wave, *[first_open[key] for key in row]])
        while True:
            if wave == len(used):
                used.append([0] * keys)
                sizes.append(0)
            counts = used[wave]
            if sizes[wave] < RECORDS_OF_A_REQUEST and all(counts[key] < limit for key in row):
                break
            wave += 1
        for key in row:
            counts[key] += 1
            if counts[key] == limit and first_open[key] == wave:
                first_open[key] = wave + 1
        sizes[wave] += 1
        if sizes[wave] == RECORDS_OF_A_REQUEST and first_wave == wave:
            first_wave += 1
        found.append(wave + 1)
    return found


def _widened(rows: Rows, width: int) -> Rows:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=-1)
