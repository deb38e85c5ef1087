"""The discovery of a node as its other parts use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from quorumd.ids import Endpoint
from quorumd.node.peers.address_book import Address
from quorumd.raft.messages import BeginEpochRequest
from quorumd.raft.voters import Voter

LISTENER = "CONTROLLER"


@dataclass
class ScriptedDiscovery:
    """Nodes 1 to 4 are known by address; nodes in `unreachable` cannot be reached. Records what it learns."""

    known: dict[int, Address] = field(
        default_factory=lambda: {node_id: Address(f"host-{node_id}", 9092) for node_id in (1, 2, 3, 4)}
    )
    unreachable: tuple[int, ...] = ()
    own_id: int = 2
    own_boot_timestamp: int = 77
    learned_addresses: list[tuple[int, Address]] = field(default_factory=list)
    learned_leaders: list[tuple[BeginEpochRequest, int]] = field(default_factory=list)
    learned_voters: list[Sequence[Voter]] = field(default_factory=list)
    truncations: list[int] = field(default_factory=list)
    """The end offsets to which the log was truncated."""
    reachable: list[tuple[int, bool]] = field(default_factory=list)
    """Nodes that were marked, and whether they were reachable."""

    def addresses(self) -> list[tuple[int, Address]]:
        return sorted(self.known.items())

    def address_of(self, node_id: int) -> Address | None:
        return self.known.get(node_id)

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        address = self.known.get(node_id)
        return None if address is None else Endpoint(LISTENER, address.host, address.port)

    def is_reachable(self, node_id: int) -> bool:
        return node_id not in self.unreachable

    def mark_reachable(self, node_id: int, reachable: bool) -> None:
        self.reachable.append((node_id, reachable))
        others = tuple(other for other in self.unreachable if other != node_id)
        self.unreachable = others if reachable else (*others, node_id)

    def learn(self, node_id: int, address: Address) -> None:
        self.learned_addresses.append((node_id, address))

    def learn_leader(self, announced: BeginEpochRequest, end_offset: int) -> None:
        self.learned_leaders.append((announced, end_offset))

    def learn_voters(self, voters: Sequence[Voter], offset: int) -> None:
        del offset
        self.learned_voters.append(voters)

    def log_truncated(self, end_offset: int) -> None:
        self.truncations.append(end_offset)
