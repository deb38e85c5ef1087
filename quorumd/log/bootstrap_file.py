"""The records with which the first leader begins the log, as `format` decided them, and the first voters.

    <data folder>/bootstrap.checkpoint
    <data folder>/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint

Both are in the format of a snapshot with no log behind it. quorumd and Kafka's tools up to 4.3 write the records to
the first; the second has the voters if the tool was told any, and since Kafka 4.4 the records too (KIP-1170). They
count only in an empty log: a node whose log has begun, or that joins a quorum which exists, goes by the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from quorumd.errors import CorruptLog, CorruptSnapshot, UnknownRecord
from quorumd.ids import OffsetAndEpoch
from quorumd.log.meta_properties import BOOTSTRAP_FILE, partition_folder
from quorumd.log.snapshot_file import check_snapshot, file_name, read_batches
from quorumd.ports import Disk
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from quorumd.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from quorumd.protocol.messages.voters_record import VotersRecord
from quorumd.protocol.record_batch import encode_batch, encode_control_batch, values

_NO_LOG: Final = OffsetAndEpoch(0, 0)


class Bootstrap(NamedTuple):
    """The content of one of the files: the frames of metadata records, and the voters, None if it names none."""

    path: str
    frames: list[bytes]
    voters: VotersRecord | None


def encode_bootstrap(frames: Sequence[bytes], wall_ms: int) -> bytes:
    """The content of a `bootstrap.checkpoint` with these frames of metadata records, at least one, which
    `format_folder` writes."""
    header = encode_control(SnapshotHeaderRecord(0, 0))
    footer = encode_control(SnapshotFooterRecord(0))
    batches = (
        encode_control_batch(0, 0, wall_ms, [header]),
        encode_batch(1, 0, wall_ms, frames),
        encode_control_batch(1 + len(frames), 0, wall_ms, [footer]),
    )
    return b"".join(batches)


def load_bootstrap(disk: Disk, data_folder: str) -> Bootstrap | None:
    """What is in `bootstrap.checkpoint`; None if it is not there. Raises CorruptLog for a file that cannot be used,
    StorageError for one that cannot be read."""
    return _load(disk, f"{data_folder}/{BOOTSTRAP_FILE}")


def load_bootstrap_snapshot(disk: Disk, data_folder: str) -> Bootstrap | None:
    """As `load_bootstrap`, of the checkpoint that ends at offset 0."""
    return _load(disk, f"{partition_folder(data_folder)}/{file_name(_NO_LOG)}")


def _load(disk: Disk, path: str) -> Bootstrap | None:
    if not disk.exists(path):
        return None
    try:
        summary = check_snapshot(disk, path, _NO_LOG, with_records=True)
    except (CorruptSnapshot, UnknownRecord) as fault:
        raise CorruptLog(
            f"{fault}: restore the file; in a cluster that has metadata already, remove it"
        ) from None
    frames = [
        value
        for data, header in read_batches(disk, path, _NO_LOG)
        if not header.is_control
        for value in values(data, header)
    ]
    return Bootstrap(path, frames, summary.voters)
