"""Checks that this version knows every record of a log before the log is used or written."""

from __future__ import annotations

from quorumd.errors import CorruptLog, MalformedMessage, UnknownRecord, UnsupportedVersion
from quorumd.log.segmented_log import SegmentedLog
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.known_records import check_known

_READ_BYTES = 1024 * 1024


def validate_log(log: SegmentedLog, start_offset: int) -> None:
    """Check a log from `start_offset` on, where a batch begins. Blocks. Raises UnknownRecord, CorruptLog."""
    offset = start_offset
    while offset < log.end_offset:
        data = log.read(offset, _READ_BYTES)
        _validate(data, "the log", "Nothing was changed")
        for header in headers(data):
            offset = header.end_offset


def validate_fetched(data: bytes) -> None:
    """Check batches that a leader sent. Raises UnknownRecord, CorruptLog."""
    _validate(data, "the leader's log", "The records were not written here")


def _validate(data: bytes, source: str, consequence: str) -> None:
    try:
        for header in headers(data):
            if not header.is_control:
                check_known(data, header)
    except UnsupportedVersion as fault:
        raise UnknownRecord(
            f"{source} cannot be applied {fault}; upgrade this node to the version that wrote it. {consequence}"
        ) from None
    except MalformedMessage as fault:
        raise CorruptLog(
            f"{source} cannot be applied {fault}; if a newer version wrote it, upgrade this node. "
            f"{consequence}"
        ) from None
