"""Finds faults in one copy of the log: within segments, between them, and at its start and end."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

from quorumd.pipeline.audit.commitment import Commitment
from quorumd.pipeline.audit.copies import Copy, Damage, Part
from quorumd.pipeline.audit.findings import Finding, Severity


def add_boundary_faults(copy: Copy) -> None:
    """Record damage where a part of the log does not begin at the end of the previous part."""
    before: Part | None = None
    for part in copy.parts:
        if before is not None:
            _add_boundary_fault(copy, before, part)
        if part.batches or before is None:
            before = part
    first = {(part.segment, part.offset_lo) for part in copy.parts if part.batches}
    for earlier, mark in pairwise(copy.epoch_starts):
        # A regression within a part was found when the part was read.
        if mark.epoch < earlier.epoch and (mark.segment, mark.offset) in first:
            text = f"epoch {mark.epoch} after epoch {earlier.epoch} in {earlier.segment}"
            place = mark.segment, mark.position, mark.offset, mark.offset + 1
            _note(copy, Damage("EPOCH_REGRESSION", *place, 0, text))
    copy.damages.sort(key=lambda damage: damage.offset_lo)


def _add_boundary_fault(copy: Copy, before: Part, part: Part) -> None:
    if part.segment == before.segment and not part.batches:
        return
    # A segment's first batch is compared with the name of the file when it is read.
    begins_at = part.offset_lo if part.segment == before.segment else part.base_offset
    ends_at = before.offset_hi
    if begins_at == ends_at:
        return
    for index, damage in enumerate(copy.damages):
        # The damage at the end of a segment explains the missing offsets.
        if damage.segment == before.segment and damage.offset_lo == damage.offset_hi == ends_at < begins_at:
            copy.damages[index] = damage._replace(offset_hi=begins_at)
            return
    code = "GAP" if begins_at > ends_at else "OVERLAP"
    text = f"{before.segment} ends at offset {ends_at}, {part.segment} begins at {begins_at}"
    span = sorted((begins_at, ends_at))
    _note(copy, Damage(code, part.segment, part.position, span[0], span[1], 0, text))


def _note(copy: Copy, damage: Damage) -> None:
    """Record damage, or extend the same damage found when the part was read."""
    for index, known in enumerate(copy.damages):
        if known[:2] == damage[:2] and known.offset_lo == damage.offset_lo:
            copy.damages[index] = known._replace(offset_hi=max(known.offset_hi, damage.offset_hi))
            return
    copy.damages.append(damage)


def findings_of_copy(
    copy: Copy, commitment: Commitment, high_watermark: int, snapshot_ends: Collection[int]
) -> Iterator[Finding]:
    """Return the findings about one copy.

    `high_watermark` is its checkpoint, 0 if there is none; `snapshot_ends` are the end offsets of its valid
    snapshots.
    """
    for damage in copy.damages:
        if not _is_installation(copy, damage, snapshot_ends):
            yield _of_damage(copy, damage, commitment)
    yield from _epochs_without_leader(copy)
    start, end = copy.start_offset, copy.end_offset
    segment = copy.parts[0].segment if copy.parts else None
    if start > 0 and not any(snapshot >= start for snapshot in snapshot_ends):
        detail = (
            f"the log begins at offset {start}, and no sound snapshot has the records before it: restore the "
            ".checkpoint file from a copy, or let this replica fetch the whole log again"
        )
        yield Finding(
            Severity.WARNING, "UNCOVERED_START", detail, copy.node, segment=segment, offset_lo=0, offset_hi=start,
            committed=True,
        )  # fmt: skip
    beyond = max(snapshot_ends, default=0)
    if beyond > end:
        detail = (
            f"a snapshot ends at offset {beyond}, but the log ends at {end}: it lost the records in between"
        )
        yield Finding(
            Severity.WARNING,
            "SNAPSHOT_BEYOND_LOG",
            detail,
            copy.node,
            offset_lo=end,
            offset_hi=beyond,
            committed=True,
        )
    if high_watermark > max([end, *snapshot_ends]):
        detail = f"the recorded high watermark is {high_watermark}, but the log ends at {end}"
        yield Finding(
            Severity.CRITICAL, "CUT_SHORT", detail, copy.node, offset_lo=end, offset_hi=high_watermark,
            committed=True,
        )  # fmt: skip


def _is_installation(copy: Copy, damage: Damage, snapshot_ends: Collection[int]) -> bool:
    """Whether a gap is before the empty segment that begins at the end of a snapshot: a node that stopped while a
    fetched snapshot replaced its log completes that when it starts."""
    last = copy.parts[-1]
    begins = damage.code == "GAP" and damage.segment == last.segment and not last.batches
    return begins and damage.offset_hi == last.base_offset and damage.offset_hi in snapshot_ends


def _of_damage(copy: Copy, damage: Damage, commitment: Commitment) -> Finding:
    committed = damage.offset_lo < commitment.up_to
    severity = Severity.CRITICAL if committed else Severity.WARNING
    if damage.code == "TORN_TAIL" and damage.offset_lo == copy.cut_at:
        severity, committed = Severity.INFO, False
    epoch = max((mark.epoch for mark in copy.epoch_starts if mark.offset <= damage.offset_lo), default=None)
    place = copy.node, None, damage.segment, damage.position, damage.offset_lo, damage.offset_hi
    return Finding(severity, damage.code, damage.text, *place, epoch, epoch, committed)


def _epochs_without_leader(copy: Copy) -> Iterator[Finding]:
    """Check that each epoch begins with a LeaderChangeMessage (KIP-595)."""
    controls = {mark.offset for mark in copy.controls}
    for number, mark in enumerate(copy.epoch_starts):
        if mark.offset in controls or (number == 0 and mark.offset == copy.start_offset > 0):
            continue
        # After lost batches, the next one need not be the first of its epoch.
        if copy.damage_at(mark.offset):
            continue
        detail = f"epoch {mark.epoch} does not begin with a LeaderChangeMessage: its number was altered"
        place = copy.node, None, mark.segment, mark.position, mark.offset, mark.offset + 1
        yield Finding(Severity.CRITICAL, "EPOCH_WITHOUT_LEADER", detail, *place, mark.epoch, mark.epoch)
