"""The part of the cluster that a response must show."""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from quorumd.protocol.messages import describe_topic_partitions_request as pages
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.api_versions_response import ApiVersionsResponse
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from quorumd.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from quorumd.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.simulator.checkers.read_scope import EVERYTHING, Scope, scope_of


def metadata(topics: list[MetadataRequestTopic] | None, version: int = 12) -> Scope:
    return scope_of(MetadataRequest(topics), version, MetadataResponse())


def test_metadata_of_all_topics_covers_everything() -> None:
    assert metadata(None) == metadata([], 0)._replace(topics=True) == EVERYTHING
    assert not metadata(None, 9).topics


def test_metadata_covers_the_requested_names() -> None:
    scope = metadata([MetadataRequestTopic(name="a")])
    assert scope.covers("a")
    assert not scope.covers("b")
    assert scope.brokers


def test_metadata_of_the_log_alone_shows_no_committed_brokers() -> None:
    log = [MetadataRequestTopic(name=METADATA_TOPIC), MetadataRequestTopic(METADATA_TOPIC_ID)]
    assert not metadata(log).brokers
    assert metadata([*log, MetadataRequestTopic(name="a")]).brokers


def test_page_covers_the_topics_from_its_cursor_to_the_next() -> None:
    request = pages.DescribeTopicPartitionsRequest([], 3, pages.Cursor("b", 1))
    scope = scope_of(request, 0, DescribeTopicPartitionsResponse(0, [], Cursor("d", 2)))
    assert [name for name in "abcde" if scope.covers(name)] == ["b", "c"]
    assert scope.partial == {"b", "d"}
    last = scope_of(pages.DescribeTopicPartitionsRequest([], 3), 0, DescribeTopicPartitionsResponse(0, []))
    assert last == EVERYTHING


def test_page_with_an_invalid_cursor_covers_nothing() -> None:
    request = pages.DescribeTopicPartitionsRequest([pages.TopicRequest("a")], 3, pages.Cursor("b", 0))
    error = DescribeTopicPartitionsResponseTopic(int(ErrorCode.INVALID_REQUEST), "a")
    assert not scope_of(request, 0, DescribeTopicPartitionsResponse(0, [error])).covers("a")


def test_reassignments_cover_the_requested_partitions() -> None:
    request = ListPartitionReassignmentsRequest(1000, [ListPartitionReassignmentsTopics("a", [0, 2])])
    response = ListPartitionReassignmentsResponse()
    assert scope_of(request, 0, response).partitions == {("a", 0), ("a", 2)}
    assert scope_of(ListPartitionReassignmentsRequest(), 0, response).partitions is None


def test_versions_and_options_limit_brokers_and_features() -> None:
    response = DescribeClusterResponse()
    assert scope_of(DescribeClusterRequest(include_fenced_brokers=True), 2, response).fenced_brokers
    assert not scope_of(DescribeClusterRequest(include_fenced_brokers=True), 1, response).fenced_brokers
    assert scope_of(ApiVersionsRequest(), 3, ApiVersionsResponse()).features
    assert not scope_of(ApiVersionsRequest(), 2, ApiVersionsResponse()).features
