"""A register that administrators write. The times of requests and responses decide which values a read may return."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import inf
from typing import Final

from quorumd.errors import ErrorCode

Value = str | int | None
"""None if nothing is set."""

ANY: Final = "(chosen by the controller)"
"""A value that is unknown until the first read, such as the id of a topic whose creation got no response."""

OPEN_OUTCOMES: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors of a request that may have taken effect, or may take effect later."""


@dataclass(slots=True, eq=False)
class Write:
    """A change to `value` that takes effect between two times, or never if `is_certain` is False."""

    value: Value
    requested_ms: float
    completed_ms: float = inf
    is_certain: bool = False

    def complete(self, now_ms: float) -> None:
        """Record that the write has taken effect."""
        self.completed_ms, self.is_certain = min(self.completed_ms, now_ms), True


class Register:
    """The writes of one value. A read may return a written value unless another write certainly replaced it before
    the read was requested. A read that only one write explains completes that write."""

    def __init__(self, initial: Value = None) -> None:
        self.writes = [Write(initial, -inf, -inf, True)]

    def write(self, value: Value, now_ms: float) -> Write:
        """Record a requested write."""
        found = Write(value, now_ms)
        self.writes.append(found)
        return found

    def responded(self, write: Write, error: int, repeated: Collection[int], now_ms: float) -> None:
        """Record the response to a write. After an error in `repeated`, an earlier attempt may have succeeded."""
        if error == ErrorCode.NONE:
            write.complete(now_ms)
        elif error in repeated:
            write.completed_ms = now_ms
        elif error not in OPEN_OUTCOMES:
            self.refuse(write)

    def refuse(self, write: Write) -> None:
        """Record that a write has no effect."""
        self.writes.remove(write)

    def read(self, value: Value, requested_ms: float, now_ms: float) -> bool:
        """Record a linearizable read; return whether its value is possible."""
        return self._read(lambda write: write.value == value, value, requested_ms, now_ms)

    def read_presence(self, is_set: bool, requested_ms: float, now_ms: float) -> bool:
        """Record a linearizable read that shows only whether a value is set; return whether that is possible."""
        return self._read(lambda write: (write.value is not None) == is_set, None, requested_ms, now_ms)

    def read_committed(self, value: Value) -> bool:
        """Record a read that may be stale; return whether the value was set at some time."""
        return any(write.value in (value, ANY) for write in self.writes)

    def bind(self, value: Value) -> None:
        """Set the value of the only write whose value is unknown, unless another write has this value."""
        unknown = [write for write in self.writes if write.value == ANY]
        if len(unknown) == 1 and all(write.value != value for write in self.writes):
            unknown[0].value = value

    def possible(self, requested_ms: float) -> list[Value]:
        """Return the values that a read requested at this time may return."""
        return [write.value for write in self.writes if not self._is_replaced(write, requested_ms)]

    def _read(
        self, matches: Callable[[Write], bool], value: Value, requested_ms: float, now_ms: float
    ) -> bool:
        possible = [write for write in self.writes if not self._is_replaced(write, requested_ms)]
        found = [write for write in possible if matches(write)]
        if not found and value is not None:
            found = [write for write in possible if write.value == ANY][:1]
            for write in found:
                write.value = value
        if len(found) == 1:
            found[0].complete(now_ms)
        return bool(found)

    def _is_replaced(self, write: Write, requested_ms: float) -> bool:
        return any(
            other.is_certain and other.requested_ms > write.completed_ms and other.completed_ms < requested_ms
            for other in self.writes
        )
