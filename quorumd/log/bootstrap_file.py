"""The bootstrap records, which the first leader appends to the empty log, and the initial voters.

    <data directory>/bootstrap.checkpoint
    <data directory>/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint

Both have the format of a snapshot. quorumd and Kafka's tools up to 4.3 write the records to the first file; the
second has the initial voters, if any were given, and since Kafka 4.4 also the records (KIP-1170). They are used only
for an empty log of a new quorum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from quorumd.errors import CorruptLog, CorruptSnapshot, UnknownRecord
from quorumd.ids import OffsetAndEpoch
from quorumd.log.meta_properties import BOOTSTRAP_FILE, partition_directory
from quorumd.log.snapshot_file import check_snapshot, file_name, read_batches
from quorumd.ports import Disk
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from quorumd.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from quorumd.protocol.messages.voters_record import VotersRecord
from quorumd.protocol.record_batch import encode_batch, encode_control_batch, values

_NO_LOG: Final = OffsetAndEpoch(0, 0)


class Bootstrap(NamedTuple):
    """The content of one of the files: the frames of its metadata records, and its voters, None if it has none."""

    path: str
    frames: list[bytes]
    voters: VotersRecord | None


def encode_bootstrap(frames: Sequence[bytes], wall_ms: int) -> bytes:
    """Encode a `bootstrap.checkpoint`. `frames`: at least one metadata record; `wall_ms`: timestamp of the
    batches."""
    header = encode_control(SnapshotHeaderRecord(0, 0))
    footer = encode_control(SnapshotFooterRecord(0))
    batches = (
        encode_control_batch(0, 0, wall_ms, [header]),
        encode_batch(1, 0, wall_ms, frames),
        encode_control_batch(1 + len(frames), 0, wall_ms, [footer]),
    )
    return b"".join(batches)


def load_bootstrap(disk: Disk, data_directory: str) -> Bootstrap | None:
    """Load `bootstrap.checkpoint`, None if it does not exist. Raises CorruptLog for an invalid file, StorageError if
    it cannot be read."""
    return _load(disk, f"{data_directory}/{BOOTSTRAP_FILE}")


def load_bootstrap_snapshot(disk: Disk, data_directory: str) -> Bootstrap | None:
    """Load the snapshot that ends at offset 0, see `load_bootstrap`."""
    return _load(disk, f"{partition_directory(data_directory)}/{file_name(_NO_LOG)}")


def _load(disk: Disk, path: str) -> Bootstrap | None:
    if not disk.exists(path):
        return None
    try:
        summary = check_snapshot(disk, path, _NO_LOG, with_records=True)
    except (CorruptSnapshot, UnknownRecord) as fault:
        raise CorruptLog(
            f"{fault}; restore the file, or remove it if the cluster already has metadata"
        ) from None
    frames = [
        value
        for data, header in read_batches(disk, path, _NO_LOG)
        if not header.is_control
        for value in values(data, header)
    ]
    return Bootstrap(path, frames, summary.voters)
