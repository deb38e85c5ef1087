"""Where the brokers of a cluster serve clients."""

from __future__ import annotations

from quorumd.client.leader_discovery import Address
from quorumd.client.security import CLIENT_SECURITY
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterBroker

_TLS, _SASL = 1, 2
"""Kafka's numbers of security protocols: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


def broker_address(broker: DescribeClusterBroker) -> Address:
    """Return the address of the first listener of a broker that has the security protocol of this process.

    If no listener matches, or if the response has no listeners, like responses of stock brokers, return the broker's
    address in the response. For a broker that is also a voter, it may be the controller listener, which does not
    serve the APIs of brokers.
    """
    security = CLIENT_SECURITY.get()
    protocol = (_TLS if security.context is not None else 0) + (_SASL if security.login is not None else 0)
    for each in broker.listeners:
        if each.security_protocol == protocol:
            return each.host, each.port
    return broker.host, broker.port
