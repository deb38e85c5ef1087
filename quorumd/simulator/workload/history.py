"""All operations of all clients, and the check that they are linearizable."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.append_only_list import check_append_only_list
from quorumd.simulator.checkers.linearizability import Operation, check_register, first_contradiction

LAST_OPERATIONS = 12
"""Number of operations shown of a history that is not linearizable."""
LIST_PREFIX = "list."
"""Prefix of the keys of lists; all other keys are registers."""


class History:
    """The operations in the order of calls. `acknowledged` is called with each value whose write was acknowledged,
    `read` with each value that a client read."""

    def __init__(self, acknowledged: Callable[[str], None], read: Callable[[str], None]) -> None:
        self.operations: list[Operation] = []
        self.acknowledged_writes = 0
        """The number of acknowledged writes and appends."""
        self.acknowledged_appends = 0
        self.completed_reads = 0
        self.repeated_appends = 0
        self.on_read: Callable[[float], None] = lambda called_ms: None
        """Called for each completed read with the time of its request."""
        self._acknowledged = acknowledged
        self._read = read

    def called(self, operation: Operation) -> None:
        self.operations.append(operation)

    def returned(self, operation: Operation, now_ms: float) -> None:
        operation.returned_ms = now_ms
        if operation.kind == "read":
            self.completed_reads += 1
            self.on_read(operation.called_ms)
            if operation.value is not None:
                for value in (operation.value,) if isinstance(operation.value, str) else operation.value:
                    self._read(value)
        else:
            self.acknowledged_writes += 1
            self.acknowledged_appends += operation.kind == "append"
            self._acknowledged(operation.value)

    def judge(self) -> None:
        """Check the operations on each key. Raises InvariantViolation if they are not linearizable."""
        by_key: dict[str, list[Operation]] = {}
        for operation in self.operations:
            by_key.setdefault(operation.key, []).append(operation)
        for key, operations in sorted(by_key.items()):
            check = check_append_only_list if key.startswith(LIST_PREFIX) else check_register
            contradiction = first_contradiction(operations, check)
            if contradiction is not None:
                lines = "\n".join(f"    {operation}" for operation in contradiction[-LAST_OPERATIONS:])
                text = f"no order explains the operations on {key}; the last ones:\n{lines}"
                raise InvariantViolation("reads and writes are linearizable", text)

    def counters(self) -> dict[str, int]:
        """Return counts of outcomes, by name."""
        return {
            "acknowledged writes": self.acknowledged_writes,
            "acknowledged appends": self.acknowledged_appends,
            "repeated appends": self.repeated_appends,
            "completed reads": self.completed_reads,
            "operations": len(self.operations),
        }
