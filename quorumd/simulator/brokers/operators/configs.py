"""Requests that set, delete and replace configs of topics, of one broker or of all brokers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from quorumd.controller.cluster_image import ALL_BROKERS, MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION, ClusterImage
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages import alter_configs_request as replace_wire
from quorumd.protocol.messages import incremental_alter_configs_request as alter_wire
from quorumd.simulator.brokers.operators.operator import AdminRequest

SET: Final = 0
DELETE: Final = 1
RETENTION: Final = "retention.ms"
"""A config without effect on partitions."""
VALUES: Final = {
    MIN_INSYNC_REPLICAS: ("1", "1", "2", "2", "3", "0", "many"),
    RETENTION: ("1000", "2000", "-2"),
}
"""Values of each config, some of them invalid."""

Resource = tuple[int, str]


class ConfigRequests:
    """Builds requests for configs from the committed metadata, which `image()` returns."""

    def __init__(self, random: Random, image: Callable[[], ClusterImage], broker_ids: Sequence[int]) -> None:
        self._random = random
        self._image = image
        self._broker_ids = broker_ids

    def next(self) -> AdminRequest | None:
        """Return the next request."""
        random = self._random
        resources = [self._resource() for _ in range(random.choice((1, 1, 2, 3)))]
        validate_only = random.random() < 0.05
        if random.random() < 0.25:
            return self._replace(resources, validate_only)
        wire = alter_wire
        changes = [wire.AlterConfigsResource(*resource, self._operations(resource)) for resource in resources]
        request = wire.IncrementalAlterConfigsRequest(changes, validate_only)
        return AdminRequest(request, random.randint(request.MIN_VERSION, request.MAX_VERSION))

    def _resource(self) -> Resource:
        random, names = self._random, sorted(self._image().topic_ids)
        if names and random.random() < 0.75:
            return int(ConfigResourceType.TOPIC), random.choice(names)
        if random.random() < 0.8:
            return ALL_BROKERS
        return int(ConfigResourceType.BROKER), str(random.choice(self._broker_ids))

    def _names(self, resource: Resource) -> list[str]:
        """Draw different configs of a resource."""
        random = self._random
        names = [MIN_INSYNC_REPLICAS]
        # Rarely for all topics: with unclean elections everywhere, no record would be safe.
        if resource[0] == ConfigResourceType.TOPIC or random.random() < 0.1:
            names.append(UNCLEAN_ELECTION)
        if resource[0] == ConfigResourceType.TOPIC:
            names.append(RETENTION)
        return random.sample(names, min(len(names), random.choice((1, 1, 2))))

    def _value(self, name: str) -> str:
        if name == UNCLEAN_ELECTION:
            return "true" if self._random.random() < 0.3 else "false"
        return self._random.choice(VALUES[name])

    def _operations(self, resource: Resource) -> list[alter_wire.AlterableConfig]:
        operations = []
        for name in self._names(resource):
            kind = self._random.random()
            if kind < 0.5:
                operations.append(alter_wire.AlterableConfig(name, SET, self._value(name)))
            elif kind < 0.9:
                operations.append(alter_wire.AlterableConfig(name, DELETE, None))
            else:
                operations.append(alter_wire.AlterableConfig(name, SET, None))
        return operations

    def _replace(self, resources: Sequence[Resource], validate_only: bool) -> AdminRequest:
        wire = replace_wire
        changes = []
        for resource in resources:
            configs = [wire.AlterableConfig(name, self._value(name)) for name in self._names(resource)]
            if self._random.random() < 0.1:
                configs[0].value = None
            changes.append(wire.AlterConfigsResource(*resource, configs))
        request = wire.AlterConfigsRequest(changes, validate_only)
        return AdminRequest(request, self._random.randint(request.MIN_VERSION, request.MAX_VERSION))
