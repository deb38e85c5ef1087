"""One number of a whole image: equal for equal images, however they came about, and kept up to date row by row.

It is the sum of one number a row, so that a change costs the row that goes and the one that comes. It finds what went
wrong, and is no protection against anybody who wants it wrong.
"""

from __future__ import annotations

from array import array
from typing import Final

from crc32c import crc32c

from quorumd.controller.broker import Broker
from quorumd.controller.opaque_records import canonical_frame
from quorumd.controller.partition import Partition, PartitionId

HASH_BITS: Final = 48
"""No more than a metric, a float, holds exactly."""
_MASK: Final = (1 << HASH_BITS) - 1
_OPAQUE: Final = crc32c(b"kept")


def text_row(*parts: str) -> int:
    """The number of a row of texts."""
    return _row(crc32c(repr(parts).encode()))


def producer_ids_row(next_id: int) -> int:
    """The number of the producer ids that are next; 0 while none are given away."""
    return text_row("producer ids", str(next_id)) if next_id else 0


def config_checksum(resource: tuple[int, str], key: str) -> int:
    """What the rows of all values of a config begin with."""
    kind, name = resource
    return crc32c(f"{kind},{len(name)},{len(key)},{name}{key}".encode())


def config_row(checksum: int, value: str) -> int:
    """The number of a config with this value. It is counted with every write: it must cost next to nothing."""
    return _row(crc32c(value.encode(), checksum))


def broker_row(broker: Broker) -> int:
    """Every field, read from values whose `repr` is the same everywhere."""
    return text_row("broker", repr(tuple(broker.canonical)))


def opaque_row(frame: bytes) -> int:
    """The number of an opaque record."""
    return _row(crc32c(canonical_frame(frame), _OPAQUE))


def partition_row(tp: PartitionId, partition: Partition) -> int:
    """All there is of a partition."""
    numbers = array(
        "i",
        (
            tp.number,
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
        adding, removing = partition.adding, partition.removing
        numbers.extend((-2, len(adding), *adding, len(removing), *removing, *partition.original))
    if partition.elr or partition.last_known_elr:
        elr = partition.elr
        numbers.extend((-3, len(elr), *elr, *partition.last_known_elr))
    return _row(crc32c(tp.topic_id + numbers.tobytes() + b"".join(partition.directories)))


def _row(checksum: int) -> int:
    """Not linear in the checksum, as that is in what it is of: rows that swap values would cancel each other out."""
    return checksum * (checksum >> 2 | 1) & _MASK


def replace_row(image_hash: int, old_row: int, new_row: int) -> int:
    """The sum after a row took the place of another; 0 is that of no row."""
    return image_hash - old_row + new_row & _MASK
