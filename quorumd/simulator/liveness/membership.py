"""What is promised of registered controllers and of votes by auto-join, once nothing goes wrong any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from quorumd.ids import ZERO_UUID, KafkaUuid, ReplicaKey
from quorumd.node.node import Node
from quorumd.protocol.messages.register_controller_record import RegisterControllerRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.simulator.cluster import Cluster, Machine

REGISTERED = "running controllers are registered"
JOINED = "controllers with auto-join become voters"


def unregistered(cluster: Cluster, core: list[int]) -> str:
    """Which nodes of `core` are not registered with the incarnation that runs, as any of them knows it; "" if all
    are."""
    if not cluster.options.registers:
        return ""
    nodes = list(_running(cluster, core))
    own = {machine.node_id: _incarnation(node) for machine, node in nodes}
    for machine, node in nodes:
        known = _registered(node)
        reported = {
            number: each.incarnation_id for number, each in node.state_machine.image.controllers.items()
        }
        if reported != known:
            return (
                f"node {machine.node_id} has {sorted(reported)} registered, its records say {sorted(known)}"
            )
        missing = [node_id for node_id, incarnation in own.items() if known.get(node_id) != incarnation]
        if missing:
            return f"the incarnations of nodes {missing} are not registered in the image of {machine.node_id}"
    return ""


def without_vote(cluster: Cluster, core: list[int]) -> str:
    """Which nodes of `core` would join by themselves and have no vote; "" if all have one."""
    if not cluster.options.auto_join:
        return ""
    missing = [
        machine.node_id
        for machine, node in _running(cluster, core)
        if not node.engine.voters.current.includes(ReplicaKey(machine.node_id, machine.directory_id))
    ]
    return f"nodes {missing} have no vote" if missing else ""


def _running(cluster: Cluster, core: list[int]) -> Iterator[tuple[Machine, Node]]:
    for node_id in core:
        machine = cluster.machines[node_id]
        if machine.node is not None:
            yield machine, machine.node


def _incarnation(node: Node) -> KafkaUuid:
    registration = node.membership.registration
    assert registration is not None
    return registration.incarnation_id


def _registered(node: Node) -> Mapping[int, KafkaUuid]:
    """What the records in the image say, told without the image's code."""
    found = {}
    for key, frame in node.state_machine.image.opaque_records.items():
        if key[0] == RegisterControllerRecord.API_KEY:
            record = decode_record(frame)
            assert isinstance(record, RegisterControllerRecord)
            if record.incarnation_id != ZERO_UUID:
                found[record.controller_id] = record.incarnation_id
    return found
