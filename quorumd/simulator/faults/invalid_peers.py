"""Invalid requests of a peer, as from a node with a defect: fields out of range, or other partitions than the
metadata log. Each gets an error and has no effect."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Final

from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.node.node import Node
from quorumd.node.wire.fetch_messages import fetch_to_wire, stock_fetch_to_wire
from quorumd.node.wire.quorum_messages import begin_to_wire, end_to_wire, vote_to_wire
from quorumd.node.wire.snapshot_messages import snapshot_request_to_wire
from quorumd.protocol.messages import alter_quorum_request as targets
from quorumd.protocol.messages import describe_quorum_request as quorums
from quorumd.raft.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    FetchRequest,
    SnapshotRequest,
    VoteRequest,
)
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.faults.refused_requests import InvalidRequestFault, Refused

PEER_ID: Final = 951
"""An id that no node, broker or controller has."""
MAX_REQUESTS: Final = 6
MANY_TOPICS: Final = 101
"""More topics than a request of a peer may name."""
BEYOND_ANY_SNAPSHOT: Final = 1 << 40
TOPICS, PARTITIONS, PARTITION_INDEXES = "topics", "partitions", ("partition_index", "partition")
"""Fields of requests."""
VOTE_VERSION, ANNOUNCEMENT_VERSION, FETCH_VERSION, SNAPSHOT_VERSION, DESCRIBE_VERSION = 2, 1, 17, 1, 2


class InvalidPeerRequest(InvalidRequestFault):
    """Requests to one node, each of which is invalid in one way."""

    name = "invalid peer request"
    invariant = "invalid requests of peers are refused"
    client, host = "peer", "10.0.9.2"
    counted_as = name
    closes = True

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        node = machine.node
        if node is None or machine.exiting or machine.starting:
            return
        for _ in range(1 + random.randrange(MAX_REQUESTS)):
            kind = random.choice(_KINDS)
            invalid = kind(random, node, random.choice(_OUT_OF_RANGE))
            if random.random() < 0.4:
                invalid = _of_other_partitions(random, kind(random, node, 0))
            self.send(cluster, machine, invalid)


def _key(random: Random) -> ReplicaKey:
    return ReplicaKey(PEER_ID, KafkaUuid(random.randbytes(16)))


def _vote(random: Random, node: Node, below: int) -> Refused:
    """A vote of a candidate whose id or log is out of range."""
    epoch, key = node.engine.epoch, _key(random)
    last = OffsetAndEpoch(node.log.end_offset, random.choice((below, epoch + 1)) if below else 0)
    if below and random.random() < 0.5:
        key, last = ReplicaKey(below, key.directory_id), OffsetAndEpoch(0, 0)
    request = VoteRequest(epoch, key, ReplicaKey(node.settings.node_id), last, random.random() < 0.5)
    version = VOTE_VERSION - (not request.pre_vote and random.random() < 0.3)
    return Refused(vote_to_wire(request, None, version), version)


def _begin(random: Random, node: Node, below: int) -> Refused:
    """The announcement of a leader whose id or epoch is out of range."""
    leader_id, epoch = random.choice(((below or PEER_ID, node.engine.epoch), (PEER_ID, below)))
    request = BeginEpochRequest(leader_id, epoch, ReplicaKey(node.settings.node_id), (), 0)
    return Refused(begin_to_wire(request, None, ANNOUNCEMENT_VERSION), ANNOUNCEMENT_VERSION)


def _end(random: Random, node: Node, below: int) -> Refused:
    """The resignation of a leader whose id or epoch is out of range."""
    leader_id, epoch = random.choice(((below or PEER_ID, node.engine.epoch), (PEER_ID, below)))
    request = EndEpochRequest(leader_id, epoch, leader_id, ())
    version = ANNOUNCEMENT_VERSION - (random.random() < 0.3)
    return Refused(end_to_wire(request, None, version, ()), version)


def _fetch(random: Random, node: Node, below: int) -> Refused:
    """A fetch from below the first offset, or of an epoch after that of the fetcher."""
    epoch = node.engine.epoch
    offset, last_epoch = random.choice(((below, 0), (node.log.end_offset, epoch + 1)))
    request = FetchRequest(
        _key(random), epoch, offset, last_epoch, 500, 100_000, is_follower=True, read_round=0
    )  # fmt: skip
    if below and node.settings.private_apis and random.random() < 0.5:
        return Refused(fetch_to_wire(request, None), 0)
    return Refused(stock_fetch_to_wire(request, None, FETCH_VERSION), FETCH_VERSION)


def _snapshot(random: Random, node: Node, below: int) -> Refused:
    """A fetch from before the start or after the end of a snapshot."""
    snapshot = node.log.snapshots.latest or OffsetAndEpoch(1, 1)
    position = random.choice((below, BEYOND_ANY_SNAPSHOT)) if below else 0
    request = SnapshotRequest(_key(random), node.engine.epoch, snapshot, position, 1000)
    version = SNAPSHOT_VERSION - (random.random() < 0.3)
    return Refused(snapshot_request_to_wire(request, None, version), version)


def _of_other_partitions(random: Random, valid: Refused) -> Refused:
    """The same request for a partition or topic that does not exist, or for several."""
    message = deepcopy(valid.request)
    topics = getattr(message, TOPICS)
    partitions = getattr(topics[0], PARTITIONS)
    way = random.randrange(4)
    if way == 0:
        partitions += partitions
    elif way == 1:
        topics += topics
    elif way == 2:
        topics *= MANY_TOPICS
    else:
        for name in PARTITION_INDEXES:
            if hasattr(partitions[0], name):
                setattr(partitions[0], name, 7)
    return Refused(message, valid.version)


def _describe(random: Random, node: Node, below: int) -> Refused:
    """A description of a partition that does not exist."""
    topic = quorums.TopicData(METADATA_TOPIC, [quorums.PartitionData(below or 7)])
    return Refused(quorums.DescribeQuorumRequest([topic]), DESCRIBE_VERSION)


def _target(random: Random, node: Node, below: int) -> Refused:
    """Target voters of a partition that does not exist."""
    topic = targets.TopicData(METADATA_TOPIC, [targets.PartitionData(below or METADATA_PARTITION + 7, None)])
    return Refused(targets.AlterQuorumRequest("", [topic]), 0)


_OUT_OF_RANGE: Final = (-1, -2, -(1 << 31))
_KINDS: Final[tuple[Callable[[Random, Node, int], Refused], ...]] = (
    _vote, _begin, _end, _fetch, _snapshot, _describe, _target
)  # fmt: skip
