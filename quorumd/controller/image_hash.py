"""One number of a whole image: equal for equal images, however they came about, and kept up to date row by row.

It is the sum of one number a row, so that a change costs the row that goes and the one that comes. It finds what went
wrong, and is no protection against anybody who wants it wrong.
"""

from __future__ import annotations

from array import array
from typing import Final
from zlib import crc32

from quorumd.controller.broker import Broker
from quorumd.controller.partition import Partition, PartitionId

HASH_BITS: Final = 48
"""No more than a metric, a float, holds exactly."""
_MASK: Final = (1 << HASH_BITS) - 1
_SPREAD: Final = 0x9E3779B97F4B
"""Odd, so that no two checksums become one; large, so that sums of small ones do not meet."""


def text_row(*parts: str) -> int:
    """The number of a row of texts."""
    return crc32("\0".join(parts).encode()) * _SPREAD & _MASK


def broker_row(broker: Broker) -> int:
    """Every field, read from values whose `repr` is the same everywhere."""
    return text_row("broker", repr(tuple(broker)))


def partition_row(where: PartitionId, partition: Partition) -> int:
    """All there is of a partition."""
    numbers = array(
        "i",
        (
            where.number,
            partition.leader,
            partition.leader_epoch,
            partition.partition_epoch,
            partition.recovery,
            len(partition.replicas),
            *partition.replicas,
            len(partition.isr),
            *partition.isr,
        ),
    )
    if partition.adding or partition.removing or partition.original:
        for some in (partition.adding, partition.removing, partition.original):
            numbers.append(len(some))
            numbers.extend(some)
    if partition.elr or partition.last_known_elr:
        numbers.append(-len(partition.elr))
        numbers.extend(partition.elr)
        numbers.extend(partition.last_known_elr)
    data = where.topic_id + numbers.tobytes() + b"".join(partition.directories)
    return crc32(data) * _SPREAD & _MASK


def moved(total: int, gone: int, come: int) -> int:
    """The sum after a row took the place of another; 0 is that of no row."""
    return (total - gone + come) & _MASK
