"""The APIs that list topics, on an image whose content a test commits."""

from __future__ import annotations

from typing import Any

from quorumd.controller.partition import Partition, PartitionId, partition_record
from quorumd.ids import KafkaUuid
from quorumd.node.api.forwarding import decode_response
from quorumd.node.api.topic_listing import NodeTopics
from quorumd.node.api.topics import TopicApis
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.routes import Session
from quorumd.security.authorizer import Authorizer
from tests.support.controller.topic_harness import a_broker
from tests.support.node.api_harness import ApiHarness
from tests.support.node.recording_session import request_of
from tests.support.node.scripted_image import ScriptedCommits, ScriptedImage
from tests.support.security.rights import ALICE

SLICE_PARTITIONS = 10


class TopicApiHarness(ApiHarness):
    """Brokers 1 and 2 are registered, 3 is fenced, 4 is not registered. Nothing is committed before `finish`."""

    def __init__(self, authorizer: Authorizer | None = None) -> None:
        image = ScriptedImage()
        self.commits = ScriptedCommits(image, is_behind=True)
        super().__init__(
            state_machine=image,
            committed_image=self.commits,
            slice_partitions=SLICE_PARTITIONS,
            authorizer=authorizer,
        )
        self.session.origin.principal = ALICE
        self.apis = TopicApis(self.context)
        self.listings = NodeTopics(self.context)
        for broker in (a_broker(1), a_broker(2), a_broker(3, fenced=True)):
            self.image.brokers[broker.id] = broker

    def add(self, name: str, partitions: int) -> None:
        topic_id = KafkaUuid(name.encode().ljust(16))
        self.machine.image.apply(TopicRecord(name, topic_id), [])
        for number in range(partitions):
            self.put(name, number, Partition((1, 2), (1, 2), 1))

    def put(self, name: str, number: int, partition: Partition) -> None:
        where = PartitionId(self.machine.image.topic_ids[name], number)
        self.machine.image.apply(partition_record(where, partition), [])

    def describe(self, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
        message = DescribeTopicPartitionsRequest(
            [TopicRequest(name) for name in names], limit, Cursor(*cursor) if cursor is not None else None
        )
        request = request_of(message, 0)
        self.apis.describe_topic_partitions(self.session, request)
        self.finish()
        response = self.session.responses[-1]
        return decode_response(request, response) if isinstance(response, bytes) else response

    def finish(self, is_committed: bool = True) -> None:
        """Commit, or roll back, the proposed records and run all slices."""
        while self.turns or self.commits.waiting:
            outcomes, self.commits.waiting[:] = list(self.commits.waiting), []
            for outcome in outcomes:
                outcome(is_committed)
            for turn in [self.turns.pop() for _ in range(len(self.turns))]:
                turn()

    def request_metadata(self, version: int = 12, session: Session | None = None) -> Request:
        request = request_of(MetadataRequest(None), version)
        self.listings.respond(
            session or self.session,
            request,
            self.listings.all_topics,
            lambda topics: MetadataResponse(topics=topics),
        )
        return request

    def page(self, *names: str, **options: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
        """Return the partitions of each topic, and the cursor."""
        response = self.describe(*names, **options)
        topics = [(t.name, [p.partition_index for p in t.partitions]) for t in response.topics]
        cursor = response.next_cursor
        return topics, (cursor.topic_name, cursor.partition_index) if cursor is not None else None
