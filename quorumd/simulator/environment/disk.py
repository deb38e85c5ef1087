"""The Disk port in memory: a power loss really loses unsynced data.

Faults are injected from outside (`faults`): the `lose_power` family, `fail_sync`, `fail_reads`, `fail_change`,
`stall`, `capacity`, `corrupt`, `exchange`. A killed process loses none of its writes: the page cache belongs to the
kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO, EISDIR, ENOENT, ENOTDIR, ENOTEMPTY
from functools import lru_cache
from random import Random
from typing import TypeVar

from quorumd.ports import Disk, File
from quorumd.simulator.environment.countdown import Countdown
from quorumd.simulator.environment.directory import Directory
from quorumd.simulator.environment.disk_errors import disk_error
from quorumd.simulator.environment.disk_latency import DiskLatency
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.environment.open_file import OpenFile
from quorumd.simulator.environment.stored_file import Loss, StoredFile, Write
from quorumd.simulator.environment.subprocess_jobs import SubprocessJobs

T = TypeVar("T")

DEFAULT_CAPACITY_BYTES = 1 << 40


class PowerLost(BaseException):
    """The machine lost power during a disk call. Not an Exception, so that node code does not handle it."""


class SimulatedDisk:
    """One machine's disk; it outlives the processes that use it."""

    def __init__(self, heap: EventHeap, random: Random, latency: DiskLatency | None = None) -> None:
        self.capacity = DEFAULT_CAPACITY_BYTES
        self.mounts = 0
        """Number of processes that have used the disk: files that an earlier one opened are closed."""
        self.after_sync: Callable[[StoredFile | Directory], None] = _nothing
        """Called with the synced file or directory at the instant it becomes durable."""
        self.syncs_failed = 0
        self.read_failed = False
        """Whether a read of the current or last process has failed."""
        self.change_failed = False
        """Whether a write, or another change, of the current or last process has failed."""
        self.changes = 0
        """Number of calls that may have changed a file: while the number is unchanged, processes read the same
        data."""
        self.cuts = 0
        """Number of events that may have removed written data: truncations, removals, losses."""
        self._heap = heap
        self._random = random
        self.latency = latency or DiskLatency()
        self._process: Process | None = None
        self._thread = Process("disk thread")
        self._jobs = SubprocessJobs(heap, random, self)
        self._root = Directory()
        self._corrupted: list[StoredFile] = []
        self._locked: dict[str, bool] = {}
        self._busy_until = 0.0
        self.has_power = True
        self._calls_to_power_loss, self._syncs_to_power_loss = Countdown(), Countdown()
        self._syncs_to_failure, self._directory_syncs_to_failure = Countdown(), Countdown()
        self._sync_error = EIO
        self._changes_to_failure, self._change_error = Countdown(), EIO
        self._on_rename: tuple[str, Callable[[], None]] | None = None
        self._failing_changes = 0
        self._on_open: dict[str, tuple[Countdown, Callable[[], None]]] = {}
        self._reads_to_failure = self._failing_reads = 0

    def mount(self, process: Process) -> None:
        """Attach a new process; files and locks of an earlier one are released."""
        self.mounts += 1
        self._process = process
        self._thread = Process(f"{process.name} disk thread", process.node_id, process.incarnation)
        self._jobs.attach(process)
        self._locked.clear()
        self.has_power = True
        self.read_failed = self.change_failed = False
        self._calls_to_power_loss.left = self._syncs_to_power_loss.left = 0
        self._busy_until = self._heap.now_ms

    # ---- faults

    def lose_power(self) -> Loss:
        """Lose a random part of the unsynced data. The next process starts with `mount`."""
        self.has_power = False
        self._locked.clear()
        self.cuts += 1
        return self._root.crash(self._random)

    def lose_power_within(self, calls: int) -> None:
        """Make the `calls`-th modifying call from now, and every call after it, raise PowerLost; 0 for none."""
        self._calls_to_power_loss.left = calls

    def lose_power_at_sync(self, syncs: int) -> None:
        """Make the `syncs`-th sync of a file with unsynced writes, and every call after it, raise PowerLost."""
        self._syncs_to_power_loss.left = syncs

    def fail_sync(self, syncs: int = 1, code: int = EIO) -> None:
        """Make the `syncs`-th sync of a file from now fail with `code` and drop the data that it had to write."""
        self._syncs_to_failure.left, self._sync_error = syncs, code

    @property
    def busy_until_ms(self) -> float:
        """The earliest time at which an operation that is submitted now begins."""
        return self._busy_until

    def fail_directory_sync(self, syncs: int = 1) -> None:
        """Make the `syncs`-th sync of a directory from now fail with EIO; its names stay unsynced."""
        self._directory_syncs_to_failure.left = syncs

    def fail_reads(self, reads: int = 1, count: int = 1) -> None:
        """Make `count` reads of files fail with EIO, from the `reads`-th read from now on."""
        self._reads_to_failure, self._failing_reads = reads, count

    def fail_change(self, changes: int = 1, code: int = EIO, count: int = 1) -> None:
        """Make `count` writes, creations, truncations, renames or removals, from the `changes`-th from now on, fail
        with `code`."""
        self._changes_to_failure.left, self._change_error = changes, code
        self._failing_changes = count - 1

    def before_rename(self, ending: str, strike: Callable[[], None]) -> None:
        """Call `strike` before the next rename of a file whose name has this ending."""
        self._on_rename = ending, strike

    def before_open(self, ending: str, strike: Callable[[], None], opens: int = 1) -> None:
        """Call `strike` before the `opens`-th opening from now of a file whose name has this ending."""
        countdown = Countdown()
        countdown.left = opens
        self._on_open[ending] = countdown, strike

    def awaits_open(self, ending: str) -> bool:
        """Whether a call of `before_open` for this ending has had no effect yet."""
        return ending in self._on_open

    def stall(self, duration_ms: float) -> None:
        """Delay submitted operations that have not started."""
        self._busy_until = max(self._busy_until, self._heap.now_ms + duration_ms)

    def stop_thread(self, until_ms: float) -> None:
        """Suspend the thread that runs submitted operations, which otherwise does not depend on the event thread."""
        self._thread.busy_until_ms = max(self._thread.busy_until_ms, until_ms)

    def repair(self) -> None:
        """Cancel pending faults and free space. A stall in progress ends at its time, and data remains corrupted
        until `restore`."""
        self.capacity = DEFAULT_CAPACITY_BYTES
        self._calls_to_power_loss.left = self._syncs_to_power_loss.left = 0
        self._syncs_to_failure.left = self._directory_syncs_to_failure.left = 0
        self._changes_to_failure.left = self._failing_changes = 0
        self._on_rename = None
        self._on_open.clear()
        self._reads_to_failure = self._failing_reads = 0

    def corrupt(self, path: str, position: int, bits: int) -> None:
        """Make reads of one byte of a file return these bits inverted, until `restore`."""
        entry = self._entry(path)
        assert isinstance(entry, StoredFile)
        entry.corrupt[position] = bits
        self._corrupted.append(entry)

    def restore(self) -> None:
        """Restore corrupted data, like an operator with a copy."""
        for file in self._corrupted:
            file.corrupt.clear()
        self._corrupted.clear()

    @property
    def is_corrupted(self) -> bool:
        """Whether a process would read corrupted data. Files that have been removed do not count."""
        return bool(self._corrupted) and any(file.corrupt for file in self._root.files())

    def exchange(self, root: Directory) -> Directory:
        """Replace all files and return the previous ones. No process may be using the disk."""
        before, self._root = self._root, root
        self.cuts += 1
        self.mounts += 1
        self._locked.clear()
        self._corrupted.clear()
        self.has_power = True
        return before

    def put(self, path: str, data: bytes) -> bool:
        """Write a new file on behalf of an operator, without a sync. Return False if it exists."""
        directory, name = self._parent_of(path)
        if name in directory.entries:
            return False
        file = StoredFile()
        file.write(0, data)
        self.changes += 1
        directory.change((name, file))
        return True

    def edit(self, path: str) -> StoredFile:
        """Return a file that an operator is about to change, without a sync."""
        file = self._entry(path)
        assert isinstance(file, StoredFile)
        self.changes += 1
        return file

    def contents(self) -> dict[str, bytes]:
        """Return all files by path, as a process sees them."""
        return self._root.contents()

    def copy(self) -> Directory:
        """Return a copy of the files."""
        return self._root.copy()

    # ---- data that survives every crash now: the view of checkers

    def durable_file(self, path: str) -> StoredFile | None:
        """Return the inode that a name has after every crash; None if uncertain, or not a file."""
        entry = self._durable_entry(path)
        return entry if isinstance(entry, StoredFile) else None

    def durable_directory(self, path: str) -> Directory | None:
        """Return the directory that a name has after every crash; None if uncertain, or not a directory."""
        entry = self._durable_entry(path)
        return entry if isinstance(entry, Directory) else None

    def durable_length(self, path: str) -> int:
        """Return the length of the prefix of a file that survives every crash; 0 without a file."""
        file = self.durable_file(path)
        return file.durable_bytes() if file is not None else 0

    def durable_bytes(self, path: str, position: int, length: int) -> bytes:
        file = self.durable_file(path)
        return file.durable_prefix(position + length)[position:] if file is not None else b""

    def durable_names(self, path: str) -> list[str]:
        """Return the names in a directory that survive every crash, sorted."""
        entry = self._durable_entry(path)
        if not isinstance(entry, Directory):
            return []
        return sorted(name for name in entry.durable if entry.durable_entry(name) is not None)

    # ---- the Disk port

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        self.check_power()
        if self._on_open:
            self._strike_before_open(path)
        directory, name = self._parent_of(path)
        entry = directory.entries.get(name)
        if isinstance(entry, Directory):
            raise disk_error(EISDIR, path)
        if entry is None:
            if not create:
                raise disk_error(ENOENT, path)
            self.before_change()
            entry = StoredFile()
            directory.change((name, entry))
        return OpenFile(self, entry)

    def _strike_before_open(self, path: str) -> None:
        for ending, (countdown, strike) in list(self._on_open.items()):
            if path.endswith(ending) and countdown.strikes():
                del self._on_open[ending]
                strike()

    def exists(self, path: str) -> bool:
        self.check_power()
        return self._entry(path) is not None

    def list_directory(self, path: str) -> list[str]:
        self.check_power()
        return sorted(self._directory(path).entries)

    def make_directory(self, path: str) -> None:
        self.check_power()
        directory = self._root
        for name in _parts(path):
            entry = directory.entries.get(name)
            if entry is None:
                self.before_change()
                entry = Directory()
                directory.change((name, entry))
            if isinstance(entry, StoredFile):
                raise disk_error(ENOTDIR, path)
            directory = entry

    def rename(self, source: str, target: str) -> None:
        self.check_power()
        directory, name = self._parent_of(source)
        target_directory, target_name = self._parent_of(target)
        if directory is not target_directory:
            raise ValueError(f"renaming {source} to another directory is not simulated")
        entry = directory.entries.get(name)
        if entry is None:
            raise disk_error(ENOENT, source)
        if self._on_rename is not None and name.endswith(self._on_rename[0]):
            (_, strike), self._on_rename = self._on_rename, None
            strike()
        self.before_change()
        directory.change((name, None), (target_name, entry))

    def remove(self, path: str) -> None:
        self.check_power()
        if isinstance(self._entry(path), Directory):
            raise disk_error(EISDIR, path)
        self._remove(path)

    def remove_directory(self, path: str) -> None:
        self.check_power()
        if self._directory(path).entries:
            raise disk_error(ENOTEMPTY, path)
        self._remove(path)

    def _remove(self, path: str) -> None:
        directory, name = self._parent_of(path)
        if name not in directory.entries:
            raise disk_error(ENOENT, path)
        self.before_change()
        self.cuts += 1
        directory.change((name, None))

    def sync_directory(self, path: str) -> None:
        self.check_power()
        directory = self._directory(path)
        self.before_call()
        if self._directory_syncs_to_failure.strikes():
            self.syncs_failed += 1
            raise disk_error(EIO, path)
        directory.sync()
        self.after_sync(directory)

    def lock(self, path: str) -> File:
        if path in self._locked:
            raise BlockingIOError(f"{path} is locked by another process")
        opened = self.open(path, create=True)
        opened.close()
        self._locked[path] = True
        directory, name = self._parent_of(path)
        entry = directory.entries[name]
        assert isinstance(entry, StoredFile)
        return OpenFile(self, entry, lock_path=path)

    def free_bytes(self, path: str) -> int:
        self.check_power()
        return max(0, self.capacity - self.used_bytes())

    def total_bytes(self, path: str) -> int:
        self.check_power()
        return self.capacity

    def submit(self, operation: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        duration = self.latency.draw(self._random)
        start = max(self._heap.now_ms, self._busy_until)
        self._busy_until = start + duration
        runs_at = start + duration * self._random.random()
        done_at = self._busy_until
        process = self._process

        def run() -> None:
            try:
                outcome: T | BaseException = operation()
            except Exception as error:  # passed to `done`, as by the real disk
                outcome = error
            self._heap.call_at(done_at, lambda: done(outcome), b"disk done", process)

        self._heap.call_at(runs_at, run, b"disk run", process, runs_on=self._thread)

    def run_in_subprocess(self, job: Callable[[Disk], T], done: Callable[[T | BaseException], None]) -> None:
        self._jobs.run(job, done)

    def throttle_subprocess(self, duty_cycle: float) -> None:
        self._jobs.throttle(duty_cycle)

    # ---- for OpenFile

    def check_power(self) -> None:
        if not self.has_power:
            raise PowerLost

    def before_change(self) -> None:
        self.changes += 1
        self.before_call()
        if self._heap.is_running and self._change_fails():
            self.change_failed = True
            raise disk_error(self._change_error)

    def _change_fails(self) -> bool:
        if self._changes_to_failure.strikes():
            return True
        if self._changes_to_failure.left or not self._failing_changes:
            return False
        self._failing_changes -= 1
        return True

    def before_call(self) -> None:
        """Called before every call that changes a file or its durable state."""
        if self._calls_to_power_loss.strikes():
            self._power_fails()

    def before_read(self) -> None:
        if not self._failing_reads or not self._heap.is_running:
            return
        self._reads_to_failure -= 1
        if self._reads_to_failure <= 0:
            self._failing_reads -= 1
            self.read_failed = True
            raise disk_error(EIO)

    def before_sync(self, file: StoredFile) -> None:
        has_writes = self._syncs_to_power_loss.left and any(isinstance(c, Write) for c in file.pending)
        if has_writes and self._syncs_to_power_loss.strikes():
            self._power_fails()
        if self._syncs_to_failure.strikes():
            self.syncs_failed += 1
            self.changes += 1
            self.cuts += 1
            file.crash(self._random)
            raise disk_error(self._sync_error)

    def _power_fails(self) -> None:
        self.has_power = False
        if self._process is not None:
            # The process has no further effects, whatever its code does with the exception.
            self._process.alive = False
        raise PowerLost

    def free_space_for(self, file: StoredFile, size: int) -> int:
        """Return the size up to which `file` can grow: `size`, or less if the disk is full before."""
        if self.capacity == DEFAULT_CAPACITY_BYTES or size <= len(file.content):
            return size
        return min(size, len(file.content) + max(0, self.capacity - self.used_bytes()))

    def used_bytes(self) -> int:
        return sum(len(file.content) for file in self._root.files())

    def unlock(self, path: str) -> None:
        self._locked.pop(path, None)

    # ---- paths

    def _entry(self, path: str) -> StoredFile | Directory | None:
        entry: StoredFile | Directory = self._root
        for name in _parts(path):
            below = entry.entries.get(name) if isinstance(entry, Directory) else None
            if below is None:
                return None
            entry = below
        return entry

    def _durable_entry(self, path: str) -> StoredFile | Directory | None:
        entry: StoredFile | Directory = self._root
        for name in _parts(path):
            below = entry.durable_entry(name) if isinstance(entry, Directory) else None
            if below is None:
                return None
            entry = below
        return entry

    def _directory(self, path: str) -> Directory:
        entry = self._entry(path)
        if entry is None:
            raise disk_error(ENOENT, path)
        if isinstance(entry, StoredFile):
            raise disk_error(ENOTDIR, path)
        return entry

    def _parent_of(self, path: str) -> tuple[Directory, str]:
        *above, name = _parts(path)
        return self._directory("/".join(above)), name


@lru_cache(maxsize=1024)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part and part != ".")


def _nothing(synced: StoredFile | Directory) -> None:
    return None
