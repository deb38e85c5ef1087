"""Writes the high watermark to disk: periodically, and once all of a sealed segment is committed."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.log.high_watermark_checkpoint import HighWatermarkCheckpoint
from quorumd.ports import Disk


class HighWatermarkCheckpointer:
    """Saves the high watermark in the background.

    `durable()` returns the offset up to which the log is both committed and durable here; `on_written(outcome)` is
    called after every save.
    """

    def __init__(
        self,
        disk: Disk,
        data_directory: str,
        saved: int,
        durable: Callable[[], int],
        on_written: Callable[[object], None],
    ) -> None:
        self._disk = disk
        self._checkpoint = HighWatermarkCheckpoint(disk, data_directory)
        self._durable = durable
        self._on_written = on_written
        self.saved = saved
        """The newest offset saved or being saved."""
        self.durable_checkpoint = saved
        """The newest offset that is durable."""

    def save(self) -> None:
        self._save(self._durable())

    def save_if_sealed(self, sealed: int) -> None:
        """Save once the sealed segment that ends at `sealed` is committed and durable to its end.

        From then on the segment does not change: an error in it is damage, not a torn write of a crash. Its flush
        may complete before or after its commit.
        """
        if sealed > self.saved:
            durable = self._durable()
            if durable >= sealed:
                self._save(durable)

    def _save(self, durable: int) -> None:
        if durable > self.saved:
            self.saved = durable
            self._disk.submit(
                lambda: self._checkpoint.save(durable), lambda outcome: self._on_saved(durable, outcome)
            )

    def _on_saved(self, durable: int, outcome: object) -> None:
        if not isinstance(outcome, BaseException):
            self.durable_checkpoint = durable
        elif self.saved == durable:
            # The disk was full: the next flush or commit saves again.
            self.saved = self.durable_checkpoint
        self._on_written(outcome)

    def save_blocking(self, durable: int) -> None:
        """Save at shutdown. Blocks. Raises DiskFull or StorageError."""
        if durable > self.saved:
            self._checkpoint.save(durable)
