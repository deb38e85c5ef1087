"""What a crash leaves at the end of a log, and what it cannot have left.

What was not flushed when the power failed is lost in whole sectors, any of them, not only the last ones: zeros stand
there instead, and sound batches may follow. A node cuts its log at the first such place when it starts; until then
nothing behind it counts. Bits that are merely other ones, and whatever lies below what the node knew to be flushed,
no crash explains.
"""

from __future__ import annotations

from typing import Final

from quorumd.pipeline.audit.copies import Copy, Damage
from quorumd.pipeline.audit.rereading import FolderReader

SECTOR_BYTES: Final = 512
_LEAST_ZEROS: Final = 16
"""A header has no more of them at its beginning: base offset, then length."""


def cut_torn_tail(copy: Copy, durable: int, reader: FolderReader) -> None:
    """If a crash explains the first damage at the end of a copy, let the copy end there, as the node will.

    What is below offset `durable` was flushed. Raises InputIncomplete.
    """
    last = copy.parts[-1].segment if copy.parts else ""
    at_end = [each for each in copy.damages if each.segment == last and each.offset_lo >= durable]
    at_end.sort(key=lambda damage: damage.position)
    if not at_end or not _was_not_written(copy, at_end[0], reader):
        return
    first = at_end[0]
    end, position = first.offset_lo, first.position
    size = sum(part.bytes for part in copy.parts if part.segment == last)
    text = f"what follows on offset {end} was not all written when the node crashed; it cuts that off when it starts"
    copy.damages = [each for each in copy.damages if each not in at_end]
    copy.damages.append(
        Damage("TORN_TAIL", last, position, end, copy.end_offset, max(size - position, first.bytes), text)
    )
    copy.epoch_starts = [mark for mark in copy.epoch_starts if mark.offset < end]
    copy.controls = [mark for mark in copy.controls if mark.offset < end]
    copy.cut_at = end


def _was_not_written(copy: Copy, damage: Damage, reader: FolderReader) -> bool:
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
