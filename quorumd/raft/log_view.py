"""What the engine may know of the log."""

from __future__ import annotations

from typing import Protocol

from quorumd.ids import OffsetAndEpoch


class LogView(Protocol):
    """Reading only: what changes the log stands in Effects."""

    @property
    def start_offset(self) -> int:
        """The first offset that is there."""

    @property
    def end_offset(self) -> int:
        """Last offset + 1, whether durable or not."""

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, 0 for an empty log."""

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch <= `epoch` in this log with its end offset; (start offset, 0) if there is none.

        The record before a start offset above 0 counts: its epoch is that of the snapshot that ends there.
        """

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot of this log that can be served, by the position it ends at."""

    def fetched_bytes(self, snapshot: OffsetAndEpoch) -> int:
        """How many bytes of a snapshot that is being fetched are here already."""
