"""Faults of nodes with the broker role."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final

from quorumd.protocol.apis import ApiKey
from quorumd.simulator.brokers.cluster_view import ObservedBroker
from quorumd.simulator.brokers.nodes.fleet import BrokerNodes
from quorumd.simulator.brokers.replica import Proposal
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.stream import Side
from quorumd.simulator.faults.links import DelayedConnection, block_for

LONGEST_REQUEST_MS: Final = 40.0
"""Longest time from a proposal until its connection breaks."""


def has_sent(side: Side, api_key: int) -> bool:
    """Whether one of the last requests over this connection has this API key."""
    return any(int.from_bytes(data[4:6]) == api_key for data in side.remembered)


class LateMetadata(DelayedConnection):
    """A broker fetches the metadata log over a slow connection, while the controller responds to it at once: it acts
    on a response before, and on old metadata long after, the change is committed (races R6 and R12)."""

    name = "late metadata"
    delays_ms = (50.0, 200.0, 1000.0)

    def available(self, cluster: Cluster) -> bool:
        return cluster.broker_nodes is not None and super().available(cluster)

    def is_candidate(self, side: Side) -> bool:
        return has_sent(side, ApiKey.FETCH_QUORUM_RECORDS)


class LostIsrResponse:
    """The response to the next proposal that adds a replica to an ISR does not arrive, nor does the metadata, for a
    while; another member may crash meanwhile (races R6, R14 and R26).

    Either nothing arrives from the controllers, or only the metadata is late, and the connection of the proposal
    breaks, so that it is sent again."""

    name = "lost ISR response"

    def available(self, cluster: Cluster) -> bool:
        return cluster.broker_nodes is not None

    def inject(self, cluster: Cluster, random: Random) -> None:
        assert cluster.broker_nodes is not None
        proposed = partial(self._proposed, cluster, cluster.broker_nodes, random)
        cluster.broker_nodes.observation.on_proposal = proposed

    def _proposed(
        self,
        cluster: Cluster,
        brokers: BrokerNodes,
        random: Random,
        leader: ObservedBroker,
        proposal: Proposal,
    ) -> None:
        replica = leader.replicas[proposal.where]
        joining = [member for member in proposal.members if member not in replica.isr]
        # With an ISR below the minimum nothing is committed, so nothing can be lost.
        if not joining or len(replica.isr) < replica.min_isr:
            return
        brokers.observation.on_proposal = lambda broker, proposal: None
        cluster.counters["ISR responses lost"] += 1
        own = cluster.machines[leader.id].host
        duration_ms = brokers.options.session_timeout_ms * random.uniform(0.5, 2.5)
        if random.random() < 0.5:
            controllers = [cluster.machines[voter].host for voter in cluster.voters]
            block_for(cluster, [(host, own) for host in controllers if host != own], duration_ms)
        else:
            for side in cluster.network.links:
                if side.host == own and has_sent(side, ApiKey.FETCH_QUORUM_RECORDS):
                    side.far.stream.delay_ms = duration_ms
            lose = partial(self._break_connection, cluster, own)
            cluster.heap.call_later(random.uniform(1.0, LONGEST_REQUEST_MS), lose, b"lost response")
        others = [member for member in replica.isr if member not in (leader.id, *joining)]
        if others and random.random() < 0.5:
            victim = random.choice(others)
            cluster.kill(victim)
            cluster.restart_later(victim)

    def _break_connection(self, cluster: Cluster, host: str) -> None:
        for side in list(cluster.network.links):
            if side.host == host and has_sent(side, ApiKey.ALTER_PARTITION):
                cluster.network.break_link(side)
