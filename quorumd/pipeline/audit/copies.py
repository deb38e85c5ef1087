"""Builds the copy of each node from rows of the level `audit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from quorumd.pipeline.copies.log_files import CopyDirectory
from quorumd.pipeline.scan.digests import BUCKET, CONTROL, EPOCH_START, SEGMENT
from quorumd.pipeline.tables.schemas import Row

if TYPE_CHECKING:
    import pyarrow as pa


class Part(NamedTuple):
    """A segment, or the part of one that a task read. Epochs are -1 if it has no batch."""

    base_offset: int
    """The base offset of the segment, from the name of its file."""
    position: int
    segment: str
    offset_lo: int
    offset_hi: int
    batches: int
    records: int
    bytes: int
    epoch_lo: int
    epoch_hi: int


class Damage(NamedTuple):
    """A fault of one copy: a scan.Fault with the end of the affected offsets."""

    code: str
    segment: str
    position: int
    offset_lo: int
    offset_hi: int
    bytes: int
    text: str


class Mark(NamedTuple):
    """The position of a control batch, or of the first batch of an epoch."""

    offset: int
    segment: str
    position: int
    bytes: int
    epoch: int


class Stretch(NamedTuple):
    """The position of consecutive batches of a bucket."""

    segment: str
    position: int
    bytes: int


@dataclass(slots=True)
class Copy:
    """One node's copy of the log."""

    node: int
    parts: list[Part] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    epoch_starts: list[Mark] = field(default_factory=list)
    controls: list[Mark] = field(default_factory=list)
    stretches: dict[int, list[Stretch]] = field(default_factory=dict)
    """By bucket."""
    buckets: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Bucket numbers in ascending order."""
    digests: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    """Per bucket: the number of batches, and their two digests."""

    cut_at: int | None = None
    """The offset at which the node will truncate its log on start, because later writes were incomplete."""

    @property
    def start_offset(self) -> int:
        return self.parts[0].base_offset if self.parts else 0

    @property
    def end_offset(self) -> int:
        if self.cut_at is not None:
            return self.cut_at
        return max((part.offset_hi for part in self.parts), default=0)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch; -1 without batches."""
        return max((mark.epoch for mark in self.epoch_starts), default=-1)

    @property
    def batches(self) -> int:
        return sum(part.batches for part in self.parts)

    @property
    def records(self) -> int:
        return sum(part.records for part in self.parts)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)

    def damage_at(self, offset: int) -> Damage | None:
        """Return the damage at an offset or ending there; None if there is none."""
        return next((d for d in self.damages if d.offset_lo <= offset <= d.offset_hi), None)


def read_copies(rows: pa.Table, directories: Mapping[int, CopyDirectory]) -> dict[int, Copy]:
    """Return the copies of these directories by node, from rows of schemas.AUDIT in any order."""
    import pyarrow.compute as pc

    copies = {node: Copy(node) for node in sorted(directories)}
    bases = {
        (node, s.name): s.base_offset for node, directory in directories.items() for s in directory.segments
    }
    is_bucket = pc.equal(rows["kind"], BUCKET)
    for row in rows.filter(pc.invert(is_bucket)).to_pylist():
        _add(copies[row["node"]], row, bases[row["node"], row["segment"]])
    for copy in copies.values():
        _add_buckets(copy, rows.filter(pc.and_(is_bucket, pc.equal(rows["node"], copy.node))))
        copy.parts.sort()
        copy.damages.sort(key=lambda damage: (bases[copy.node, damage.segment], damage.position))
        copy.controls.sort()
        copy.epoch_starts = _true_starts(sorted(copy.epoch_starts))
    return copies


def _add(copy: Copy, row: Row, base_offset: int) -> None:
    kind, segment, position = row["kind"], row["segment"], row["position"]
    span = row["offset_lo"], row["offset_hi"]
    if kind == SEGMENT:
        counts = row["batches"], row["records"], row["bytes"]
        epochs = (-1, -1) if row["epoch_lo"] is None else (row["epoch_lo"], row["epoch_hi"])
        copy.parts.append(Part(base_offset, position, segment, *span, *counts, *epochs))
    elif kind in (EPOCH_START, CONTROL):
        mark = Mark(span[0], segment, position, row["bytes"], row["epoch_lo"])
        (copy.epoch_starts if kind == EPOCH_START else copy.controls).append(mark)
    else:
        copy.damages.append(Damage(kind, segment, position, *span, row["bytes"], row["detail"]))


def _add_buckets(copy: Copy, rows: pa.Table) -> None:
    columns = {name: rows[name].to_numpy() for name in ("bucket", "batches", "digest1", "digest2")}
    order = np.argsort(columns["bucket"], kind="stable")
    sorted_buckets = columns["bucket"][order]
    starts = np.flatnonzero(np.diff(sorted_buckets, prepend=-1))
    copy.buckets = sorted_buckets[starts]
    if len(starts):
        copy.digests = np.stack(
            [
                np.add.reduceat(columns["batches"][order], starts),
                np.bitwise_xor.reduceat(columns["digest1"][order], starts),
                np.bitwise_xor.reduceat(columns["digest2"][order], starts),
            ],
            axis=1,
        )
    places = (rows[name].to_pylist() for name in ("segment", "position", "bytes"))
    for bucket, *place in zip(columns["bucket"].tolist(), *places, strict=True):
        copy.stretches.setdefault(bucket, []).append(Stretch(*place))


def _true_starts(marks: list[Mark]) -> list[Mark]:
    """Keep the marks at which the epoch changes: each part of a segment marks its first batch."""
    found: list[Mark] = []
    for mark in marks:
        if not found or found[-1].epoch != mark.epoch:
            found.append(mark)
    return found
