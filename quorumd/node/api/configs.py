"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs: linearizable, answered once committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from quorumd.controller.cluster_image import ALL_BROKERS, Resource, ResourceType
from quorumd.controller.config_effects import plan_effects
from quorumd.controller.config_table import BROKER_CONFIGS, CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from quorumd.controller.configs import (
    ApiError,
    check_resource,
    plan_incremental,
    plan_replacement,
)
from quorumd.controller.effective_configs import (
    ConfigSource,
    EffectiveConfig,
    effective_topic_configs,
    merge_layers,
)
from quorumd.errors import ErrorCode
from quorumd.node.api.context import ApiContext
from quorumd.node.api.purgatory import ResponseHook
from quorumd.node.sessions.router import Route
from quorumd.node.sessions.server_session import Session
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import (
    alter_configs_response,
    describe_configs_response,
    incremental_alter_configs_response,
)
from quorumd.protocol.messages.alter_configs_request import AlterConfigsRequest
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from quorumd.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest

_OTHER_RESOURCES = {
    ResourceType.CLIENT_METRICS: (ConfigSource.CLIENT_METRICS, CLIENT_METRICS_CONFIGS),
    ResourceType.GROUP: (ConfigSource.GROUP, GROUP_CONFIGS),
}
AlterConfigs = IncrementalAlterConfigsRequest | AlterConfigsRequest
_ALTERED = (int(ErrorCode.NONE), None)


class ConfigApis:
    """Plans changes against the image, proposes their records, and reads the image linearizably."""

    def __init__(self, context: ApiContext) -> None:
        self._own_name = str(context.settings.node_id)
        self._static_configs = context.settings.static_configs
        self._role = context.role
        self._state_machine = context.state_machine
        self._controller = context.controller
        self._statistics = context.statistics
        self._writer = context.writer
        self._purgatory = context.purgatory
        self._large = context.large_requests

    def routes(self) -> Iterable[Route]:
        return (
            Route(DescribeConfigsRequest, self.describe_configs),
            Route(IncrementalAlterConfigsRequest, self.incremental_alter_configs),
            Route(AlterConfigsRequest, self.alter_configs),
        )

    def incremental_alter_configs(
        self, session: Session, request: Request[IncrementalAlterConfigsRequest]
    ) -> None:
        wire = incremental_alter_configs_response
        self._alter(
            session,
            request,
            _plan_incremental,
            wire.IncrementalAlterConfigsResponse,
            wire.AlterConfigsResourceResponse,
        )

    def alter_configs(self, session: Session, request: Request[AlterConfigsRequest]) -> None:
        """The older form: what is not named is deleted."""
        wire = alter_configs_response
        self._alter(
            session,
            request,
            _plan_replacement,
            wire.AlterConfigsResponse,
            wire.AlterConfigsResourceResponse,
        )

    def _alter(
        self,
        session: Session,
        request: Request[AlterConfigs],
        plan: Callable[[Any, Resource, Any, bool, bool], list[ConfigRecord] | ApiError],
        response_class: Callable[[int, list[Any]], Any],
        resource_class: Callable[..., Any],
    ) -> None:
        def execute(session: Session, request: Request[AlterConfigs], options: dict[str, Any]) -> None:
            del options
            self._execute(session, request, plan, response_class, resource_class)

        if self._role.is_active_controller:
            self._large.handle(session, request, execute)
        else:
            self._purgatory.not_leader(session, request)

    def _execute(
        self,
        session: Session,
        request: Request[AlterConfigs],
        plan: Callable[[Any, Resource, Any, bool, bool], list[ConfigRecord] | ApiError],
        response_class: Callable[[int, list[Any]], Any],
        resource_class: Callable[..., Any],
    ) -> None:
        purgatory = self._purgatory
        if not self._role.is_active_controller:
            purgatory.not_leader(session, request)
            return
        message = request.message
        if not self._writer.has_room():
            purgatory.refuse(session, request, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        image = self._state_machine.image
        has_remote_storage = self._controller.settings.remote_storage
        responses: list[Any] = []
        planned: list[ConfigRecord] = []
        times = Counter((requested.resource_type, requested.resource_name) for requested in message.resources)
        repeated: set[Resource] = set()
        for requested in message.resources:
            resource = (requested.resource_type, requested.resource_name)
            is_repeated = times[resource] > 1 and requested.resource_type in _KEPT
            if is_repeated and resource in repeated:
                continue
            outcome: list[ConfigRecord] | ApiError
            if is_repeated:
                repeated.add(resource)
                outcome = _DUPLICATE
            else:
                outcome = plan(
                    image, resource, requested.configs, has_remote_storage, session.comes_from_broker
                )
            error, text = _ALTERED
            if isinstance(outcome, ApiError):
                error, text = int(outcome.error), outcome.message
                self._statistics.count_error(request.api_key, error)
            else:
                planned += outcome
            responses.append(resource_class(error, text, requested.resource_type, requested.resource_name))
        response = response_class(0, responses)
        if not planned or message.validate_only:
            purgatory.respond_after_read(session, request, response)
            return
        records = [*planned, *plan_effects(self._controller, planned)]
        if not self._writer.write_batch(records, purgatory.on_commit_respond(session, request, response)):
            purgatory.refuse(session, request, ErrorCode.MESSAGE_TOO_LARGE)

    def describe_configs(self, session: Session, request: Request[DescribeConfigsRequest]) -> None:
        purgatory = self._purgatory
        hook: ResponseHook | None = None if session.is_controller_client else self._add_static_configs

        def execute(
            session: Session, request: Request[DescribeConfigsRequest], options: dict[str, Any]
        ) -> None:
            del options
            self._execute_describe(session, request, hook)

        if self._role.is_active_controller:
            self._large.handle(session, request, execute, hook)
        else:
            purgatory.not_leader(session, request, hook)

    def _execute_describe(
        self, session: Session, request: Request[DescribeConfigsRequest], hook: ResponseHook | None
    ) -> None:
        purgatory = self._purgatory

        def on_read_confirmed(confirmed: bool) -> None:
            if not confirmed:
                purgatory.not_leader(session, request, hook)
                return
            message = request.message
            wire = describe_configs_response
            response = wire.DescribeConfigsResponse(
                0, [self._describe(message, r) for r in message.resources]
            )
            purgatory.respond_on_commit(session, request, response, hook)

        purgatory.confirm_read(on_read_confirmed)

    def _describe(
        self, message: DescribeConfigsRequest, requested: DescribeConfigsResource
    ) -> describe_configs_response.DescribeConfigsResult:
        wire = describe_configs_response
        resource: Resource = (requested.resource_type, requested.resource_name)
        refused = check_resource(self._state_machine.image, resource)
        if refused is not None:
            return wire.DescribeConfigsResult(int(refused.error), refused.message, *resource)
        entries = [
            _entry(config, message.include_synonyms)
            for config in self._effective(resource)
            if requested.configuration_keys is None or config.name in requested.configuration_keys
        ]
        return wire.DescribeConfigsResult(0, None, *resource, entries)

    def _effective(self, resource: Resource) -> list[EffectiveConfig]:
        image = self._state_machine.image
        kind, name = resource
        own = image.config(resource)
        if kind == ResourceType.TOPIC:
            return effective_topic_configs(image, own)
        if kind != ResourceType.BROKER:
            source, definitions = _OTHER_RESOURCES[ResourceType(kind)]
            return merge_layers(definitions, (source, own))
        if name == "":
            return merge_layers(BROKER_CONFIGS, (ConfigSource.ALL_BROKERS, own))
        layers = [(ConfigSource.BROKER, own), (ConfigSource.ALL_BROKERS, image.config(ALL_BROKERS))]
        if name == self._own_name:
            layers.append((ConfigSource.PROPERTIES_FILE, dict(self._static_configs)))
        return merge_layers(BROKER_CONFIGS, *layers)

    def _add_static_configs(self, response: Any) -> None:
        """The leader does not know the properties file of this node: add what it could not tell."""
        for result in response.results:
            if (result.resource_type, result.resource_name) != (ResourceType.BROKER, self._own_name):
                continue
            returned = {entry.name for entry in result.configs}
            layer = (ConfigSource.PROPERTIES_FILE, dict(self._static_configs))
            static = merge_layers(BROKER_CONFIGS, layer)
            result.configs += [_entry(config, False) for config in static if config.name not in returned]


_KEPT = frozenset({ResourceType.TOPIC, ResourceType.BROKER, *_OTHER_RESOURCES})
_DUPLICATE = ApiError(
    ErrorCode.INVALID_REQUEST, "The same resource is named twice in one request: none of that is done."
)
"""One response for all of them, as Kafka's controllers give it."""


def _plan_incremental(
    image: Any, resource: Resource, configs: Any, has_remote_storage: bool, comes_from_broker: bool
) -> list[ConfigRecord] | ApiError:
    operations = [(c.name, c.config_operation, c.value) for c in configs]
    return plan_incremental(image, resource, operations, has_remote_storage, comes_from_broker)


def _plan_replacement(
    image: Any, resource: Resource, configs: Any, has_remote_storage: bool, comes_from_broker: bool
) -> list[ConfigRecord] | ApiError:
    values = [(c.name, c.value) for c in configs]
    return plan_replacement(image, resource, values, has_remote_storage, comes_from_broker)


def _entry(
    config: EffectiveConfig, with_synonyms: bool
) -> describe_configs_response.DescribeConfigsResourceResult:
    wire = describe_configs_response
    is_sensitive = config.is_sensitive
    source = config.values[0].source
    synonyms = [
        wire.DescribeConfigsSynonym(each.name, None if is_sensitive else each.value, int(each.source))
        for each in (config.values if with_synonyms else ())
    ]
    value = None if is_sensitive else config.values[0].value
    is_read_only = source is ConfigSource.PROPERTIES_FILE
    return wire.DescribeConfigsResourceResult(
        config.name, value, is_read_only, int(source), is_sensitive, synonyms, int(config.type), None
    )
