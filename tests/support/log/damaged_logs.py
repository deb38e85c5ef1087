"""Damage to a node's copy of a log, at a known offset that an audit must find."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import crc32c

from quorumd.log.meta_properties import PARTITION_DIRECTORY
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage, Voter
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from tests.support.log.log_files import HEADER, Batch, batches
from tests.support.log.snapshots import voters_record

CRC_AT = 17
BODY_AT = 21
CHANGED_BYTE = HEADER.size + 9
"""Position within the value of the first record of a batch."""


def partition_path(data_directory: Path) -> Path:
    return data_directory / PARTITION_DIRECTORY


def segments(data_directory: Path) -> list[Path]:
    return sorted(partition_path(data_directory).glob("*.log"))


def batch_at(data_directory: Path, offset: int) -> tuple[Path, Batch]:
    """Return the data batch that has an offset, or the next data batch after it, and its segment."""
    for segment in segments(data_directory):
        for batch in batches(segment):
            if batch.end_offset > offset and not batch.is_control:
                return segment, batch
    raise AssertionError(f"{data_directory} ends below offset {offset}")


def end_offset(data_directory: Path) -> int:
    return batches(segments(data_directory)[-1])[-1].end_offset


def flip_bit(data_directory: Path, offset: int) -> Batch:
    """Flip a bit of a record without adapting the CRC."""
    segment, batch = batch_at(data_directory, offset)
    data = bytearray(batch.data)
    data[CHANGED_BYTE] ^= 1
    _write(segment, batch.position, bytes(data))
    return batch


def change_silently(data_directory: Path, offset: int) -> Batch:
    """Flip a bit of a record and adapt the CRC."""
    segment, batch = batch_at(data_directory, offset)
    data = bytearray(batch.data)
    data[CHANGED_BYTE] ^= 1
    struct.pack_into(">I", data, CRC_AT, crc32c.crc32c(bytes(data[BODY_AT:])))
    _write(segment, batch.position, bytes(data))
    return batch


def change_epoch(data_directory: Path, offset: int, epoch: int) -> Batch:
    """Change the epoch of a batch, which no CRC covers."""
    segment, batch = batch_at(data_directory, offset)
    _write(segment, batch.position + 12, struct.pack(">i", epoch))
    return batch


def drop_batch(data_directory: Path, offset: int) -> Batch:
    """Remove a batch."""
    segment, batch = batch_at(data_directory, offset)
    data = segment.read_bytes()
    segment.write_bytes(data[: batch.position] + data[batch.position + len(batch.data) :])
    return batch


def spoil(data_directory: Path, offset: int) -> Batch:
    """Destroy a batch including its length."""
    segment, batch = batch_at(data_directory, offset)
    _write(segment, batch.position, b"\x5a" * (len(batch.data) - 3))
    return batch


def swap_segments(data_directory: Path, one: int, two: int) -> tuple[Path, Path]:
    """Exchange the contents of two segments."""
    files = segments(data_directory)
    contents = files[one].read_bytes(), files[two].read_bytes()
    files[one].write_bytes(contents[1])
    files[two].write_bytes(contents[0])
    return files[one], files[two]


def cut(data_directory: Path, offset: int) -> int:
    """End the copy before the batch that has an offset; return its new end offset."""
    segment, batch = batch_at(data_directory, offset)
    for later in segments(data_directory):
        if later > segment:
            later.unlink()
    with segment.open("r+b") as file:
        file.truncate(batch.position)
    return batch.base_offset


def tear_tail(data_directory: Path, missing: int = 5) -> Batch:
    """Remove the last bytes of the last batch."""
    segment = segments(data_directory)[-1]
    last = batches(segment)[-1]
    with segment.open("r+b") as file:
        file.truncate(last.position + len(last.data) - missing)
    return last


def add_tail(data_directory: Path, epoch: int, leader: int, voters: Sequence[int], records: int = 3) -> int:
    """Append records of a leader in its own epoch; return their first offset."""
    segment = segments(data_directory)[-1]
    offset = end_offset(data_directory)
    members = [Voter(voter) for voter in voters]
    change = LeaderChangeMessage(0, leader, members, members[: len(members) // 2 + 1])
    data = encode_control_batch(offset, epoch, 1_700_000_000_000, [encode_control(change)])
    values = [encode_record(NoOpRecord(), 0)] * records
    data += encode_batch(offset + 1, epoch, 1_700_000_000_000, values)
    with segment.open("ab") as file:
        file.write(data)
    return offset


def add_voters(data_directory: Path, epoch: int, voters: Sequence[int]) -> None:
    """Append a voters record of this epoch."""
    data = encode_control_batch(
        end_offset(data_directory), epoch, 1_700_000_000_000, [encode_control(voters_record(*voters))]
    )
    with segments(data_directory)[-1].open("ab") as file:
        file.write(data)


def save_state(
    data_directory: Path, epoch: int, leader: int, voted: int, voters: Sequence[int] = (1, 2, 3)
) -> None:
    """Write the node's quorum-state."""
    state = {
        "clusterId": "",
        "leaderId": leader,
        "leaderEpoch": epoch,
        "votedId": voted,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in voters],
        "data_version": 0,
    }
    (partition_path(data_directory) / "quorum-state").write_text(json.dumps(state) + "\n", encoding="utf-8")


def save_high_watermark(data_directory: Path, offset: int) -> None:
    """Write the node's checkpoint of the high watermark."""
    text = f"0\n1\n__cluster_metadata 0 {offset}\n"
    (data_directory / "replication-offset-checkpoint").write_text(text, encoding="utf-8")


def _write(file: Path, position: int, data: bytes) -> None:
    with file.open("r+b") as stream:
        stream.seek(position)
        stream.write(data)
