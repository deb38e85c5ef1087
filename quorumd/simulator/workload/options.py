"""Options of clients."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """Number of clients and rates of operations. Times are milliseconds of virtual time."""

    clients: int = 3
    readers: int = 0
    """Number of clients that only read. A write delays the later reads of its client until it is committed, which
    could hide stale reads."""
    keys: int = 2
    """Number of keys of each kind."""
    read_share: float = 0.4
    """Share of reads in the operations of the other clients."""
    list_share: float = 0.0
    """Share of operations on lists; the others are on registers."""
    longest_padding: int = 0
    """Maximum padding of register values: only writes of several sectors can be torn."""
    think_ms: tuple[float, float] = (5.0, 80.0)
    """Shortest and longest pause between two operations of a client."""
    timeout_ms: float = 3000.0
    """A client without a response gives up after this time and tries another node."""
    append_attempts: int = 3
    """Maximum attempts of an append, at different nodes, before its outcome stays unknown."""
