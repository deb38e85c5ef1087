"""DescribeConfigs, a linearizable read, and ListConfigResources, which any node serves from its committed image.

The APIs that change configs are in `controller_table`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Hashable, Iterable
from functools import partial
from typing import Final

from quorumd.controller.cluster_image import ALL_BROKERS, Resource
from quorumd.controller.config_listing import list_config_resources
from quorumd.controller.config_requests import MAX_CONFIGS
from quorumd.controller.config_table import BROKER_CONFIGS, CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from quorumd.controller.configs import check_resource
from quorumd.controller.effective_configs import (
    ConfigSource,
    EffectiveConfig,
    effective_topic_configs,
    merge_layers,
)
from quorumd.controller.request_context import PartContext
from quorumd.errors import ErrorCode
from quorumd.node.api.context import ApiContext
from quorumd.node.api.forwarding import ResponseHook
from quorumd.node.api.own_configs import OwnConfigs, entry_of
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import describe_configs_response
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from quorumd.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from quorumd.protocol.response_task import begin_response
from quorumd.protocol.routes import Route, Session

_OTHER_RESOURCES = {
    ConfigResourceType.CLIENT_METRICS: (ConfigSource.CLIENT_METRICS, CLIENT_METRICS_CONFIGS),
    ConfigResourceType.GROUP: (ConfigSource.GROUP, GROUP_CONFIGS),
}


MAX_FORWARDED_WITH_OWN: Final = 100
"""Resources of a request that also names this node. Its own configs are added to the response of the leader, which is
therefore decoded at once. Kafka's clients send such a request for one broker at a time."""
_DUPLICATE: Final = (ErrorCode.INVALID_REQUEST, "The request names this resource more than once.")
_TOO_MANY_KEYS: Final = (
    ErrorCode.INVALID_REQUEST,
    f"A request may name at most {MAX_CONFIGS} configs of a resource.",
)
_TOO_MANY: Final = (
    ErrorCode.INVALID_REQUEST,
    f"A request for the configs of this broker may name at most {MAX_FORWARDED_WITH_OWN} resources.",
)
_Entries = list[describe_configs_response.DescribeConfigsResourceResult]


class ConfigApis:
    """Merges the configs of the image with defaults and, for this node, those of `own_configs`."""

    def __init__(self, context: ApiContext) -> None:
        self._own_configs = OwnConfigs(context.node.settings)
        self._role = context.quorum.role
        self._state_machine = context.metadata.state_machine
        self._committed_image = context.execution.committed_image
        self._purgatory = context.execution.purgatory
        self._large = context.execution.large_requests
        self._scheduler = context.execution.scheduler
        self._authorization = context.gates.authorization

    def routes(self) -> Iterable[Route]:
        return (
            Route(DescribeConfigsRequest, self.describe_configs),
            Route(ListConfigResourcesRequest, self.list_config_resources),
        )

    def list_config_resources(self, session: Session, request: Request[ListConfigResourcesRequest]) -> None:
        """List the resources of the committed image; see `quorumd.controller.config_listing`."""
        machine, listener = self._state_machine, session.origin.listener
        self._committed_image.respond(
            session,
            request,
            lambda: list_config_resources(machine.image, request.message, request.api_version, listener),
        )

    def describe_configs(self, session: Session, request: Request[DescribeConfigsRequest]) -> None:
        hook: ResponseHook | None = None
        if not session.origin.is_controller_client and self._own_configs.are_named(request.message):
            if len(request.message.resources) > MAX_FORWARDED_WITH_OWN:
                begin_response(session, request, _refuse_all(request.message), self._scheduler.begin)
                return
            hook = partial(self._own_configs.add_to, request.message)

        def execute(session: Session, request: Request[DescribeConfigsRequest], part: PartContext) -> None:
            del part
            self._execute_describe(session, request, hook)

        if self._role.is_active_controller:
            self._large.handle(session, request, execute, hook)
        else:
            self._large.not_leader(session, request, hook)

    def _execute_describe(
        self, session: Session, request: Request[DescribeConfigsRequest], hook: ResponseHook | None
    ) -> None:
        purgatory = self._purgatory
        admitted = self._authorization.admit(session, request)
        if admitted is None:
            return
        session = admitted

        def on_read_confirmed(confirmed: bool) -> None:
            if not confirmed:
                purgatory.not_leader(session, request, hook)
                return
            purgatory.respond_on_commit(session, request, self._describe_all(request.message), hook)

        purgatory.confirm_read(on_read_confirmed)

    def _describe_all(
        self, message: DescribeConfigsRequest
    ) -> describe_configs_response.DescribeConfigsResponse:
        """Describe each resource once. A repeated one is refused, as in requests that change configs: a short name
        would otherwise get kilobytes each time."""
        wire = describe_configs_response
        named = Counter(map(_resource_of, message.resources))
        shared: dict[Hashable, _Entries] = {}
        results = []
        for requested in message.resources:
            resource = _resource_of(requested)
            if named[resource] == 1:
                results.append(self._describe(message, requested, shared))
            elif named[resource] > 1:
                named[resource] = 0
                results.append(wire.DescribeConfigsResult(*_DUPLICATE, *resource))
        response = wire.DescribeConfigsResponse(0, results)
        self._own_configs.add_to(message, response)
        return response

    def _describe(
        self,
        message: DescribeConfigsRequest,
        requested: DescribeConfigsResource,
        shared: dict[Hashable, _Entries],
    ) -> describe_configs_response.DescribeConfigsResult:
        """Describe a resource. `shared` has the entries of topics, most of which have the same configs."""
        wire = describe_configs_response
        resource = _resource_of(requested)
        image, keys = self._state_machine.image, requested.configuration_keys
        refused = check_resource(image, resource)
        if refused is not None:
            return wire.DescribeConfigsResult(int(refused.error), refused.message, *resource)
        if keys is not None and len(keys) > MAX_CONFIGS:
            return wire.DescribeConfigsResult(*_TOO_MANY_KEYS, *resource)
        if requested.resource_type != ConfigResourceType.TOPIC or keys is not None:
            return wire.DescribeConfigsResult(0, None, *resource, self._entries(message, resource, keys))
        own = frozenset(image.config(resource).items())
        if own not in shared:
            shared[own] = self._entries(message, resource, None)
        return wire.DescribeConfigsResult(0, None, *resource, shared[own])

    def _entries(
        self, message: DescribeConfigsRequest, resource: Resource, keys: list[str] | None
    ) -> _Entries:
        named = None if keys is None else frozenset(keys)
        return [
            entry_of(config, message.include_synonyms)
            for config in self._effective(resource)
            if named is None or config.name in named
        ]

    def _effective(self, resource: Resource) -> list[EffectiveConfig]:
        image = self._state_machine.image
        kind, name = resource
        own = image.config(resource)
        if kind == ConfigResourceType.TOPIC:
            return effective_topic_configs(image, own)
        if kind != ConfigResourceType.BROKER:
            source, definitions = _OTHER_RESOURCES[ConfigResourceType(kind)]
            return merge_layers(definitions, (source, own))
        if name == "":
            return merge_layers(BROKER_CONFIGS, (ConfigSource.DYNAMIC_DEFAULT_BROKER, own))
        return merge_layers(
            BROKER_CONFIGS,
            (ConfigSource.DYNAMIC_BROKER, own),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, image.config(ALL_BROKERS)),
        )


def _refuse_all(
    message: DescribeConfigsRequest,
) -> Generator[None, None, describe_configs_response.DescribeConfigsResponse]:
    wire = describe_configs_response
    results = []
    for each in message.resources:
        results.append(wire.DescribeConfigsResult(*_TOO_MANY, *_resource_of(each)))
        yield
    return wire.DescribeConfigsResponse(0, results)


def _resource_of(requested: DescribeConfigsResource) -> Resource:
    return (requested.resource_type, requested.resource_name)
