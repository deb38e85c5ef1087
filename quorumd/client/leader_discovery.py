"""Which node of a cluster to contact next, and when: its leader as its nodes reported it, and waits before retries.

The asyncio `ClusterClient` and the blocking `Observer` of the pipeline share these decisions, each with its own I/O.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from quorumd.client.backoff import backoff_ms
from quorumd.errors import ErrorCode, RequestFailed

Address = tuple[str, int]

RETRY_BACKOFF_MS = 50
RETRY_BACKOFF_MAX_MS = 1_000
"""Kafka's retry.backoff.max.ms; its retry.backoff.ms of 100 is longer than an election takes here."""

NODE_ERRORS: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.KAFKA_STORAGE_ERROR}
)
"""Errors of any API that may not occur at another node, or later. Clients add errors of the APIs that they use."""


class NodeAddress(NamedTuple):
    """A node and where it listens."""

    id: int
    host: str
    port: int

    @property
    def address(self) -> Address:
        return self.host, self.port


class LeaderDiscovery:
    """The bootstrap addresses of a cluster, and its nodes and leader in the last responses."""

    def __init__(self, bootstrap: Sequence[Address], first: int = 0) -> None:
        """`first` is the index of the bootstrap address to begin with."""
        if not bootstrap:
            raise ValueError("expected one or more bootstrap addresses")
        self._bootstrap = tuple(bootstrap)
        self._next = first
        self.nodes: tuple[NodeAddress, ...] = ()
        self.leader: NodeAddress | None = None

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The bootstrap addresses, then the addresses of the nodes."""
        return tuple(dict.fromkeys((*self._bootstrap, *(node.address for node in self.nodes))))

    @property
    def next_address(self) -> Address:
        """The address to contact if any node will do, another one after every failure."""
        addresses = self.addresses
        return addresses[self._next % len(addresses)]

    def node(self, node_id: int) -> NodeAddress | None:
        """The node with an id, None if it is unknown."""
        return next((node for node in self.nodes if node.id == node_id), None)

    def on_failure(self, node_id: int | None = None) -> None:
        """Use another node next time, and look up the leader and the failed node again."""
        self._next += 1
        self.leader = None
        self.nodes = tuple(node for node in self.nodes if node.id != node_id)


class Retries:
    """The attempts of one call, which share a deadline, with exponential backoff (KIP-580)."""

    def __init__(self, what: str, timeout_s: float, now_s: float) -> None:
        self._what = what
        self._timeout_s = timeout_s
        self._deadline_s = now_s + timeout_s
        self._last = RequestFailed("no node responded")
        self.failures = 0

    def wait_s(self, failure: RequestFailed, now_s: float, *, leader_is_known: bool = False) -> float:
        """Return the wait after a failed attempt; none after the first one if its response named the leader.

        Raises RequestFailed if the deadline comes first.
        """
        self._last = failure
        wait_s = backoff_ms(self.failures, RETRY_BACKOFF_MS, RETRY_BACKOFF_MAX_MS, random.random()) / 1000
        self.failures += 1
        if leader_is_known and self.failures == 1:
            return 0.0
        if now_s + wait_s > self._deadline_s:
            raise self.expired() from None
        return wait_s

    def expired(self) -> RequestFailed:
        """The error of a call that did not succeed before the deadline."""
        return RequestFailed(
            f"{self._what} did not succeed within {self._timeout_s:g} s; last error: {self._last}",
            self._last.error_code,
        )
