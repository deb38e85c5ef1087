"""Brokers are found at the listener for clients with the security protocol of the process."""

from __future__ import annotations

import ssl

import pytest

from quorumd.client.broker_addresses import broker_address
from quorumd.client.security import CLIENT_SECURITY, PLAIN, ClientSecurity
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterBroker, Listener
from quorumd.security.sasl.settings import ClientSasl

TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
LOGIN = ClientSasl("PLAIN", "alice", "secret")


@pytest.mark.parametrize(
    ("security", "port"),
    [
        (PLAIN, 9092),
        (ClientSecurity(TLS), 9093),
        (ClientSecurity(None, LOGIN), 9094),
        (ClientSecurity(TLS, LOGIN), 9095),
    ],
)
def test_listener_has_the_protocol_of_the_client(security: ClientSecurity, port: int) -> None:
    listeners = [Listener(f"L{number}", "broker", 9092 + number, number) for number in (3, 2, 1, 0)]
    token = CLIENT_SECURITY.set(security)
    try:
        described = DescribeClusterBroker(7, "controller", 19092, listeners=listeners)
        assert broker_address(described) == ("broker", port)
    finally:
        CLIENT_SECURITY.reset(token)


@pytest.mark.parametrize("listeners", [[], [Listener("TLS", "broker", 9093, 1)]])
def test_described_address_is_the_default(listeners: list[Listener]) -> None:
    assert broker_address(DescribeClusterBroker(7, "seven", 9092, listeners=listeners)) == ("seven", 9092)
