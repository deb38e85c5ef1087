"""Faults of nodes with the broker role."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final

from quorumd.broker.api.topic_messages import INTERNAL_TOPICS
from quorumd.broker.replication.isr_proposal import IsrProposal
from quorumd.controller.cluster_image import MIN_INSYNC_REPLICAS
from quorumd.log.directory_lock import lock_directory
from quorumd.log.meta_properties import load_meta_properties, save_meta_properties
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.cluster_view import ObservedBroker
from quorumd.simulator.brokers.nodes.fleet import BrokerNodes
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import DATA_DIRECTORY, expect_refusal
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.environment.stream import Side
from quorumd.simulator.faults.base import undisturbed
from quorumd.simulator.faults.links import DelayedConnection, block_for
from quorumd.simulator.workload.request_connection import RequestConnection

LONGEST_REQUEST_MS: Final = 40.0
"""The longest time from a proposal until its connection breaks."""
OPERATOR_HOST: Final = "10.0.9.1"
LONGEST_UNFLUSHED_MS: Final = 10.0
"""Longest time from a move until the power loss."""
HELD_MS: Final = (20.0, 200.0)
"""Delay of a proposal during which an operator changes a config."""


def has_sent(side: Side, api_key: int) -> bool:
    """Whether one of the last requests over this connection has this API key."""
    return any(int.from_bytes(data[4:6]) == api_key for data in side.remembered)


class LateMetadata(DelayedConnection):
    """A broker fetches the metadata log over a slow connection, while the controller responds to its requests at
    once. It acts on a response before it has the committed change, and on old metadata long after (races R6 and
    R12)."""

    name = "late metadata"
    delays_ms = (50.0, 200.0, 1000.0)

    def available(self, cluster: Cluster) -> bool:
        return cluster.broker_nodes is not None and super().available(cluster)

    def is_candidate(self, side: Side) -> bool:
        return has_sent(side, ApiKey.FETCH_QUORUM_RECORDS)


class LostIsrResponse:
    """For a while, the leader receives neither the response to its next proposal that adds a replica to an ISR, nor
    the metadata; another member may crash in the meantime (races R6, R14 and R26).

    Either nothing arrives from the controllers, or only the metadata is late and the connection of the proposal
    breaks, so that the proposal is sent again.
    """

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
        proposal: IsrProposal,
    ) -> None:
        replica = leader.replicas[proposal.partition]
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


class PowerLossAfterMove:
    """A broker loses power just after a replica has moved to another log directory. Half of the time it does so only
    after a move that left unflushed records in the new log."""

    name = "power loss after a move"

    def available(self, cluster: Cluster) -> bool:
        return cluster.broker_nodes is not None and cluster.options.brokers.moves_ms > 0

    def inject(self, cluster: Cluster, random: Random) -> None:
        assert cluster.broker_nodes is not None
        moved = partial(self._moved, cluster, cluster.broker_nodes, random, random.random() < 0.5)
        cluster.broker_nodes.observation.on_move = moved

    def _moved(
        self,
        cluster: Cluster,
        brokers: BrokerNodes,
        random: Random,
        after_any: bool,
        broker_id: int,
        is_flushed: bool,
    ) -> None:
        if is_flushed and not after_any:
            return
        brokers.observation.on_move = lambda broker_id, is_flushed: None
        delay_ms = random.random() * LONGEST_UNFLUSHED_MS
        cluster.heap.call_later(delay_ms, partial(self._lose_power, cluster, broker_id), b"power loss")

    def _lose_power(self, cluster: Cluster, broker_id: int) -> None:
        if cluster.is_repaired:
            return
        cluster.counters["power losses after moves"] += 1
        cluster.lose_power(broker_id)
        cluster.restart_later(broker_id)


class RefusedDirectory:
    """A node is started while another process has locked one of its log directories for partitions, or with that of
    another cluster. It must refuse, and continues with its own directories."""

    name = "refused directory"

    def available(self, cluster: Cluster) -> bool:
        return bool(_brokers(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine = random.choice(_brokers(cluster))
        cluster.kill(machine.node_id)
        path, disk = random.choice(list(machine.log_directories)), machine.disk
        node_meta, meta = load_meta_properties(disk, DATA_DIRECTORY), load_meta_properties(disk, path)
        cluster.restart_later(machine.node_id)
        if node_meta is None or node_meta.cluster_id is None or meta is None:
            return
        foreign = meta._replace(cluster_id="another cluster")
        edits = (
            partial(lock_directory, disk, path),
            partial(save_meta_properties, disk, path, foreign),
        )
        way = random.randrange(2)
        mistake = f"{path} is {('locked', 'of another cluster')[way]}"
        why = "that others use"
        expect_refusal(
            cluster, machine, disk.copy(), mistake, edits[way], why, lambda name: name.startswith(path)
        )


def _brokers(cluster: Cluster) -> list[Machine]:
    return [machine for machine in undisturbed(cluster) if machine.log_directories]


class RaisedMinIsr:
    """min.insync.replicas rises while the next proposal to shrink an ISR is on its way, and the metadata reaches the
    leader long after the response: the removed replica stays eligible, which the leader does not know (KIP-966)."""

    name = "raised min.insync.replicas"

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
        proposal: IsrProposal,
    ) -> None:
        replica, own = leader.replicas[proposal.partition], cluster.machines[leader.id].host
        topic = brokers.observation.view.image.topics.get(proposal.partition.topic_id)
        hosts = [cluster.machines[voter].host for voter in cluster.voters]
        if topic is None or topic.name in INTERNAL_TOPICS or own in hosts:
            return
        # A leader that commits nothing with the smaller ISR has nothing to lose.
        if not replica.min_isr <= len(proposal.members) < len(replica.isr):
            return
        brokers.observation.on_proposal = lambda broker, proposal: None
        cluster.counters["minimal ISRs raised"] += 1
        held_ms = random.uniform(*HELD_MS)
        block_for(cluster, [(own, host) for host in hosts], held_ms)
        for side in cluster.network.links:
            if side.host == own and has_sent(side, ApiKey.FETCH_QUORUM_RECORDS):
                side.far.stream.delay_ms = 3 * held_ms
        self._raise(cluster, brokers, topic.name, len(proposal.members) + 1)

    def _raise(self, cluster: Cluster, brokers: BrokerNodes, topic: str, least: int) -> None:
        config = AlterableConfig(MIN_INSYNC_REPLICAS, 0, str(least))
        resource = AlterConfigsResource(int(ConfigResourceType.TOPIC), topic, [config])
        request = IncrementalAlterConfigsRequest([resource])

        def responded(message: Message | None) -> None:
            link.abandon()
            brokers.observation.admin_request_completed(request, message)

        brokers.observation.admin_request_sent(request)
        link = RequestConnection("operator", request, 1, responded)
        network = cluster.network.host(OPERATOR_HOST, Process("operator"))
        leader = next((m for m in cluster.running() if m.node is not None and m.node.engine.is_leader), None)
        controller = leader or cluster.machines[cluster.voters[0]]
        network.connect(controller.host, controller.port, link)
