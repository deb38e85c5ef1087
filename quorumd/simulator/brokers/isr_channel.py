"""AlterPartition requests of a model broker in one version: versions without topic ids name the topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from quorumd.broker.channels.controller_channel import NoResponse
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.messages.alter_partition_request import AlterPartitionRequest
from quorumd.protocol.messages.alter_partition_response import AlterPartitionResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.request_channel import Address, Channel
from quorumd.simulator.environment.event_heap import EventHeap, Process

TOPIC_IDS_SINCE: Final = 2
"""The first version of AlterPartition with topic ids; earlier versions name topics."""


class NotSent(NamedTuple):
    """A request without a response."""

    reason: str


class IsrChannel:
    """Sends requests over `channel`. Satisfies `ControllerChannel`.

    `controller()` returns the address of the quorum's leader, None if it is unknown, and `name_of(topic_id)` the name
    of a topic, "" if it is unknown.
    """

    def __init__(
        self,
        heap: EventHeap,
        process: Process,
        channel: Channel,
        controller: Callable[[], Address | None],
        name_of: Callable[[KafkaUuid], str],
        version: int,
    ) -> None:
        self._heap = heap
        self._process = process
        self._channel = channel
        self._controller = controller
        self._name_of = name_of
        self._version = version

    def send(
        self,
        api_key: int,
        build: Callable[[int], Message],
        on_response: Callable[[Message], None],
        on_failure: Callable[[NoResponse], None],
    ) -> None:
        """Send a request; see `ControllerChannel`."""
        address = self._controller()
        if address is None:
            unknown = NotSent("no controller is known")
            self._heap.call_later(0.0, lambda: on_failure(unknown), b"no controller", self._process)
            return
        request = build(self._version)
        ids = self._name_topics(request) if self._version < TOPIC_IDS_SINCE else {}

        def on_message(message: Message | None) -> None:
            if message is None:
                on_failure(NotSent("the connection was lost"))
                return
            assert isinstance(message, AlterPartitionResponse)
            for topic in message.topics if ids else ():
                topic.topic_id = ids[topic.topic_name]
            on_response(message)

        self._channel.send(address, request, self._version, on_message)

    def _name_topics(self, request: Message) -> dict[str, KafkaUuid]:
        """Replace the ids of topics by their names; return the ids by name."""
        assert isinstance(request, AlterPartitionRequest)
        ids = {}
        for topic in request.topics:
            topic.topic_name = self._name_of(topic.topic_id)
            ids[topic.topic_name], topic.topic_id = topic.topic_id, ZERO_UUID
        return ids
