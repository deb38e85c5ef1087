"""Where nodes are reached: gossip of the KIP-595 draft (6.3). Addresses only, never liveness or leadership."""

from __future__ import annotations

from dataclasses import dataclass

from quorumd.ids import ZERO_UUID, KafkaUuid

LONGEST_HOST = 255
"""Characters of a host name (RFC 1035) or address; what is told here travels in every Metadata answer."""
MAX_NODES = 2000
"""Nodes that the book holds: anybody may tell addresses, and none is ever forgotten."""


@dataclass(frozen=True, slots=True)
class Address:
    """What one node last said of itself. `boot_timestamp` is Unix ms of that node's start; 0 for configured ones."""

    host: str
    port: int
    boot_timestamp: int = 0
    directory_id: KafkaUuid = ZERO_UUID


class AddressBook:
    """The newest address of every node heard of, by node id."""

    def __init__(self) -> None:
        self._addresses: dict[int, Address] = {}
        self._unreachable: dict[int, bool] = {}

    def learn(self, node_id: int, address: Address) -> bool:
        """Take over an address; only a strictly larger boot timestamp replaces one (hole 26).

        Node ids below 0 are admin clients and have no address (hole 1). Returns whether something changed.
        """
        known = self._addresses.get(node_id)
        if node_id < 0 or not is_possible(address):
            return False
        if known is None and len(self._addresses) >= MAX_NODES:
            return False
        if known is not None and known.boot_timestamp >= address.boot_timestamp:
            return False
        self._addresses[node_id] = address
        self._unreachable.pop(node_id, None)
        return True

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


def is_possible(address: Address) -> bool:
    """Whether a connection to such an address can be tried: what others tell may be anything."""
    host = address.host
    return (
        0 < len(host) <= LONGEST_HOST
        and host.isascii()
        and host.isprintable()
        and " " not in host
        and 0 < address.port < 65536
    )
