"""`bootstrap.checkpoint`: the records with which the first leader begins the log, as `format` decided them.

    <data folder>/bootstrap.checkpoint

It is in the format of a snapshot with no log behind it, as Kafka's tools write it. Only in an empty log it counts:
a node whose log has begun, or that joins a quorum which exists, goes by the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorumd.errors import CorruptLog, CorruptSnapshot, UnknownRecord
from quorumd.ids import OffsetAndEpoch
from quorumd.log.meta_properties import BOOTSTRAP_FILE
from quorumd.log.snapshot_file import check_snapshot, read_batches
from quorumd.ports import Disk
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from quorumd.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from quorumd.protocol.record_batch import encode_batch, encode_control_batch, values

_NO_LOG: Final = OffsetAndEpoch(0, 0)


def encode_bootstrap(frames: Sequence[bytes], wall_ms: int) -> bytes:
    """The content of a file with these frames of metadata records, at least one. `format_folder` writes it."""
    header = encode_control(SnapshotHeaderRecord(0, 0))
    footer = encode_control(SnapshotFooterRecord(0))
    batches = (
        encode_control_batch(0, 0, wall_ms, [header]),
        encode_batch(1, 0, wall_ms, frames),
        encode_control_batch(1 + len(frames), 0, wall_ms, [footer]),
    )
    return b"".join(batches)


def load_bootstrap(disk: Disk, data_folder: str) -> list[bytes] | None:
    """The frames in the file; None if there is none. Raises CorruptLog for a file that cannot be used, StorageError
    for one that cannot be read."""
    path = f"{data_folder}/{BOOTSTRAP_FILE}"
    if not disk.exists(path):
        return None
    try:
        check_snapshot(disk, path, _NO_LOG, with_records=True)
    except (CorruptSnapshot, UnknownRecord) as fault:
        raise CorruptLog(
            f"{fault}: restore the file; in a cluster that has metadata already, remove it"
        ) from None
    return [
        value
        for data, header in read_batches(disk, path, _NO_LOG)
        if not header.is_control
        for value in values(data, header)
    ]
