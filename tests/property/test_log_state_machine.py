"""Random operations on a log against a list of batches: flushed batches stay, truncated ones never reappear, and
snapshots replace its start; with restarts, kills, power losses in the middle of any disk call, and full disks."""

from __future__ import annotations

from contextlib import suppress
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from quorumd.errors import DiskFull
from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.recovery import RecoveryReport
from quorumd.log.segmented_log import SegmentedLog
from quorumd.log.tail_cache import TailCache
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.record_batch import encode_batch
from quorumd.simulator.environment.disk import DEFAULT_CAPACITY_BYTES, PowerLost, SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process
from tests.support.log.snapshots import write_snapshot

DIRECTORY = "log"
SETTINGS = LogSettings(
    segment_bytes=700, segment_ms=500, index_interval_bytes=150, allocate_bytes=256, reserve_bytes=600
)


class LogModel:
    """A log, and the list of batches that it must hold."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk(EventHeap(), Random(seed))
        self.disk.mount(Process("test"))
        self.disk.make_directory(DIRECTORY)
        self.disk.sync_directory(".")
        self.batches: list[tuple[BatchHeader, bytes]] = []
        self.may_be_there = self.batches
        """The batches that a power loss now leaves, or a prefix of them."""
        self.durable_end = 0
        self.epoch = 1
        self.base = OffsetAndEpoch(0, 0)
        """The snapshot that replaced everything before the first of `batches`."""
        self.snapshots: set[OffsetAndEpoch] = set()
        """Snapshots that may exist; their records are committed."""
        self.requested_start = 0
        """The log must start at or before it."""
        self.installing: OffsetAndEpoch | None = None
        self.log = SegmentedLog.open(self.disk, DIRECTORY, SETTINGS)[0]

    @property
    def end_offset(self) -> int:
        return self.batches[-1][0].end_offset if self.batches else self.base.offset

    @property
    def last_epoch(self) -> int:
        return self.batches[-1][0].epoch if self.batches else self.base.epoch

    @property
    def committed(self) -> int:
        return max([self.base.offset, *(snapshot.offset for snapshot in self.snapshots)])

    def append(self) -> None:
        """Append one to three batches, sometimes of a new epoch, sometimes while the disk is full."""
        self.epoch += self.random.choice((0, 0, 0, 1, 3))
        parts = []
        offset = self.end_offset
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            values = [self.random.randbytes(self.random.choice((1, 9, 40, 300)))] * self.random.randint(1, 3)
            parts.append(encode_batch(offset, self.epoch, self.random.randrange(1000), values))
            offset += len(values)
        data = b"".join(parts)
        new = [(header, data[header.position : header.position + header.size]) for header in headers(data)]
        self.may_be_there = self.batches + new
        try:
            self.log.append(data, offset)
        except DiskFull:
            self.disk.capacity = DEFAULT_CAPACITY_BYTES
            self.may_be_there = self.batches
            return
        self.batches = self.may_be_there

    def truncate(self) -> None:
        end_offset = self.random.randint(min(self.committed, self.end_offset), self.end_offset + 1)
        self.batches = [entry for entry in self.batches if entry[0].end_offset <= end_offset]
        # The next epoch may lie between those that remain and those that were truncated.
        self.epoch = max(self.last_epoch, 1)
        self.durable_end = min(self.durable_end, self.end_offset)
        self.log.truncate(end_offset)
        self.may_be_there = self.batches

    def flush(self) -> None:
        flush = self.log.begin_flush()
        if self.random.random() < 0.3:
            self.append()
        if self.random.random() < 0.2:
            self.truncate()
        end_offset = flush()
        assert end_offset == flush.end_offset <= self.end_offset
        self.durable_end = max(self.durable_end, end_offset)

    def snapshot(self) -> None:
        """Build a snapshot up to some batch, which need not be durable; a full disk prevents it."""
        ends = [(self.base.offset, self.base.epoch), *((h.end_offset, h.epoch) for h, _ in self.batches)]
        snapshot = OffsetAndEpoch(*self.random.choice(ends))
        if snapshot.offset >= max(self.committed, self.log.start_offset, 1):
            self.snapshots.add(snapshot)
            with suppress(DiskFull):
                # A builder may be killed right after the rename.
                write_snapshot(self.disk, DIRECTORY, snapshot, synced=self.random.random() < 0.7)
            self.disk.capacity = DEFAULT_CAPACITY_BYTES
            self.log.snapshots.rescan()

    def delete_before(self) -> None:
        committed = [snapshot for snapshot in self.log.snapshots.ids if snapshot.offset <= self.end_offset]
        if committed:
            self.disk.capacity = DEFAULT_CAPACITY_BYTES
            snapshot = self.random.choice(committed)
            self.requested_start = max(self.requested_start, snapshot.offset)
            self.log.delete_before(snapshot)

    def install(self) -> None:
        """Replace the log by a snapshot of a leader, of more records or of a later epoch."""
        self.disk.capacity = DEFAULT_CAPACITY_BYTES
        later = self.random.choice((0, 1, 2))
        least = self.committed if later else self.end_offset
        offset = self.random.randint(least, self.end_offset) + self.random.randint(1, 9)
        snapshot = OffsetAndEpoch(offset, self.epoch + later)
        self.installing = snapshot
        write_snapshot(self.disk, DIRECTORY, snapshot)
        self.log.snapshots.rescan()
        self.log.reset_to_snapshot(snapshot)
        self.installed(snapshot)

    def installed(self, snapshot: OffsetAndEpoch) -> None:
        self.base, self.batches, self.snapshots, self.installing = snapshot, [], {snapshot}, None
        self.may_be_there = self.batches
        self.epoch = snapshot.epoch
        self.durable_end = self.requested_start = snapshot.offset

    def fill_disk(self) -> None:
        self.disk.capacity = self.disk.used_bytes() + self.random.randrange(400)

    def forget_cache(self) -> None:
        self.log._tail = TailCache(capacity=self.random.choice((0, 300, 1000)))

    def close_and_open(self) -> None:
        self.disk.capacity = DEFAULT_CAPACITY_BYTES
        self.log.close()
        self.log, report = SegmentedLog.open(self.disk, DIRECTORY, SETTINGS, self.end_offset)
        assert report == RecoveryReport(self.end_offset)
        self.durable_end = self.end_offset

    def kill_and_open(self) -> None:
        """Kill the process; its writes stay in the page cache."""
        self.disk.capacity = DEFAULT_CAPACITY_BYTES
        self.disk.mount(Process("test"))
        self.log, report = SegmentedLog.open(self.disk, DIRECTORY, SETTINGS, self.end_offset)
        assert report == RecoveryReport(self.end_offset)
        self.durable_end = self.end_offset

    def lose_power_in(self, action: str) -> None:
        """Lose power in one of the next disk calls, possibly one of this action."""
        self.disk.lose_power_within(self.random.randint(1, 8))
        with suppress(PowerLost):
            getattr(self, action)()
        self.lose_power()

    def lose_power(self) -> None:
        """Reopen the log; sometimes power fails again during recovery."""
        self.disk.capacity = DEFAULT_CAPACITY_BYTES
        self.disk.lose_power()
        self.disk.mount(Process("test"))
        if self.random.random() < 0.5:
            self.disk.lose_power_within(self.random.randint(1, 6))
        known = self.durable_end if self.installing is None else min(self.durable_end, self.installing.offset)
        try:
            self.log, report = SegmentedLog.open(self.disk, DIRECTORY, SETTINGS, known)
        except PowerLost:
            self.lose_power()
            return
        self.disk.lose_power_within(0)
        log = self.log
        start = OffsetAndEpoch(log.start_offset, log.last_epoch)
        if (
            log.end_offset == start.offset
            and start != self.base
            and start in {*self.snapshots, self.installing}
        ):
            assert start == self.installing or start.offset >= self.durable_end
            self.installed(start)
        self.installing = None
        self.batches = [entry for entry in self.may_be_there if entry[0].end_offset <= report.end_offset]
        assert report.end_offset == self.log.end_offset == self.end_offset
        assert self.durable_end <= self.end_offset
        self.durable_end = self.end_offset
        self.may_be_there = self.batches
        self.snapshots = {snapshot for snapshot in self.snapshots if snapshot.offset <= self.end_offset}
        self.epoch = max(self.last_epoch, 1)

    def check(self) -> None:
        """Compare log and list: bytes by reads of random sizes, offsets, epochs."""
        log = self.log
        start = log.start_offset
        assert log.end_offset == self.end_offset
        assert self.base.offset <= start <= self.requested_start
        epoch_before = ([self.base.epoch] + [h.epoch for h, _ in self.batches if h.end_offset <= start])[-1]
        assert start == self.base.offset or OffsetAndEpoch(start, epoch_before) in log.snapshots.ids
        assert log.last_epoch == self.last_epoch
        batches = [(header, data) for header, data in self.batches if header.base_offset >= start]
        assert sum(len(data) for _, data in batches) <= sum(segment.size for segment in log.segments())
        index = 0
        while index < len(batches):
            header = batches[index][0]
            limit = self.random.choice((0, 100, 500, 1 << 30))
            offset = self.random.randrange(header.base_offset, header.end_offset)
            data = log.read(offset, limit, self.random.choice((None, header.end_offset, self.end_offset)))
            assert data
            count = len(list(headers(data)))
            assert count == 1 or len(data) <= limit
            assert data == b"".join(data for _, data in batches[index : index + count])
            index += count
        before = [OffsetAndEpoch(start, 0), OffsetAndEpoch(start, epoch_before)]
        for epoch in range(self.epoch + 2):
            ends = before + [OffsetAndEpoch(header.end_offset, header.epoch) for header, _ in batches]
            assert log.end_of_epoch(epoch) == [end for end in ends if end.epoch <= epoch][-1]


COMMON = ("append", "append", "append", "append", "flush", "truncate")
RARE = (
    *("fill_disk", "forget_cache", "close_and_open", "kill_and_open", "lose_power"),
    *("snapshot", "snapshot", "delete_before", "delete_before", "install"),
)
INTERRUPTED = ("append", "truncate", "flush", "close_and_open", "snapshot", "delete_before", "install")


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32), length=st.integers(1, 60))
@example(seed=0, length=200)
def test_log_behaves_like_a_durable_list(seed: int, length: int) -> None:
    model = LogModel(seed)
    for _ in range(length):
        roll = model.random.random()
        if roll < 0.65:
            getattr(model, model.random.choice(COMMON))()
        elif roll < 0.88:
            getattr(model, model.random.choice(RARE))()
        else:
            model.lose_power_in(model.random.choice(INTERRUPTED))
        if model.random.random() < 0.3:
            model.check()
    model.check()
