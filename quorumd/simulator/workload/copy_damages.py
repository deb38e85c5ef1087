"""Damage to a copy of a node's files, by crashes at any moment, lost files and bad sectors."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from quorumd.ids import OffsetAndEpoch
from quorumd.log.epoch_cache import FILE_NAME as EPOCHS
from quorumd.log.high_watermark_checkpoint import HighWatermarkCheckpoint
from quorumd.log.snapshot_file import BUILDING, PART
from quorumd.protocol.batch_header import HEADER_SIZE, encode_header
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from quorumd.simulator.data_directories import DATA_DIRECTORY
from quorumd.simulator.workload.copied_disk import PARTITION, CopiedDisk, segment_path, snapshot_path

DERIVED: Final = (".index", ".timeindex", EPOCHS)
"""Endings of the names of files that recovery rebuilds."""
UNKNOWN_CONTROL: Final = (b"\x00\x00\x00\x63", b"")
"""A control record of an unknown type."""
GZIP: Final = 1
"""The codec in the attributes of a compressed batch."""

Damage = Callable[[CopiedDisk, Random], None]


def nothing(copy: CopiedDisk, random: Random) -> None:
    """Leave the copy undamaged."""


def lost_indexes(copy: CopiedDisk, random: Random) -> None:
    """Damage files that recovery rebuilds."""
    for name in copy.disk.list_directory(PARTITION):
        if name.endswith(DERIVED) and random.random() < 0.7:
            path = f"{PARTITION}/{name}"
            if random.random() < 0.5:
                copy.disk.remove(path)
            else:
                copy.replace(path, random.randbytes(random.randrange(40)))


def leftovers(copy: CopiedDisk, random: Random) -> None:
    """Add the files of a build and of a transfer that did not complete."""
    snapshot = OffsetAndEpoch(copy.end + random.randrange(9), 9)
    for ending in (f".pid9{BUILDING}", PART):
        copy.replace(snapshot_path(snapshot) + ending, random.randbytes(random.randrange(200)))


def torn_tail(copy: CopiedDisk, random: Random) -> None:
    """Write after the end of the log what a crash can leave: garbage, a batch again, a batch of an old epoch."""
    last = copy.batches[-1] if copy.batches and copy.batches[-1].end_offset == copy.end else None
    tail = random.choice((b"", bytes(70), bytes(600))) + b"\x07" + random.randbytes(random.randrange(200))
    if last is not None and random.random() < 0.5:
        again = last.data[: random.choice((30, 64, len(last.data)))]
        old = encode_batch(copy.end, last.epoch - 1, 1, [b"old"])
        tail = random.choice((again, old)) if last.epoch > 0 else again
    base = copy.segment_of(copy.end)
    copy.write(segment_path(base), copy.size_below(copy.end), tail)
    copy.empty.discard(base)


def cut_log(copy: CopiedDisk, random: Random) -> None:
    """Lose the end of the log, often in the middle of a batch."""
    boundaries = copy.boundaries[-6:] if random.random() < 0.6 else copy.boundaries
    end = random.choice(boundaries)
    following = next((batch for batch in copy.batches if batch.base_offset == end), None)
    is_torn = following is not None and copy.segment_of(end) == copy.segment_of(following.base_offset)
    surplus = random.randrange(len(following.data)) if is_torn and following is not None else 0
    copy.cut(end, random.choice((0, surplus)))


def lost_segment(copy: CopiedDisk, random: Random) -> None:
    """Lose a segment in the middle or at the end of the log."""
    if len(copy.bases) > 1:
        copy.lose_segment(random.choice(copy.bases[1:]))


def damaged_snapshots(copy: CopiedDisk, random: Random) -> None:
    """Damage the newest snapshot, or several."""
    for snapshot in copy.snapshots[-random.choice((1, 1, 2)) :]:
        path = snapshot_path(snapshot)
        data = copy.disk.contents()[path]
        copy.replace(path, random.choice(_SNAPSHOT_DAMAGES)(data, snapshot.epoch, random))
        copy.snapshots.remove(snapshot)


def lost_snapshot(copy: CopiedDisk, random: Random) -> None:
    """Lose a snapshot, or all."""
    for snapshot in random.choice((copy.snapshots[:], copy.snapshots[:1], copy.snapshots[-1:])):
        copy.disk.remove(snapshot_path(snapshot))
        copy.snapshots.remove(snapshot)


def interrupted_installation(copy: CopiedDisk, random: Random) -> None:
    """Let the newest snapshot be ahead of the log, as after a crash while it was installed."""
    if not copy.snapshots:
        return
    newest = copy.snapshots[-1]
    below = [offset for offset in copy.boundaries if offset < newest.offset]
    if not below:
        return
    copy.cut(random.choice(below))
    way = random.randrange(3)
    if way == 0:
        # The log never had more.
        copy.known = min(copy.known, copy.end)
        HighWatermarkCheckpoint(copy.disk, DATA_DIRECTORY).save(copy.known)
    elif way == 1:
        copy.add_empty_segment(newest.offset)
    if random.random() < 0.5:
        damaged_snapshots(copy, random)


def _changed_byte(data: bytes, epoch: int, random: Random) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + bytes((data[at] ^ (1 + random.randrange(255)),)) + data[at + 1 :]


def _cut_off(data: bytes, epoch: int, random: Random) -> bytes:
    return data[: random.randrange(len(data))]


def _continued(data: bytes, epoch: int, random: Random) -> bytes:
    """Append zeros, garbage or another footer."""
    end = max(header.end_offset for header in headers(data))
    footer = encode_control_batch(end, epoch, 1, [encode_control(SnapshotFooterRecord(0))])
    return data + random.choice((bytes(100), b"\x07" * 90, footer))


def _without_footer(data: bytes, epoch: int, random: Random) -> bytes:
    return data[: max(header.position for header in headers(data))]


def _without_header(data: bytes, epoch: int, random: Random) -> bytes:
    """Begin with a batch that is not a snapshot header."""
    unknown = encode_control_batch(0, epoch, 1, [UNKNOWN_CONTROL])
    return random.choice((encode_batch(0, epoch, 1, [b"record"]), unknown))


def _of_another_epoch(data: bytes, epoch: int, random: Random) -> bytes:
    first = next(headers(data))
    first.epoch = epoch - 1
    return encode_header(first, data[HEADER_SIZE : first.size]) + data[first.size :]


def _compressed(data: bytes, epoch: int, random: Random) -> bytes:
    first = next(headers(data))
    first.attributes |= GZIP
    return encode_header(first, data[HEADER_SIZE : first.size]) + data[first.size :]


_SNAPSHOT_DAMAGES: Final = (
    _changed_byte,
    _changed_byte,
    _cut_off,
    _continued,
    _without_footer,
    _without_header,
    _of_another_epoch,
    _compressed,
)
DAMAGES: Final[tuple[Damage, ...]] = (
    nothing,
    lost_indexes,
    leftovers,
    torn_tail,
    cut_log,
    cut_log,
    lost_segment,
    damaged_snapshots,
    damaged_snapshots,
    lost_snapshot,
    interrupted_installation,
    interrupted_installation,
)
