"""Log directories are cordoned by a config that is altered through their broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.errors import ErrorCode
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages import alter_configs_request
from quorumd.protocol.messages import incremental_alter_configs_request as wire
from quorumd.protocol.wire import Message
from tests.support.node.broker_nodes import CLIENT_PORT, BrokerCluster, broker_role
from tests.support.node.nodes import DATA_DIRECTORY, Client

BROKER = int(ConfigResourceType.BROKER)
NAME = "cordoned.log.dirs"


@pytest.fixture(scope="module")
def cluster() -> BrokerCluster:
    cluster = BrokerCluster(3)
    for node_id in cluster.voters:
        cluster.start_node(node_id, broker=broker_role(node_id))
    brokers = [cluster.nodes[node_id].broker for node_id in cluster.voters]
    cluster.run_until(lambda: all(broker and broker.state is BrokerState.RUNNING for broker in brokers))
    return cluster


def set_to(broker_id: int, value: str) -> Message:
    config = wire.AlterableConfig(NAME, 0, value)
    return wire.IncrementalAlterConfigsRequest([wire.AlterConfigsResource(BROKER, str(broker_id), [config])])


def set_alone_to(broker_id: int, value: str) -> Message:
    own = alter_configs_request
    config = own.AlterableConfig(NAME, value)
    return own.AlterConfigsRequest([own.AlterConfigsResource(BROKER, str(broker_id), [config])])


def error(cluster: BrokerCluster, through: int, message: Message, port: int = CLIENT_PORT) -> int:
    (result,) = Client(cluster, through, "client", port).request(message, 1).responses
    code: int = result.error_code
    return code


@pytest.mark.parametrize("request_for", [set_to, set_alone_to])
@pytest.mark.parametrize("broker_id", [1, 2, 3])
def test_directory_is_cordoned_through_its_broker(
    cluster: BrokerCluster, broker_id: int, request_for: Callable[[int, str], Message]
) -> None:
    """One of the three is in the process of the leader; the others forward the request."""
    for value, count in ((DATA_DIRECTORY, 1), ("", 0), ("*", 1), ("", 0)):
        assert error(cluster, broker_id, request_for(broker_id, value)) == ErrorCode.NONE
        cluster.run_until(
            lambda count=count: all(
                len(node.state_machine.image.brokers[broker_id].cordoned or ()) == count
                for node in cluster.nodes.values()
            )
        )


@pytest.mark.parametrize("through", [1, 2, 3])
def test_paths_that_a_broker_does_not_know_are_refused(cluster: BrokerCluster, through: int) -> None:
    another = through % 3 + 1
    assert error(cluster, through, set_to(through, "/other")) == ErrorCode.INVALID_CONFIG
    assert error(cluster, through, set_to(another, DATA_DIRECTORY)) == ErrorCode.INVALID_CONFIG


def test_listener_of_the_quorum_does_not_check_paths(cluster: BrokerCluster) -> None:
    leader = cluster.leader().settings.node_id
    assert error(cluster, leader, set_to(leader, DATA_DIRECTORY), port=9092) == ErrorCode.INVALID_CONFIG
