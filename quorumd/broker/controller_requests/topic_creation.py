"""Creates topics that clients name (`auto.create.topics.enable`), and the internal topics of coordinators.

For a client, the request is sent in an Envelope, so that the rights and the controller mutation quota of the client
apply.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from quorumd.broker.channels.controller_channel import ControllerChannel, NoResponse
from quorumd.errors import ErrorCode, MalformedMessage
from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.framing import SIZE
from quorumd.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse
from quorumd.protocol.messages.envelope_response import EnvelopeResponse
from quorumd.protocol.wire import Message
from quorumd.security.forwarded_principals import envelope

logger = logging.getLogger("quorumd.broker")

TIMEOUT_MS: Final = 30_000
MAX_WAITING: Final = 1_000
"""The maximum number of topics that wait for the request in flight; clients have to retry for others."""
REPEAT_MS: Final = 1_000.0
"""The time until a topic that could not be created may be requested again."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 means the default of the controller."""

    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


class RequestingClient(NamedTuple):
    """The client that named a topic; see `Session`."""

    principal: str
    is_token: bool
    host: str
    client_id: str


class _WantedTopic(NamedTuple):
    """A topic to request; `client` is None for a topic that the broker itself needs."""

    topic: NewTopic
    client: RequestingClient | None


class TopicCreation:
    """Sends one request at a time; each contains all topics that one client has requested meanwhile."""

    def __init__(self, channel: ControllerChannel, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock
        self._waiting: dict[str, _WantedTopic] = {}
        self._in_flight: dict[str, NewTopic] = {}
        self._refused_ms: dict[str, float] = {}
        """Topic -> the time at which it was last refused, oldest first."""

    def create(self, topics: Mapping[str, NewTopic], client: RequestingClient | None = None) -> None:
        """Request topics that do not exist, for a client or for the broker itself.

        If they are created, they appear in the metadata.
        """
        self._forget_refusals()
        for name, topic in topics.items():
            is_pending = name in self._in_flight or name in self._refused_ms
            if not is_pending and len(self._waiting) < MAX_WAITING:
                self._waiting.setdefault(name, _WantedTopic(topic, client))
        self._send()

    def is_refused(self, name: str) -> bool:
        """Whether the topic could not be created within the last REPEAT_MS."""
        self._forget_refusals()
        return name in self._refused_ms

    def _forget_refusals(self) -> None:
        now_ms = self._clock.now_ms()
        for name, refused_ms in list(self._refused_ms.items()):
            if refused_ms + REPEAT_MS > now_ms:
                break
            del self._refused_ms[name]

    def _send(self) -> None:
        if self._in_flight or not self._waiting:
            return
        client = next(iter(self._waiting.values())).client
        together = [name for name, wanted in self._waiting.items() if wanted.client == client]
        self._in_flight = {name: self._waiting.pop(name).topic for name in together}
        request = CreateTopicsRequest(
            [
                CreatableTopic(
                    name,
                    topic.partitions,
                    topic.replication_factor,
                    [],
                    [CreatableTopicConfig(key, value) for key, value in topic.configs.items()],
                )
                for name, topic in self._in_flight.items()
            ],
            TIMEOUT_MS,
        )
        if client is None:
            self._channel.send(
                ApiKey.CREATE_TOPICS, lambda version: request, self._on_response, self._on_failure
            )
            return
        connection = ClientConnection(client.client_id)
        _, framed = connection.request(request, CreateTopicsRequest.MAX_VERSION)
        forwarded = envelope(framed[SIZE.size :], client.principal, client.is_token, client.host)
        on_response = partial(self._on_envelope, connection)
        self._channel.send(ApiKey.ENVELOPE, lambda version: forwarded, on_response, self._on_failure)

    def _on_envelope(self, connection: ClientConnection, response: Message) -> None:
        assert isinstance(response, EnvelopeResponse)
        data = response.response_data or b""
        try:
            if response.error_code:
                raise MalformedMessage(ErrorCode.describe(response.error_code))
            ((_, created),) = connection.receive(SIZE.pack(len(data)) + data)
        except MalformedMessage as fault:
            self._fail(str(fault))
            return
        self._on_response(created)

    def _on_response(self, response: Message) -> None:
        assert isinstance(response, CreateTopicsResponse)
        refused = []
        for topic in response.topics:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                logger.info(
                    "topic %s is not created: %s: %s",
                    topic.name,
                    ErrorCode.describe(topic.error_code),
                    topic.error_message,
                )
                refused.append(topic.name)
        self._complete(refused)

    def _on_failure(self, failure: NoResponse) -> None:
        self._fail(failure.reason)

    def _fail(self, reason: str) -> None:
        logger.info("topics are not created: %s", reason)
        self._complete(list(self._in_flight))

    def _complete(self, refused: Iterable[str]) -> None:
        now_ms = self._clock.now_ms()
        for name in refused:
            self._refused_ms.pop(name, None)
            self._refused_ms[name] = now_ms
        self._in_flight = {}
        self._send()
