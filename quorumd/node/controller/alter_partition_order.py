"""Keeps the AlterPartition requests of a broker incarnation in the order in which it sent them.

A partition leader that receives INELIGIBLE_REPLICA withdraws its proposal and relies on no copy of it being accepted
later. Yet a late copy could be accepted: the broker abandons a connection with the request in flight, retries on
another one and is refused; then the replica becomes eligible without a new partition epoch, and the copy arrives
(race R25). Requests on abandoned connections are therefore rejected: on connections older than the newest connection
with a request of the incarnation, and on connections accepted before this controller became leader, since the broker
may have sent requests to another controller meanwhile.
"""

from __future__ import annotations

from enum import Enum, auto


class ConnectionOrder(Enum):
    """Whether the connection of a request is still in use by its broker."""

    CURRENT = auto()
    SUPERSEDED = auto()
    """The broker has sent a request on a newer connection and expects no response on this one."""
    BEFORE_LEADERSHIP = auto()
    """The connection was accepted before this node became leader: the broker has to reconnect."""


class AlterPartitionOrder:
    """Records the newest connection of each broker. Connection numbers increase in the order of acceptance."""

    def __init__(self) -> None:
        self._first_connection = 0
        self._newest_connection: dict[int, tuple[int, int]] = {}
        """Broker id -> broker epoch, and number of the newest connection with a request of that incarnation."""

    def begin(self, first_connection: int) -> None:
        """Begin a leadership; `first_connection` is the number of the next connection to be accepted."""
        self._first_connection = first_connection

    def check(self, number: int, broker_id: int, broker_epoch: int) -> ConnectionOrder:
        """Classify a connection with a request of the registered incarnation of a broker."""
        if number < self._first_connection:
            return ConnectionOrder.BEFORE_LEADERSHIP
        newest = self._newest_connection.get(broker_id)
        current = (broker_epoch, number)
        if newest == current:
            return ConnectionOrder.CURRENT
        if newest is not None and newest[0] == broker_epoch and number < newest[1]:
            return ConnectionOrder.SUPERSEDED
        self._newest_connection[broker_id] = current
        return ConnectionOrder.CURRENT
