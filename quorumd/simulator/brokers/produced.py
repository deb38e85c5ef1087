"""The records that producers have sent: their order, and their transactions."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class TransactionState(Enum):
    """The outcome of a transaction, as its producer knows it."""

    OPEN = "open"
    """Its end was not requested."""
    ENDING = "ending"
    """A commit was requested: readers may see it."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    """It ended without a request to commit it."""
    UNKNOWN = "unknown"
    """A commit was requested, with an error or no response."""


class Transaction:
    """One transaction of a transactional id. `acknowledged`: the values whose partitions confirmed them."""

    __slots__ = ("acknowledged", "name", "state", "transactional_id")

    def __init__(self, name: str, transactional_id: str) -> None:
        self.name = name
        self.transactional_id = transactional_id
        self.state = TransactionState.OPEN
        self.acknowledged: list[int] = []


class Produced(NamedTuple):
    """One record. `session`: of an idempotent producer, which numbers its records by `order`; "" for others, which
    send every record once."""

    session: str
    order: int
    transaction: Transaction | None = None
