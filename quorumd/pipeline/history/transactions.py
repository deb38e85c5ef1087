"""Metadata transactions (KIP-868): drops the records of aborted ones."""

from __future__ import annotations

from typing import Final, NamedTuple

from quorumd.pipeline.tables.schemas import Row
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord

BEGIN: Final = BeginTransactionRecord.API_KEY
END: Final = EndTransactionRecord.API_KEY
ABORT: Final = AbortTransactionRecord.API_KEY
TRANSACTION_TYPES: Final = (BEGIN, END, ABORT)


class Settled(NamedTuple):
    """Records after their transactions are resolved."""

    rows: list[Row]
    """The records that are in effect, without transaction markers."""
    aborted: list[tuple[int, int]]
    """The offsets [begin, abort) of aborted transactions."""
    open: int | None
    """The begin offset of a transaction without an end; None if there is none."""


def settle(rows: list[Row]) -> Settled:
    """Resolve the transactions in records for `cluster_fold`, ordered by offset. Control records are not
    transactional."""
    settled: list[Row] = []
    aborted: list[tuple[int, int]] = []
    begin: int | None = None
    for row in rows:
        marker = None if row["control"] else row["type"]
        if marker == BEGIN:
            begin = row["offset"]
        elif marker in (END, ABORT):
            if marker == ABORT and begin is not None:
                settled = [each for each in settled if each["control"] or each["offset"] < begin]
                aborted.append((begin, row["offset"]))
            begin = None
        else:
            settled.append(row)
    return Settled(settled, aborted, begin)
