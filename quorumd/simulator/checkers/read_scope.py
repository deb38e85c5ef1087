"""The part of the cluster that a response must show, since requests may name topics or read them page by page."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from quorumd.protocol.messages.api_versions_response import ApiVersionsResponse
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from quorumd.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from quorumd.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.wire import Message

FEATURES_SINCE = 3
"""The first version of ApiVersions with features."""
FENCED_BROKERS_SINCE = 2
"""The first version of DescribeCluster with fenced brokers."""
TOPIC_IDS_SINCE = 10
"""The first version of Metadata with topic ids."""


class Scope(NamedTuple):
    """The topics, partitions, brokers and features that a response shows if they exist."""

    names: frozenset[str] | None = None
    """The names of the topics, None for all."""
    begin: str = ""
    """The name from which on it shows topics."""
    end: str | None = None
    """The name below which it shows topics, None for no limit."""
    partial: frozenset[str] = frozenset()
    """The names of topics of which it shows only some partitions."""
    partitions: frozenset[tuple[str, int]] | None = None
    """The partitions, by topic and number, in a list of reassignments, None for all."""
    topics: bool = True
    """Whether it shows topics with their ids."""
    brokers: bool = True
    features: bool = True
    fenced_brokers: bool = True
    """Whether fenced brokers are among the brokers."""
    is_split: bool = False
    """Whether each reassignment may be described at a moment of its own, since a leader may serve the request in
    parts."""

    def covers(self, name: str) -> bool:
        """Whether the response shows the topic with this name, if it exists."""
        is_named = self.names is None or name in self.names
        return is_named and name >= self.begin and (self.end is None or name < self.end)


EVERYTHING = Scope()


def scope_of(request: Message, version: int, response: Message) -> Scope:
    """Return the scope of a response to a request in a version."""
    if isinstance(request, MetadataRequest):
        return _scope_of_metadata(request, version)
    if isinstance(request, DescribeTopicPartitionsRequest):
        assert isinstance(response, DescribeTopicPartitionsResponse)
        return _scope_of_page(request, response)
    if isinstance(request, DescribeClusterRequest):
        return Scope(fenced_brokers=request.include_fenced_brokers and version >= FENCED_BROKERS_SINCE)
    if isinstance(response, ApiVersionsResponse):
        return Scope(features=version >= FEATURES_SINCE and not response.error_code)
    if isinstance(request, ListPartitionReassignmentsRequest) and request.topics is not None:
        named = ((topic.name, number) for topic in request.topics for number in topic.partition_indexes)
        return Scope(partitions=frozenset(named))
    return EVERYTHING


def _scope_of_metadata(request: MetadataRequest, version: int) -> Scope:
    has_ids = version >= TOPIC_IDS_SINCE
    if request.topics is None or (not request.topics and version == 0):
        return Scope(topics=has_ids)
    # A response that shows nothing else than the metadata log does not wait for a commit.
    waits = any(
        topic.name != METADATA_TOPIC and topic.topic_id != METADATA_TOPIC_ID for topic in request.topics
    )
    names = frozenset(topic.name for topic in request.topics if topic.name is not None)
    return Scope(names, topics=has_ids, brokers=waits)


def _scope_of_page(
    request: DescribeTopicPartitionsRequest, response: DescribeTopicPartitionsResponse
) -> Scope:
    names = frozenset(topic.name for topic in request.topics) if request.topics else None
    if any(topic.error_code == ErrorCode.INVALID_REQUEST for topic in response.topics):
        names = frozenset()  # The cursor is invalid.
    begin, partial = "", set()
    if request.cursor is not None:
        begin = request.cursor.topic_name
        partial = {begin} if request.cursor.partition_index else set()
    end = None
    if response.next_cursor is not None:
        end = response.next_cursor.topic_name
        partial.add(end)
    return Scope(names, begin, end, frozenset(partial))
