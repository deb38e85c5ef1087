"""Draws requests of every API that reads the cluster: for everything, for parts, in pages, and for unknown names."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, METADATA_TOPIC_ID, KafkaUuid
from quorumd.protocol.messages import describe_topic_partitions_request as pages
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from quorumd.protocol.messages.describe_topic_partitions_response import Cursor
from quorumd.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.read_scope import TOPIC_IDS_SINCE

UNKNOWN: Final = ("unknown", "not valid!", "")
"""Names of topics that do not exist."""
MAX_PARTITION: Final = 3
EVERYTHING_SHARE: Final = 0.5
"""Share of requests for everything, which detect the most violations."""


class Read(NamedTuple):
    """A request in one of its versions."""

    request: Message
    version: int


class ClusterReads:
    """Draws requests. `topics()` returns the names and ids of all topics that have ever existed."""

    def __init__(self, random: Random, topics: Callable[[], list[tuple[str, str]]]) -> None:
        self._random = random
        self._topics = topics
        self._kinds: tuple[Callable[[], Read], ...] = (
            self._metadata,
            self._page,
            self._cluster,
            self._api_versions,
            self._reassignments,
            self._quorum,
        )
        self._cursor: Cursor | None = None
        """The cursor of the last page."""

    def next(self) -> Read:
        """Return the next request."""
        if self._random.random() < EVERYTHING_SHARE:
            return self._random.choice(EVERYTHING)
        return self._random.choice(self._kinds)()

    def page_received(self, cursor: Cursor | None) -> None:
        """Continue the next page at the cursor of a response, None after the last page."""
        self._cursor = cursor

    def _version(self, request: Message, lowest: int = 0) -> int:
        return self._random.randint(max(lowest, request.MIN_VERSION), request.MAX_VERSION)

    def _names(self) -> list[str]:
        """Draw names of known and unknown topics."""
        known = sorted({name for name, _ in self._topics()})
        return [
            self._random.choice((*known, *known, *UNKNOWN)) for _ in range(self._random.choice((1, 2, 3)))
        ]

    def _metadata(self) -> Read:
        random = self._random
        by_id = random.random() < 0.3
        version = self._version(MetadataRequest(None), TOPIC_IDS_SINCE if by_id else 1)
        if by_id:
            ids = [KafkaUuid.parse(topic_id) for _, topic_id in self._topics()]
            ids += [METADATA_TOPIC_ID, KafkaUuid(random.randbytes(16))]
            drawn = random.sample(ids, min(len(ids), random.choice((1, 2, 3))))
            return Read(MetadataRequest([MetadataRequestTopic(each) for each in drawn]), version)
        if random.random() < 0.2:
            version = random.choice((0, version))
            return Read(MetadataRequest([] if version == 0 or random.random() < 0.5 else None), version)
        names = self._names() + [METADATA_TOPIC] * random.choice((0, 0, 1, 2))
        return Read(MetadataRequest([MetadataRequestTopic(name=name) for name in names]), version)

    def _page(self) -> Read:
        random = self._random
        names = [] if random.random() < 0.5 else self._names()
        cursor = self._cursor
        if cursor is None and random.random() < 0.3:
            cursor = Cursor(random.choice(self._names()), random.choice((0, 1, MAX_PARTITION, -1)))
        request = pages.DescribeTopicPartitionsRequest(
            [pages.TopicRequest(name) for name in names],
            random.choice((1, 1, 2, 3, 2000, 0)),
            None if cursor is None else pages.Cursor(cursor.topic_name, cursor.partition_index),
        )
        return Read(request, 0)

    def _cluster(self) -> Read:
        random = self._random
        endpoint_type = random.choice((1, 1, 2, 3))
        fenced, registrations = random.random() < 0.5, random.random() < 0.5
        request = DescribeClusterRequest(False, endpoint_type, fenced, registrations)
        lowest = 2 if fenced else (1 if endpoint_type != 1 else 0)
        return Read(request, self._version(request, lowest))

    def _api_versions(self) -> Read:
        random = self._random
        request = ApiVersionsRequest(random.choice(("quorumd", "librdkafka")), "1")
        if random.random() < 0.3:
            request.cluster_id, request.node_id = random.choice((("another", 1), ("another", -1), (None, 1)))
        return Read(request, self._version(request))

    def _reassignments(self) -> Read:
        numbers = list(range(MAX_PARTITION))
        topics = [ListPartitionReassignmentsTopics(name, numbers) for name in dict.fromkeys(self._names())]
        return Read(ListPartitionReassignmentsRequest(1000, topics), 0)

    def _quorum(self) -> Read:
        random = self._random
        topic, partition = random.choice(
            ((METADATA_TOPIC, METADATA_PARTITION), (METADATA_TOPIC, 1), ("unknown", METADATA_PARTITION))
        )
        request = DescribeQuorumRequest([TopicData(topic, [PartitionData(partition)])])
        return Read(request, self._version(request))


EVERYTHING: Final = (
    Read(MetadataRequest(None), 12),
    Read(pages.DescribeTopicPartitionsRequest([], 2000), 0),
    Read(DescribeClusterRequest(include_fenced_brokers=True), 2),
    Read(ApiVersionsRequest(), 4),
    Read(ListPartitionReassignmentsRequest(), 0),
    Read(DescribeQuorumRequest([TopicData(METADATA_TOPIC, [PartitionData(METADATA_PARTITION)])]), 2),
)
"""Requests for everything."""
