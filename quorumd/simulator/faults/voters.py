"""Voter changes by operators, at any time and at the worst time."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, KafkaUuid, ReplicaKey
from quorumd.protocol.messages import (
    add_raft_voter_request,
    remove_raft_voter_request,
    update_raft_voter_request,
)
from quorumd.protocol.messages import alter_quorum_request as wire
from quorumd.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from quorumd.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from quorumd.protocol.messages.update_raft_voter_response import UpdateRaftVoterResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import LISTENER_NAME, Cluster, Machine
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.faults.links import block_for
from quorumd.simulator.workload.request_connection import Call, RequestConnection

OPERATOR = "10.0.2.1"
TIMEOUT_MS = 3000
MAX_UPDATES = 4
MOVES = frozenset({"moved node", "moved quorum"})
"""Faults after which a voter has another address."""


class VoterChange:
    """AlterQuorum at any node: to any set of nodes, to the initial voters, or a cancellation."""

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
        request_voters(cluster, random.choice(cluster.running()), target)


class RaftVoterChange:
    """AddRaftVoter, RemoveRaftVoter or UpdateRaftVoter at any node, from several administrators at once (KIP-853)."""

    name = "raft voter change"

    def available(self, cluster: Cluster) -> bool:
        return bool(cluster.running())

    def inject(self, cluster: Cluster, random: Random) -> None:
        cluster.voters_changed = True
        for _ in range(random.choice((1, 1, 2, 3))):
            self._request(cluster, random)

    def _request(self, cluster: Cluster, random: Random) -> None:
        machine = random.choice(cluster.running())
        changed = random.choice(list(cluster.machines.values()))
        key = ReplicaKey(changed.node_id, changed.directory_id)
        recorded = (
            machine.node.engine.voters.current.by_id(changed.node_id) if machine.node is not None else None
        )
        is_added = recorded is None
        if recorded is not None and random.random() < 0.15:
            self._update(cluster, machine, changed, recorded.key)
            return
        if recorded is not None and recorded.key != key and random.random() < 0.8:
            key = recorded.key  # of a disk that was replaced
        request: Message
        if is_added:
            listener = add_raft_voter_request.Listener(LISTENER_NAME, changed.host, changed.port)
            request = add_raft_voter_request.AddRaftVoterRequest(None, TIMEOUT_MS, *key, [listener])
        else:
            request = remove_raft_voter_request.RemoveRaftVoterRequest(None, *key)
        acknowledge = cluster.watcher.voter_change_requested(key, is_added)

        def on_response(message: Message | None) -> None:
            if isinstance(message, AddRaftVoterResponse | RemoveRaftVoterResponse) and not message.error_code:
                acknowledge()

        link = RequestConnection("operator", request, int(is_added), on_response)
        cluster.network.host(OPERATOR, Process("operator")).connect(machine.host, machine.port, link)

    def _update(self, cluster: Cluster, machine: Machine, changed: Machine, key: ReplicaKey) -> None:
        """Send the current address of a voter."""
        assert machine.node is not None
        listener = update_raft_voter_request.Listener(LISTENER_NAME, changed.host, changed.port)
        request = update_raft_voter_request.UpdateRaftVoterRequest(
            None, machine.node.engine.epoch, *key, [listener],
            update_raft_voter_request.KRaftVersionFeature(0, 1),
        )  # fmt: skip
        link = RequestConnection("operator", request, 0, _ignore)
        cluster.network.host(OPERATOR, Process("operator")).connect(machine.host, machine.port, link)


class UnchangedVoter:
    """UpdateRaftVoter without a change, in another epoch, of an unknown directory or without an endpoint, at the
    leader: like a voter that restarts, that knows only an earlier leader, or that was removed. It has no effect,
    whatever the other faults are."""

    name = "unchanged voter"
    invariant = "updates of voters in an earlier epoch are refused"
    invalid = "invalid updates of voters are refused"

    def available(self, cluster: Cluster) -> bool:
        # An update that arrives after the voter has moved would change its address.
        return MOVES.isdisjoint(cluster.options.faults) and bool(_leaders(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        leader = random.choice(_leaders(cluster))
        for _ in range(MAX_UPDATES):
            self._update(cluster, random, leader)

    def _update(self, cluster: Cluster, random: Random, leader: Machine) -> None:
        assert leader.node is not None
        engine = leader.node.engine
        voter, later = random.choice(engine.voters.current.voters), random.choice((0, 0, -1, 1))
        listeners = [update_raft_voter_request.Listener(*endpoint) for endpoint in voter.endpoints]
        key, way = voter.key, random.random()
        if way < 0.15:
            key = ReplicaKey(voter.key.id, KafkaUuid(random.randbytes(16)))
        elif way < 0.3:
            listeners = []
        request = update_raft_voter_request.UpdateRaftVoterRequest(
            None, engine.epoch + later, *key, listeners,
            update_raft_voter_request.KRaftVersionFeature(0, 1),
        )  # fmt: skip

        def on_response(message: Message | None) -> None:
            link.abandon()
            if not isinstance(message, UpdateRaftVoterResponse):
                return
            error = ErrorCode(message.error_code)
            cluster.counters[f"unchanged voter: {error.name}"] += 1
            if later < 0 and error is ErrorCode.NONE:
                raise InvariantViolation(self.invariant, f"{request!r} is accepted after its epoch")
            if way < 0.3 and error is ErrorCode.NONE:
                raise InvariantViolation(self.invalid, f"{request!r} is accepted")

        link = RequestConnection("operator", request, 0, on_response)
        cluster.network.host(OPERATOR, Process("operator")).connect(leader.host, leader.port, link)


class RemovalWithoutMajority:
    """As many voters as the quorum tolerates become unreachable. Before the leader detects that, an operator removes
    another voter, after which the reachable voters would not be a majority."""

    name = "removal without majority"

    def available(self, cluster: Cluster) -> bool:
        return bool(self._candidates(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        leader = random.choice(self._candidates(cluster))
        voters = _voters_of(leader)
        others = [voter for voter in voters if voter != leader.node_id]
        random.shuffle(others)
        silent, removed = others[: len(others) // 2], others[-1]
        timeout_ms = cluster.options.fetch_timeout_ms
        for voter in silent:
            own = cluster.machines[voter].host
            far = [machine.host for machine in cluster.machines.values() if machine.host != own]
            ways = [way for host in far for way in ((own, host), (host, own))]
            block_for(cluster, ways, timeout_ms * random.uniform(2.0, 5.0))
        cluster.voters_changed = True
        target = [voter for voter in voters if voter != removed]

        def remove() -> None:
            request_voters(cluster, leader, target)

        cluster.heap.call_later(random.random() * timeout_ms, remove, b"operator")

    def _candidates(self, cluster: Cluster) -> list[Machine]:
        return [machine for machine in _leaders(cluster) if len(_voters_of(machine)) > 2]


def _leaders(cluster: Cluster) -> list[Machine]:
    return [
        machine
        for machine in cluster.running()
        if machine.node is not None and not machine.exiting and machine.node.engine.is_leader
    ]


def _voters_of(machine: Machine) -> tuple[int, ...]:
    return machine.node.engine.voters.current.ids if machine.node is not None else ()


def _ignore(message: Message | None) -> None:
    """Ignore the response."""


def request_voters(
    cluster: Cluster,
    machine: Machine,
    target: Sequence[int] | None,
    on_response: Call = _ignore,
) -> RequestConnection:
    """Request these voters from a node, or the cancellation of the change in progress."""
    link = RequestConnection("operator", _alter_quorum(target), 0, on_response)
    cluster.network.host(OPERATOR, Process("operator")).connect(machine.host, machine.port, link)
    return link


def _alter_quorum(target: Sequence[int] | None) -> Message:
    voters = None if target is None else [wire.TargetVoter(node_id) for node_id in target]
    topics = [wire.TopicData(METADATA_TOPIC, [wire.PartitionData(METADATA_PARTITION, voters)])]
    return wire.AlterQuorumRequest("", topics)
