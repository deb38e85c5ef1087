"""When a snapshot is built, and what of the log and of older snapshots is removed then.

Building runs apart, one at a time; a failure costs the snapshot and nothing else. Other processes may put snapshots
into the folder too (`quorumd snapshot`): they are found when this looks again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from quorumd.errors import StorageError
from quorumd.log import LogSettings
from quorumd.log.retention import new_log_start
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.snapshots.builder import BuiltSnapshot, build_snapshot
from quorumd.node.statistics import NodeStatistics
from quorumd.ports import MIN_DUTY_CYCLE, Clock, Disk

logger = logging.getLogger("quorumd.node")

TOKEN = "node"
BACKOFF_MS = 5_000.0
BACKOFF_MAX_MS = 3600_000.0
SNAPSHOT_SIZE_RATIO = 0.5
"""A snapshot is due once the log behind the last one has this part of its size: what is written for snapshots stays
in proportion to what is written to the log, and what a start has to apply to what it has to load."""


class SnapshotManager:
    """`needed()` is the offset from which on the image may still need the log: what it has not applied, and what it
    takes back if its node loses its leadership."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        log: SegmentedLog,
        settings: LogSettings,
        data_directory: str,
        statistics: NodeStatistics,
        needed_offset: Callable[[], int],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._log = log
        self._settings = settings
        self._data_directory = data_directory
        self._statistics = statistics
        self._needed_offset = needed_offset
        self._is_building = False
        self._is_stopped = False
        self._newest = log.latest_snapshot
        self._newest_since_ms = clock.now_ms()
        self._failures = 0
        self._retry_after_ms = 0.0
        self._update_statistics()

    def maintain(self, committed: int) -> None:
        """See what is to be done. All below `committed` is committed, and durable here.

        Called now and then. Raises StorageError where the folder cannot be read, FlushFailed.
        """
        if self._is_stopped:
            return
        if self._is_building:
            self._disk.throttle_subprocess(duty_cycle(self._growth))
            return
        now = self._clock.now_ms()
        self._rescan(now)
        self._delete_obsolete(committed)
        if now >= self._retry_after_ms and self._is_due(committed, now):
            self._build(committed, now)

    def stop(self) -> None:
        """What comes of a snapshot that is being built does not matter any more."""
        self._is_stopped = True

    def _rescan(self, now: float) -> None:
        self._log.snapshots.rescan()
        if self._log.latest_snapshot != self._newest:
            self._newest, self._newest_since_ms = self._log.latest_snapshot, now
        self._update_statistics()

    def _update_statistics(self) -> None:
        newest, statistics = self._newest, self._statistics
        statistics.snapshot_end_offset = newest.offset if newest is not None else 0
        statistics.snapshot_bytes = (self._log.snapshots.size(newest) or 0) if newest is not None else 0
        statistics.snapshot_timestamp_ms = (
            self._log.snapshots.timestamp_ms(newest) if newest is not None else 0
        )

    @property
    def _snapshot_offset(self) -> int:
        """All below is in a snapshot."""
        return self._newest.offset if self._newest is not None else 0

    def _is_due(self, committed: int, now: float) -> bool:
        settings = self._settings
        done = self._snapshot_offset
        if committed <= done:
            return False
        is_stale = 0 < settings.snapshot_ms <= now - self._newest_since_ms
        return is_stale or self._growth >= 1.0

    @property
    def _growth(self) -> float:
        """How much the log has grown behind the newest snapshot, 1 being enough for the next one."""
        threshold = max(self._settings.snapshot_bytes, SNAPSHOT_SIZE_RATIO * self._statistics.snapshot_bytes)
        return self._log.bytes_after(self._snapshot_offset) / threshold

    def _delete_obsolete(self, committed: int) -> None:
        log = self._log
        begin = new_log_start(
            log.segments(), log.snapshots.stored(), committed, self._settings, self._clock.wall_ms()
        )
        if begin is not None and begin.offset <= self._needed_offset():
            log.delete_before(begin)
            logger.info("the log begins at offset %d now, where a snapshot ends", log.start_offset)

    def _build(self, committed: int, now: float) -> None:
        self._is_building = True
        job = partial(
            build_snapshot,
            data_directory=self._data_directory,
            end_offset=committed,
            token=TOKEN,
            seek_hint=self._log.seek_hint(self._snapshot_offset),
        )
        self._disk.run_in_subprocess(job, partial(self._on_built, committed, now))

    def _on_built(self, committed: int, began: float, outcome: BuiltSnapshot | BaseException | None) -> None:
        self._is_building = False
        if self._is_stopped:
            return
        now = self._clock.now_ms()
        if isinstance(outcome, BaseException) and self._log.start_offset > committed:
            # A fetched snapshot took the place of the log that was read.
            outcome = None
        try:
            self._rescan(now)
        except StorageError as error:
            outcome = error
        if isinstance(outcome, BaseException):
            self._on_failed(outcome, now)
            return
        self._failures = 0
        if outcome is None:
            return
        for warning in outcome.warnings:
            logger.warning("%s", warning)
        if outcome.is_new:
            self._statistics.snapshots_built += 1
            self._statistics.snapshot_build_ms.observe(now - began)
            self._log_built(outcome, now - began)
        else:
            self._newest_since_ms = now

    def _on_failed(self, error: BaseException, now: float) -> None:
        """The log is kept until it works again: nothing depends on a snapshot but the room it would save."""
        self._statistics.snapshots_failed += 1
        backoff = min(BACKOFF_MS * 2**self._failures, BACKOFF_MAX_MS)
        self._failures = min(self._failures + 1, 32)
        self._retry_after_ms = now + backoff
        logger.warning("no snapshot was built, in %.0f s it is tried again: %s", backoff / 1000, error)
        self._log.snapshots.remove_leftovers(TOKEN)

    def _log_built(self, built: BuiltSnapshot, took_ms: float) -> None:
        logger.info(
            "snapshot %d-%d: %d records, %d bytes, built in %.1f s",
            built.snapshot.offset,
            built.snapshot.epoch,
            built.records,
            built.size,
            took_ms / 1000,
        )


def duty_cycle(growth: float) -> float:
    """How much of the time a builder works when the log has grown by `growth` times what a snapshot is due at: seldom
    until then, always from twice that on, or the log would grow faster than snapshots are built."""
    return min(1.0, max(MIN_DUTY_CYCLE, growth - 1.0))
