"""Stops a node, and runs the callbacks that it schedules until then."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from quorumd.errors import DiskFull, ExitCode, StorageError
from quorumd.ports import Clock

logger = logging.getLogger("quorumd.node")


class Lifecycle:
    """Stops the node once; callbacks scheduled here do not run after that.

    `on_exit(exit_code, reason)` is called last; see `ExitCode`.
    """

    def __init__(self, clock: Clock, on_exit: Callable[[int, str], None]) -> None:
        self.is_stopped = False
        self._is_shutting_down = False
        self._clock = clock
        self._on_exit = on_exit
        self._closers: list[Callable[[], None]] = []

    @property
    def is_stopping(self) -> bool:
        """Whether the node is stopping or has stopped, gracefully or otherwise."""
        return self._is_shutting_down or self.is_stopped

    def begin_shutdown(self) -> bool:
        """Begin a graceful shutdown. Returns False if one has begun or the node has stopped."""
        if self.is_stopping:
            return False
        self._is_shutting_down = True
        return True

    def on_stop(self, *closers: Callable[[], None]) -> None:
        """Call `closers` when the node stops, in the order of their registration."""
        self._closers += closers

    def stop(self, exit_code: int, reason: str) -> None:
        """Release everything and report the exit code; does nothing if the node has stopped."""
        if self.is_stopped:
            return
        self.is_stopped = True
        for close in self._closers:
            close()
        self._on_exit(exit_code, reason)

    def fail(self, error: BaseException | str) -> None:
        """Stop at once because of a disk failure, or of the invariant violation that `error` describes."""
        if isinstance(error, StorageError):
            self.stop(error.exit_code, str(error))
        elif isinstance(error, BaseException):
            self.stop(ExitCode.DATA_DIRECTORY, str(error))
        else:
            self.stop(ExitCode.INVARIANT_VIOLATED, error)

    def file_written(self, outcome: object) -> None:
        """Handle the outcome of writing a checkpoint. The node continues without it if the disk is full."""
        if isinstance(outcome, DiskFull):
            logger.warning("%s", outcome)
        elif isinstance(outcome, BaseException):
            self.fail(outcome)

    def run_guarded(self, callback: Callable[[], None]) -> None:
        """Call back unless the node has stopped. A StorageError stops it."""
        if self.is_stopped:
            return
        try:
            callback()
        except StorageError as error:
            self.fail(error)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run the callback, guarded, in a later iteration of the event loop."""
        self._clock.call_soon(partial(self.run_guarded, callback))

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> None:
        """Run the callback, guarded, after a delay."""
        self._clock.call_at(self._clock.now_ms() + delay_ms, partial(self.run_guarded, callback))
