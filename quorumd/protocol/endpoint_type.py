"""The types of endpoints that DescribeCluster lists (KIP-919)."""

from __future__ import annotations

from enum import IntEnum


class EndpointType(IntEnum):
    """EndpointType in DescribeCluster requests and responses."""

    BROKER = 1
    CONTROLLER = 2
