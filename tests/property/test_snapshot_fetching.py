"""Random fetches of a snapshot: chunks of any size, repeated from any position, of another snapshot in between,
damaged ones, full disks, kills, power losses in any disk call. A visible snapshot is always complete
and equal to its source, and an undisturbed fetch completes."""

from __future__ import annotations

from contextlib import suppress
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from quorumd.errors import CorruptSnapshot, DiskFull
from quorumd.ids import OffsetAndEpoch
from quorumd.log.snapshot_store import SnapshotStore
from quorumd.simulator.environment.disk import DEFAULT_CAPACITY_BYTES, PowerLost
from quorumd.simulator.environment.event_heap import Process
from tests.support.log.small_logs import fresh_disk, restart_after_power_loss
from tests.support.log.snapshots import config, write_snapshot

IDS = (OffsetAndEpoch(42, 7), OffsetAndEpoch(100, 8))


def original_replicas_of() -> dict[OffsetAndEpoch, bytes]:
    disk = fresh_disk(1)
    for count, snapshot in zip((3, 30), IDS, strict=True):
        write_snapshot(disk, "log", snapshot, [config(f"c{n}", "v" * n) for n in range(count)])
    store = SnapshotStore(disk, "log")
    return {snapshot: store.read(snapshot, 0, 1 << 20) or b"" for snapshot in IDS}


ORIGINALS = original_replicas_of()


class SnapshotFetchModel:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = fresh_disk(seed)
        self.store = SnapshotStore(self.disk, "log")
        self.durable: set[OffsetAndEpoch] = set()

    def piece(self) -> None:
        """The next chunk, or one from an earlier position; the last one is checked."""
        snapshot = self.random.choice(IDS)
        data, here = ORIGINALS[snapshot], self.store.part_size(snapshot)
        position = self.random.choice((here, here, here, 0, self.random.randint(0, here)))
        end = min(len(data), position + self.random.choice((1, 50, 400, 5000)))
        if position > len(data):
            return
        self.store.write_part(snapshot, position, data[position:end])
        assert self.store.part_size(snapshot) == end
        if end == len(data):
            self.finish(snapshot)

    def finish(self, snapshot: OffsetAndEpoch) -> None:
        assert self.store.finish_part(snapshot).size == len(ORIGINALS[snapshot])
        self.durable.add(snapshot)
        assert self.store.part_size(snapshot) == 0

    def damaged(self) -> None:
        snapshot = self.random.choice(IDS)
        data = bytearray(ORIGINALS[snapshot])
        data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        self.store.write_part(snapshot, 0, bytes(data))
        with suppress(CorruptSnapshot):
            self.store.finish_part(snapshot)
            raise AssertionError("found to be sound")
        assert self.store.part_size(snapshot) == 0

    def full_disk(self) -> None:
        self.disk.capacity = self.disk.used_bytes() + self.random.randrange(500)
        with suppress(DiskFull):
            self.piece()
        self.disk.capacity = DEFAULT_CAPACITY_BYTES

    def kill(self) -> None:
        self.disk.mount(Process("test"))
        self.open()

    def power_loss(self) -> None:
        """Finish the fetch; a power loss may leave gaps in a partial file, which the final check must find."""
        self.disk.lose_power_within(self.random.randint(1, 8))
        with suppress(PowerLost):
            self.piece()
        restart_after_power_loss(self.disk)
        self.open()
        for snapshot in IDS:
            here = self.store.part_size(snapshot)
            if here:
                self.store.write_part(snapshot, here, ORIGINALS[snapshot][here:])
                with suppress(CorruptSnapshot):
                    self.finish(snapshot)

    def open(self) -> None:
        self.store = SnapshotStore(self.disk, "log")
        self.store.remove_leftovers()

    def check(self) -> None:
        self.store.rescan()
        assert self.durable <= set(self.store.ids)
        for snapshot in self.store.ids:
            assert self.store.read(snapshot, 0, 1 << 20) == ORIGINALS[snapshot]
            assert self.store.size(snapshot) == len(ORIGINALS[snapshot])


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32), length=st.integers(1, 40))
def test_visible_snapshots_are_complete(seed: int, length: int) -> None:
    model = SnapshotFetchModel(seed)
    for _ in range(length):
        action = model.random.choice(("piece",) * 6 + ("damaged", "full_disk", "kill", "power_loss"))
        getattr(model, action)()
        model.check()
    for snapshot in IDS:
        for start in range(0, len(ORIGINALS[snapshot]), 700):
            model.store.write_part(snapshot, start, ORIGINALS[snapshot][start : start + 700])
        model.finish(snapshot)
    model.check()
    assert model.store.ids == list(IDS)
