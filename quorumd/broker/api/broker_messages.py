"""Registered brokers in responses to DescribeCluster, with more fields for quorumd's own tools."""

from __future__ import annotations

from quorumd.controller.broker import Broker, BrokerEndpoint
from quorumd.controller.cluster_image import ClusterImage
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterBroker, Listener


def add_registered_brokers(
    brokers_by_id: dict[int, DescribeClusterBroker],
    image: ClusterImage,
    include_fenced: bool,
    include_registrations: bool,
) -> None:
    """Add the registered brokers by id; with `include_registrations`, with the fields for quorumd's own tools.

    A broker that is also a quorum node keeps the address of the node, which clients expect.
    """
    for broker_id, broker in image.brokers.items():
        if include_fenced or not broker.is_fenced:
            registered = broker_message(broker)
            if include_registrations:
                add_registration(registered, broker, image.index.leader_count(broker_id))
            node = brokers_by_id.get(broker_id)
            if node is not None:
                registered.host, registered.port = node.host, node.port
            brokers_by_id[broker_id] = registered


def endpoint_for_clients(broker: Broker, listener_name: str) -> BrokerEndpoint | None:
    """Return the endpoint with the name of the client's listener, else the first endpoint; None without endpoints."""
    named = (endpoint for endpoint in broker.endpoints if endpoint.name == listener_name)
    return next(named, broker.endpoints[0] if broker.endpoints else None)


def broker_message(broker: Broker) -> DescribeClusterBroker:
    """Describe a registered broker with its first endpoint."""
    first = broker.endpoints[0] if broker.endpoints else None
    host, port = (first.host, first.port) if first is not None else ("", -1)
    return DescribeClusterBroker(broker.id, host, port, broker.rack, broker.is_fenced)


def add_registration(described: DescribeClusterBroker, broker: Broker, leader_count: int) -> None:
    """Set quorumd's own tagged fields, which have no public equivalent."""
    described.broker_epoch = broker.epoch
    described.in_controlled_shutdown = broker.in_controlled_shutdown
    described.leader_count = leader_count
    described.listeners = [Listener(e.name, e.host, e.port, e.security_protocol) for e in broker.endpoints]
