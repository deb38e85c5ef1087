"""The transaction index of a segment, Kafka's `%020d.txnindex`: transactions whose abort marker is in the segment.

    version i16 = 0 | producer id i64 | first offset i64 | last offset i64 | last stable offset i64

The last offset is the offset of the marker; the last stable offset is its value right after the marker was appended.
The file exists only if there are entries. A read_committed fetch returns the entries that overlap its records; the
consumer uses them to filter out aborted records.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from quorumd.broker.log.producer_state import AbortedTransaction

SUFFIX = ".txnindex"
_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size


def encode_entries(entries: Iterable[AbortedTransaction]) -> bytes:
    """Encode the content of the file."""
    return b"".join([_ENTRY.pack(0, *entry) for entry in entries])


def decode_entries(data: bytes) -> list[AbortedTransaction] | None:
    """Decode the content of the file; None if it is invalid."""
    if len(data) % ENTRY_SIZE:
        return None
    found = []
    last_offset = -1
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*fields)
        if version != 0 or entry.first_offset < 0 or entry.last_offset <= last_offset:
            return None
        last_offset = entry.last_offset
        found.append(entry)
    return found
