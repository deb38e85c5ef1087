"""The four ports between a node and the world: Clock, Entropy, Disk, Network.

`runtime/` implements them on uvloop and files, `simulator/` on an event heap and a seed. A node cannot tell
which one it runs on. Everything of a node happens in one thread, the *event thread*: callbacks of all ports
are called there, one after the other, never from inside the call that registered them.

Times are milliseconds as float. `now_ms` is monotonic and starts anywhere; `wall_ms` is Unix time and may jump.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from quorumd.ids import KafkaUuid

T = TypeVar("T")

MIN_DUTY_CYCLE = 0.1
"""How much of the time a job that runs apart works, where nobody is in a hurry."""


class Timer(Protocol):
    """A callback that was asked for and has not come yet."""

    def cancel(self) -> None:
        """The callback will not come. Harmless after it came."""


class Clock(Protocol):
    """Time, and being called when it has come."""

    def now_ms(self) -> float:
        """Monotonic time in milliseconds."""

    def wall_ms(self) -> int:
        """Unix time in milliseconds, for timestamps that people read; never for decisions."""

    def call_at(self, deadline_ms: float, callback: Callable[[], None]) -> Timer:
        """Call back once `now_ms` has reached the deadline."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back once what is being handled now is done: gathers work of one turn of the loop."""

    def charge(self, records: int) -> None:
        """The node has just applied, encoded or loaded so many records. Real time has passed by that, and nothing is
        to be done; simulated time passes now."""


class Entropy(Protocol):
    def randrange(self, bound: int) -> int:
        """A uniform integer in [0, bound). `bound` is at least 1."""

    def uuid(self) -> KafkaUuid:
        """A random Uuid that is none of Kafka's reserved ones and does not print with a leading '-'."""


class File(Protocol):
    """One open file. Every method may raise OSError; a full disk is OSError with errno ENOSPC or EDQUOT."""

    def size(self) -> int: ...

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""

    def write_at(self, position: int, data: bytes) -> None:
        """All of `data` at `position`, or an error. Durable only after `sync`."""

    def truncate(self, size: int) -> None:
        """Cut or extend (with zeros) to `size` bytes. Durable only after `sync`."""

    def allocate(self, size: int) -> None:
        """Make the file at least `size` bytes of real blocks; what was not written reads as zeros.

        Appending into allocated blocks makes `sync` cheaper, and a full disk shows here instead of at a write.
        """

    def sync(self) -> None:
        """Returns when all that was written before is durable (fdatasync). Blocks; see `Disk.submit`."""

    def close(self) -> None: ...


class Disk(Protocol):
    """Files by path. Paths are plain strings with '/' separators."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. Raises FileNotFoundError when it is not there and not to be created."""

    def exists(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]:
        """The names in a folder, sorted. Raises FileNotFoundError."""

    def make_directory(self, path: str) -> None:
        """Make a folder and its parents; nothing happens if it is there."""

    def rename(self, source: str, target: str) -> None:
        """Atomically replace `target`. Durable only after `sync_directory` of the folder."""

    def remove(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Returns when names created, renamed and removed in this folder are durable. Blocks."""

    def lock(self, path: str) -> File:
        """Create and lock a file for this process until it is closed. Raises BlockingIOError if it is taken."""

    def free_bytes(self, path: str) -> int:
        """Room left for an ordinary user on the file system that holds `path`."""

    def submit(self, operation: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run a blocking operation once this call has returned, one after the other in the order of submission.

        It may run beside the event thread. `done` is called on the event thread with what `operation` returned
        or the exception it raised.
        """

    def run_in_subprocess(self, job: Callable[[Disk], T], done: Callable[[T | BaseException], None]) -> None:
        """Run a long job on these files beside the node, at low priority, in a process of its own.

        `job` is given a Disk of its own, on which it must not lock; it is a module-level function or a
        `functools.partial` of one with plain values, and so is what it returns or raises. One job at a time.
        `done` is called on the event thread, as by `submit`; a job whose process died is an OSError.
        It works MIN_DUTY_CYCLE of the time, until `throttle_subprocess` says otherwise.
        """

    def throttle_subprocess(self, duty_cycle: float) -> None:
        """How much of the time the job that runs apart may work from now on, up to 1; nothing without one."""


class Transport(Protocol):
    """The sending side of one established connection."""

    def write(self, data: bytes) -> None:
        """Queue bytes in order. Never blocks; dropped without a word once the connection is closed."""

    def close(self) -> None:
        """Close after what was queued is sent; `Connection.closed` follows."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    @property
    def peer(self) -> str:
        """The other side as `host:port`, for logs."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes queued and not yet taken by the network: the measure for back-pressure."""


class Connection(Protocol):
    """The receiving side of one connection, written by the node."""

    def connected(self, transport: Transport) -> None:
        """Called once, first, when the connection is established."""

    def received(self, data: bytes) -> None:
        """Called with the next bytes of the stream, split anywhere."""

    def closed(self, reason: str, refused: bool) -> None:
        """Called once, last; nothing comes after it. `reason` is "" for an orderly end.

        `refused` is true if the connection was never established because nobody listens at that address: the
        host is up and the process is not. A peer that is merely slow or cut off is never `refused`.
        """


class Listener(Protocol):
    @property
    def port(self) -> int:
        """The port it is bound to, also where 0 was asked for."""

    def close(self) -> None:
        """Accept no more; established connections live on."""


class Network(Protocol):
    def listen(self, host: str, port: int, accept: Callable[[], Connection]) -> Listener:
        """Bind and call `accept` for every incoming connection. Raises OSError when the address is taken."""

    def connect(self, host: str, port: int, connection: Connection) -> None:
        """Begin to connect; `connected` or `closed` of the connection follows."""
