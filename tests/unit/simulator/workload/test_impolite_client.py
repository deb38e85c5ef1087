"""The client that sends many requests at once, in pieces, and does not always read."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.errors import MalformedMessage
from quorumd.node.sessions.server_session import ELEMENTS_AT_ONCE
from quorumd.protocol.connection import LARGE_REQUEST, read_request
from quorumd.protocol.messages.create_topics_request import CreateTopicsRequest
from quorumd.protocol.wire import Message
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.workload.impolite_client import (
    _CONTROLLERS,
    _LARGE,
    _OF_CONTROLLER,
    ImpoliteClient,
    _damaged,
)
from quorumd.simulator.workload.request_connection import RequestConnection
from tests.support.simulator.simulated_cluster import elect, make_cluster, run


def test_impolite_clients_get_responses_until_they_hang_up() -> None:
    cluster = make_cluster(3)
    elect(cluster)
    client = ImpoliteClient(cluster, Random(1), 20.0)
    client.start()
    run(cluster, 20_000.0)
    client.running = False
    run(cluster, 10_000.0)
    counters = client.counters.copy()
    assert counters["impolite: requests"] > counters["impolite: responses"] > 1000
    assert counters["impolite: hung up"] > 5
    run(cluster, 5000.0)
    assert client.counters == counters


@pytest.mark.parametrize(("count", "is_begun"), [(20, False), (300, True)])
def test_damaged_requests_are_found_at_once_or_in_steps(count: int, is_begun: bool) -> None:
    supported = {CreateTopicsRequest.API_KEY: (2, 7)}
    request = read_request(_damaged(count)[4:], supported, LARGE_REQUEST)
    if is_begun:
        request.continue_decoding(ELEMENTS_AT_ONCE)
        assert not request.is_whole
    with pytest.raises(MalformedMessage):
        request.continue_decoding(count)


@pytest.mark.parametrize("is_of_controller", [False, True])
def test_large_requests_have_a_response_from_every_node_and_no_effect(is_of_controller: bool) -> None:
    cluster = make_cluster(3)
    leader = elect(cluster)
    assert leader.node is not None
    before = leader.node.state_machine.image.hash
    for machine in cluster.running():
        for request in (*_LARGE, *_OF_CONTROLLER):
            responses: list[Message | None] = []
            first = _CONTROLLERS if is_of_controller else request
            link = RequestConnection("client", *first, responses.append)
            cluster.network.host("10.0.9.9", Process("client")).connect(machine.host, machine.port, link)
            run(cluster, 20_000.0, lambda responses=responses: bool(responses))
            if is_of_controller:
                link.send(*request, responses.append)
                run(cluster, 20_000.0, lambda responses=responses: len(responses) == 2)
            assert None not in responses
            link.abandon()
    assert leader.node.state_machine.image.hash == before
