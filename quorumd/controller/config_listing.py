"""ListConfigResources (KIP-1142): the resources whose configs a client can describe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ErrorCode
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from quorumd.protocol.messages.list_config_resources_response import (
    ConfigResource,
    ListConfigResourcesResponse,
)

_LISTED_TYPES: Final = (
    frozenset({ConfigResourceType.CLIENT_METRICS}),
    frozenset(ConfigResourceType),
)
"""The types that a version can list, by version. Version 0 is ListClientMetricsResources (KIP-714)."""
_ORDER: Final = (
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
)
"""The order of types in a response, as in Kafka."""


def list_config_resources(
    image: ClusterImage, message: ListConfigResourcesRequest, version: int, listener: str
) -> ListConfigResourcesResponse:
    """List the resources of the requested types, or of all types if none is requested.

    Topics and brokers are listed even without configs; a group or client metrics subscription only if it has some.
    `listener`: that of the client; brokers without an endpoint for it are not listed. If the version cannot list a
    requested type, the response is UNSUPPORTED_VERSION without resources.
    """
    listed = _LISTED_TYPES[version]
    requested = set(message.resource_types) or listed
    if not requested <= listed:
        return ListConfigResourcesResponse(0, int(ErrorCode.UNSUPPORTED_VERSION))
    resources = [
        ConfigResource(name, int(kind))
        for kind in _ORDER
        if kind in requested
        for name in _names(image, kind, listener)
    ]
    return ListConfigResourcesResponse(0, 0, resources)


def _names(image: ClusterImage, kind: ConfigResourceType, listener: str) -> Iterable[str]:
    if kind is ConfigResourceType.TOPIC:
        return image.topic_ids.names()
    if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        return map(str, _brokers(image, listener))
    return sorted(name for each, name in image.configs if each == kind)


def _brokers(image: ClusterImage, listener: str) -> Iterable[int]:
    """Return the brokers with an endpoint for a listener; all brokers for a controller listener, which none has."""
    reachable = (broker_id for broker_id, broker in image.brokers.items() if broker.endpoint(listener))
    return sorted(reachable) or sorted(image.brokers)
