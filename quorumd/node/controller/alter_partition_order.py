"""AlterPartition requests of one start of a broker count in the order in which it sent them.

A leader that is told INELIGIBLE_REPLICA takes its proposal back, and relies on no other copy of it being accepted
later. Without this, one could be: the broker gives up a connection with the request still on its way, asks again on
another and is refused; the member becomes eligible, no partition epoch having moved; and then the late copy arrives
(replication description, race R25). So a connection that the broker has given up does not count any more: one older
than the newest on which it asked, or older than the leadership in which it may have asked another leader since.
"""

from __future__ import annotations

from enum import Enum, auto


class ConnectionOrder(Enum):
    """What a request on some connection is worth."""

    CURRENT = auto()
    SUPERSEDED = auto()
    """Its broker has asked on a newer connection. Nobody waits for an answer."""
    BEFORE_LEADERSHIP = auto()
    """Its connection was accepted before this node led: the broker has to connect again."""


class AlterPartitionOrder:
    """Connections by their numbers, which grow as they are accepted."""

    def __init__(self) -> None:
        self._first_connection = 0
        self._newest_connection: dict[int, tuple[int, int]] = {}
        """By broker id: broker epoch, number of the newest connection with a request of it."""

    def begin(self, first_connection: int) -> None:
        """This node leads from now on; the next connection that it accepts has this number."""
        self._first_connection = first_connection

    def check(self, number: int, broker_id: int, broker_epoch: int) -> ConnectionOrder:
        """Whether a request of this start of a broker, the registered one, counts."""
        if number < self._first_connection:
            return ConnectionOrder.BEFORE_LEADERSHIP
        epoch, newest = self._newest_connection.get(broker_id, (broker_epoch, number))
        if epoch == broker_epoch and number < newest:
            return ConnectionOrder.SUPERSEDED
        self._newest_connection[broker_id] = (broker_epoch, number)
        return ConnectionOrder.CURRENT
