"""Where the brokers of a cluster serve clients."""

from __future__ import annotations

from quorumd.client.leader_discovery import Address
from quorumd.client.security import CLIENT_SECURITY
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterBroker

_TLS, _SASL = 1, 2
"""Kafka's numbers of security protocols: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


def broker_address(broker: DescribeClusterBroker) -> Address:
    """Return the address of the first listener of a broker that has the security protocol of this process.

    The address that the response has for a broker that is also a voter may be that of its listener for controllers,
    which does not serve the APIs of brokers. It is returned if there is no such listener, or if the response has no
    listeners, as those of stock brokers.
    """
    security = CLIENT_SECURITY.get()
    protocol = (_TLS if security.context is not None else 0) + (_SASL if security.login is not None else 0)
    for each in broker.listeners:
        if each.security_protocol == protocol:
            return each.host, each.port
    return broker.host, broker.port
