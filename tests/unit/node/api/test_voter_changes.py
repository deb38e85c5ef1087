"""Voter changes through all layers of whole nodes, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, ZERO_UUID, KafkaUuid
from quorumd.node.node import Node
from quorumd.protocol.messages import add_raft_voter_request as add
from quorumd.protocol.messages import alter_quorum_request as alter
from quorumd.protocol.messages import describe_quorum_request
from quorumd.protocol.messages import update_raft_voter_request as update
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from tests.support.node.nodes import PORT, Client, Cluster, host_of


def start_observers(cluster: Cluster, *node_ids: int) -> None:
    """Start nodes that know only node 1, and wait until they fetch from the leader."""
    for node_id in node_ids:
        cluster.format(node_id)
        cluster.start_node(
            node_id,
            voter_addresses=(),
            bootstrap_servers=((host_of(1), PORT),),
            bootstrap_voters=(),
        )
    cluster.leader()
    client = cluster.client()
    while not set(node_ids) <= {observer.replica_id for observer in describe(client).observers}:
        cluster.run(50)


def description() -> Any:
    wire = describe_quorum_request
    return wire.DescribeQuorumRequest([wire.TopicData(METADATA_TOPIC, [wire.PartitionData(0)])])


def describe(client: Client) -> Any:
    (partition,) = client.request(description(), 2).topics[0].partitions
    return partition


def set_target(*ids: int) -> Any:
    targets = [alter.TargetVoter(node_id) for node_id in ids] or None
    return alter.AlterQuorumRequest("", [alter.TopicData(METADATA_TOPIC, [alter.PartitionData(0, targets)])])


def error_of(response: Any) -> int:
    error: int = response.topics[0].partitions[0].error_code
    return error


def voters_of(node: Node) -> tuple[int, ...]:
    return node.engine.voters.current.ids


def key_of(node_id: int) -> tuple[int, KafkaUuid]:
    """Return the id and the directory id with which the simulated disks are formatted."""
    return node_id, KafkaUuid(bytes(15) + bytes([64 + node_id]))


def add_voter(node_id: int, host: str = "") -> Any:
    listeners = [add.Listener("CONTROLLER", host or host_of(node_id), PORT)]
    return add.AddRaftVoterRequest(None, 3000, *key_of(node_id), listeners)


@pytest.mark.parametrize("node_id", [1, 2])
def test_quorum_grows_to_its_target(node_id: int) -> None:
    cluster = Cluster(1).start()
    start_observers(cluster, 2, 3)
    client = cluster.client(node_id)
    assert error_of(client.request(set_target(1, 2, 3), 0)) == 0
    cluster.run_until(lambda: {voters_of(node) for node in cluster.nodes.values()} == {(1, 2, 3)})
    described = describe(client)
    assert [voter.replica_id for voter in described.current_voters] == [1, 2, 3]
    assert (described.target_voters, described.observers) == (None, [])
    assert all(voter.replica_directory_id != ZERO_UUID for voter in described.current_voters)


def test_pending_target_is_described_and_can_be_cancelled() -> None:
    cluster = Cluster(1).start()
    start_observers(cluster, 2, 3)
    cluster.kill(3)
    cluster.run(5000)
    client = cluster.client()
    assert error_of(client.request(set_target(1, 2, 3), 0)) == 0
    cluster.run_until(lambda: voters_of(cluster.leader()) == (1, 2))
    described = describe(client)
    assert [target.voter_id for target in described.target_voters] == [1, 2, 3]
    assert [observer.replica_id for observer in described.observers] == [3]
    assert error_of(client.request(set_target(), 0)) == 0
    assert describe(client).target_voters is None
    assert voters_of(cluster.leader()) == (1, 2)


def test_invalid_target_is_rejected_with_a_message() -> None:
    cluster = Cluster(1).start()
    cluster.leader()
    (partition,) = cluster.client().request(set_target(1, 7), 0).topics[0].partitions
    assert partition.error_code == ErrorCode.INVALID_REQUEST
    assert "[7]" in partition.error_message


@pytest.mark.parametrize("node_id", [1, 2])
def test_voter_is_added_and_removed(node_id: int) -> None:
    cluster = Cluster(1).start()
    start_observers(cluster, 2)
    client = cluster.client(node_id)
    assert client.request(add_voter(2), 1).error_code == 0
    assert voters_of(cluster.leader()) == (1, 2)
    assert client.request(add_voter(2), 1).error_code == ErrorCode.DUPLICATE_VOTER
    remove = RemoveRaftVoterRequest(None, *key_of(2))
    assert client.request(remove, 0).error_code == 0
    assert voters_of(cluster.leader()) == (1,)
    assert client.request(remove, 0).error_code == ErrorCode.VOTER_NOT_FOUND


def test_voter_at_a_wrong_address_is_not_added() -> None:
    cluster = Cluster(1).start()
    start_observers(cluster, 2)
    response = cluster.client().request(add_voter(2, host="10.0.0.99"), 1)
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert voters_of(cluster.leader()) == (1,)


def test_voter_updates_its_address() -> None:
    cluster = Cluster(3).start()
    leader, follower = cluster.leader(), cluster.follower()
    moved = update.UpdateRaftVoterRequest(
        None,
        leader.engine.epoch,
        *key_of(follower.settings.node_id),
        [update.Listener("CONTROLLER", "10.0.0.77", PORT)],
        update.KRaftVersionFeature(0, 1),
    )
    client = cluster.client(leader.settings.node_id)
    response = client.request(moved, 0)
    assert (response.error_code, response.current_leader.leader_id) == (0, leader.settings.node_id)
    moved.current_leader_epoch -= 1
    assert client.request(moved, 0).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_requests_to_a_removed_leader_are_served_by_its_successor() -> None:
    """Including requests before the commit of the removal: stock tools expect the leader among the voters."""
    cluster = Cluster(3).start()
    leader_id = cluster.leader().settings.node_id
    client = cluster.client(leader_id)
    client.send(RemoveRaftVoterRequest(None, *key_of(leader_id)), 0)
    client.send(description(), 2)
    cluster.run_until(lambda: len(client.responses) == 2)
    assert client.responses[0].error_code == 0
    partition = client.responses[1].topics[0].partitions[0]
    assert partition.error_code == 0
    assert partition.leader_id != leader_id
    assert partition.leader_id in [voter.replica_id for voter in partition.current_voters]
