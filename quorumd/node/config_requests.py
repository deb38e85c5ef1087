"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs: linearizable, answered once committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from quorumd.controller.cluster_image import Resource, ResourceType
from quorumd.controller.configs import (
    Refused,
    check_resource,
    plan_incremental,
    plan_replacement,
)
from quorumd.errors import ErrorCode
from quorumd.node.committed_answers import AnswerHook, CommittedAnswers
from quorumd.node.metadata_writer import MetadataWriter
from quorumd.node.request_router import Handler
from quorumd.node.server_session import Session
from quorumd.node.state_machine import StateMachine
from quorumd.node.statistics import NodeStatistics
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import (
    alter_configs_response,
    describe_configs_response,
    incremental_alter_configs_response,
)
from quorumd.protocol.messages.config_record import ConfigRecord

DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, STATIC_BROKER = 2, 3, 4
CLIENT_METRICS_SOURCE, GROUP_SOURCE = 7, 8
"""DescribeConfigs' ConfigSource: where a value comes from."""
STRING_TYPE = 2

_SOURCES = {ResourceType.CLIENT_METRICS: CLIENT_METRICS_SOURCE, ResourceType.GROUP: GROUP_SOURCE}
_ALTERED = (int(ErrorCode.NONE), None)


class ConfigRequests:
    """Plans changes against the image, proposes their records, and reads the image linearizably."""

    def __init__(
        self,
        node_id: int,
        static_configs: Sequence[tuple[str, str]],
        is_leader: Callable[[], bool],
        state_machine: StateMachine,
        statistics: NodeStatistics,
        writer: MetadataWriter,
        answers: CommittedAnswers,
    ) -> None:
        self._own_name = str(node_id)
        self._static_configs = static_configs
        self._is_leader = is_leader
        self._state_machine = state_machine
        self._statistics = statistics
        self._writer = writer
        self._answers = answers

    def handlers(self) -> Iterable[tuple[int, Handler]]:
        return (
            (ApiKey.DESCRIBE_CONFIGS, self.describe_configs),
            (ApiKey.INCREMENTAL_ALTER_CONFIGS, self.incremental_alter_configs),
            (ApiKey.ALTER_CONFIGS, self.alter_configs),
        )

    def incremental_alter_configs(self, session: Session, request: Request) -> None:
        wire = incremental_alter_configs_response
        self._alter(
            session,
            request,
            _plan_incremental,
            wire.IncrementalAlterConfigsResponse,
            wire.AlterConfigsResourceResponse,
        )

    def alter_configs(self, session: Session, request: Request) -> None:
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
        request: Request,
        plan: Callable[[Any, Resource, Any], list[ConfigRecord] | Refused],
        answer_class: Callable[[int, list[Any]], Any],
        resource_class: Callable[..., Any],
    ) -> None:
        answers = self._answers
        if not self._is_leader():
            answers.not_leader(session, request)
            return
        message: Any = request.message
        if not self._writer.has_room():
            answers.refuse(session, request, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        image = self._state_machine.image
        responses: list[Any] = []
        planned: list[ConfigRecord] = []
        named: set[Resource] = set()
        for asked in message.resources:
            resource = (asked.resource_type, asked.resource_name)
            outcome = _TWICE if resource in named else plan(image, resource, asked.configs)
            named.add(resource)
            error, text = _ALTERED
            if isinstance(outcome, Refused):
                error, text = int(outcome.error), outcome.message
                self._statistics.count_error(request.api_key, error)
            else:
                planned += outcome
            responses.append(resource_class(error, text, asked.resource_type, asked.resource_name))
        answer = answer_class(0, responses)
        if not planned or message.validate_only:
            answers.answer_when_confirmed(session, request, answer)
        elif not self._writer.write_whole(planned, answers.answering(session, request, answer)):
            answers.refuse(session, request, ErrorCode.MESSAGE_TOO_LARGE)

    def describe_configs(self, session: Session, request: Request) -> None:
        answers = self._answers
        hook: AnswerHook | None = None if session.asked_as_controller_client else self._add_static_configs
        if not self._is_leader():
            answers.not_leader(session, request, hook)
            return

        def fresh(confirmed: bool) -> None:
            if not confirmed:
                answers.not_leader(session, request, hook)
                return
            message: Any = request.message
            wire = describe_configs_response
            answer = wire.DescribeConfigsResponse(0, [self._describe(message, r) for r in message.resources])
            answers.answer_when_settled(session, request, answer, hook)

        answers.when_confirmed(fresh)

    def _describe(self, message: Any, asked: Any) -> describe_configs_response.DescribeConfigsResult:
        wire = describe_configs_response
        resource: Resource = (asked.resource_type, asked.resource_name)
        refused = check_resource(self._state_machine.image, resource)
        if refused is not None:
            return wire.DescribeConfigsResult(int(refused.error), refused.message, *resource)
        layers = self._layers(resource)
        entries: dict[str, describe_configs_response.DescribeConfigsResourceResult] = {}
        for source, configs in layers:
            for name, value in sorted(configs.items()):
                if asked.configuration_keys is not None and name not in asked.configuration_keys:
                    continue
                entry = entries.get(name)
                if entry is None:
                    entry = entries[name] = _entry(name, value, source, source == STATIC_BROKER)
                if message.include_synonyms:
                    entry.synonyms.append(wire.DescribeConfigsSynonym(name, value, source))
        return wire.DescribeConfigsResult(0, None, *resource, list(entries.values()))

    def _layers(self, resource: Resource) -> list[tuple[int, dict[str, str]]]:
        """Where values of this resource come from, the one that wins first."""
        image = self._state_machine.image
        kind, name = resource
        if kind != ResourceType.BROKER:
            return [(_SOURCES[ResourceType(kind)], image.config(resource))]
        defaults = (DYNAMIC_DEFAULT_BROKER, image.config((ResourceType.BROKER, "")))
        if name == "":
            return [defaults]
        layers = [(DYNAMIC_BROKER, image.config(resource)), defaults]
        if name == self._own_name:
            layers.append((STATIC_BROKER, dict(self._static_configs)))
        return layers

    def _add_static_configs(self, answer: Any) -> None:
        """The leader does not know the properties file of this node: add what it could not tell."""
        for result in answer.results:
            if (result.resource_type, result.resource_name) != (ResourceType.BROKER, self._own_name):
                continue
            told = {entry.name for entry in result.configs}
            result.configs += [
                _entry(name, value, STATIC_BROKER, True)
                for name, value in sorted(self._static_configs)
                if name not in told
            ]


_TWICE = Refused(ErrorCode.INVALID_REQUEST, "The same resource is named twice in one request.")


def _plan_incremental(image: Any, resource: Resource, configs: Any) -> list[ConfigRecord] | Refused:
    return plan_incremental(image, resource, [(c.name, c.config_operation, c.value) for c in configs])


def _plan_replacement(image: Any, resource: Resource, configs: Any) -> list[ConfigRecord] | Refused:
    return plan_replacement(image, resource, [(c.name, c.value) for c in configs])


def _entry(
    name: str, value: str, source: int, read_only: bool
) -> describe_configs_response.DescribeConfigsResourceResult:
    return describe_configs_response.DescribeConfigsResourceResult(
        name, value, read_only, source, False, [], STRING_TYPE, None
    )
