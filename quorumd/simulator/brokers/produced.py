"""The records that producers have sent: their order, and their transactions."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class TransactionState(Enum):
    """The outcome of a transaction, as its producer knows it."""

    OPEN = "open"
    """Its end was not requested."""
    ENDING = "ending"
    """A commit was requested; consumers may see its records."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    """It ended without a request to commit it."""
    UNKNOWN = "unknown"
    """A commit was requested, with an error or no response."""


class Transaction:
    """One transaction of a transactional id."""

    __slots__ = ("acknowledged", "name", "state", "transactional_id")

    def __init__(self, name: str, transactional_id: str) -> None:
        self.name = name
        self.transactional_id = transactional_id
        self.state = TransactionState.OPEN
        self.acknowledged: list[int] = []
        """The values that leaders have acknowledged."""


class Produced(NamedTuple):
    """One record."""

    session: str
    """The client, producer id and epoch of an idempotent producer; "" for other producers, which send every record
    once."""
    order: int
    """The number of the record in the sequence of its producer."""
    transaction: Transaction | None = None
