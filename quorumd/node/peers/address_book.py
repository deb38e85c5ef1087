"""The newest known address of every node (KIP-595 draft 6.3). Addresses only, never liveness or leadership.

A node's own announcement, which has its boot timestamp, is newer than any voter record; a voter record is newer than
records at lower offsets; the configuration is older than both. An address that a stock leader announces has no
timestamp: it is newer than the voter records that the local log has at that time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from quorumd.ids import ZERO_UUID, KafkaUuid

MAX_HOST_LENGTH = 255
"""Characters of a host name (RFC 1035) or address; every Metadata response carries the recorded hosts."""
MAX_NODES = 2000
"""Nodes in the address book that are not voters: any client may announce nodes."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of one node."""

    host: str
    port: int
    boot_timestamp: int = 0
    """Unix milliseconds of the node's start; 0 if the node did not announce the address itself."""
    directory_id: KafkaUuid = ZERO_UUID
    recorded_at: int = -1
    """Offset of the voter record with the address, or log end offset when a stock leader announced it; else -1."""

    def is_newer_than(self, other: Address) -> bool:
        return (self.boot_timestamp, self.recorded_at) > (other.boot_timestamp, other.recorded_at)


class AddressBook:
    """The newest address of every known node, by node id."""

    def __init__(self) -> None:
        self._addresses: dict[int, Address] = {}
        self._unreachable: dict[int, bool] = {}

    def accepts(self, node_id: int, address: Address, is_voter: bool = False) -> bool:
        """Whether `learn` would record an address: only a strictly newer one replaces another (hole 26).

        Admin clients have negative ids and no address (hole 1).
        """
        known = self._addresses.get(node_id)
        if node_id < 0 or not is_valid(address):
            return False
        if known is None:
            return is_voter or len(self._addresses) < MAX_NODES
        return address.is_newer_than(known)

    def learn(self, node_id: int, address: Address, is_voter: bool = False) -> bool:
        """Record an address if it is accepted; returns whether it was recorded."""
        known = self._addresses.get(node_id)
        if not self.accepts(node_id, address, is_voter):
            return False
        self._addresses[node_id] = address
        # A voter record may repeat a known address; an announcement shows that the node has just started.
        has_started = known is not None and known.boot_timestamp < address.boot_timestamp
        if known is None or has_started or (known.host, known.port) != (address.host, address.port):
            self._unreachable.pop(node_id, None)
        return True

    def truncate_to(self, end_offset: int) -> None:
        """Treat addresses recorded at or above `end_offset`, where the log was truncated, as configured."""
        for node_id, address in self._addresses.items():
            if address.recorded_at >= end_offset:
                self._addresses[node_id] = replace(address, recorded_at=-1)

    def retain(self, node_ids: Collection[int]) -> None:
        """Forget every other node that never announced an address: it is a former or configured voter."""
        removed = [
            node_id
            for node_id, address in self._addresses.items()
            if node_id not in node_ids and address.boot_timestamp == 0
        ]
        for node_id in removed:
            self.forget(node_id)

    def forget(self, node_id: int) -> None:
        """Forget a node until it announces itself again."""
        self._addresses.pop(node_id, None)
        self._unreachable.pop(node_id, None)

    def nodes_at(self, host: str, port: int) -> list[int]:
        """Ids of the nodes with this address."""
        return [n for n, address in self._addresses.items() if (address.host, address.port) == (host, port)]

    def get(self, node_id: int) -> Address | None:
        return self._addresses.get(node_id)

    def require(self, node_id: int) -> Address:
        """The address of a node in `node_ids()`."""
        return self._addresses[node_id]

    def node_ids(self) -> list[int]:
        """Ids of all nodes with an address, in order."""
        return sorted(self._addresses)

    def mark_reachable(self, node_id: int, reachable: bool) -> None:
        """Record whether the last attempt to connect to the node succeeded."""
        if reachable:
            self._unreachable.pop(node_id, None)
        else:
            self._unreachable[node_id] = True

    def is_reachable(self, node_id: int) -> bool:
        """False only if the last attempt to connect failed: clients are not directed to such a node."""
        return node_id not in self._unreachable


def is_same_place(one: Address, other: Address) -> bool:
    """Whether both addresses lead to the same replica."""
    return (one.host, one.port, one.directory_id) == (other.host, other.port, other.directory_id)


def is_valid(address: Address) -> bool:
    """Whether a connection to the address can be attempted; peers may announce anything."""
    host = address.host
    return (
        0 < len(host) <= MAX_HOST_LENGTH
        and host.isascii()
        and host.isprintable()
        and " " not in host
        and 0 < address.port < 65536
    )
