"""Operators that change who votes, in the middle of everything else."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC
from quorumd.protocol.messages import alter_quorum_request as wire
from quorumd.protocol.wire import Message
from quorumd.simulator.cluster import PORT, Cluster
from quorumd.simulator.event_heap import Process
from quorumd.simulator.workload.link import ClientLink

OPERATOR = "10.0.2.1"


class VoterChange:
    """AlterQuorum at any node: any set of nodes, those of the beginning again, or what runs is cancelled."""

    name = "voter change"

    def available(self, cluster: Cluster) -> bool:
        return bool(cluster.running())

    def inject(self, cluster: Cluster, random: Random) -> None:
        way, nodes = random.random(), list(cluster.machines)
        target: Sequence[int] | None = random.sample(nodes, 1 + random.randrange(len(nodes)))
        if way < 0.2:
            target = None
        elif way < 0.35:
            target = cluster.voters
        cluster.voters_changed = True
        host = random.choice(cluster.running()).host
        link = ClientLink("operator", alter_quorum(target), 0, lambda message: None)
        cluster.network.host(OPERATOR, Process("operator")).connect(host, PORT, link)


def alter_quorum(target: Sequence[int] | None) -> Message:
    voters = None if target is None else [wire.TargetVoter(node_id) for node_id in target]
    topics = [wire.TopicData(METADATA_TOPIC, [wire.PartitionData(METADATA_PARTITION, voters)])]
    return wire.AlterQuorumRequest("", topics)
