"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs: linearizable, answered once committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from quorumd.controller.assignment import Change
from quorumd.controller.cluster_image import Resource, ResourceType
from quorumd.controller.configs import (
    Refused,
    check_resource,
    plan_incremental,
    plan_replacement,
)
from quorumd.errors import ErrorCode
from quorumd.node.error_answers import counting
from quorumd.node.proposals import MAX_BATCH_BYTES, Proposals
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
from quorumd.protocol.metadata_record import encode_record

DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, STATIC_BROKER = 2, 3, 4
CLIENT_METRICS_SOURCE, GROUP_SOURCE = 7, 8
"""DescribeConfigs' ConfigSource: where a value comes from."""
STRING_TYPE = 2
CONFIG_RECORD_VERSION = 0

_SOURCES = {ResourceType.CLIENT_METRICS: CLIENT_METRICS_SOURCE, ResourceType.GROUP: GROUP_SOURCE}
_ALTERED = (int(ErrorCode.NONE), None)


class ConfigRequests:
    """Plans changes against the image, proposes their records, and reads the image linearizably.

    `read(outcome)` calls `outcome(True)` when the image is fresh enough to answer a read that came now.
    """

    def __init__(
        self,
        node_id: int,
        static_configs: Sequence[tuple[str, str]],
        is_leader: Callable[[], bool],
        has_room: Callable[[], bool],
        state_machine: StateMachine,
        statistics: NodeStatistics,
        proposals: Proposals,
        read: Callable[[Callable[[bool], None]], None],
        forward: Callable[..., None],
    ) -> None:
        self._own_name = str(node_id)
        self._static_configs = static_configs
        self._is_leader = is_leader
        self._has_room = has_room
        self._state_machine = state_machine
        self._statistics = statistics
        self._error_answer = counting(statistics)
        self._proposals = proposals
        self._read = read
        self._forward = forward

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
        if not self._is_leader():
            self._not_leader(session, request)
            return
        message: Any = request.message
        if not self._has_room():
            session.answer(request, self._error_answer(request, ErrorCode.KAFKA_STORAGE_ERROR))
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
            self._answer_when_confirmed(session, request, answer)
            return
        values = [encode_record(record, CONFIG_RECORD_VERSION) for record in planned]
        if sum(map(len, values)) > MAX_BATCH_BYTES:
            session.answer(request, self._error_answer(request, ErrorCode.MESSAGE_TOO_LARGE))
            return
        changes: list[Change] = []
        for record in planned:
            image.apply_config(record, changes)
        self._proposals.propose(values, changes, self._answering(session, request, answer))

    def _answering(self, session: Session, request: Request, answer: Any) -> Callable[[bool], None]:
        def outcome(committed: bool) -> None:
            if not committed:
                session.answer(request, self._error_answer(request, ErrorCode.NOT_CONTROLLER))
            else:
                session.answer(request, answer)

        return outcome

    def _answer_when_confirmed(self, session: Session, request: Request, answer: Any) -> None:
        """Nothing is to be done, which is as much of a statement about the image as a read is: a leader that was
        replaced and does not know it yet must not make it."""

        def fresh(confirmed: bool) -> None:
            if confirmed:
                self._answer_when_settled(session, request, answer)
            else:
                self._not_leader(session, request)

        self._read(fresh)

    def _answer_when_settled(
        self, session: Session, request: Request, answer: Any, hook: Callable[[Any], None] | None = None
    ) -> None:
        """What the image holds may be uncommitted: nobody may see that before it is, or if it never will be."""

        def settled(committed: bool) -> None:
            if committed:
                session.answer(request, answer)
            else:
                self._not_leader(session, request, hook)

        self._proposals.when_settled(settled)

    def describe_configs(self, session: Session, request: Request) -> None:
        hook = None if session.asked_as_controller_client else self._add_static_configs
        if not self._is_leader():
            self._not_leader(session, request, hook)
            return

        def fresh(confirmed: bool) -> None:
            if not confirmed:
                self._not_leader(session, request, hook)
                return
            message: Any = request.message
            wire = describe_configs_response
            answer = wire.DescribeConfigsResponse(0, [self._describe(message, r) for r in message.resources])
            self._answer_when_settled(session, request, answer, hook)

        self._read(fresh)

    def _not_leader(
        self, session: Session, request: Request, hook: Callable[[Any], None] | None = None
    ) -> None:
        """The request had no effect here, so another node may be asked: by the client, or by this one for it."""
        if session.asked_as_controller_client:
            session.answer_not_leader(request, self._error_answer(request, ErrorCode.NOT_CONTROLLER))
        else:
            self._forward(session, request, hook)

    def _describe(self, message: Any, asked: Any) -> describe_configs_response.DescribeConfigsResult:
        wire = describe_configs_response
        resource: Resource = (asked.resource_type, asked.resource_name)
        refused = check_resource(resource)
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
