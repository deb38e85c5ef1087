"""Digests do not depend on pieces, parts and segments, and show every change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from quorumd.pipeline.audit.continuity import add_boundary_faults
from quorumd.pipeline.audit.copies import Copy, read_copies
from quorumd.pipeline.copies.log_files import CopyDirectory, SegmentFile
from quorumd.pipeline.scan.batches import START, Batches, scan
from quorumd.pipeline.scan.digests import SegmentDigests, batch_hashes
from quorumd.pipeline.tables import schemas
from scripts.log_generator import LogShape, chunks

SHAPE = LogShape(records=150_000, batch_records=8, epoch_records=20_000)


@pytest.fixture(scope="module")
def log() -> bytes:
    return b"".join(chunk.data for chunk in chunks(SHAPE))


@pytest.fixture(scope="module")
def batches(log: bytes) -> Batches:
    return scan(log).batches


def copy_of(*parts: pa.RecordBatch, names: Sequence[str] = ("a",), bases: Sequence[int] = (0,)) -> Copy:
    segments = tuple(SegmentFile(1, name, base, 0) for name, base in zip(names, bases, strict=True))
    table = pa.Table.from_batches(parts, schema=schemas.AUDIT.arrow())
    copy = read_copies(table, {1: CopyDirectory(1, "", segments, ())})[1]
    add_boundary_faults(copy)
    return copy


def digests(log: bytes, *cuts: int) -> pa.RecordBatch:
    """The digests of one segment, read in pieces."""
    found = SegmentDigests(1, "a", 0)
    place = START
    for end in (*cuts, len(log)):
        scanned = scan(log[place.position : end], place, is_last=end == len(log))
        found.add(scanned.batches, place.position, scanned.faults)
        place = scanned.next
    return found.arrow()


def test_digests_do_not_depend_on_pieces(log: bytes) -> None:
    whole, pieces = (
        sorted(map(str, rows.to_pylist()))
        for rows in (digests(log), digests(log, 70, 100_000, 100_001, 3_000_000))
    )
    assert pieces == whole


def test_rows_summarize_segment(log: bytes, batches: Batches) -> None:
    copy = copy_of(digests(log))
    (part,) = copy.parts
    assert (part.offset_lo, part.offset_hi, part.position) == (0, batches.end_offset[-1], 0)
    assert (copy.batches, copy.records, copy.bytes) == (len(batches), batches.count.sum(), len(log))
    assert copy.buckets.tolist() == [0, 1, 2]
    assert copy.digests[:, 0].sum() == len(batches)
    assert [mark.epoch for mark in copy.epoch_starts] == sorted(set(batches.epoch.tolist()))
    assert {mark.offset for mark in copy.epoch_starts} == {mark.offset for mark in copy.controls}
    first = copy.stretches[1][0]
    assert batches.base_offset[batches.position == first.position].tolist() == [
        min(b for b in batches.base_offset.tolist() if b >= 65_536)
    ]


@pytest.mark.parametrize("cut", [1, 1000, 9_000])
def test_digests_do_not_depend_on_segments(log: bytes, batches: Batches, cut: int) -> None:
    """A segment in two parts, and two segments instead of one."""
    whole = copy_of(digests(log))
    bound, offset = int(batches.position[cut]), int(batches.base_offset[cut])
    first, second, next_segment = (
        SegmentDigests(1, "a", 0),
        SegmentDigests(1, "a", -1, bound),
        SegmentDigests(1, "b", offset),
    )
    first.add(scan(log[:bound]).batches, 0)
    rest = scan(log[bound:]).batches
    second.add(rest, bound)
    next_segment.add(rest, 0)
    parts = copy_of(second.arrow(), first.arrow())
    segments = copy_of(next_segment.arrow(), first.arrow(), names=("a", "b"), bases=(0, offset))
    for copy in (parts, segments):
        assert copy.damages == []
        assert (copy.digests == whole.digests).all()
        assert [mark[0] for mark in copy.epoch_starts] == [mark[0] for mark in whole.epoch_starts]


def test_every_header_field_changes_digest(batches: Batches) -> None:
    some = batches.select(slice(1000))
    for which in (0, 1):
        hashes = batch_hashes(some, which)
        assert len(set(hashes.tolist())) == 1000
        for field in ("base_offset", "end_offset", "epoch", "crc", "size"):
            changed = replace(
                some, **{field: getattr(some, field) ^ np.array(1).astype(getattr(some, field).dtype)}
            )
            assert (batch_hashes(changed, which) != hashes).all(), field
    assert (batch_hashes(some, 0) != batch_hashes(some, 1)).all()


def test_segment_without_batches_has_row() -> None:
    empty = SegmentDigests(1, "b", 77)
    full = SegmentDigests(1, "a", 0)
    copy = copy_of(empty.arrow(), full.arrow(), names=("a", "b"), bases=(70, 77))
    assert copy.end_offset == 77
    assert copy.last_epoch == -1
    assert copy.batches == 0


def test_gap_between_parts_is_reported_once(log: bytes, batches: Batches) -> None:
    cut = 500
    bound = int(batches.position[cut])
    lost = slice(int(batches.position[cut]), int(batches.position[cut + 1]))
    shorter = log[: lost.start] + log[lost.stop :]
    first, second = SegmentDigests(1, "a", 0), SegmentDigests(1, "a", -1, bound)
    before = scan(shorter)
    # The fault at the end of a range is found with the batch after it.
    first.add(before.batches.select(slice(cut)), 0, before.faults)
    second.add(scan(shorter[bound:]).batches, bound)
    copy = copy_of(first.arrow(), second.arrow())
    (damage,) = copy.damages
    assert (damage.code, damage.offset_lo, damage.offset_hi, damage.position) == (
        "GAP", batches.base_offset[cut], batches.end_offset[cut], bound,
    )  # fmt: skip
