"""Where nodes are reached: gossip of the KIP-595 draft (6.3). Addresses only, never liveness or leadership.

The newest address wins. A node's own statement, with the time of its start, is newer than any record of the log;
a voter record is newer than those at lower offsets; the configuration is older than both. A stock leader announces
its address without a time: that is newer than the records that the own log has then.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from quorumd.ids import ZERO_UUID, KafkaUuid

MAX_HOST_LENGTH = 255
"""Characters of a host name (RFC 1035) or address; what is told here travels in every Metadata answer."""
MAX_NODES = 2000
"""Nodes that the book holds: anybody may tell addresses, and none is ever forgotten."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where one node is reached. `boot_timestamp`: Unix ms of that node's start, 0 if it did not state the address
    itself. `recorded_at`: offset of the voter record that has the address, or where the log ended when a stock leader
    announced it; -1 for neither."""

    host: str
    port: int
    boot_timestamp: int = 0
    directory_id: KafkaUuid = ZERO_UUID
    recorded_at: int = -1

    def is_newer_than(self, other: Address) -> bool:
        return (self.boot_timestamp, self.recorded_at) > (other.boot_timestamp, other.recorded_at)


class AddressBook:
    """The newest address of every node heard of, by node id."""

    def __init__(self) -> None:
        self._addresses: dict[int, Address] = {}
        self._unreachable: dict[int, bool] = {}

    def learn(self, node_id: int, address: Address) -> bool:
        """Take over an address; only a strictly newer one replaces another (hole 26).

        Node ids below 0 are admin clients and have no address (hole 1). Returns whether something changed.
        """
        known = self._addresses.get(node_id)
        if node_id < 0 or not is_valid(address):
            return False
        if known is None and len(self._addresses) >= MAX_NODES:
            return False
        if known is not None and not address.is_newer_than(known):
            return False
        self._addresses[node_id] = address
        # A voter record may repeat where a node is; a node that states it has just started there.
        has_started = known is not None and known.boot_timestamp < address.boot_timestamp
        if known is None or has_started or (known.host, known.port) != (address.host, address.port):
            self._unreachable.pop(node_id, None)
        return True

    def truncate_to(self, end_offset: int) -> None:
        """The log was cut: what its records said at or above `end_offset` is as old as the configuration."""
        for node_id, address in self._addresses.items():
            if address.recorded_at >= end_offset:
                self._addresses[node_id] = replace(address, recorded_at=-1)

    def retain(self, node_ids: Collection[int]) -> None:
        """Forget every other node that never stated an address itself: it was a voter once, or configured as one."""
        removed = [
            node_id
            for node_id, address in self._addresses.items()
            if node_id not in node_ids and address.boot_timestamp == 0
        ]
        for node_id in removed:
            del self._addresses[node_id]
            self._unreachable.pop(node_id, None)

    def nodes_at(self, host: str, port: int) -> list[int]:
        """The nodes with that address."""
        return [n for n, address in self._addresses.items() if (address.host, address.port) == (host, port)]

    def get(self, node_id: int) -> Address | None:
        return self._addresses.get(node_id)

    def require(self, node_id: int) -> Address:
        """The address of a node that is in `node_ids`."""
        return self._addresses[node_id]

    def node_ids(self) -> list[int]:
        """Every node with an address, in order."""
        return sorted(self._addresses)

    def mark_reachable(self, node_id: int, reachable: bool) -> None:
        """What the last attempt to connect to the node showed."""
        if reachable:
            self._unreachable.pop(node_id, None)
        else:
            self._unreachable[node_id] = True

    def is_reachable(self, node_id: int) -> bool:
        """False only when the last attempt to connect failed: clients are not sent there."""
        return node_id not in self._unreachable


def is_valid(address: Address) -> bool:
    """Whether a connection to such an address can be tried: what others tell may be anything."""
    host = address.host
    return (
        0 < len(host) <= MAX_HOST_LENGTH
        and host.isascii()
        and host.isprintable()
        and " " not in host
        and 0 < address.port < 65536
    )
