"""The table of APIs in docs/brokers.md agrees with what brokers list in ApiVersions."""

from __future__ import annotations

import re
from pathlib import Path

from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.protocol.apis import APIS, FORWARDABLE, ApiKey
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from tests.support.node.broker_nodes import CLIENT_PORT, BrokerCluster, broker_role
from tests.support.node.nodes import Client

PAGE = Path(__file__).parents[4] / "docs/brokers.md"
Listed = dict[int, tuple[int, int]]
"""The lowest and the highest version by key."""


def table() -> dict[int, tuple[str, str, str]]:
    """The name, versions and remarks of each row by key."""
    section = PAGE.read_text().split("\n### APIs\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+(?: to \d+)?) \| (.*?) ?\|$", section, re.MULTILINE)
    assert len(rows) == section.count("\n|") - 2
    return {int(key): (name, versions, remarks) for name, key, versions, remarks in rows}


def documented() -> Listed:
    """The versions in the table."""
    found = {}
    for key, (_, versions, _) in table().items():
        low, _, high = versions.partition(" to ")
        found[key] = (int(low), int(high or low))
    return found


def listed(cluster: BrokerCluster, node_id: int, port: int) -> Listed:
    """The versions that a broker lists to a client of Kafka once it serves clients."""
    node = cluster.nodes[node_id]
    cluster.run_until(lambda: node.broker and node.broker.state is BrokerState.RUNNING)
    response = Client(cluster, node_id, "client", port).request(ApiVersionsRequest("java", "1"), 4)
    return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}


def test_table_has_the_apis_that_a_broker_lists_to_clients() -> None:
    cluster = BrokerCluster()
    cluster.start_node(1, broker=broker_role(1))
    assert documented() == listed(cluster, 1, CLIENT_PORT)


def test_broker_with_one_listener_lists_the_apis_of_the_quorum_too() -> None:
    cluster = BrokerCluster(3)
    cluster.start()
    cluster.format(4)
    role = broker_role(4, is_controller=False)
    cluster.start_node(4, broker=role, bootstrap_voters=(1, 2, 3), controllers_name="CONTROLLER")
    found = listed(cluster, 4, 9092)
    of_quorum = {key: (api.min_version, api.max_version) for key, api in APIS.items() if not api.private}
    assert found == of_quorum | documented()


def test_rows_have_the_names_of_the_apis_in_order() -> None:
    rows = table()
    assert list(rows) == sorted(rows)
    assert {key: name for key, (name, _, _) in rows.items()} == {key: APIS[key].name for key in rows}


def test_rows_of_forwarded_apis_have_the_remark() -> None:
    to_leader = {key for key, (_, _, remarks) in table().items() if remarks.startswith("to the leader")}
    assert to_leader == {key for key in FORWARDABLE if not APIS[key].private} | {ApiKey.DESCRIBE_CONFIGS}
