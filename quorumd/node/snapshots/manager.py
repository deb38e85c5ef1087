"""Decides when a snapshot is built and which log segments and older snapshots are deleted.

Snapshots are built in a subprocess, one at a time; a failed build has no other effect. Other processes may write
snapshots to the directory too (`quorumd snapshot`): `maintain` finds them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from quorumd.errors import StorageError
from quorumd.log.retention import new_log_start
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.basics import NodeBasics
from quorumd.node.snapshots.builder import BuiltSnapshot, build_snapshot
from quorumd.ports import MIN_DUTY_CYCLE, Disk

logger = logging.getLogger("quorumd.node")

TOKEN = "node"
BACKOFF_MS = 5_000.0
BACKOFF_MAX_MS = 3600_000.0
SNAPSHOT_SIZE_RATIO = 0.5
"""A snapshot is due once the log after the newest one has this fraction of its size. That keeps the bytes written
for snapshots proportional to the log, and the log to replay at a start proportional to the snapshot to load."""


class SnapshotManager:
    """Keeps the snapshots and the log of a node within the limits of its settings.

    `needed_offset()` returns the lowest offset from which the image may still read the log, for records that it has
    not applied or may roll back.
    """

    def __init__(
        self,
        node: NodeBasics,
        disk: Disk,
        log: SegmentedLog,
        needed_offset: Callable[[], int],
    ) -> None:
        self._disk = disk
        self._clock = node.clock
        self._log = log
        self._settings = node.settings.log
        self._data_directory = node.settings.data_directory
        self._statistics = node.statistics
        self._needed_offset = needed_offset
        self._is_building = False
        self._is_stopped = False
        self._newest = log.latest_snapshot
        self._newest_since_ms = node.clock.now_ms()
        self._failures = 0
        self._retry_after_ms = 0.0
        self._update_statistics()

    def maintain(self, committed: int) -> None:
        """Delete obsolete files and start a build if one is due. Called periodically.

        All records below `committed` are committed, and durable here. Raises StorageError if the directory cannot be
        read, or FlushFailed.
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
        """Start no further builds, and ignore the result of a build in progress."""
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
        """The end offset of the newest snapshot, 0 without one."""
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
        """Growth of the log after the newest snapshot, as a multiple of the size at which the next one is due."""
        threshold = max(self._settings.snapshot_bytes, SNAPSHOT_SIZE_RATIO * self._statistics.snapshot_bytes)
        return self._log.bytes_after(self._snapshot_offset) / threshold

    def _delete_obsolete(self, committed: int) -> None:
        log = self._log
        begin = new_log_start(
            log.segments(), log.snapshots.stored(), committed, self._settings, self._clock.wall_ms()
        )
        if begin is not None and begin.offset <= self._needed_offset():
            log.delete_before(begin)
            logger.info("deleted the log below offset %d, where a snapshot ends", log.start_offset)

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
            # A fetched snapshot replaced the log during the build.
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
        """Schedule a retry with backoff. The log is kept meanwhile, which costs only disk space."""
        self._statistics.snapshots_failed += 1
        backoff = min(BACKOFF_MS * 2**self._failures, BACKOFF_MAX_MS)
        self._failures = min(self._failures + 1, 32)
        self._retry_after_ms = now + backoff
        logger.warning("no snapshot was built, next attempt in %.0f s: %s", backoff / 1000, error)
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
    """The fraction of time in which a builder runs for a log of `growth` times the size at which a snapshot is due.

    MIN_DUTY_CYCLE up to a growth of 1, and 1.0 from 2 on, so that the log does not grow faster than snapshots are
    built.
    """
    return min(1.0, max(MIN_DUTY_CYCLE, growth - 1.0))
