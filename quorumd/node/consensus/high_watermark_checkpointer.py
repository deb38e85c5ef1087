"""When the high watermark goes to disk: now and then, and when all of a sealed segment is committed."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.log.high_watermark_checkpoint import HighWatermarkCheckpoint
from quorumd.ports import Disk


class HighWatermarkCheckpointer:
    """`durable()` is how far the log is both committed and durable here; `written(outcome)` hears of every save."""

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
        """What was saved last, or is about to be."""
        self.durable_checkpoint = saved
        """What was saved last and is durable."""

    def save(self) -> None:
        self._save(self._durable())

    def save_if_sealed(self, sealed: int) -> None:
        """A sealed segment, which ends at `sealed`, is as it will stay once all of it is committed: from then on
        what is wrong in it is damage, and not what a crash left. It is flushed before it is committed, or after."""
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
            # By a full disk: it is tried again with the next flush or commit.
            self.saved = self.durable_checkpoint
        self._on_written(outcome)

    def save_blocking(self, durable: int) -> None:
        """At the end. Blocks. Raises DiskFull or StorageError."""
        if durable > self.saved:
            self._checkpoint.save(durable)
