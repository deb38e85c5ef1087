"""Requests of a stranger in a newer epoch, up to the largest possible one, which has no successor."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorumd.ids import METADATA_TOPIC, ZERO_UUID
from quorumd.protocol.messages import begin_quorum_epoch_request, end_quorum_epoch_request, vote_request
from quorumd.protocol.wire import Message
from quorumd.raft.replica import MAX_EPOCH
from tests.support.node.nodes import Cluster


def vote(epoch: int, pre_vote: bool) -> Message:
    wire = vote_request
    partition = wire.PartitionData(0, epoch, 9, pre_vote=pre_vote)
    return wire.VoteRequest(None, 1, [wire.TopicData(METADATA_TOPIC, [partition])])


def begin(epoch: int) -> Message:
    wire = begin_quorum_epoch_request
    partition = wire.PartitionData(0, ZERO_UUID, 9, epoch)
    return wire.BeginQuorumEpochRequest(None, -1, [wire.TopicData(METADATA_TOPIC, [partition])])


def end(epoch: int) -> Message:
    wire = end_quorum_epoch_request
    partition = wire.PartitionData(0, 2, epoch)
    return wire.EndQuorumEpochRequest(None, [wire.TopicData(METADATA_TOPIC, [partition])])


MESSAGES: dict[str, tuple[Callable[[int], Message], int]] = {
    "vote": (lambda epoch: vote(epoch, False), 2),
    "pre-vote": (lambda epoch: vote(epoch, True), 2),
    "begin": (begin, 1),
    "end": (end, 1),
}


@pytest.mark.parametrize("voters", [1, 3])
@pytest.mark.parametrize("epoch", [6, MAX_EPOCH - 1, MAX_EPOCH])
@pytest.mark.parametrize("name", MESSAGES)
def test_stranger_with_a_newer_epoch_stops_neither_node_nor_leader(
    name: str, epoch: int, voters: int
) -> None:
    make, version = MESSAGES[name]
    cluster = Cluster(voters).start()
    leader = cluster.leader()
    cluster.client(leader.settings.node_id).request(make(epoch), version)
    before = leader.engine.epoch
    cluster.run(30_000)
    assert not cluster.exits
    assert len(cluster.nodes) == voters
    assert (cluster.leader(), leader.engine.epoch) == (leader, before)
