"""Aborted transactions whose marker is in one segment, in the format of Kafka's `%020d.txnindex`.

    version i16 = 0 | producer id i64 | first offset i64 | last offset i64, of the marker | last stable offset i64

The last stable offset is that after the marker. The file exists only if there are entries. A read-committed fetch
returns the entries that overlap what it returns; the consumer then drops their records.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from quorumd.broker.log.producer_state import AbortedTransaction

SUFFIX = ".txnindex"
_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size


def encode_entries(entries: Iterable[AbortedTransaction]) -> bytes:
    """The content of the file."""
    return b"".join([_ENTRY.pack(0, *entry) for entry in entries])


def decode_entries(data: bytes) -> list[AbortedTransaction] | None:
    """Decode the content of the file; None if it is not a transaction index."""
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
