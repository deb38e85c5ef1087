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
from quorumd.log.retention import begin_of_log
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.snapshot_builder import BuiltSnapshot, build_snapshot
from quorumd.node.statistics import NodeStatistics
from quorumd.ports import Clock, Disk

logger = logging.getLogger("quorumd.node")

TOKEN = "node"
BACKOFF_MS = 5_000.0
BACKOFF_MAX_MS = 3600_000.0


class SnapshotKeeper:
    """`applied()` is what the image holds: the log is still needed above that."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        log: SegmentedLog,
        settings: LogSettings,
        data_folder: str,
        statistics: NodeStatistics,
        applied: Callable[[], int],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._log = log
        self._settings = settings
        self._data_folder = data_folder
        self._statistics = statistics
        self._applied = applied
        self._is_building = False
        self._is_stopped = False
        self._newest = log.latest_snapshot
        self._newest_since = clock.now_ms()
        self._failures = 0
        self._not_before = 0.0
        self._count()

    def look(self, committed: int) -> None:
        """See what is to be done. All below `committed` is committed, and durable here.

        Called now and then. Raises StorageError where the folder cannot be read, FlushFailed.
        """
        if self._is_building or self._is_stopped:
            return
        now = self._clock.now_ms()
        self._rescan(now)
        self._remove_superfluous(committed)
        if now >= self._not_before and self._is_due(committed, now):
            self._build(committed, now)

    def stop(self) -> None:
        """What comes of a snapshot that is being built does not matter any more."""
        self._is_stopped = True

    def _rescan(self, now: float) -> None:
        self._log.snapshots.rescan()
        if self._log.latest_snapshot != self._newest:
            self._newest, self._newest_since = self._log.latest_snapshot, now
        self._count()

    def _count(self) -> None:
        newest, statistics = self._newest, self._statistics
        statistics.snapshot_end_offset = newest.offset if newest is not None else 0
        statistics.snapshot_bytes = (self._log.snapshots.size(newest) or 0) if newest is not None else 0

    @property
    def _done(self) -> int:
        """All below is in a snapshot."""
        return self._newest.offset if self._newest is not None else 0

    def _is_due(self, committed: int, now: float) -> bool:
        settings = self._settings
        done = self._done
        if committed <= done:
            return False
        is_old = 0 < settings.snapshot_ms <= now - self._newest_since
        return is_old or self._log.bytes_from(done) >= settings.snapshot_bytes

    def _remove_superfluous(self, committed: int) -> None:
        log = self._log
        begin = begin_of_log(
            log.segments(), log.snapshots.stored(), committed, self._settings, self._clock.wall_ms()
        )
        if begin is not None and begin.offset <= self._applied():
            log.delete_below(begin)
            logger.info("the log begins at offset %d now, where a snapshot ends", log.start_offset)

    def _build(self, committed: int, now: float) -> None:
        self._is_building = True
        job = partial(
            build_snapshot,
            data_folder=self._data_folder,
            end_offset=committed,
            token=TOKEN,
            near=self._log.near(self._done),
        )
        self._disk.run_apart(job, partial(self._built, committed, now))

    def _built(self, committed: int, began: float, outcome: BuiltSnapshot | BaseException | None) -> None:
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
            self._failed(outcome, now)
            return
        self._failures = 0
        if outcome is None:
            return
        for warning in outcome.warnings:
            logger.warning("%s", warning)
        if outcome.is_new:
            self._statistics.snapshots_built += 1
            self._statistics.snapshot_build_ms.observe(now - began)
            self._tell(outcome, now - began)
        else:
            self._newest_since = now

    def _failed(self, error: BaseException, now: float) -> None:
        """The log is kept until it works again: nothing depends on a snapshot but the room it would save."""
        self._statistics.snapshots_failed += 1
        backoff = min(BACKOFF_MS * 2**self._failures, BACKOFF_MAX_MS)
        self._failures = min(self._failures + 1, 32)
        self._not_before = now + backoff
        logger.warning("no snapshot was built, in %.0f s it is tried again: %s", backoff / 1000, error)
        self._log.snapshots.remove_leftovers(TOKEN)

    def _tell(self, built: BuiltSnapshot, took_ms: float) -> None:
        logger.info(
            "snapshot %d-%d: %d records, %d bytes, built in %.1f s",
            built.snapshot.offset,
            built.snapshot.epoch,
            built.records,
            built.size,
            took_ms / 1000,
        )
