"""Listeners that accept no connections until the ACLs are loaded."""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint
from quorumd.node.settings import NodeListener
from quorumd.ports import ANONYMOUS
from quorumd.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from quorumd.security.authorizer import AuthorizerSettings
from tests.support.node.nodes import PORT, Client, Cluster, host_of

LATE = Endpoint("LATE", host_of(1), PORT + 1)


def test_other_listeners_wait_until_the_acls_are_loaded() -> None:
    settings = AuthorizerSettings(frozenset({ANONYMOUS}), early_start_listeners=frozenset({"CONTROLLER"}))
    cluster = Cluster(2, authorizer=settings)
    cluster.start_node(1, other_listeners=(NodeListener(LATE, LATE),))
    cluster.run(1000)
    assert Client(cluster, 1, "client", PORT + 1).is_closed, "there is no leader to learn the ACLs from"
    assert describe_quotas(cluster.client(1)) == ErrorCode.NONE, (
        "a super user at a listener that starts early"
    )
    cluster.start_node(2)
    cluster.leader()
    cluster.run(1000)
    assert describe_quotas(Client(cluster, 1, "client", PORT + 1)) == ErrorCode.NONE


def describe_quotas(client: Client) -> int:
    error: int = client.request(DescribeClientQuotasRequest(), 1).error_code
    return error
