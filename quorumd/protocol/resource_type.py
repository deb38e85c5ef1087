"""The types of resources that have configs."""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """ResourceType in the configs APIs and in ConfigRecord (Kafka's ConfigResource types)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
