"""The records that consumers of the metadata log receive."""

from __future__ import annotations

from quorumd.protocol.batch_scan import headers
from quorumd.simulator.checkers.base import InvariantViolation
from quorumd.simulator.checkers.logs import CommittedDataIsImmutable


class ConsumersReadCommitted:
    """Every batch that a consumer reads is committed, byte for byte, and none is missing between two."""

    invariant = "consumers read what is committed"

    def __init__(self, committed: CommittedDataIsImmutable) -> None:
        self.checked = 0
        """The number of batches compared."""
        self._committed = committed

    def received(self, fetch_offset: int, high_watermark: int, records: bytes) -> int:
        """Check the records of a response; return the offset after them. Raises InvariantViolation."""
        if high_watermark > self._committed.end_offset:
            raise self._violation(f"the high watermark is {high_watermark}")
        next_offset = fetch_offset
        for header in headers(records):
            committed = self._committed.batch_at(header.base_offset)
            data = records[header.position : header.position + header.size]
            if committed is None or committed.data != data:
                raise self._violation(f"a consumer received the batch {header}, which is not committed")
            if not header.base_offset <= next_offset < header.end_offset:
                raise self._violation(f"a consumer received {header} where {next_offset} is next")
            next_offset = header.end_offset
            self.checked += 1
        return next_offset

    def _violation(self, text: str) -> InvariantViolation:
        return InvariantViolation(
            self.invariant, f"{text}; committed are the records below {self._committed.end_offset}"
        )
