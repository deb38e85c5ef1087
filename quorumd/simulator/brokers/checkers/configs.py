"""Invariants of configs that operators change."""

from __future__ import annotations

from typing import Final

from quorumd.controller.cluster_image import MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION
from quorumd.ids import KafkaUuid
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.alter_configs_request import AlterConfigsRequest
from quorumd.protocol.messages.alter_configs_response import AlterConfigsResponse
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from quorumd.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.checkers.base import BrokerChecker, SentRequests
from quorumd.simulator.brokers.cluster_view import ClusterView, PartitionChange

REPLACED: Final = (MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION)
"""Configs that AlterConfigs deletes if it does not name them."""
SET: Final = 0
KINDS: Final = (ConfigResourceType.TOPIC, ConfigResourceType.BROKER)

Resource = tuple[int, str]
Wanted = dict[Resource, dict[str, str | None]]


class ConfigRequestsTakeEffect(BrokerChecker):
    """Each config of an acknowledged request had the requested value, or none if the request deletes it, at some time
    since the request. No min.insync.replicas below 1 is acknowledged."""

    invariant = "acknowledged configs are set or deleted"

    def __init__(self) -> None:
        self._changes = 0
        self._values: dict[tuple[Resource, str], list[tuple[int, str | None]]] = {}
        """The values of each config, with the number of the change that set it."""
        self._names: dict[KafkaUuid, str] = {}
        self._sent = SentRequests[tuple[int, Wanted]]()

    def config_changed(self, view: ClusterView, record: ConfigRecord) -> None:
        if record.resource_type in KINDS:
            self._set((record.resource_type, record.resource_name), record.name, record.value)

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        topic_id = change.where.topic_id
        if change.after is not None:
            self._names[topic_id] = view.image.topics[topic_id].name
            return
        deleted = (int(ConfigResourceType.TOPIC), self._names[topic_id])
        for resource, name in list(self._values):
            if resource == deleted:
                self._set(resource, name, None)

    def _set(self, resource: Resource, name: str, value: str | None) -> None:
        self._changes += 1
        self._values.setdefault((resource, name), []).append((self._changes, value))

    def admin_request_sent(self, view: ClusterView, request: Message) -> None:
        if isinstance(request, IncrementalAlterConfigsRequest | AlterConfigsRequest):
            self._sent.add(request, (self._changes, _wanted(request)))

    def admin_request_completed(self, view: ClusterView, request: Message, response: Message) -> None:
        if not isinstance(response, IncrementalAlterConfigsResponse | AlterConfigsResponse):
            return
        known = self._sent.take(request)
        assert known is not None
        since, wanted = known
        for result in response.responses:
            if result.error_code:
                continue
            resource = result.resource_type, result.resource_name
            for name, value in wanted.get(resource, {}).items():
                if value is not None and name == MIN_INSYNC_REPLICAS and not _is_positive(value):
                    raise self.violation(f"{name} of {resource} was set to {value!r}")
                if not self._had(resource, name, value, since):
                    raise self.violation(
                        f"{name} of {resource} was to be {value!r}, but it had {self._values.get((resource, name))}"
                    )

    def _had(self, resource: Resource, name: str, value: str | None, since: int) -> bool:
        """Whether the config had this value at some time after the change with number `since`."""
        held: str | None = None
        for number, changed in self._values.get((resource, name), ()):
            if number > since and value in (held, changed):
                return True
            held = changed
        return held == value


def _wanted(request: IncrementalAlterConfigsRequest | AlterConfigsRequest) -> Wanted:
    """Return the configs that the request sets or deletes; the last occurrence of a repeated resource counts."""
    wanted: Wanted = {}
    if not request.validate_only:
        for resource in request.resources:
            configs: dict[str, str | None] = {}
            if isinstance(request, AlterConfigsRequest):
                configs = dict.fromkeys(REPLACED)
            for config in resource.configs:
                configs[config.name] = config.value
            wanted[resource.resource_type, resource.resource_name] = configs
    return wanted


def _is_positive(value: str) -> bool:
    return value.isdigit() and int(value) > 0
