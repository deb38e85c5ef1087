"""The effects of the state machine of a coordinator: writes and deadlines."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from quorumd.broker.coordinator.records import CoordinatorRecord
from quorumd.errors import ErrorCode

K = TypeVar("K", bound=Hashable)


class Times(NamedTuple):
    """The current time: `now_ms` for deadlines, `wall_ms` for timestamps in records."""

    now_ms: float
    wall_ms: int


def do_nothing(end_offset: int) -> None:
    """Leave the state unchanged when the records are appended."""


def ignore_outcome(error: ErrorCode, times: Times) -> None:
    """Send no response when the write completes."""


class Write(NamedTuple):
    """Records to append in one batch.

    `appended(end_offset)` changes the state once the records are in the log. `completed` is called once: with NONE
    when the records are committed, with an error if it is unknown whether they will be committed, or with the error
    of the append, in which case `appended` is not called. A write without records completes after all earlier writes,
    on which its response depends. With a producer id, the batch is part of a transaction.
    """

    records: Sequence[CoordinatorRecord]
    appended: Callable[[int], None] = do_nothing
    completed: Callable[[ErrorCode, Times], None] = ignore_outcome
    producer_id: int = -1
    producer_epoch: int = -1


class Outbox:
    """The writes and the responses to whole groups of a state machine, in order, until its shard executes them."""

    def __init__(self) -> None:
        self._writes: list[Write] = []
        self._responses: deque[Callable[[], None]] = deque()

    def add(self, write: Write) -> None:
        """Add a write at the end."""
        self._writes.append(write)

    def take(self) -> list[Write]:
        """Remove and return the writes."""
        writes, self._writes = self._writes, []
        return writes

    def respond(self, send: Callable[[], None]) -> None:
        """Add one of the responses to all members of a group; `send` must not read the state, which may change."""
        self._responses.append(send)

    def send_responses(self, limit: int) -> bool:
        """Send up to `limit` responses; return whether others are left."""
        responses = self._responses
        for _ in range(min(limit, len(responses))):
            responses.popleft()()
        return bool(responses)


class Deadlines(Generic[K]):
    """Deadlines by key; equal deadlines expire in the order in which they were set."""

    def __init__(self) -> None:
        self._deadlines: dict[K, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._serial = 0

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def set(self, key: K, deadline_ms: float) -> None:
        """Set the deadline of a key, replacing its previous deadline."""
        self._serial += 1
        self._deadlines[key] = (deadline_ms, self._serial)
        heapq.heappush(self._heap, (deadline_ms, self._serial, key))
        if len(self._heap) > 2 * len(self._deadlines) + 64:
            self._heap = [(when, serial, each) for each, (when, serial) in self._deadlines.items()]
            heapq.heapify(self._heap)

    def cancel(self, key: K) -> None:
        """Cancel the deadline of a key, if there is one."""
        self._deadlines.pop(key, None)

    def next(self) -> float | None:
        """Return the earliest deadline, None if there is none."""
        heap = self._heap
        while heap:
            when, serial, key = heap[0]
            if self._deadlines.get(key) == (when, serial):
                return when
            heapq.heappop(heap)
        return None

    def pop_due(self, now_ms: float) -> K | None:
        """Remove the earliest deadline that has passed, and return its key; None if no deadline has passed."""
        when = self.next()
        if when is None or when > now_ms:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._deadlines[key]
        return key
