"""Random operations on a broker's log against a list of batches: flushed batches stay, truncated ones never reappear,
producers and aborted transactions are those of the batches, and compaction keeps the last record of each key; with
restarts, power losses in the middle of any disk call, and full disks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.compaction import compact, install_compaction, plan_compaction
from quorumd.broker.log.leader_epochs import LeaderEpochs
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log.producer_state import AbortedTransaction, ProducerEntry, ProducerStates
from quorumd.broker.log.records import decompressed, record_spans
from quorumd.broker.log.transaction_marker import TransactionMarker, encode_marker, read_marker
from quorumd.errors import DiskFull
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.batch_scan import Ascending, scan
from quorumd.simulator.environment.disk import DEFAULT_CAPACITY_BYTES, PowerLost, SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process
from tests.support.log.data_batches import Record, produced

DIRECTORY = "log"
SETTINGS = PartitionLogSettings(
    segment_bytes=900,
    segment_ms=500,
    index_interval_bytes=150,
    cleanup_policy=("compact",),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=20,
)
Batch = tuple[BatchHeader, bytes]


def parsed(data: bytes) -> list[Batch]:
    """The batches in `data`, each with a header as if it were alone."""
    found = []
    for batch in scan(data, Ascending()).headers:
        content = data[batch.position : batch.position + batch.size]
        found.append((scan(content, Ascending()).headers[0], content))
    return found


class LogModel:
    """A log, and the list of batches that it must hold."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk(EventHeap(), Random(seed))
        self.disk.mount(Process("test"))
        self.disk.make_directory(DIRECTORY)
        self.disk.sync_directory(".")
        self.batches: list[Batch] = []
        self.may_be_there = self.batches
        """The batches that a power loss now leaves, or a prefix of them."""
        self.base = 0
        """The offset that the log was reset to."""
        self.resetting: int | None = None
        self.durable_end = 0
        self.recovery_point = 0
        """As in the checkpoint file, which may be old."""
        self.start_offset = 0
        """The requested log start offset, as in the checkpoint file."""
        self.epoch = 0
        self.knows_producers = True
        self.wall_ms = 1000
        self.floor = 0
        """The log end in a compacted log whose active segment is empty."""
        self.is_compacting = self.was_compacted = False
        self.log = PartitionLog.open(self.disk, DIRECTORY, SETTINGS)[0]

    @property
    def end_offset(self) -> int:
        return max(self.floor, self.batches[-1][0].end_offset if self.batches else self.base)

    def produced(self) -> bytes:
        count = self.random.randint(1, 3)
        size = self.random.choice((1, 9, 40, 200))
        producer_id = self.random.choice((-1, -1, 1, 2, 3))
        entry = self.log.producers.entries.get(producer_id)
        is_open = entry is not None and entry.transaction_start >= 0
        return produced(
            [self.record(size) for _ in range(count)],
            producer_id=producer_id,
            producer_epoch=entry.epoch if entry is not None else 0,
            sequence=-1 if producer_id < 0 else entry.last_sequence + 1 if entry is not None else 0,
            transactional=producer_id > 0 and (is_open or self.random.random() < 0.6),
            codec=self.random.choice((0, 0, 1)),
            timestamps=[self.random.randrange(1, 1000)] * count,
        )

    def record(self, size: int) -> Record:
        value = self.random.randbytes(size) if self.random.random() < 0.85 else None
        return self.random.choice((b"a", b"b", b"c", b"d")), value

    def append(self) -> None:
        """Append a batch as a leader, sometimes of a new epoch, sometimes while the disk is full."""
        self.epoch += self.random.choice((0, 0, 0, 0, 1, 3))
        data = self.produced()
        [(_, content)] = parsed(data)
        expected = bytearray(content)
        expected[:8] = self.end_offset.to_bytes(8, "big")
        expected[12:16] = self.epoch.to_bytes(4, "big")
        self.attempt(bytes(expected), lambda: self.log.append_as_leader(data, self.epoch, 0.0, 1))

    def attempt(self, data: bytes, append: Callable[[], object]) -> None:
        self.may_be_there = self.batches + parsed(data)
        try:
            append()
        except DiskFull:
            self.disk.capacity = DEFAULT_CAPACITY_BYTES
            self.may_be_there = self.batches
            return
        self.batches = self.may_be_there

    def mark(self) -> None:
        """End an open transaction."""
        entry = self.log.producers.oldest_transaction()
        if entry is None:
            return
        marker = TransactionMarker(self.random.random() < 0.5, 1)
        log = self.log
        self.disk.capacity = DEFAULT_CAPACITY_BYTES
        content = bytearray(encode_marker(entry.producer_id, entry.epoch, marker, 5))
        content[:8] = log.end_offset.to_bytes(8, "big")
        content[12:16] = self.epoch.to_bytes(4, "big")
        self.may_be_there = self.batches + parsed(bytes(content))
        log.append_marker(entry.producer_id, entry.epoch, marker, self.epoch, 0.0, 5)
        self.batches = self.may_be_there

    def replicate(self) -> None:
        """Append one to three batches of a leader, sometimes after a gap that compaction left."""
        parts = []
        offset = self.end_offset
        for _ in range(self.random.choice((1, 1, 2, 3))):
            offset += self.random.choice((0, 0, 0, 2))
            count = self.random.randint(1, 3)
            parts.append(
                produced(
                    [self.record(30) for _ in range(count)],
                    base_offset=offset,
                    epoch=self.epoch,
                    timestamps=[self.random.randrange(1, 1000)] * count,
                )
            )
            offset += count
        data = b"".join(parts)
        self.attempt(data, lambda: self.log.append_as_follower(data))

    def truncate(self) -> None:
        end_offset = self.random.randint(max(self.base, self.start_offset), self.end_offset + 1)
        self.disk.capacity = DEFAULT_CAPACITY_BYTES
        self.batches = [entry for entry in self.batches if entry[0].end_offset <= end_offset]
        self.floor = 0
        self.durable_end = min(self.durable_end, self.end_offset)
        self.start_offset = min(self.start_offset, self.end_offset)
        # A snapshot knows sequences that compaction has removed from the batches.
        self.knows_producers &= not self.was_compacted
        self.log.truncate(end_offset)
        self.find_end()
        self.epoch = max([self.log.last_epoch, 0, *[batch.epoch for batch, _ in self.batches[-1:]]])
        self.recovery_point = min(self.recovery_point, self.log.recovery_point)
        self.may_be_there = self.batches

    def find_end(self) -> None:
        """The active segment may be empty, and compaction may have removed the batches before it."""
        if self.was_compacted and self.log.segments()[-1].size == 0:
            self.floor = self.log.segments()[-1].base_offset

    def delete(self) -> None:
        self.disk.capacity = DEFAULT_CAPACITY_BYTES
        offset = self.random.randint(self.start_offset, self.end_offset)
        # Records are deleted below the high watermark: those are flushed here.
        if offset <= self.durable_end:
            self.start_offset = offset
            self.log.delete_before(offset)

    def reset(self) -> None:
        self.disk.capacity = DEFAULT_CAPACITY_BYTES
        self.resetting = self.end_offset + self.random.randint(0, 20)
        self.log.reset(self.resetting)
        self.was_reset(self.resetting)
        self.recovery_point = min(self.recovery_point, self.log.recovery_point)

    def was_reset(self, offset: int) -> None:
        self.base = self.start_offset = self.durable_end = offset
        self.floor = 0
        self.batches = self.may_be_there = []
        self.knows_producers = True
        self.was_compacted = False
        self.resetting = None

    def flush(self) -> None:
        flush = self.log.begin_flush()
        if self.random.random() < 0.3:
            self.append()
        end_offset = flush()
        self.durable_end = max(self.durable_end, end_offset)
        assert self.log.recovery_point <= end_offset
        if self.random.random() < 0.5:
            self.recovery_point = self.log.recovery_point

    def compact(self) -> None:
        self.disk.capacity = DEFAULT_CAPACITY_BYTES
        self.wall_ms += self.random.choice((0, 10, 30))
        job = plan_compaction(self.log, self.wall_ms, self.log.recovery_point)
        if job is None:
            return
        self.is_compacting = True
        install_compaction(self.disk, self.log, job, compact(self.disk, job))
        self.accept_compacted()

    def accept_compacted(self) -> None:
        """Check that only records went that may go; from now on the log must hold the others."""
        self.is_compacting, self.was_compacted = False, True
        content, offset = b"", self.log.segments()[0].base_offset
        self.log.start_offset, start = offset, self.log.start_offset
        while data := self.log.read(offset, 1 << 30, self.log.end_offset):
            content += data
            offset = scan(data, Ascending()).headers[-1].end_offset
        self.log.start_offset = start
        compacted = parsed(content)
        before, after = records_of(self.batches), records_of(compacted)
        assert after.items() <= before.items()
        aborted = aborted_offsets(self.batches)
        last = {key: offset for offset, (key, _) in before.items() if offset not in aborted}
        for offset in last.values():
            if offset >= self.log.segments()[0].base_offset and before[offset][1] is not None:
                assert offset in after
        first = self.log.segments()[0].base_offset
        deleted = [entry for entry in self.batches if entry[0].base_offset < first]
        self.batches = self.may_be_there = deleted + compacted

    def fill_disk(self) -> None:
        self.disk.capacity = self.disk.used_bytes() + self.random.randrange(400)

    def release(self) -> None:
        for segment in self.log.segments()[:-1]:
            segment.release_indexes()

    def close_and_open(self) -> None:
        self.disk.capacity = DEFAULT_CAPACITY_BYTES
        self.log.close()
        self.recovery_point = self.log.recovery_point
        self.open(is_clean=True)
        assert self.log.end_offset == self.end_offset
        self.durable_end = self.end_offset

    def kill_and_open(self) -> None:
        """Kill the process; its writes stay in the page cache."""
        self.disk.capacity = DEFAULT_CAPACITY_BYTES
        self.disk.mount(Process("test"))
        self.open()
        assert self.log.end_offset == self.end_offset
        self.durable_end = self.end_offset

    def open(self, is_clean: bool = False) -> None:
        self.log, report = PartitionLog.open(
            self.disk,
            DIRECTORY,
            SETTINGS,
            recovery_point=self.recovery_point,
            start_offset=self.start_offset,
            is_clean=is_clean,
        )
        assert report.end_offset == self.log.end_offset

    def lose_power_in(self, action: str) -> None:
        """Lose power in one of the next disk calls, possibly one of this action."""
        self.disk.lose_power_within(self.random.randint(1, 12))
        with suppress(PowerLost):
            getattr(self, action)()
        self.lose_power()

    def lose_power(self) -> None:
        """Reopen the log; sometimes power fails again during recovery."""
        self.disk.capacity = DEFAULT_CAPACITY_BYTES
        self.disk.lose_power()
        self.disk.mount(Process("test"))
        if self.random.random() < 0.5:
            self.disk.lose_power_within(self.random.randint(1, 8))
        try:
            self.open()
        except PowerLost:
            self.lose_power()
            return
        self.disk.lose_power_within(0)
        end_offset = self.log.end_offset
        if self.resetting is not None:
            # The reset may have emptied the log before or after it created the new segment.
            self.durable_end = 0
            self.resetting = None
        batches = [entry for entry in self.may_be_there if entry[0].end_offset <= end_offset]
        self.batches = batches if self.log.size_bytes else []
        self.floor = 0
        self.find_end()
        if not self.batches:
            self.base = end_offset
            # The producers of the deleted batches are those of a snapshot, if there was one.
            self.knows_producers = False
        assert self.durable_end <= end_offset
        if self.is_compacting:
            self.accept_compacted()
        self.durable_end = end_offset
        self.may_be_there = self.batches
        self.epoch = max([self.log.last_epoch, 0, *[batch.epoch for batch, _ in self.batches[-1:]]])

    def check(self) -> None:
        """Compare log and list: bytes by reads of random sizes, offsets, epochs, producers, transactions."""
        log = self.log
        assert log.end_offset == self.end_offset
        assert log.start_offset >= self.start_offset
        assert log.start_offset >= self.base or self.was_compacted
        self.check_bytes()
        first = log.segments()[0].base_offset
        retained = [batch for batch, _ in self.batches if batch.base_offset >= first]
        epochs = LeaderEpochs()
        for batch in retained:
            epochs.assign(batch.epoch, batch.base_offset)
        for epoch, start in epochs.entries():
            if start >= log.start_offset and not self.was_compacted:
                assert log.end_of_epoch(epoch) == epochs.end_of_epoch(epoch, self.end_offset)
        if self.knows_producers:
            self.check_producers(first)

    def check_bytes(self) -> None:
        log = self.log
        remaining = [(batch, data) for batch, data in self.batches if batch.end_offset > log.start_offset]
        index = 0
        while index < len(remaining):
            batch = remaining[index][0]
            limit = self.random.choice((0, 100, 500, 1 << 30))
            offset = self.random.randrange(max(batch.base_offset, log.start_offset), batch.end_offset)
            data = log.read(offset, limit, self.random.choice((batch.end_offset, self.end_offset)))
            count = len(scan(data, Ascending()).headers)
            assert count > 0
            assert count == 1 or len(data) <= limit
            assert data == b"".join(data for _, data in remaining[index : index + count])
            index += count

    def check_producers(self, first: int) -> None:
        states = ProducerStates()
        aborted: list[AbortedTransaction] = []
        partial = set()
        for batch, data in self.batches:
            if batch.base_offset < first:
                partial.add(batch.producer_id)
            ended = states.update(batch, read_marker(data, batch) if batch.is_control else None)
            if ended is not None:
                aborted.append(ended)
        for producer_id, entry in states.entries.items():
            found = self.log.producers.entries.get(producer_id)
            if producer_id not in partial:
                assert found is not None
                # Compaction may have removed the last marker.
                assert summary(found)[: 3 if self.was_compacted else 4] == summary(entry)[:3] + (
                    () if self.was_compacted else summary(entry)[3:]
                )
        known = self.log.aborted_transactions(first, self.end_offset)
        expected = [entry for entry in aborted if entry.producer_id not in partial]
        if self.was_compacted:
            starts = {entry.last_offset: entry.first_offset for entry in known}
            assert all(starts[entry.last_offset] <= entry.first_offset for entry in expected)
        else:
            indexed = [entry[:3] for entry in known if entry.producer_id not in partial]
            assert indexed == [entry[:3] for entry in expected]


def records_of(batches: list[Batch]) -> dict[int, Record]:
    """The records of data batches by offset."""
    found: dict[int, Record] = {}
    for batch, data in batches:
        payload = b"" if batch.is_control else decompressed(data, batch)
        assert payload is not None
        for span in record_spans(payload, 0 if batch.is_control else batch.count):
            value = None if span.value_start < 0 else payload[span.value_start : span.value_end]
            found[batch.base_offset + span.offset_delta] = payload[span.key_start : span.key_end], value
    return found


def aborted_offsets(batches: list[Batch]) -> set[int]:
    """Offsets of the records of aborted transactions."""
    found: set[int] = set()
    pending: dict[int, set[int]] = {}
    for batch, data in batches:
        if batch.is_control:
            marker = read_marker(data, batch)
            offsets = pending.pop(batch.producer_id, set())
            found |= offsets if marker is not None and not marker.is_commit else set()
        elif batch.is_transactional:
            pending.setdefault(batch.producer_id, set()).update(range(batch.base_offset, batch.end_offset))
    return found


def summary(entry: ProducerEntry) -> tuple[int, ...]:
    return entry.epoch, entry.last_sequence, entry.transaction_start, entry.coordinator_epoch


COMMON = ("append", "append", "append", "append", "mark", "replicate", "flush", "truncate")
RARE = (
    "fill_disk",
    "release",
    "close_and_open",
    "kill_and_open",
    "lose_power",
    "delete",
    "reset",
    "compact",
    "compact",
)
INTERRUPTED = (
    *("append", "mark", "truncate", "flush", "close_and_open", "delete", "reset", "compact", "compact"),
)


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
