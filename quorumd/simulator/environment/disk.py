"""The Disk port on memory that forgets: a power loss really takes what was not synced.

Every fault is asked for from outside (`faults`): the `lose_power` family, `fail_sync`, `stall`, `capacity`, `rot`,
`exchange`. A process that is killed loses nothing that it had written: the page cache is the kernel's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from errno import EIO, EISDIR, ENOENT, ENOSPC, ENOTDIR
from functools import lru_cache
from random import Random
from typing import TypeVar

from quorumd.ports import MIN_DUTY_CYCLE, Disk, File
from quorumd.simulator.environment.directory import Directory
from quorumd.simulator.environment.event_heap import EventHeap, Process, Scheduled
from quorumd.simulator.environment.stored_file import Loss, StoredFile, Write

T = TypeVar("T")

DEFAULT_CAPACITY_BYTES = 1 << 40
JOB_START_MS = (20.0, 400.0)
"""How long it takes until a job that runs apart has done its work, at the lowest duty cycle."""

_ERROR_TEXTS = {
    EIO: "Input/output error",
    EISDIR: "Is a directory",
    ENOENT: "No such file or directory",
    ENOSPC: "No space left on device",
    ENOTDIR: "Not a directory",
}


class PowerLost(BaseException):
    """The machine lost power in the middle of a disk call. No Exception: node code must not outlive it."""


@dataclass(frozen=True, slots=True)
class DiskLatency:
    """How long one submitted operation takes: mostly within `usual_ms`, sometimes up to `slow_ms`."""

    usual_ms: tuple[float, float] = (0.2, 2.0)
    slow_ms: float = 50.0
    slow_probability: float = 0.01

    def draw(self, random: Random) -> float:
        if random.random() < self.slow_probability:
            return self.usual_ms[1] + random.random() * (self.slow_ms - self.usual_ms[1])
        return self.usual_ms[0] + random.random() * (self.usual_ms[1] - self.usual_ms[0])


class OpenFile:
    """The File port over one inode."""

    __slots__ = ("_closed", "_disk", "_file", "_lock_path", "_mount")

    def __init__(self, disk: SimulatedDisk, file: StoredFile, lock_path: str = "") -> None:
        self._disk = disk
        self._file = file
        self._lock_path = lock_path
        self._mount = disk.mounts
        self._closed = False

    def size(self) -> int:
        self._check()
        return len(self._file.content)

    def read_at(self, position: int, length: int) -> bytes:
        self._check()
        return self._file.read(position, length)

    def write_at(self, position: int, data: bytes) -> None:
        self._check()
        self._disk.before_change()
        room = self._disk.free_space_for(self._file, position + len(data))
        if room < position + len(data):
            # A full disk may take a part of a write before it refuses the rest.
            if room > position:
                self._file.write(position, bytes(data[: room - position]))
            raise _error(ENOSPC)
        self._file.write(position, bytes(data))

    def truncate(self, size: int) -> None:
        self._check()
        self._disk.before_change()
        if self._disk.free_space_for(self._file, size) < size:
            raise _error(ENOSPC)
        self._disk.cuts += 1
        self._file.truncate(size)

    def allocate(self, size: int) -> None:
        self._check()
        self._disk.before_change()
        if self._disk.free_space_for(self._file, size) < size:
            raise _error(ENOSPC)
        self._file.allocate(size)

    def sync(self) -> None:
        self._check()
        self._disk.before_call()
        self._disk.before_sync(self._file)
        self._file.sync()
        self._disk.after_sync(self._file)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._disk.unlock(self._lock_path)

    def _check(self) -> None:
        self._disk.check_power()
        if self._closed or self._mount != self._disk.mounts:
            raise ValueError("I/O operation on a closed file")


class SimulatedDisk:
    """One machine's disk; it outlives the processes that use it."""

    def __init__(self, heap: EventHeap, random: Random, latency: DiskLatency | None = None) -> None:
        self.capacity = DEFAULT_CAPACITY_BYTES
        self.mounts = 0
        """How many processes have used it so far: files opened by an earlier one are closed."""
        self.after_sync: Callable[[StoredFile | Directory], None] = _nothing
        """Called when something has become durable, at that very moment, with what was synced."""
        self.syncs_failed = 0
        self.changes = 0
        """Where it is the same as before, processes read the same: calls so far that may have changed a file."""
        self.cuts = 0
        """How often so far something that was written may have gone: truncations, removals, losses."""
        self._heap = heap
        self._random = random
        self.latency = latency or DiskLatency()
        self._process: Process | None = None
        self._root = Directory()
        self._corrupted: list[StoredFile] = []
        self._locked: dict[str, bool] = {}
        self._busy_until = 0.0
        self._apart: tuple[Scheduled, float, Callable[[], None], float] | None = None
        """The job that runs apart, when, and at which duty cycle."""
        self.has_power = True
        self._calls_to_power_loss = 0
        self._syncs_to_power_loss = 0
        self._syncs_to_failure = 0

    def mount(self, process: Process) -> None:
        """A new process begins to use the disk; whatever an earlier one held open or locked is free again."""
        self.mounts += 1
        self._process = process
        self._locked.clear()
        self.has_power = True
        self._calls_to_power_loss = 0
        self._syncs_to_power_loss = 0
        self._busy_until = self._heap.now_ms

    # ---- faults

    def lose_power(self) -> Loss:
        """Nothing that was not synced is sure to survive. The next process begins with `mount`."""
        self.has_power = False
        self._locked.clear()
        self.cuts += 1
        return self._root.crash(self._random)

    def lose_power_within(self, calls: int) -> None:
        """The `calls`-th changing call from now raises PowerLost, and every call after it; 0 for none."""
        self._calls_to_power_loss = calls

    def lose_power_at_sync(self, syncs: int) -> None:
        """The `syncs`-th sync of a file with unsynced writes from now raises PowerLost, and every call after it."""
        self._syncs_to_power_loss = syncs

    def fail_sync(self, syncs: int = 1) -> None:
        """The `syncs`-th sync of a file from now fails with EIO, and what could not be written is dropped."""
        self._syncs_to_failure = syncs

    def stall(self, duration_ms: float) -> None:
        """Submitted operations that have not begun wait for that long."""
        self._busy_until = max(self._busy_until, self._heap.now_ms + duration_ms)

    def repair(self) -> None:
        """No fault is about to come and there is room; a stall that has begun ends in its time, and what is rotten
        stays so until `restore`."""
        self.capacity = DEFAULT_CAPACITY_BYTES
        self._calls_to_power_loss = 0
        self._syncs_to_power_loss = 0
        self._syncs_to_failure = 0

    def corrupt(self, path: str, position: int, bits: int) -> None:
        """From now on these bits of one byte of a file are read wrong, until `restore`."""
        entry = self._entry(path)
        assert isinstance(entry, StoredFile)
        entry.corrupt[position] = bits
        self._corrupted.append(entry)

    def restore(self) -> None:
        """Somebody puts back from a copy what was lost."""
        for file in self._corrupted:
            file.corrupt.clear()
        self._corrupted.clear()

    @property
    def is_corrupted(self) -> bool:
        """Whether a process would read anything wrong: of a log that a snapshot replaced nothing is left."""
        return bool(self._corrupted) and any(file.corrupt for file in _files(self._root))

    def exchange(self, root: Directory) -> Directory:
        """Put other files on the disk. Returns those that were there; no process may use them."""
        before, self._root = self._root, root
        self.cuts += 1
        self.mounts += 1
        self._locked.clear()
        self._corrupted.clear()
        self.has_power = True
        return before

    def put(self, path: str, data: bytes) -> bool:
        """Somebody else on the machine writes a new file, and syncs nothing. False if one is there."""
        folder, name = self._folder_of(path)
        if name in folder.entries:
            return False
        file = StoredFile()
        file.write(0, data)
        self.changes += 1
        folder.change((name, file))
        return True

    def contents(self) -> dict[str, bytes]:
        """All files by path, as a process sees them."""
        return self._root.contents()

    def copy(self) -> Directory:
        """What is on the disk, once more."""
        return self._root.copy()

    # ---- what is sure to survive a crash at this moment; the checkers' view

    def durable_file(self, path: str) -> StoredFile | None:
        """The inode that a name means after every crash; None where that is not certain, or no file."""
        entry = self._durable_entry(path)
        return entry if isinstance(entry, StoredFile) else None

    def durable_folder(self, path: str) -> Directory | None:
        """The same of a folder."""
        entry = self._durable_entry(path)
        return entry if isinstance(entry, Directory) else None

    def durable_length(self, path: str) -> int:
        """How many bytes of a file every crash leaves as `durable_bytes` shows them; 0 for no file."""
        file = self.durable_file(path)
        return file.durable_bytes() if file is not None else 0

    def durable_bytes(self, path: str, position: int, length: int) -> bytes:
        file = self.durable_file(path)
        return file.durable_prefix(position + length)[position:] if file is not None else b""

    def durable_names(self, path: str) -> list[str]:
        """The names in a folder that no crash takes away, sorted."""
        entry = self._durable_entry(path)
        if not isinstance(entry, Directory):
            return []
        return sorted(name for name in entry.durable if entry.durable_entry(name) is not None)

    # ---- the Disk port

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        self.check_power()
        folder, name = self._folder_of(path)
        entry = folder.entries.get(name)
        if isinstance(entry, Directory):
            raise _error(EISDIR, path)
        if entry is None:
            if not create:
                raise _error(ENOENT, path)
            self.before_change()
            entry = StoredFile()
            folder.change((name, entry))
        return OpenFile(self, entry)

    def exists(self, path: str) -> bool:
        self.check_power()
        return self._entry(path) is not None

    def list_directory(self, path: str) -> list[str]:
        self.check_power()
        return sorted(self._directory(path).entries)

    def make_directory(self, path: str) -> None:
        self.check_power()
        folder = self._root
        for name in _parts(path):
            entry = folder.entries.get(name)
            if entry is None:
                self.before_change()
                entry = Directory()
                folder.change((name, entry))
            if isinstance(entry, StoredFile):
                raise _error(ENOTDIR, path)
            folder = entry

    def rename(self, source: str, target: str) -> None:
        self.check_power()
        folder, name = self._folder_of(source)
        target_folder, target_name = self._folder_of(target)
        if folder is not target_folder:
            raise ValueError(f"renaming {source} to another folder is not simulated")
        entry = folder.entries.get(name)
        if entry is None:
            raise _error(ENOENT, source)
        self.before_change()
        folder.change((name, None), (target_name, entry))

    def remove(self, path: str) -> None:
        self.check_power()
        folder, name = self._folder_of(path)
        if name not in folder.entries:
            raise _error(ENOENT, path)
        self.before_change()
        self.cuts += 1
        folder.change((name, None))

    def sync_directory(self, path: str) -> None:
        self.check_power()
        folder = self._directory(path)
        self.before_call()
        folder.sync()
        self.after_sync(folder)

    def lock(self, path: str) -> File:
        if path in self._locked:
            raise BlockingIOError(f"{path} is locked by another process")
        opened = self.open(path, create=True)
        opened.close()
        self._locked[path] = True
        folder, name = self._folder_of(path)
        entry = folder.entries[name]
        assert isinstance(entry, StoredFile)
        return OpenFile(self, entry, lock_path=path)

    def free_bytes(self, path: str) -> int:
        self.check_power()
        return max(0, self.capacity - self.used_bytes())

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
            except Exception as error:  # handed to `done`, as the real disk does
                outcome = error
            self._heap.call_at(done_at, lambda: done(outcome), b"disk done", process)

        self._heap.call_at(runs_at, run, b"disk run", process)

    def run_in_subprocess(self, job: Callable[[Disk], T], done: Callable[[T | BaseException], None]) -> None:
        """All of the job happens at one moment, after a while, if the process that asked is still there then."""
        runs_at = (
            self._heap.now_ms + JOB_START_MS[0] + self._random.random() * (JOB_START_MS[1] - JOB_START_MS[0])
        )
        process = self._process

        def run() -> None:
            self._apart = None
            try:
                outcome: T | BaseException = job(self)
            except Exception as error:  # handed to `done`, as the real disk does
                outcome = error
            self._heap.call_later(1.0, lambda: done(outcome), b"apart done", process)

        self._start_job(runs_at, run, MIN_DUTY_CYCLE)

    def throttle_subprocess(self, duty_cycle: float) -> None:
        """What is left of the job takes as much shorter or longer."""
        if self._apart is None:
            return
        scheduled, runs_at, run, before = self._apart
        if scheduled.process is self._process and duty_cycle != before:
            scheduled.cancel()
            left_ms = max(0.0, runs_at - self._heap.now_ms) * before / duty_cycle
            self._start_job(self._heap.now_ms + left_ms, run, duty_cycle)

    def _start_job(self, runs_at: float, run: Callable[[], None], duty_cycle: float) -> None:
        scheduled = self._heap.call_at(runs_at, run, b"apart run", self._process)
        self._apart = (scheduled, runs_at, run, duty_cycle)

    # ---- for OpenFile

    def check_power(self) -> None:
        if not self.has_power:
            raise PowerLost

    def before_change(self) -> None:
        self.changes += 1
        self.before_call()

    def before_call(self) -> None:
        """Before every call that changes a file or what is durable of it."""
        if self._calls_to_power_loss:
            self._calls_to_power_loss -= 1
            if self._calls_to_power_loss == 0:
                self._power_fails()

    def before_sync(self, file: StoredFile) -> None:
        if self._syncs_to_power_loss and any(isinstance(change, Write) for change in file.pending):
            self._syncs_to_power_loss -= 1
            if self._syncs_to_power_loss == 0:
                self._power_fails()
        if self._syncs_to_failure:
            self._syncs_to_failure -= 1
            if self._syncs_to_failure == 0:
                self.syncs_failed += 1
                self.changes += 1
                self.cuts += 1
                file.crash(self._random)
                raise _error(EIO)

    def _power_fails(self) -> None:
        self.has_power = False
        if self._process is not None:
            # Whatever its code does with the exception, nothing of it reaches the world any more.
            self._process.alive = False
        raise PowerLost

    def free_space_for(self, file: StoredFile, size: int) -> int:
        """How far `file` can grow towards `size`: `size` itself unless the disk is full before."""
        if self.capacity == DEFAULT_CAPACITY_BYTES or size <= len(file.content):
            return size
        return min(size, len(file.content) + max(0, self.capacity - self.used_bytes()))

    def used_bytes(self) -> int:
        return sum(len(file.content) for file in _files(self._root))

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
            raise _error(ENOENT, path)
        if isinstance(entry, StoredFile):
            raise _error(ENOTDIR, path)
        return entry

    def _folder_of(self, path: str) -> tuple[Directory, str]:
        *above, name = _parts(path)
        return self._directory("/".join(above)), name


@lru_cache(maxsize=1024)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part and part != ".")


def _files(folder: Directory) -> Iterator[StoredFile]:
    for entry in folder.entries.values():
        if isinstance(entry, Directory):
            yield from _files(entry)
        else:
            yield entry


def _error(code: int, path: str = "") -> OSError:
    return OSError(code, _ERROR_TEXTS[code], path) if path else OSError(code, _ERROR_TEXTS[code])


def _nothing(synced: StoredFile | Directory) -> None:
    return None
