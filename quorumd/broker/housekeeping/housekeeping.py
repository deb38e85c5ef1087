"""The periodic tasks of a broker: checkpoints, flushes, retention, compaction, and shrinking ISRs."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.broker.housekeeping.checkpoints import Checkpoints
from quorumd.broker.housekeeping.cleaner import Cleaner
from quorumd.broker.housekeeping.flusher import Flusher
from quorumd.broker.log.offset_checkpoint import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.partitions.partitions import Partitions
from quorumd.broker.replication.replica import Transition
from quorumd.broker.settings.broker_settings import BrokerSettings
from quorumd.ports import Clock, Disk, Timer

FIRST_RETENTION_MS = 30_000.0
"""The delay of the first retention check after the start."""


class Housekeeping:
    """Runs the periodic tasks. As a `PartitionListener`, flushes logs after appends."""

    def __init__(self, settings: BrokerSettings, clock: Clock, disk: Disk, partitions: Partitions) -> None:
        self.checkpoints = Checkpoints(disk, partitions)
        self.flusher = Flusher(clock, partitions)
        partitions.flush_gate = self.flusher
        self.cleaner = Cleaner(clock, disk, partitions, self.checkpoints.save_all)
        self._settings = settings
        self._clock = clock
        self._partitions = partitions
        self._timers: dict[str, Timer] = {}
        self._is_running = False

    def start(self) -> None:
        """Start the timers, once the logs are open."""
        intervals = self._settings.housekeeping
        self._is_running = True
        save = self.checkpoints.save_all

        def save_offsets() -> None:
            save(RECOVERY_POINTS)
            save(LOG_START_OFFSETS)

        self._every("high watermarks", intervals.high_watermark_checkpoint_ms, lambda: save(HIGH_WATERMARKS))
        self._every("offsets", intervals.offset_checkpoint_ms, save_offsets)
        self._every("flush", intervals.flush_check_ms, self.flusher.check)
        retention_ms = intervals.retention_check_ms
        self._every("retention", retention_ms, self.cleaner.retain, min(retention_ms, FIRST_RETENTION_MS))
        self._every("compaction", intervals.cleaner_backoff_ms, self.cleaner.compact)
        self._every("in-sync replicas", self._settings.replica_lag_time_max_ms / 2, self._shrink_isrs)

    def _every(
        self, name: str, interval_ms: float, work: Callable[[], None], first_ms: float | None = None
    ) -> None:
        def run() -> None:
            if self._is_running:
                self._every(name, interval_ms, work)
                work()

        delay_ms = interval_ms if first_ms is None else first_ms
        self._timers[name] = self._clock.call_at(self._clock.now_ms() + delay_ms, run)

    def _shrink_isrs(self) -> None:
        now_ms = self._clock.now_ms()
        for hosted in self._partitions.all():
            if hosted.is_leader:
                hosted.replica.shrink_isr(now_ms)

    def stop(self) -> None:
        """Cancel the timers."""
        self._is_running = False
        for timer in self._timers.values():
            timer.cancel()

    def appended(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`. Also called for followers."""
        self.flusher.handle_append(hosted)

    def high_watermark_advanced(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""

    def changed(self, hosted: HostedPartition, transition: Transition) -> None:
        """See `PartitionListener`."""
        if transition is Transition.REMOVED:
            self.flusher.forget(hosted)
