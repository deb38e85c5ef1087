"""Metadata transactions (KIP-868): what is within one counts if it ends, and never was if it is aborted."""

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
    """Rows that count, without markers; the offsets [begin, abort) of what never was; where a transaction begins that
    is open at the end."""

    rows: list[Row]
    aborted: list[tuple[int, int]]
    open: int | None


def settle(rows: list[Row]) -> Settled:
    """Of the records for `cluster_fold`, in the order of their offsets. Those of the quorum itself always count."""
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
