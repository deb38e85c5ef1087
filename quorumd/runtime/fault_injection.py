"""Faulty ports for tests of whole processes, which replace the real ones if an `internal.` property is set."""

from __future__ import annotations

import os
from asyncio import AbstractEventLoop
from collections.abc import Callable
from errno import EIO

from quorumd.runtime.clock import LoopClock
from quorumd.runtime.disk import OsDisk, OsFile


class SkewedClock(LoopClock):
    """The Clock port with a wall clock that is `offset_ms` ahead; monotonic time is not affected."""

    def __init__(self, loop: AbstractEventLoop, offset_ms: int) -> None:
        super().__init__(loop)
        self._offset_ms = offset_ms

    def wall_ms(self) -> int:
        """See `ports.Clock`."""
        return super().wall_ms() + self._offset_ms


class FlushFailingDisk(OsDisk):
    """The Disk port on which the first `flushes` calls of `File.sync` succeed and all later ones fail with EIO."""

    def __init__(
        self,
        flushes: int,
        call_threadsafe: Callable[[Callable[[], None]], object],
        call_soon: Callable[[Callable[[], None]], object] | None = None,
        call_later: Callable[[float, Callable[[], None]], object] | None = None,
    ) -> None:
        super().__init__(call_threadsafe, call_soon, call_later)
        self._flushes_left = flushes

    def make_file(self, descriptor: int) -> OsFile:
        """See `OsDisk`."""
        return _FlushFailingFile(descriptor, self._count_flush)

    def _count_flush(self) -> None:
        self._flushes_left -= 1
        if self._flushes_left < 0:
            raise OSError(EIO, os.strerror(EIO))


class _FlushFailingFile(OsFile):
    """A file on a FlushFailingDisk."""

    __slots__ = ("_count_flush",)

    def __init__(self, descriptor: int, count_flush: Callable[[], None]) -> None:
        super().__init__(descriptor)
        self._count_flush = count_flush

    def sync(self) -> None:
        """See `ports.File`."""
        self._count_flush()
        super().sync()
