"""The four ports between a node and its environment: Clock, Entropy, Disk, Network.

`runtime/` implements them on uvloop and files, `simulator/` on an event heap and a seed; a node cannot distinguish
them. A node runs on one thread, the *event thread*: all ports call back there, one callback at a time, never from
inside the call that registered the callback.

Times are milliseconds as float. `now_ms` is monotonic with an arbitrary start; `wall_ms` is Unix time and may jump.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from quorumd.ids import KafkaUuid

T = TypeVar("T")

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a connection without authentication: PLAINTEXT, or TLS without a client certificate."""

MIN_DUTY_CYCLE = 0.1
"""The lowest share of the time during which a subprocess job works."""


class Timer(Protocol):
    """A scheduled callback."""

    def cancel(self) -> None:
        """Cancel the callback. No effect if it has already run."""


class Clock(Protocol):
    """Time and timers."""

    def now_ms(self) -> float:
        """Monotonic time in milliseconds."""

    def wall_ms(self) -> int:
        """Unix time in milliseconds, for timestamps only, never for decisions."""

    def call_at(self, deadline_ms: float, callback: Callable[[], None]) -> Timer:
        """Call back once `now_ms` has reached the deadline."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back after the current callback, in the same turn of the loop if possible; used to batch work."""

    def charge(self, records: int) -> None:
        """Account for the time that applying, encoding or loading this many records takes. Advances simulated time;
        no effect on a real clock."""


class Entropy(Protocol):
    """Random numbers."""

    def randrange(self, bound: int) -> int:
        """A uniformly distributed integer in [0, bound). `bound`: at least 1. Above 2^32 the integer is
        unpredictable, for secrets."""

    def uuid(self) -> KafkaUuid:
        """A random Uuid that is not reserved by Kafka and does not start with '-' as text."""


class File(Protocol):
    """One open file. Every method may raise OSError; a full disk is OSError with errno ENOSPC or EDQUOT."""

    def size(self) -> int: ...

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""

    def write_at(self, position: int, data: bytes) -> None:
        """Write all of `data` at `position` or raise. Durable only after `sync`."""

    def truncate(self, size: int) -> None:
        """Truncate or extend (with zeros) to `size` bytes. Durable only after `sync`."""

    def allocate(self, size: int) -> None:
        """Allocate blocks for at least `size` bytes; unwritten bytes read as zeros.

        Writing into allocated blocks makes `sync` cheaper, and a full disk fails here instead of at a write.
        """

    def sync(self) -> None:
        """Make all earlier writes durable (fdatasync). Blocks; see `Disk.submit`."""

    def close(self) -> None: ...


class Disk(Protocol):
    """Files by path. Paths are plain strings with '/' separators."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. Raises FileNotFoundError for a missing file unless `create` is set."""

    def exists(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]:
        """The names in a directory, sorted. Raises FileNotFoundError."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; no effect if it exists."""

    def rename(self, source: str, target: str) -> None:
        """Atomically replace `target`. Durable only after `sync_directory` of the directory."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory. Raises OSError."""

    def sync_directory(self, path: str) -> None:
        """Make created, renamed and removed names in this directory durable. Blocks."""

    def lock(self, path: str) -> File:
        """Create and lock a file for this process until it is closed. Raises BlockingIOError if it is locked."""

    def free_bytes(self, path: str) -> int:
        """Free space for an unprivileged user on the file system of `path`. Raises OSError."""

    def total_bytes(self, path: str) -> int:
        """Size of the file system of `path`. Raises OSError."""

    def submit(self, operation: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run a blocking operation after this call has returned, one at a time in the order of submission.

        It may run on another thread. `done` is called on the event thread with the result of `operation` or the
        exception it raised.
        """

    def run_in_subprocess(self, job: Callable[[Disk], T], done: Callable[[T | BaseException], None]) -> None:
        """Run a long job on these files in a subprocess at low priority, one job at a time.

        `job` is a module-level function, or a `functools.partial` of one with picklable values, as are its result and
        exception. It gets a Disk of its own, on which it must not lock. `done` is called on the event thread as for
        `submit`, with an OSError if the process died. The job works MIN_DUTY_CYCLE of the time until
        `throttle_subprocess` changes that.
        """

    def throttle_subprocess(self, duty_cycle: float) -> None:
        """Set the share of the time, at most 1, during which the subprocess job works; no effect without a job."""


class StoredBytes(Protocol):
    """Bytes in a file, which are read only when they are sent."""

    def __len__(self) -> int: ...

    def read(self, position: int, length: int) -> bytes:
        """Read `length` of the bytes from `position`, 0 for the first. Raises StorageError if they cannot be read, or
        if the file has changed."""

    def locate(self, position: int) -> tuple[File, int]:
        """Return the file and the position in it of the byte at `position`. Raises StorageError as `read` does."""


class Transport(Protocol):
    """The sending side of one established connection."""

    def write(self, data: bytes) -> None:
        """Queue bytes in order. Never blocks; silently dropped once the connection is closed."""

    def write_parts(self, parts: Sequence[bytes | StoredBytes]) -> None:
        """Queue the parts in order, as `write` does with their concatenation.

        Large parts are not copied; stored bytes are read as the connection accepts them. If they cannot be read, the
        connection is aborted.
        """

    def close(self) -> None:
        """Close after the queued bytes are sent; `Connection.closed` follows."""

    def abort(self) -> None:
        """Close without sending the queued bytes; `Connection.closed` follows."""

    def pause_reading(self) -> None:
        """Stop receiving until `resume_reading`. `Connection.closed` still follows if the other side goes away."""

    def resume_reading(self) -> None: ...

    def reserve_for_host(self) -> None:
        """Exempt connections from the other side's host from the limits on connections: it is a node of the
        quorum."""

    @property
    def peer(self) -> str:
        """The other side as `host:port`, for logs."""

    @property
    def principal(self) -> str:
        """The authenticated principal of the other side, as `Type:Name`; ANONYMOUS without authentication."""

    @property
    def unsent_bytes(self) -> int:
        """Number of bytes queued and not yet sent, stored bytes among them, for backpressure."""

    @property
    def held_bytes(self) -> int:
        """The part of `unsent_bytes` that is in memory."""

    def call_when_sent(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, later, when nearly all queued bytes are sent; not if the connection is closed before.
        A second call before that replaces the first."""


class Connection(Protocol):
    """The receiving side of one connection, written by the node."""

    def connected(self, transport: Transport) -> None:
        """Called once, first, when the connection is established."""

    def received(self, data: bytes) -> None:
        """Called with the next bytes of the stream, in chunks of any size."""

    def closed(self, reason: str, refused: bool) -> None:
        """Called once, last. `reason` is "" for a normal close.

        `refused` is true if the address refused the connection: the host is up but the process is not. A slow or
        partitioned peer is never `refused`.
        """


class Listener(Protocol):
    """A bound address that accepts connections."""

    @property
    def port(self) -> int:
        """The bound port, also if 0 was requested."""

    def close(self) -> None:
        """Stop accepting; established connections stay open."""


class Network(Protocol):
    """Connections. `listener`: the name of the accepting side's listener, whose TLS settings apply to both sides."""

    def listen(self, host: str, port: int, accept: Callable[[], Connection], listener: str = "") -> Listener:
        """Bind and call `accept` for every incoming connection. Raises OSError if the address is in use."""

    def connect(self, host: str, port: int, connection: Connection, listener: str = "") -> None:
        """Start connecting; `connected` or `closed` of the connection follows."""
