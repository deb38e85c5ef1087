"""Topics that a broker creates because clients name them count for the quota of mutations of these clients."""

from __future__ import annotations

import pytest

from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.errors import ErrorCode
from quorumd.protocol.messages import alter_client_quotas_request as wire
from quorumd.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.quotas.entities import MUTATION_RATE
from tests.support.node.broker_nodes import CLIENT_PORT, BrokerCluster, broker_role
from tests.support.node.nodes import Client

BURST = 11
"""The mutations that a rate of 1 per second allows at once."""
RUN_MS = 500.0
OFFSETS = "__consumer_offsets"


@pytest.fixture(params=[1, 2])
def client(request: pytest.FixtureRequest) -> Client:
    """A client of the broker in the process of the leader, or in that of a follower."""
    cluster = BrokerCluster(3)
    for node_id in cluster.voters:
        cluster.start_node(node_id, broker=broker_role(node_id))
    brokers = [cluster.nodes[node_id].broker for node_id in cluster.voters]
    cluster.run_until(lambda: all(broker and broker.state is BrokerState.RUNNING for broker in brokers))
    leader = cluster.leader()
    is_at_leader = request.param == 1
    node_id = next(each for each in cluster.voters if (cluster.nodes[each] is leader) == is_at_leader)
    limit = wire.OpData(MUTATION_RATE, 1.0)
    entry = wire.EntryData([wire.EntityData("user", "ANONYMOUS")], [limit])
    (altered,) = cluster.client(node_id).request(wire.AlterClientQuotasRequest([entry]), 1).entries
    assert altered.error_code == 0
    cluster.run(RUN_MS)
    return Client(cluster, node_id, "client", CLIENT_PORT)


def create(client: Client, names: list[str]) -> list[str]:
    """Request the topics until their creation has been decided; returns those that exist."""
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
    client.request(request, 12)
    client.wait(RUN_MS)
    found = client.request(request, 12).topics
    assert {topic.error_code for topic in found} <= {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    return [topic.name for topic in found if topic.error_code == 0]


def test_topics_beyond_the_quota_of_the_client_are_not_created(client: Client) -> None:
    names = [f"topic-{number:02}" for number in range(2 * BURST)]
    assert create(client, names) == names[: BURST + 1]


@pytest.mark.parametrize("client", [1], indirect=True)
def test_topics_of_coordinators_do_not_count(client: Client) -> None:
    client.request(FindCoordinatorRequest(key_type=0, coordinator_keys=["group"]), 4)
    client.wait(RUN_MS)
    assert create(client, [OFFSETS]) == [OFFSETS]
    assert create(client, ["of-the-client"]) == ["of-the-client"]
