"""IncrementalAlterConfigs and its predecessor AlterConfigs (KIP-133, KIP-339)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence, Sized
from typing import Final, Protocol, TypeVar

from quorumd.controller.cluster_image import Resource
from quorumd.controller.config_effects import plan_effects
from quorumd.controller.configs import plan_incremental, plan_replacement
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.request_context import NO_CONTEXT, RequestContext
from quorumd.errors import ErrorCode, RequestError
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages import (
    alter_configs_request,
    alter_configs_response,
    incremental_alter_configs_request,
    incremental_alter_configs_response,
)
from quorumd.protocol.messages.alter_configs_request import AlterConfigsRequest
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest


class NamedResource(Protocol):
    """A resource in an IncrementalAlterConfigs or AlterConfigs request."""

    resource_type: int
    resource_name: str

    @property
    def configs(self) -> Sized: ...


C = TypeVar("C", bound=NamedResource)
R = TypeVar("R")
_Planned = list[ConfigRecord] | RequestError
_SUPPORTED = frozenset(
    {
        ConfigResourceType.TOPIC,
        ConfigResourceType.BROKER,
        ConfigResourceType.CLIENT_METRICS,
        ConfigResourceType.GROUP,
    }
)
MAX_CONFIGS: Final = 1_000
"""Configs of one resource that a request may change, or name to describe them; one of Kafka has a few hundred."""
_TOO_MANY = RequestError(
    ErrorCode.INVALID_REQUEST,
    f"A request may change at most {MAX_CONFIGS} configs of a resource; send several requests.",
)
_DUPLICATE = RequestError(
    ErrorCode.INVALID_REQUEST, "The request names this resource more than once; none of its changes was made."
)
"""The result of a resource that a request names several times; as in Kafka, the response contains it once."""


def plan_incremental_alter_configs(
    controller: Controller,
    message: IncrementalAlterConfigsRequest,
    version: int,
    context: RequestContext = NO_CONTEXT,
) -> ControllerResult:
    """Plan each resource separately; one that is rejected does not affect the others."""
    del version
    image, has_remote_storage = controller.image, controller.settings.remote_storage

    def plan(named: Resource, resource: incremental_alter_configs_request.AlterConfigsResource) -> _Planned:
        operations = [(each.name, each.config_operation, each.value) for each in resource.configs]
        return plan_incremental(image, named, operations, has_remote_storage, context.comes_from_broker)

    wire = incremental_alter_configs_response
    results, records = _plan_resources(message.resources, plan, wire.AlterConfigsResourceResponse)
    response = wire.IncrementalAlterConfigsResponse(0, results)
    effects = plan_effects(controller, records)
    return ControllerResult([] if message.validate_only else [*records, *effects], response)


def plan_alter_configs(
    controller: Controller,
    message: AlterConfigsRequest,
    version: int,
    context: RequestContext = NO_CONTEXT,
) -> ControllerResult:
    """Plan each resource separately; configs of a resource that the request does not name are deleted."""
    del version
    image, has_remote_storage = controller.image, controller.settings.remote_storage

    def plan(named: Resource, resource: alter_configs_request.AlterConfigsResource) -> _Planned:
        values = [(each.name, each.value) for each in resource.configs]
        return plan_replacement(image, named, values, has_remote_storage, context.comes_from_broker)

    wire = alter_configs_response
    results, records = _plan_resources(message.resources, plan, wire.AlterConfigsResourceResponse)
    response = wire.AlterConfigsResponse(0, results)
    effects = plan_effects(controller, records)
    return ControllerResult([] if message.validate_only else [*records, *effects], response)


def _plan_resources(
    requested: Sequence[C],
    plan: Callable[[Resource, C], _Planned],
    result: Callable[[int, str | None, int, str], R],
) -> tuple[list[R], list[ConfigRecord]]:
    """Return the results of the resources, and the records of those that were not rejected."""
    results: list[R] = []
    records: list[ConfigRecord] = []
    repeated = _repeated(requested)
    rejected: set[Resource] = set()
    for each in requested:
        resource = (each.resource_type, each.resource_name)
        if resource in repeated:
            if resource not in rejected:
                rejected.add(resource)
                results.append(result(*_error(_DUPLICATE), *resource))
            continue
        planned = _TOO_MANY if len(each.configs) > MAX_CONFIGS else plan(resource, each)
        if isinstance(planned, RequestError):
            results.append(result(*_error(planned), *resource))
        else:
            results.append(result(0, None, *resource))
            records += planned
    return results, records


def _repeated(requested: Sequence[NamedResource]) -> Collection[Resource]:
    times = Counter((each.resource_type, each.resource_name) for each in requested)
    return {resource for resource, count in times.items() if count > 1 and resource[0] in _SUPPORTED}


def _error(rejection: RequestError) -> tuple[int, str]:
    return int(rejection.error), rejection.message
