"""Nodes register themselves as controllers with the leader, and again when that was undone (KIP-919)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from quorumd.controller.metadata_versions import SUPPORTED_FEATURES
from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint, KafkaUuid
from quorumd.node.membership.controller_registration import (
    FIRST_WAIT_MS,
    MAX_WAIT_MS,
    ControllerRegistration,
)
from quorumd.node.node import Node
from quorumd.node.peers.connection import Failure
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from quorumd.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from quorumd.protocol.messages.register_controller_record import RegisterControllerRecord
from quorumd.protocol.messages.unregister_controller_record import UnregisterControllerRecord
from quorumd.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values
from tests.support.node.api_harness import ApiHarness
from tests.support.node.nodes import Cluster, host_of

DEAD = KafkaUuid(b"dead incarnation")


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(3, registers=True).start()
    cluster.run_until(lambda: all_are_registered(cluster))
    return cluster


def incarnation(node: Node) -> KafkaUuid:
    registration = node.membership.registration
    assert registration is not None
    return registration.incarnation_id


def all_are_registered(cluster: Cluster) -> bool:
    own = {node_id: incarnation(node) for node_id, node in cluster.nodes.items()}
    return all(own == known(node) for node in cluster.nodes.values())


def known(node: Node) -> dict[int, KafkaUuid]:
    return {each.id: each.incarnation_id for each in node.state_machine.image.controllers.values()}


def registrations_in(node: Node) -> list[tuple[int, KafkaUuid]]:
    """Controller registrations in the log, in offset order."""
    data = node.log.read(node.log.start_offset, 1 << 20, node.log.end_offset)
    records: list[Any] = [
        decode_record(frame)
        for header in headers(data)
        if not header.is_control
        for frame in values(data, header)
    ]
    return [(r.controller_id, r.incarnation_id) for r in records if r.NAME == "RegisterControllerRecord"]


def test_every_node_registers_once_with_listener_and_features(cluster: Cluster) -> None:
    cluster.run(3 * MAX_WAIT_MS)
    leader = cluster.leader()
    assert sorted(registrations_in(leader)) == sorted((n, incarnation(cluster.nodes[n])) for n in (1, 2, 3))
    registered = leader.state_machine.image.controllers[2]
    assert registered.listeners == (("CONTROLLER", host_of(2), 9092, 0),)
    assert registered.features == {name: (low, high) for name, low, high in SUPPORTED_FEATURES}


def test_restarted_node_registers_its_new_incarnation(cluster: Cluster) -> None:
    node_id = cluster.follower().settings.node_id
    before = incarnation(cluster.nodes[node_id])
    cluster.kill(node_id)
    cluster.start(node_id)
    assert incarnation(cluster.nodes[node_id]) != before
    cluster.run_until(lambda: all_are_registered(cluster))


def test_node_registers_again_after_a_late_request_of_a_previous_incarnation(cluster: Cluster) -> None:
    client = cluster.client(cluster.leader().settings.node_id)
    assert client.request(ControllerRegistrationRequest(2, DEAD), 0).error_code == 0
    assert known(cluster.leader())[2] == DEAD
    cluster.run_until(lambda: all_are_registered(cluster))


def test_two_processes_with_the_same_id_replace_each_other_slowly(cluster: Cluster) -> None:
    """Each finds the registration of the other instead of its own; this must not fill the log."""
    client = cluster.client(cluster.leader().settings.node_id)
    before = len(registrations_in(cluster.leader()))
    for _ in range(60):
        client.request(ControllerRegistrationRequest(2, DEAD), 0)
        cluster.run(1000)
    own = [r for r in registrations_in(cluster.leader())[before:] if r == (2, incarnation(cluster.nodes[2]))]
    assert 3 <= len(own) <= 12


def test_unregistered_running_controller_registers_again(cluster: Cluster) -> None:
    """Including the leader; any node forwards the request."""
    client = cluster.client(cluster.follower().settings.node_id)
    for node_id in (1, 2, 3):
        assert client.request(UnregisterControllerRequest(node_id), 0).error_code == 0
    assert known(cluster.leader()).keys() < {1, 2, 3}
    cluster.run_until(lambda: all_are_registered(cluster))


def test_single_leader_registers_itself_locally(cluster: Cluster) -> None:
    client = cluster.client(cluster.follower().settings.node_id)
    response = client.request(ControllerRegistrationRequest(9, DEAD), 0)
    assert response.error_code == ErrorCode.NOT_CONTROLLER


def test_no_registration_is_sent_without_a_leader(cluster: Cluster) -> None:
    follower = cluster.follower()
    for node_id in {1, 2, 3} - {follower.settings.node_id}:
        cluster.kill(node_id)
    before = follower.log.end_offset
    cluster.run(20_000)
    assert follower.log.end_offset == before
    cluster.start(*({1, 2, 3} - {follower.settings.node_id}))
    cluster.run_until(lambda: all_are_registered(cluster))


class RegistrationHarness(ApiHarness):
    """The registration of node 1. `is_active`: it is the active controller."""

    def __init__(self, *, is_active: bool = False) -> None:
        super().__init__(node_id=1)
        self.is_leader = is_active
        self.finalize("metadata.version", 25)
        self.registration = ControllerRegistration(
            DEAD, self.basics, self.context.quorum.role, self.context.metadata, self.call_leader
        )

    def register(self) -> None:
        self.image.apply(RegisterControllerRecord(1, DEAD), [])

    def unregister(self) -> None:
        self.image.apply(UnregisterControllerRecord(1), [])

    def update(self, after_ms: float) -> int:
        """Update after a time, and let a request fail; returns the number of requests so far."""
        self.time.pass_ms(after_ms)
        before = len(self.leader_calls)
        self.registration.update((Endpoint("CONTROLLER", "me", 9092),))
        if len(self.leader_calls) > before:
            self.leader_calls[-1].on_failure(Failure("no response in time"))
        return len(self.leader_calls)


def test_wait_between_requests_doubles_until_a_registration_has_lasted() -> None:
    harness = RegistrationHarness()
    assert harness.update(0) == 1
    assert harness.update(2 * FIRST_WAIT_MS - 1) == 1
    assert harness.update(1) == 2
    harness.register()
    harness.update(MAX_WAIT_MS / 2)
    harness.unregister()
    assert harness.update(0) == 3, "the wait of two seconds is over"
    assert harness.update(2 * FIRST_WAIT_MS) == 3, "the registration did not last: the wait is longer still"
    harness.register()
    harness.update(MAX_WAIT_MS + 1)
    harness.unregister()
    assert harness.update(0) == 4
    assert harness.update(2 * FIRST_WAIT_MS) == 5, "after a registration that has lasted, it begins anew"


@pytest.mark.parametrize(("message", "ending"), [("no such node", ": no such node"), (None, "")])
def test_reason_of_a_refused_registration_is_logged(
    message: str | None, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    harness = RegistrationHarness()
    harness.registration.update(())
    error = ErrorCode.INVALID_REQUEST
    harness.leader_calls[0].on_response(ControllerRegistrationResponse(0, error, message))
    assert caplog.messages[0].endswith(f"{ErrorCode.describe(error)}{ending}")


def test_only_a_committed_registration_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    harness = RegistrationHarness(is_active=True)
    harness.update(MAX_WAIT_MS)
    assert len(harness.batches) == 1
    harness.lose_leadership()
    assert "is registered" not in caplog.text
    harness.is_leader = True
    harness.update(MAX_WAIT_MS)
    harness.commit()
    assert "is registered" in caplog.text


def test_accepted_registration_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    harness = RegistrationHarness()
    harness.registration.update(())
    harness.leader_calls[0].on_response(ControllerRegistrationResponse(0, 0, None))
    assert "controller 1 is registered" in caplog.text


def test_registration_is_not_repeated_before_its_result() -> None:
    """Neither the request to the leader, nor the record of the active controller itself."""
    harness = RegistrationHarness()
    harness.registration.update(())
    harness.time.pass_ms(MAX_WAIT_MS)
    harness.registration.update(())
    assert len(harness.leader_calls) == 1
    active = RegistrationHarness(is_active=True)
    active.update(MAX_WAIT_MS)
    active.update(MAX_WAIT_MS)
    assert len(active.batches) == 1


def test_nothing_is_written_on_a_full_disk() -> None:
    harness = RegistrationHarness(is_active=True)
    harness.has_free_space = False
    harness.update(0)
    assert harness.batches == []
    assert not harness.registration._is_writing
