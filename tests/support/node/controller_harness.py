"""The controller APIs of one node, with a real image, planners and proposals, without a log or connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quorumd.controller.partition import Partition, PartitionId, partition_record
from quorumd.node.api.controller import ControllerApis
from quorumd.node.api.controller_table import CONTROLLER_APIS, ControllerApi
from quorumd.protocol.apis import APIS
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.wire import Message
from quorumd.security.authorizer import Authorizer
from tests.support.node.api_harness import FIRST_OFFSET as FIRST_OFFSET
from tests.support.node.api_harness import TOPIC_ID as TOPIC_ID
from tests.support.node.api_harness import ApiHarness
from tests.support.node.recording_session import DecodingSession, RecordingSession, request_of


class ControllerHarness(ApiHarness):
    """Handles requests with the planners of a table, at metadata.version 25 with eligible leader replicas."""

    def __init__(
        self, apis: Mapping[int, ControllerApi] = CONTROLLER_APIS, authorizer: Authorizer | None = None
    ) -> None:
        super().__init__(authorizer=authorizer)
        self.apis = ControllerApis(self.context, apis)
        self.finalize("metadata.version", 25)
        self.finalize("eligible.leader.replicas.version", 1)

    def request(
        self, message: Message, session: RecordingSession | None = None, version: int | None = None
    ) -> RecordingSession:
        """Handle a request; return the session, which keeps the response."""
        assert message.API_KEY is not None
        session = session or DecodingSession()
        version = APIS[message.API_KEY].max_version if version is None else version
        self.apis.handle(session, request_of(message, version))
        return session

    def response_to(self, message: Message, session: RecordingSession | None = None) -> Any:
        """Handle a request, commit its records and return the response."""
        session = self.request(message, session)
        self.commit()
        self.confirm()
        return session.responses[-1]

    def partition(self) -> Partition:
        partition = self.controller.image.partition(PartitionId(TOPIC_ID, 0))
        assert partition is not None
        return partition

    def begin_with(self, *partitions: Partition) -> None:
        """Create one topic with these partitions in the image."""
        image = self.controller.image
        image.apply(TopicRecord("topic", TOPIC_ID), [])
        for number, partition in enumerate(partitions):
            image.apply(partition_record(PartitionId(TOPIC_ID, number), partition), [])
