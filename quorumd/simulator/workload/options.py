"""What clients do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """How many clients do what how often. Times are milliseconds of virtual time."""

    clients: int = 3
    readers: int = 0
    """So many of the clients only read: a write that waits for its commit makes later reads wait, and with them
    it would hide the stale ones."""
    keys: int = 2
    """Of each kind."""
    read_share: float = 0.4
    """Of the other clients' operations."""
    list_share: float = 0.0
    """Of the operations: so many are on lists, the others on registers."""
    longest_padding: int = 0
    """Registers are written with up to so many bytes more: only writes of several sectors can be torn."""
    think_ms: tuple[float, float] = (5.0, 80.0)
    """How long a client waits between its operations."""
    timeout_ms: float = 3000.0
    """After that long without an answer a client gives up and tries another node."""
    append_attempts: int = 3
    """How often an append is sent, to one node after the other, before its outcome is left open."""
