"""Whole nodes change their voters: the requests from the wire to the log and back, in virtual time."""

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


def grown(cluster: Cluster, *newcomers: int) -> None:
    """Nodes that know the first one and nothing else, once they fetch from the leader."""
    for node_id in newcomers:
        cluster.format(node_id)
        cluster.start_node(
            node_id,
            voter_addresses=(),
            bootstrap_servers=((host_of(1), PORT),),
            bootstrap_voters=(),
        )
    cluster.leader()
    client = cluster.client()
    while not set(newcomers) <= {observer.replica_id for observer in describe(client).observers}:
        cluster.run(50)


def description() -> Any:
    wire = describe_quorum_request
    return wire.DescribeQuorumRequest([wire.TopicData(METADATA_TOPIC, [wire.PartitionData(0)])])


def describe(client: Client) -> Any:
    (partition,) = client.ask(description(), 2).topics[0].partitions
    return partition


def set_target(*ids: int) -> Any:
    targets = [alter.TargetVoter(node_id) for node_id in ids] or None
    return alter.AlterQuorumRequest("", [alter.TopicData(METADATA_TOPIC, [alter.PartitionData(0, targets)])])


def error_of(answer: Any) -> int:
    error: int = answer.topics[0].partitions[0].error_code
    return error


def voters_of(node: Node) -> tuple[int, ...]:
    return node.engine.voters.current.ids


def key_of(node_id: int) -> tuple[int, KafkaUuid]:
    """As the folders of the simulated machines are formatted."""
    return node_id, KafkaUuid(bytes(15) + bytes([64 + node_id]))


def added(node_id: int, host: str = "") -> Any:
    listeners = [add.Listener("CONTROLLER", host or host_of(node_id), PORT)]
    return add.AddRaftVoterRequest(None, 3000, *key_of(node_id), listeners)


@pytest.mark.parametrize("asked", [1, 2])
def test_a_quorum_grows_to_its_target_whoever_is_asked(asked: int) -> None:
    cluster = Cluster(1).start()
    grown(cluster, 2, 3)
    client = cluster.client(asked)
    assert error_of(client.ask(set_target(1, 2, 3), 0)) == 0
    cluster.run_until(lambda: {voters_of(node) for node in cluster.nodes.values()} == {(1, 2, 3)})
    told = describe(client)
    assert [voter.replica_id for voter in told.current_voters] == [1, 2, 3]
    assert (told.target_voters, told.observers) == (None, [])
    assert all(voter.replica_directory_id != ZERO_UUID for voter in told.current_voters)


def test_a_target_that_is_not_there_yet_is_described_and_cancelled() -> None:
    cluster = Cluster(1).start()
    grown(cluster, 2, 3)
    cluster.kill(3)
    cluster.run(5000)
    client = cluster.client()
    assert error_of(client.ask(set_target(1, 2, 3), 0)) == 0
    cluster.run_until(lambda: voters_of(cluster.leader()) == (1, 2))
    told = describe(client)
    assert [target.voter_id for target in told.target_voters] == [1, 2, 3]
    assert [observer.replica_id for observer in told.observers] == [3]
    assert error_of(client.ask(set_target(), 0)) == 0
    assert describe(client).target_voters is None
    assert voters_of(cluster.leader()) == (1, 2)


def test_a_target_that_cannot_be_is_told_why() -> None:
    cluster = Cluster(1).start()
    cluster.leader()
    (partition,) = cluster.client().ask(set_target(1, 7), 0).topics[0].partitions
    assert partition.error_code == ErrorCode.INVALID_REQUEST
    assert "[7]" in partition.error_message


@pytest.mark.parametrize("asked", [1, 2])
def test_a_voter_is_added_and_removed_by_name(asked: int) -> None:
    cluster = Cluster(1).start()
    grown(cluster, 2)
    client = cluster.client(asked)
    assert client.ask(added(2), 1).error_code == 0
    assert voters_of(cluster.leader()) == (1, 2)
    assert client.ask(added(2), 1).error_code == ErrorCode.DUPLICATE_VOTER
    remove = RemoveRaftVoterRequest(None, *key_of(2))
    assert client.ask(remove, 0).error_code == 0
    assert voters_of(cluster.leader()) == (1,)
    assert client.ask(remove, 0).error_code == ErrorCode.VOTER_NOT_FOUND


def test_a_voter_that_is_not_where_it_is_said_to_be_is_not_added() -> None:
    cluster = Cluster(1).start()
    grown(cluster, 2)
    answer = cluster.client().ask(added(2, host="10.0.0.99"), 1)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert voters_of(cluster.leader()) == (1,)


def test_a_voter_says_where_it_is_now() -> None:
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
    answer = client.ask(moved, 0)
    assert (answer.error_code, answer.current_leader.leader_id) == (0, leader.settings.node_id)
    moved.current_leader_epoch -= 1
    assert client.ask(moved, 0).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_leader_that_is_removed_leaves_clients_to_its_successor() -> None:
    """Also those that ask before the removal is committed: stock tools look for the leader among the voters."""
    cluster = Cluster(3).start()
    leader_id = cluster.leader().settings.node_id
    client = cluster.client(leader_id)
    client.send(RemoveRaftVoterRequest(None, *key_of(leader_id)), 0)
    client.send(description(), 2)
    cluster.run_until(lambda: len(client.answers) == 2)
    assert client.answers[0].error_code == 0
    partition = client.answers[1].topics[0].partitions[0]
    assert partition.error_code == 0
    assert partition.leader_id != leader_id
    assert partition.leader_id in [voter.replica_id for voter in partition.current_voters]
