"""The engine's read-only view of the log."""

from __future__ import annotations

from typing import Protocol

from quorumd.ids import OffsetAndEpoch


class LogView(Protocol):
    """Read access to the log. Changes to the log are in Effects."""

    @property
    def start_offset(self) -> int:
        """The log start offset."""

    @property
    def end_offset(self) -> int:
        """The log end offset: last offset + 1, flushed or not."""

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, 0 for an empty log."""

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The end offset of the largest epoch <= `epoch` in this log, with that epoch; (start offset, 0) if none.

        If the log starts at the end of a snapshot, the epoch of the snapshot's last record counts as in the log.
        """

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The end offset and last epoch of the newest complete snapshot, None if there is none."""

    def fetched_bytes(self, snapshot: OffsetAndEpoch) -> int:
        """The number of bytes of `snapshot`, which is being fetched, that are already stored."""
