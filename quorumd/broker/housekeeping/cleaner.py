"""Retention, one log per turn of the event loop, and compaction in a subprocess."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from quorumd.broker.log.compaction import (
    CompactionJob,
    CompactionResult,
    compact,
    dirty_ratio,
    install_compaction,
    plan_compaction,
)
from quorumd.broker.log.compaction_files import remove_cleaned
from quorumd.broker.log.offset_checkpoint import CLEANER_OFFSETS, LOG_START_OFFSETS
from quorumd.broker.log.records import MAX_DECOMPRESSED_BYTES, MAX_RECORDS
from quorumd.broker.log.validation import COMPACT
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.partitions.partitions import Partitions
from quorumd.errors import StorageError
from quorumd.ports import Clock, Disk

logger = logging.getLogger("quorumd.broker")


class Cleaner:
    """Applies retention and compaction. `save_checkpoint(name)` saves a checkpoint file in every log directory."""

    def __init__(
        self, clock: Clock, disk: Disk, partitions: Partitions, save_checkpoint: Callable[[str], None]
    ) -> None:
        self._clock = clock
        self._disk = disk
        self._partitions = partitions
        self._save_checkpoint = save_checkpoint
        self.unread_batches = 0
        """The number of batches that compactions kept unchanged; see `BatchFilter.unread`."""
        self._retention_queue: deque[HostedPartition] = deque()
        self._is_compacting = False

    # Retention

    def retain(self) -> None:
        """Apply retention to every log, one per turn of the event loop."""
        if not self._retention_queue:
            self._retention_queue.extend(self._partitions.all())
            self._clock.call_soon(self._retain_next)

    def _retain_next(self) -> None:
        if not self._retention_queue:
            self._save_checkpoint(LOG_START_OFFSETS)
            return
        hosted = self._retention_queue.popleft()
        if hosted.is_open:
            try:
                freed = hosted.log.enforce_retention(self._clock.wall_ms(), hosted.replica.high_watermark)
                if freed:
                    logger.info(
                        "%s: retention freed %d bytes, log start offset %d",
                        hosted.name, freed, hosted.log.start_offset,
                    )  # fmt: skip
            except StorageError as fault:
                self._partitions.handle_log_error(hosted, fault)
        self._clock.call_soon(self._retain_next)

    # Compaction

    def compact(self) -> None:
        """Compact the log with the highest dirty ratio, unless a compaction is running."""
        if self._is_compacting:
            return
        candidates = [
            hosted for hosted in self._partitions.all() if COMPACT in hosted.log.settings.cleanup_policy
        ]
        for hosted in sorted(candidates, key=lambda each: -dirty_ratio(each.log)):
            try:
                job = plan_compaction(hosted.log, self._clock.wall_ms(), hosted.replica.high_watermark)
            except StorageError as fault:
                self._partitions.handle_log_error(hosted, fault)
                continue
            if job is not None:
                self._run(hosted, job)
                return

    def _run(self, hosted: HostedPartition, job: CompactionJob) -> None:
        self._is_compacting = True
        log = hosted.log

        def done(outcome: CompactionResult | BaseException) -> None:
            self._is_compacting = False
            # The replica may have moved to another directory.
            if hosted.is_open and hosted.log is log:
                self._install(hosted, job, outcome)
                self.compact()

        self._disk.run_in_subprocess(partial(compact, job=job), done)

    def _install(
        self, hosted: HostedPartition, job: CompactionJob, outcome: CompactionResult | BaseException
    ) -> None:
        try:
            if isinstance(outcome, BaseException):
                logger.error("%s: compaction failed: %s", hosted.name, outcome)
                remove_cleaned(self._disk, job.directory)
                # Otherwise the next compaction would select the same log.
                hosted.log.first_dirty_offset = max(hosted.log.first_dirty_offset, job.sources[-1].end_offset)
                return
            freed = install_compaction(self._disk, hosted.log, job, outcome)
        except (StorageError, OSError) as fault:
            self._partitions.handle_log_error(hosted, fault)
            return
        logger.info("%s: compaction up to offset %d freed %d bytes", hosted.name, outcome.end_offset, freed)
        if outcome.unread:
            self.unread_batches += outcome.unread
            logger.warning(
                "%s: compaction kept %d batches and the tombstones after them unchanged: they are compressed with "
                "zstd, malformed, larger than %d MiB when decompressed, or have more than %d records",
                hosted.name, outcome.unread, MAX_DECOMPRESSED_BYTES // 1024**2, MAX_RECORDS,
            )  # fmt: skip
        self._save_checkpoint(CLEANER_OFFSETS)
