"""Distinguishes the torn tail that a crash leaves at the end of a log from other damage.

A power failure can lose any unflushed sectors, not only the last ones: they read as zeros, and valid batches may
follow. A node truncates its log at the first such place when it starts; data after it does not count. A crash does
not explain flipped bits, nor damage below the offsets that the node had flushed.
"""

from __future__ import annotations

from typing import Final

from quorumd.pipeline.audit.copies import Copy, Damage
from quorumd.pipeline.audit.rereading import DirectoryReader

SECTOR_BYTES: Final = 512
_LEAST_ZEROS: Final = 16
"""More zeros than the base offset and length at the start of a header can have."""


def cut_torn_tail(copy: Copy, durable: int, reader: DirectoryReader) -> None:
    """Truncate the copy at the first damage at its end if a crash explains the damage, as the node will do.

    Offsets below `durable` were flushed. Raises InputIncomplete.
    """
    last = copy.parts[-1].segment if copy.parts else ""
    at_end = [each for each in copy.damages if each.segment == last and each.offset_lo >= durable]
    at_end.sort(key=lambda damage: damage.position)
    if not at_end or not _was_not_written(copy, at_end[0], reader):
        return
    first = at_end[0]
    end, position = first.offset_lo, first.position
    size = sum(part.bytes for part in copy.parts if part.segment == last)
    text = f"the log after offset {end} was not completely written before a crash; the node truncates it at startup"
    copy.damages = [each for each in copy.damages if each not in at_end]
    copy.damages.append(
        Damage("TORN_TAIL", last, position, end, copy.end_offset, max(size - position, first.bytes), text)
    )
    copy.epoch_starts = [mark for mark in copy.epoch_starts if mark.offset < end]
    copy.controls = [mark for mark in copy.controls if mark.offset < end]
    copy.cut_at = end


def _was_not_written(copy: Copy, damage: Damage, reader: DirectoryReader) -> bool:
    if damage.code == "TORN_TAIL":
        return True
    if damage.code not in ("BAD_CRC", "BAD_HEADER", "BROKEN_CHAIN"):
        return False
    begin = damage.position
    data = reader.bytes_at(copy, damage.segment, begin, damage.bytes + SECTOR_BYTES)
    for start in (
        begin,
        *range(-(-begin // SECTOR_BYTES) * SECTOR_BYTES, begin + damage.bytes, SECTOR_BYTES),
    ):
        sector = data[start - begin : (start // SECTOR_BYTES + 1) * SECTOR_BYTES - begin]
        if len(sector) >= _LEAST_ZEROS and not any(sector):
            return True
    return False
