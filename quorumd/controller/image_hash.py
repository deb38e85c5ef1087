"""A hash of the whole image, equal for equal images and updated with every change.

It is the sum of one number per row (a broker, a partition, a config, ...), so that a change costs only the old and
the new row. It detects defects, not attacks: it is not cryptographic.
"""

from __future__ import annotations

from array import array
from struct import Struct
from typing import Final

from crc32c import crc32c

from quorumd.controller.broker import Broker
from quorumd.controller.opaque_records import canonical_frame
from quorumd.controller.partition import Partition, PartitionId

HASH_BITS: Final = 48
"""Few enough for a metric, a float with a significand of 53 bits, to be exact."""
HASH_MASK: Final = (1 << HASH_BITS) - 1
_OPAQUE: Final = crc32c(b"kept")
_PACK_NUMBERS: Final = [Struct(f"={count}i").pack for count in range(64)]
"""By the number of numbers: a format need not be built and looked up for every partition."""


def text_row(*parts: str) -> int:
    """Hash a row of texts."""
    return _row(crc32c(repr(parts).encode()))


def producer_ids_row(next_id: int) -> int:
    """Hash the next producer id; 0 if none has been allocated."""
    return text_row("producer ids", str(next_id)) if next_id else 0


def config_change(resource: tuple[int, str], key: str, old_value: str | None, new_value: str | None) -> int:
    """Return what the change of a config adds to the hash of the image. None stands for no value."""
    kind, name = resource
    prefix = crc32c(f"{kind},{len(name)},{len(key)},{name}{key}".encode())
    # Runs once per config record: `_row` is inlined.
    change = 0
    if new_value is not None:
        checksum = crc32c(new_value.encode(), prefix)
        change = checksum * (checksum >> 2 | 1)
    if old_value is not None:
        checksum = crc32c(old_value.encode(), prefix)
        change -= checksum * (checksum >> 2 | 1)
    return change & HASH_MASK


def broker_row(broker: Broker) -> int:
    """Hash every field of a broker, all of which have the same `repr` on every node."""
    return text_row("broker", repr(tuple(broker.canonical)))


def opaque_row(frame: bytes) -> int:
    """Hash an opaque record."""
    return _row(crc32c(canonical_frame(frame), _OPAQUE))


def partition_row(tp: PartitionId, partition: Partition) -> int:
    """Hash every field of a partition."""
    replicas, isr, elr = partition.replicas, partition.isr, partition.elr
    head = (
        tp.number,
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        partition.recovery,
        len(replicas),
    )
    values = head + replicas + (len(isr),) + isr
    count = len(values)
    pack_numbers = _PACK_NUMBERS[count] if count < len(_PACK_NUMBERS) else Struct(f"={count}i").pack
    numbers = pack_numbers(*values)
    if partition.adding or partition.removing or partition.original:
        adding, removing = partition.adding, partition.removing
        numbers += array("i", (-2, len(adding), *adding, len(removing), *removing, *partition.original))
    if elr or partition.last_known_elr:
        numbers += array("i", (-3, len(elr), *elr, *partition.last_known_elr))
    parts = (tp.topic_id, numbers) + partition.directories  # noqa: RUF005 - unpacking takes longer
    return _row(crc32c(b"".join(parts)))


def _row(checksum: int) -> int:
    """Mix a checksum. CRCs are linear: without this, rows that swap values would cancel each other out."""
    return checksum * (checksum >> 2 | 1) & HASH_MASK


def replace_row(image_hash: int, old_row: int, new_row: int) -> int:
    """Return the hash after a row replaced another; 0 stands for no row."""
    return image_hash - old_row + new_row & HASH_MASK
