"""Registered brokers as clients are told of them: DescribeCluster says besides what only quorumd's tools read."""

from __future__ import annotations

from quorumd.controller.broker import Broker, BrokerEndpoint
from quorumd.controller.cluster_image import ClusterImage
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterBroker, Listener


def add_registered(told: dict[int, DescribeClusterBroker], image: ClusterImage, include_fenced: bool) -> None:
    """Add the registered brokers to what is told by id. One that is a node of the quorum too keeps the address that
    was found for the node, which clients look for."""
    for broker_id, broker in image.brokers.items():
        if include_fenced or not broker.is_fenced:
            registered = described(broker, image.index.leader_count(broker_id))
            node = told.get(broker_id)
            if node is not None:
                registered.host, registered.port = node.host, node.port
            told[broker_id] = registered


def endpoint_for_clients(broker: Broker, listener_name: str) -> BrokerEndpoint | None:
    """Where a client that asked at a listener of this name reaches the broker: at the one of the same name, or else
    the first. None if it has none."""
    named = (endpoint for endpoint in broker.endpoints if endpoint.name == listener_name)
    return next(named, broker.endpoints[0] if broker.endpoints else None)


def described(broker: Broker, leader_count: int) -> DescribeClusterBroker:
    """One registered broker, at the first of its listeners."""
    first = broker.endpoints[0] if broker.endpoints else None
    return DescribeClusterBroker(
        broker.id,
        first.host if first is not None else "",
        first.port if first is not None else -1,
        broker.rack,
        broker.is_fenced,
        broker.epoch,
        broker.in_controlled_shutdown,
        leader_count,
        [Listener(e.name, e.host, e.port, e.security_protocol) for e in broker.endpoints],
    )
