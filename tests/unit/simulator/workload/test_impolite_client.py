"""The client that sends many requests at once, in pieces, and does not always read."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.errors import MalformedMessage
from quorumd.node.sessions.server_session import ELEMENTS_AT_ONCE
from quorumd.protocol.connection import LARGE_REQUEST, read_request
from quorumd.protocol.messages.create_topics_request import CreateTopicsRequest
from quorumd.simulator.workload.impolite_client import ImpoliteClient, _damaged
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
