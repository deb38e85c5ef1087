"""Nodes that become voters automatically (KIP-1186)."""

from __future__ import annotations

from typing import Any

from quorumd.ids import Endpoint, KafkaUuid, ReplicaKey
from quorumd.node.membership.auto_join import AutoJoin
from quorumd.node.node import Node
from quorumd.node.peers.connection import Failure
from tests.support.node.nodes import PORT, Cluster, directory_of, host_of
from tests.support.node.parts import NodeParts
from tests.support.node.scripted_engine import ScriptedEngine, voters_of


def voters(node: Node) -> list[tuple[int, int]]:
    """Voter ids with the number of the directory that is the voter."""
    found = []
    for key in (voter.key for voter in node.engine.voters.current.voters):
        number = next(
            number for number in range(3) if key == ReplicaKey(key.id, directory_of(key.id, number))
        )
        found.append((key.id, number))
    return found


def add_observer(cluster: Cluster, node_id: int, **settings: Any) -> None:
    cluster.format(node_id, directory_number=0)
    cluster.start_node(node_id, bootstrap_voters=(), bootstrap_servers=((host_of(1), PORT),), **settings)


def replace_disk(cluster: Cluster, node_id: int, **settings: Any) -> None:
    cluster.kill(node_id)
    cluster.format(node_id, directory_number=1)
    cluster.start_node(
        node_id, bootstrap_voters=(), bootstrap_servers=((host_of(1), PORT), (host_of(2), PORT)), **settings
    )


def test_observer_becomes_a_voter() -> None:
    cluster = Cluster(1).start()
    cluster.leader()
    add_observer(cluster, 2, auto_join=True)
    cluster.run_until(lambda: voters(cluster.leader()) == [(1, 0), (2, 0)])
    cluster.run_until(lambda: cluster.nodes[2].engine.is_voter)


def test_observer_without_auto_join_stays_an_observer() -> None:
    cluster = Cluster(1).start()
    cluster.leader()
    add_observer(cluster, 2)
    cluster.run(20_000)
    assert voters(cluster.leader()) == [(1, 0)]


def test_several_observers_join_one_after_the_other() -> None:
    cluster = Cluster(1).start()
    cluster.leader()
    for node_id in (2, 3, 4):
        add_observer(cluster, node_id, auto_join=True)
    cluster.run_until(lambda: len(voters(cluster.leader())) == 4, limit_ms=60_000)


def test_replacement_disk_takes_over_the_vote_of_the_old_one() -> None:
    """By two voter changes that the other voters commit; until then it has no vote."""
    cluster = Cluster(3).start()
    lost = cluster.follower().settings.node_id
    others = [(node_id, 0) for node_id in (1, 2, 3) if node_id != lost]
    replace_disk(cluster, lost, auto_join=True)
    cluster.run_until(lambda: voters(cluster.leader()) == others)
    assert not cluster.nodes[lost].engine.is_voter
    cluster.run_until(lambda: voters(cluster.leader()) == sorted([*others, (lost, 1)]))


def test_replacement_disk_without_auto_join_has_no_vote() -> None:
    cluster = Cluster(3).start()
    lost = cluster.follower().settings.node_id
    replace_disk(cluster, lost)
    cluster.run(20_000)
    assert voters(cluster.leader()) == [(1, 0), (2, 0), (3, 0)]
    assert not cluster.nodes[lost].engine.is_voter


def test_voter_sends_no_request() -> None:
    cluster = Cluster(3, auto_join=True).start()
    cluster.leader()
    cluster.run(1000)
    offset = cluster.leader().engine.voters_offset
    cluster.run(20_000)
    assert cluster.leader().engine.voters_offset == offset


class AutoJoinHarness(NodeParts):
    """Auto join of node 2, an observer of leader 1."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = ScriptedEngine(is_leader=False, is_voter=False, voters=voters_of(1))
        quorum = self.quorum(own=ReplicaKey(2, KafkaUuid(b"a new directory.")))
        self.auto_join = AutoJoin(self.basics, quorum, self.call_leader)

    def update(self) -> int:
        self.auto_join.update(Endpoint("CONTROLLER", "me", 9092))
        return len(self.leader_calls)


def test_one_request_is_sent_at_a_time() -> None:
    harness = AutoJoinHarness()
    assert harness.update() == 1
    harness.time.pass_ms(60_000)
    assert harness.update() == 1
    harness.leader_calls[0].on_failure(Failure("no response in time"))
    assert harness.update() == 2


def test_next_request_waits_for_the_period() -> None:
    harness = AutoJoinHarness()
    harness.update()
    harness.leader_calls[0].on_failure(Failure("no response in time"))
    assert harness.update() == 1
    harness.time.pass_ms(60_000)
    assert harness.update() == 2


def test_replica_that_has_not_caught_up_sends_no_request() -> None:
    harness = AutoJoinHarness()
    harness.engine.high_watermark = 8
    assert harness.update() == 0
