"""Requests to change configs: IncrementalAlterConfigs and its older form AlterConfigs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from quorumd.controller.cluster_image import Resource
from quorumd.controller.config_effects import plan_effects
from quorumd.controller.configs import plan_incremental, plan_replacement
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.request_error import RequestError
from quorumd.errors import ErrorCode
from quorumd.protocol.messages import alter_configs_response, incremental_alter_configs_response
from quorumd.protocol.messages.alter_configs_request import AlterConfigsRequest
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from quorumd.protocol.resource_type import ResourceType
from quorumd.protocol.wire import Message

C = TypeVar("C")
_SUPPORTED = frozenset(
    {ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP}
)
_DUPLICATE = RequestError(
    ErrorCode.INVALID_REQUEST, "The request names this resource more than once; none of its changes was made."
)
"""The one response for all changes of that resource, as Kafka's controllers give it."""

_Outcome = tuple[Resource, RequestError | None]


def plan_incremental_alter_configs(
    controller: Controller,
    message: IncrementalAlterConfigsRequest,
    version: int,
    comes_from_broker: bool = False,
) -> ControllerResult:
    """Plan each resource by itself; one that is refused does not affect the others."""
    del version
    image, has_remote_storage = controller.image, controller.settings.remote_storage
    changes = [
        (
            (resource.resource_type, resource.resource_name),
            [(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in message.resources
    ]
    outcomes, records = _plan_resources(
        changes,
        lambda resource, operations: plan_incremental(
            image, resource, operations, has_remote_storage, comes_from_broker
        ),
    )
    wire = incremental_alter_configs_response
    responses = [
        wire.AlterConfigsResourceResponse(*_error(refusal), *resource) for resource, refusal in outcomes
    ]
    response = wire.IncrementalAlterConfigsResponse(0, responses)
    return ControllerResult(_with_effects(controller, records, message.validate_only), response)


def plan_alter_configs(
    controller: Controller, message: AlterConfigsRequest, version: int, comes_from_broker: bool = False
) -> ControllerResult:
    """As `plan_incremental_alter_configs`; configs that a resource has and the request does not name are deleted."""
    del version
    image, has_remote_storage = controller.image, controller.settings.remote_storage
    changes = [
        (
            (resource.resource_type, resource.resource_name),
            [(config.name, config.value) for config in resource.configs],
        )
        for resource in message.resources
    ]
    outcomes, records = _plan_resources(
        changes,
        lambda resource, values: plan_replacement(
            image, resource, values, has_remote_storage, comes_from_broker
        ),
    )
    wire = alter_configs_response
    responses = [
        wire.AlterConfigsResourceResponse(*_error(refusal), *resource) for resource, refusal in outcomes
    ]
    response = wire.AlterConfigsResponse(0, responses)
    return ControllerResult(_with_effects(controller, records, message.validate_only), response)


def _plan_resources(
    changes: Sequence[tuple[Resource, C]], plan: Callable[[Resource, C], list[ConfigRecord] | RequestError]
) -> tuple[list[_Outcome], list[ConfigRecord]]:
    """Why each resource was refused, if it was, and the records of the others."""
    times = Counter(resource for resource, _ in changes)
    outcomes: list[_Outcome] = []
    records: list[ConfigRecord] = []
    repeated: set[Resource] = set()
    for resource, change in changes:
        if times[resource] > 1 and resource[0] in _SUPPORTED:
            if resource not in repeated:
                repeated.add(resource)
                outcomes.append((resource, _DUPLICATE))
            continue
        planned = plan(resource, change)
        if isinstance(planned, RequestError):
            outcomes.append((resource, planned))
        else:
            outcomes.append((resource, None))
            records += planned
    return outcomes, records


def _with_effects(
    controller: Controller, records: Sequence[ConfigRecord], validate_only: bool
) -> list[Message]:
    return [] if validate_only else [*records, *plan_effects(controller, records)]


def _error(refusal: RequestError | None) -> tuple[int, str | None]:
    return (0, None) if refusal is None else (int(refusal.error), refusal.message)
