"""Conditions on registered controllers and auto join, most of them once faults have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random

from quorumd.ids import ZERO_UUID, KafkaUuid, ReplicaKey
from quorumd.node.node import Node
from quorumd.protocol.messages.register_controller_record import RegisterControllerRecord
from quorumd.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.workload.request_connection import Call, RequestConnection

REGISTERED = "running controllers are registered"
RECORDED = "registered controllers are those of the records"
UNREGISTERED = "controllers that are permanently gone can be unregistered"
UNREGISTERED_WITHIN_MS = 15_000.0
CHECK_INTERVAL_MS = 20.0
RETRY_INTERVAL_MS = 500.0
OPERATOR = "10.0.2.1"
JOINED = "controllers with auto-join become voters"


def unregistered(cluster: Cluster, core: list[int]) -> str:
    """Describe the nodes of `core` whose running incarnation is not registered in every image; "" if there are
    none."""
    if not cluster.options.registers:
        return ""
    nodes = list(_running(cluster, core))
    own = {machine.node_id: _incarnation(node) for machine, node in nodes}
    for machine, node in nodes:
        known = _registered(node)
        missing = [node_id for node_id, incarnation in own.items() if known.get(node_id) != incarnation]
        if missing:
            return f"the incarnations of nodes {missing} are not registered in the image of {machine.node_id}"
    return ""


def without_vote(cluster: Cluster, core: list[int]) -> str:
    """Describe the nodes of `core` with auto join that are not voters; "" if there are none."""
    if not cluster.options.auto_join:
        return ""
    missing = [
        machine.node_id
        for machine, node in _running(cluster, core)
        if not node.engine.voters.current.includes(ReplicaKey(machine.node_id, machine.directory_id))
    ]
    return f"nodes {missing} have no vote" if missing else ""


def require_recorded(cluster: Cluster) -> None:
    """Require that every image has the registered controllers of its records. Raises InvariantViolation."""
    for machine, node in _running(cluster, [machine.node_id for machine in cluster.running()]):
        known = _registered(node)
        has = {number: each.incarnation_id for number, each in node.state_machine.image.controllers.items()}
        if has != known and not machine.exiting:
            text = f"node {machine.node_id} has {sorted(has)} registered, its records have {sorted(known)}"
            raise InvariantViolation(RECORDED, text)


def unregister(
    cluster: Cluster, machine: Machine, controller_id: int, on_response: Call
) -> RequestConnection:
    """Send UnregisterController to a node."""
    link = RequestConnection("operator", UnregisterControllerRequest(controller_id), 0, on_response)
    cluster.network.host(OPERATOR, Process("operator")).connect(machine.host, machine.port, link)
    return link


class LastUnregistrations:
    """Unregisters the controllers that are permanently down, and requires that they are removed."""

    def __init__(self, cluster: Cluster, random: Random, run_until: Callable[[float], None]) -> None:
        self._cluster = cluster
        self._random = random
        self._run_until = run_until
        self._link: RequestConnection | None = None

    def require(self) -> None:
        """Unregister the controllers. Raises InvariantViolation."""
        heap = self._cluster.heap
        deadline, next_request_ms = heap.now_ms + UNREGISTERED_WITHIN_MS, heap.now_ms
        while remaining := self._remaining():
            if heap.now_ms >= deadline:
                text = f"{remaining} are registered {UNREGISTERED_WITHIN_MS:.0f} ms after the first request"
                raise InvariantViolation(UNREGISTERED, text)
            if heap.now_ms >= next_request_ms:
                next_request_ms = heap.now_ms + RETRY_INTERVAL_MS
                self._send(remaining)
            self._run_until(heap.now_ms + CHECK_INTERVAL_MS)

    def _remaining(self) -> list[int]:
        """Return the retired controllers that any running node has registered."""
        cluster = self._cluster
        images = [node.state_machine.image for _, node in _running(cluster, list(cluster.machines))]
        machines = cluster.machines.values()
        gone = [machine.node_id for machine in machines if machine.retired]
        return [node_id for node_id in gone if any(node_id in image.controllers for image in images)]

    def _send(self, remaining: list[int]) -> None:
        cluster = self._cluster
        if self._link is not None:
            self._link.abandon()
        machine = self._random.choice(cluster.running())
        self._link = unregister(cluster, machine, self._random.choice(remaining), self._on_response)

    def _on_response(self, message: Message | None) -> None:
        require_recorded(self._cluster)


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
    """Return the registered incarnations, parsed from the image's records without the image's code."""
    found = {}
    for key, frame in node.state_machine.image.opaque_records.items():
        if key[0] == RegisterControllerRecord.API_KEY:
            record = decode_record(frame)
            assert isinstance(record, RegisterControllerRecord)
            if record.incarnation_id != ZERO_UUID:
                found[record.controller_id] = record.incarnation_id
    return found
