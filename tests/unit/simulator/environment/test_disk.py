"""The simulated disk can lose unsynced data, and never loses synced data."""

from collections.abc import Callable
from errno import EIO, ENOSPC
from random import Random

import pytest

from quorumd.ports import Disk
from quorumd.simulator.environment.disk import PowerLost, SimulatedDisk
from quorumd.simulator.environment.disk_latency import DiskLatency
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.environment.stored_file import SECTOR_BYTES, Loss
from quorumd.simulator.environment.subprocess_jobs import JOB_START_MS

SEEDS = range(200)


def make_disk(seed: int = 0, heap: EventHeap | None = None) -> SimulatedDisk:
    disk = SimulatedDisk(heap or EventHeap(), Random(seed))
    disk.mount(Process("node", 1, 1))
    return disk


def write_synced(disk: SimulatedDisk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.write_at(0, data)
    file.sync()
    file.close()
    disk.sync_directory("/")


def read_all(disk: SimulatedDisk, path: str) -> bytes | None:
    if not disk.exists(path):
        return None
    file = disk.open(path)
    return file.read_at(0, file.size())


def outcomes_of_power_loss(prepare: Callable[[SimulatedDisk], None], path: str) -> set[bytes | None]:
    """Return the contents of `path` after a power loss, over many seeds."""
    outcomes = set()
    for seed in SEEDS:
        disk = make_disk(seed)
        prepare(disk)
        disk.lose_power()
        disk.mount(Process("node", 1, 2))
        outcomes.add(read_all(disk, path))
    return outcomes


def test_synced_bytes_survive_every_power_loss() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        write_synced(disk, "/a", b"x" * 5000)

    assert outcomes_of_power_loss(prepare, "/a") == {b"x" * 5000}


def test_write_without_sync_can_vanish_tear_and_survive() -> None:
    new = b"n" * (4 * SECTOR_BYTES)

    def prepare(disk: SimulatedDisk) -> None:
        write_synced(disk, "/a", b"o" * (4 * SECTOR_BYTES))
        disk.open("/a").write_at(0, new)

    outcomes = outcomes_of_power_loss(prepare, "/a")
    assert {b"o" * (4 * SECTOR_BYTES), new} <= outcomes
    torn = [outcome for outcome in outcomes if outcome is not None and {*outcome} == {*b"on"}]
    assert torn
    for outcome in torn:
        sectors = [outcome[at : at + SECTOR_BYTES] for at in range(0, len(outcome), SECTOR_BYTES)]
        assert all(len({*sector}) == 1 for sector in sectors), "a sector is written wholly or not at all"


def test_unsynced_writes_can_survive_without_the_ones_before_them() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        write_synced(disk, "/a", b"")
        file = disk.open("/a")
        file.write_at(0, b"1" * SECTOR_BYTES)
        file.write_at(SECTOR_BYTES, b"2" * SECTOR_BYTES)

    assert bytes(SECTOR_BYTES) + b"2" * SECTOR_BYTES in outcomes_of_power_loss(prepare, "/a")


def test_truncation_and_an_allocation_without_sync_can_vanish() -> None:
    def truncate(disk: SimulatedDisk) -> None:
        write_synced(disk, "/a", b"x" * 1000)
        disk.open("/a").truncate(10)

    def allocate(disk: SimulatedDisk) -> None:
        write_synced(disk, "/a", b"x" * 10)
        disk.open("/a").allocate(20)

    assert outcomes_of_power_loss(truncate, "/a") == {b"x" * 1000, b"x" * 10}
    assert outcomes_of_power_loss(allocate, "/a") == {b"x" * 10, b"x" * 10 + bytes(10)}


def test_synced_file_whose_name_was_not_synced_can_vanish() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        file = disk.open("/a", create=True)
        file.write_at(0, b"data")
        file.sync()

    assert outcomes_of_power_loss(prepare, "/a") == {None, b"data"}


def test_rename_without_directory_sync_can_be_lost_but_is_atomic() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        write_synced(disk, "/state", b"old")
        write_synced(disk, "/state.tmp", b"new")
        disk.rename("/state.tmp", "/state")

    assert outcomes_of_power_loss(prepare, "/state") == {b"old", b"new"}
    for seed in SEEDS:
        disk = make_disk(seed)
        prepare(disk)
        disk.lose_power()
        disk.mount(Process("node", 1, 2))
        assert disk.exists("/state.tmp") == (read_all(disk, "/state") == b"old")


def test_renamed_file_that_was_not_synced_can_be_there_and_empty() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        write_synced(disk, "/state", b"old")
        file = disk.open("/state.tmp", create=True)
        file.write_at(0, b"new")
        disk.rename("/state.tmp", "/state")
        disk.sync_directory("/")

    assert outcomes_of_power_loss(prepare, "/state") == {b"", b"new"}


def test_removal_without_directory_sync_can_be_undone() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        write_synced(disk, "/a", b"data")
        disk.remove("/a")

    assert outcomes_of_power_loss(prepare, "/a") == {None, b"data"}


def test_names_of_one_directory_vanish_from_the_latest_on() -> None:
    for seed in SEEDS:
        disk = make_disk(seed)
        for name in "abcd":
            disk.open(f"/{name}", create=True)
        disk.lose_power()
        disk.mount(Process("node", 1, 2))
        left = disk.list_directory("/")
        assert left == list("abcd"[: len(left)])


def test_directory_whose_name_was_not_synced_can_vanish_with_its_files() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        disk.make_directory("/data/log")
        write_synced(disk, "/data/log/a", b"x")
        disk.sync_directory("/data/log")
        disk.sync_directory("/data")

    outcomes = outcomes_of_power_loss(prepare, "/data/log/a")
    assert outcomes == {b"x"}, "the write of another file synced '/', and with it the name of /data"

    def prepare_unsynced(disk: SimulatedDisk) -> None:
        disk.make_directory("/data/log")
        disk.open("/data/log/a", create=True).sync()
        disk.sync_directory("/data/log")

    assert outcomes_of_power_loss(prepare_unsynced, "/data/log/a") == {b"", None}


def test_certain_bytes_are_what_every_power_loss_leaves() -> None:
    random = Random(1)
    for seed in SEEDS:
        disk = make_disk(seed)
        write_synced(disk, "/a", random.randbytes(3000))
        file = disk.open("/a")
        for _ in range(random.randrange(4)):
            change = random.randrange(4)
            if change == 0:
                file.truncate(random.randrange(5000))
            elif change == 1:
                file.allocate(random.randrange(5000))
            elif change == 2:
                file.sync()
            else:
                file.write_at(random.randrange(4000), random.randbytes(700))
        certain = disk.durable_bytes("/a", 0, 1 << 20)
        assert len(certain) == disk.durable_length("/a")
        disk.lose_power()
        disk.mount(Process("node", 1, 2))
        left = read_all(disk, "/a")
        assert left is not None
        assert left.startswith(certain)


def test_name_is_certain_only_after_the_directory_was_synced() -> None:
    disk = make_disk()
    write_synced(disk, "/state", b"old")
    write_synced(disk, "/state.tmp", b"new")
    assert disk.durable_bytes("/state", 0, 9) == b"old"
    disk.rename("/state.tmp", "/state")
    assert disk.durable_length("/state") == 0
    assert disk.durable_names("/") == []
    disk.sync_directory("/")
    assert disk.durable_bytes("/state", 0, 9) == b"new"
    assert disk.durable_names("/") == ["state"]


def test_power_can_fail_in_the_middle_of_an_operation() -> None:
    disk = make_disk()
    disk.lose_power_within(3)
    file = disk.open("/a", create=True)
    file.write_at(0, b"x")
    with pytest.raises(PowerLost):
        file.sync()
    with pytest.raises(PowerLost):
        file.read_at(0, 1)
    with pytest.raises(PowerLost):
        disk.exists("/a")


def test_power_can_fail_when_something_is_about_to_become_durable() -> None:
    disk = make_disk(1)
    write_synced(disk, "/a", b"")
    file = disk.open("/a")
    disk.lose_power_at_sync(2)
    file.sync()  # nothing is unsynced
    file.write_at(0, b"1")
    file.sync()
    file.write_at(1, b"2")
    with pytest.raises(PowerLost):
        file.sync()
    assert not disk.has_power


def test_full_disk_refuses_only_writes_that_need_space() -> None:
    disk = make_disk()
    write_synced(disk, "/a", b"x" * 100)
    disk.capacity = 150
    assert disk.free_bytes("/") == 50
    file = disk.open("/a")
    with pytest.raises(OSError) as raised:
        file.write_at(100, b"y" * 60)
    assert raised.value.errno == ENOSPC
    with pytest.raises(OSError):
        file.allocate(1000)
    file.write_at(0, b"z" * 100)
    file.truncate(10)
    assert disk.free_bytes("/") == 140


def test_failed_sync_raises_once_and_discards_its_pages() -> None:
    kept = set()
    for seed in SEEDS:
        disk = make_disk(seed)
        write_synced(disk, "/a", b"old")
        file = disk.open("/a")
        file.write_at(0, b"new")
        disk.fail_sync()
        with pytest.raises(OSError) as raised:
            file.sync()
        assert raised.value.errno == EIO
        file.sync()
        kept.add(disk.durable_bytes("/a", 0, 9))
    assert kept == {b"old", b"new"}


def test_lock_is_held_until_it_is_closed_or_its_process_ends() -> None:
    disk = make_disk()
    lock = disk.lock("/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock("/.lock")
    lock.close()
    disk.lock("/.lock")
    disk.mount(Process("node", 1, 2))
    disk.lock("/.lock")


def test_killed_process_loses_only_its_open_files() -> None:
    disk = make_disk()
    file = disk.open("/a", create=True)
    file.write_at(0, b"data")
    disk.mount(Process("node", 1, 2))
    assert read_all(disk, "/a") == b"data"
    with pytest.raises(ValueError, match="closed"):
        file.read_at(0, 1)


def test_submitted_operations_run_in_order_and_finish_on_the_event_thread() -> None:
    heap = EventHeap()
    disk = SimulatedDisk(heap, Random(5), DiskLatency(slow_probability=0.5))
    disk.mount(Process("node", 1, 1))
    seen: list[object] = []

    def failing() -> int:
        seen.append("second")
        raise OSError(EIO, "broken")

    disk.submit(lambda: seen.append("first"), lambda outcome: seen.append(outcome))
    disk.submit(failing, lambda outcome: seen.append(type(outcome)))
    disk.submit(lambda: 42, lambda outcome: seen.append(outcome))
    assert seen == []
    times = []
    while heap.step(1e9):
        times.append(heap.now_ms)
    assert seen == ["first", None, "second", OSError, 42]
    assert len(set(times)) == 6, "an operation takes effect at a moment between its submission and its end"


def test_stalled_disk_delays_what_is_submitted() -> None:
    heap = EventHeap()
    disk = make_disk(heap=heap)
    disk.stall(5000.0)
    done: list[float] = []
    disk.submit(lambda: None, lambda _: done.append(heap.now_ms))
    while heap.step(1e9):
        pass
    assert done[0] > 5000.0


def test_missing_files_are_named_in_the_error() -> None:
    disk = make_disk()
    for call in (
        lambda: disk.open("/none"),
        lambda: disk.list_directory("/none"),
        lambda: disk.remove("/none"),
        lambda: disk.rename("/none", "/some"),
    ):
        with pytest.raises(FileNotFoundError, match="none"):
            call()


def test_power_loss_counts_lost_writes() -> None:
    lost = Loss()
    for seed in SEEDS:
        disk = make_disk(seed)
        write_synced(disk, "/a", b"")
        file = disk.open("/a")
        for sector in range(4):
            file.write_at(2 * sector * SECTOR_BYTES, b"n" * (2 * SECTOR_BYTES))
        write_synced(disk, "/b.tmp", b"new")
        disk.rename("/b.tmp", "/b")
        lost.add(disk.lose_power())
    assert lost.torn_writes > 0
    assert lost.lost_renames > 0
    assert 0 < lost.overtaking_sectors < lost.lost_sectors


def test_corrupted_bits_are_read_until_they_are_restored() -> None:
    disk = make_disk(1)
    write_synced(disk, "/a", b"abcdef")
    disk.corrupt("/a", 2, 0b1)
    assert disk.is_corrupted
    assert read_all(disk, "/a") == b"abbdef"
    assert disk.open("/a").read_at(2, 1) == b"b"
    assert disk.open("/a").read_at(3, 3) == b"def"
    assert disk.durable_bytes("/a", 0, 6) == b"abcdef"  # what the checkers go by
    disk.lose_power()
    disk.mount(Process("node", 1, 2))
    assert read_all(disk, "/a") == b"abbdef"
    disk.restore()
    assert read_all(disk, "/a") == b"abcdef"
    assert not disk.is_corrupted


def test_files_can_be_exchanged_and_copied() -> None:
    disk = make_disk(1)
    write_synced(disk, "/a", b"abc")
    copy = disk.copy()
    disk.open("/a").write_at(0, b"x")
    before = disk.exchange(copy)
    assert disk.contents() == {"/a": b"abc"}
    assert disk.durable_bytes("/a", 0, 3) == b"abc"
    disk.exchange(before)
    assert disk.contents() == {"/a": b"xbc"}


def _write_and_report(disk: Disk) -> str:
    file = disk.open("apart", create=True)
    file.write_at(0, b"x")
    file.sync()
    disk.sync_directory("/")
    return "done"


def _refuse(disk: Disk) -> None:
    raise ValueError("no")


class TestSubprocess:
    def test_job_runs_on_the_same_files_after_a_while(self) -> None:
        disk = SimulatedDisk(heap := EventHeap(), Random(1))
        disk.mount(Process("node"))
        outcomes: list[object] = []
        disk.run_in_subprocess(_write_and_report, outcomes.append)
        disk.run_in_subprocess(_refuse, lambda outcome: outcomes.append(type(outcome)))
        heap.step(JOB_START_MS[0] / 2)
        assert not disk.exists("apart")
        while len(outcomes) < 2:
            assert heap.step(10_000)
        assert set(outcomes) == {"done", ValueError}
        assert disk.contents() == {"/apart": b"x"}

    def test_killed_process_ends_its_job(self) -> None:
        disk = SimulatedDisk(heap := EventHeap(), Random(1))
        process = Process("node")
        disk.mount(process)
        disk.run_in_subprocess(_write_and_report, lambda outcome: pytest.fail("it is gone"))
        process.alive = False
        heap.step(10_000)
        assert not disk.exists("apart")

    def test_power_loss_stops_it_at_one_of_its_calls(self) -> None:
        disk = SimulatedDisk(heap := EventHeap(), Random(1))
        disk.mount(Process("node"))
        disk.run_in_subprocess(_write_and_report, lambda outcome: pytest.fail("it is gone"))
        disk.lose_power_within(2)
        with pytest.raises(PowerLost):
            heap.step(10_000)
        assert not heap.step(10_000)

    def test_job_does_not_wait_for_the_process_that_started_it(self) -> None:
        disk = SimulatedDisk(heap := EventHeap(), Random(1))
        disk.mount(process := Process("node"))
        disk.run_in_subprocess(_write_and_report, lambda outcome: None)
        process.busy_until_ms = 10_000.0
        assert heap.step(JOB_START_MS[1])
        assert disk.exists("apart")


class TestThread:
    def test_operation_runs_while_the_event_loop_is_stalled(self) -> None:
        disk = SimulatedDisk(heap := EventHeap(), Random(1))
        disk.mount(process := Process("node"))
        process.busy_until_ms = 1000.0
        events: list[tuple[str, float]] = []
        disk.submit(
            lambda: events.append(("run", heap.now_ms)), lambda _: events.append(("done", heap.now_ms))
        )
        while heap.step(2000.0):
            pass
        (ran, ran_ms), done = events
        assert ran == "run"
        assert ran_ms < 100.0
        assert done == ("done", 1000.0)

    def test_operation_waits_for_a_stopped_process(self) -> None:
        disk = SimulatedDisk(heap := EventHeap(), Random(1))
        disk.mount(Process("node"))
        disk.stop_thread(1000.0)
        ran_ms: list[float] = []
        disk.submit(lambda: ran_ms.append(heap.now_ms), lambda _: None)
        while heap.step(2000.0):
            pass
        assert ran_ms == [1000.0]


def test_failed_reads_end_after_their_count() -> None:
    heap = EventHeap()
    disk = make_disk(heap=heap)
    write_synced(disk, "/a", b"abc")
    outcomes: list[bytes | int | None] = []

    def read() -> None:
        try:
            outcomes.append(read_all(disk, "/a"))
        except OSError as error:
            outcomes.append(error.errno)

    disk.fail_reads(2, count=2)
    for at_ms in range(4):
        heap.call_later(at_ms, read, b"read")
    while heap.step(10.0):
        pass
    assert outcomes == [b"abc", EIO, EIO, b"abc"]
    assert disk.read_failed
    disk.mount(Process("node", 1, 2))
    assert not disk.read_failed


def test_checkers_read_what_a_process_cannot() -> None:
    disk = make_disk()
    write_synced(disk, "/a", b"abc")
    disk.fail_reads(1, count=9)
    assert read_all(disk, "/a") == b"abc"
