"""Faults of nodes with the broker role."""

from __future__ import annotations

from functools import partial
from random import Random

from quorumd.simulator.brokers.cluster_view import ObservedBroker
from quorumd.simulator.brokers.nodes.fleet import BrokerNodes
from quorumd.simulator.brokers.replica import Proposal
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.faults.links import block_for


class LostIsrResponse:
    """The response to the next proposal that adds a replica to an ISR does not arrive, nor does the metadata, for a
    while; another member may crash meanwhile (races R6, R14 and R26)."""

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
        controllers = [cluster.machines[voter].host for voter in cluster.voters]
        duration_ms = brokers.options.session_timeout_ms * random.uniform(0.5, 2.5)
        block_for(cluster, [(host, own) for host in controllers if host != own], duration_ms)
        others = [member for member in replica.isr if member not in (leader.id, *joining)]
        if others and random.random() < 0.5:
            victim = random.choice(others)
            cluster.kill(victim)
            cluster.restart_later(victim)
