"""The admin client: sends requests to a cluster and follows its leader.

    async with AdminClient([("127.0.0.1", 9192)]) as admin:
        quorum = await admin.describe_quorum()
        await admin.alter_configs(ConfigResourceType.TOPIC, "orders", {"retention.ms": "1000"})
        await admin.alter_quorum([0, 3, 4])

A request is retried with exponential backoff (KIP-580) if a connection fails, a node does not respond in time or is
not the leader, so it may be executed more than once. All attempts share one deadline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from quorumd.client.broker_addresses import broker_address
from quorumd.client.cluster_client import ClusterClient, Target, raise_on_error
from quorumd.client.leader_discovery import Address
from quorumd.errors import ErrorCode, RequestFailed, UnsupportedVersion
from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, Endpoint, ReplicaKey
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.connection import CLIENT_SOFTWARE_NAME
from quorumd.protocol.endpoint_type import EndpointType
from quorumd.protocol.messages import (
    add_raft_voter_request,
    alter_partition_reassignments_request,
    alter_quorum_request,
    create_partitions_request,
    create_topics_request,
    delete_topics_request,
    describe_quorum_request,
    describe_topic_partitions_request,
    elect_leaders_request,
    list_partition_reassignments_request,
)
from quorumd.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from quorumd.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
)
from quorumd.protocol.messages.alter_quorum_response import AlterQuorumResponse
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.api_versions_response import ApiVersionsResponse
from quorumd.protocol.messages.create_partitions_response import CreatePartitionsResponse
from quorumd.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from quorumd.protocol.messages.delete_topics_response import DeleteTopicsResponse
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from quorumd.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from quorumd.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from quorumd.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from quorumd.protocol.messages.describe_quorum_response import DescribeQuorumResponse, PartitionData
from quorumd.protocol.messages.describe_quorum_response import Node as DescribedNode
from quorumd.protocol.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from quorumd.protocol.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from quorumd.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
)
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from quorumd.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from quorumd.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from quorumd.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from quorumd.protocol.messages.unregister_controller_response import UnregisterControllerResponse
from quorumd.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from quorumd.protocol.messages.update_features_response import UpdateFeaturesResponse

_SET, _DELETE = 0, 1
_PAGE_PARTITIONS = 2_000
"""Partitions per DescribeTopicPartitions response: Kafka's max.request.partition.size.limit."""


class ElectionType(IntEnum):
    """ElectLeaders' ElectionType."""

    PREFERRED = 0
    UNCLEAN = 1


class TopicPartition(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    partition: int


class ItemError(NamedTuple):
    """The error code and message of one item of a request."""

    code: int
    text: str


class Features(NamedTuple):
    """The feature levels of a cluster."""

    supported: dict[str, tuple[int, int]]
    """Lowest and highest supported level by name."""
    finalized: dict[str, int]
    """Finalized levels by name, without disabled features."""
    epoch: int
    """The offset up to which the finalized levels are known."""


class AdminClient(ClusterClient):
    """The admin operations. Every method raises RequestFailed at the deadline or for an error that is not
    retriable."""

    async def describe_quorum(self) -> PartitionData:
        """Return the metadata partition as its leader sees it. Raises RequestFailed."""
        return (await self.describe_replicas())[0]

    async def describe_replicas(self) -> tuple[PartitionData, list[DescribedNode]]:
        """Return the metadata partition as its leader sees it, and the listeners of its voters. Raises
        RequestFailed."""
        topic = describe_quorum_request.TopicData(
            METADATA_TOPIC, [describe_quorum_request.PartitionData(METADATA_PARTITION)]
        )
        request = describe_quorum_request.DescribeQuorumRequest([topic])
        response = await self.request(request, DescribeQuorumResponse, "leader")
        raise_on_error(response.error_code, response.error_message, "DescribeQuorum")
        partitions = [partition for topic in response.topics for partition in topic.partitions]
        if len(partitions) != 1:
            raise RequestFailed(f"DescribeQuorum: expected one partition, got {len(partitions)}")
        raise_on_error(partitions[0].error_code, partitions[0].error_message, "DescribeQuorum")
        return partitions[0], response.nodes

    async def alter_quorum(self, voters: Sequence[int] | None) -> None:
        """Set the target voters, which the leader reaches one voter at a time; None cancels the change in progress.

        Returns once the target is committed, before it is reached (KIP-595 draft). Raises RequestFailed, immediately
        if a stock controller leads.
        """
        if ApiKey.ALTER_QUORUM not in await self.api_versions("leader"):
            leader = await self.find_leader()
            raise RequestFailed(
                f"the leader, node {leader.id}, is a stock Kafka controller without AlterQuorum; change one voter at "
                "a time with quorumd quorum add-voter and remove-voter, or retry once a quorumd node leads",
                ErrorCode.UNSUPPORTED_VERSION,
            )
        wire = alter_quorum_request
        targets = None if voters is None else [wire.TargetVoter(voter) for voter in voters]
        partition = wire.PartitionData(METADATA_PARTITION, targets)
        request = wire.AlterQuorumRequest("", [wire.TopicData(METADATA_TOPIC, [partition])])
        response = await self.request(request, AlterQuorumResponse, "leader")
        for topic in response.topics:
            for result in topic.partitions:
                raise_on_error(result.error_code, result.error_message, "AlterQuorum")

    async def add_voter(self, voter: ReplicaKey, endpoints: Sequence[Endpoint]) -> None:
        """Add one voter (KIP-853); returns once the change is committed. Retries until the deadline while the replica
        is not caught up or another voter change is in progress. Raises RequestFailed."""
        wire = add_raft_voter_request
        listeners = [wire.Listener(*endpoint) for endpoint in endpoints]
        request_timeout_ms = int(self.attempt_timeout_ms * 2 / 3)
        request = wire.AddRaftVoterRequest(None, request_timeout_ms, *voter, listeners)
        response, attempts = await self.request_counting_attempts(request, AddRaftVoterResponse, "leader")
        is_repeated = response.error_code == ErrorCode.DUPLICATE_VOTER and attempts > 1
        if not (is_repeated and await self._is_voter(voter)):
            raise_on_error(response.error_code, response.error_message, f"voter {voter.id}")

    async def remove_voter(self, voter: ReplicaKey) -> None:
        """Remove one voter (KIP-853); returns once the change is committed. Raises RequestFailed."""
        request = RemoveRaftVoterRequest(None, *voter)
        response, attempts = await self.request_counting_attempts(request, RemoveRaftVoterResponse, "leader")
        is_repeated = response.error_code == ErrorCode.VOTER_NOT_FOUND and attempts > 1
        if not (is_repeated and not await self._is_voter(voter)):
            raise_on_error(response.error_code, response.error_message, f"voter {voter.id}")

    async def describe_cluster(self, node: Target = None) -> DescribeClusterResponse:
        """Return the nodes of the quorum and their leader as controllers (endpoint type 2). Raises RequestFailed."""
        request = DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLER)
        response = await self.request(request, DescribeClusterResponse, node)
        raise_on_error(response.error_code, response.error_message, "DescribeCluster")
        return response

    async def metadata(self, node: Target = None) -> MetadataResponse:
        """Return the nodes and the controller of a Metadata response, without topics. Raises RequestFailed."""
        response = await self.request(MetadataRequest(), MetadataResponse, node)
        raise_on_error(response.error_code, None, "Metadata")
        return response

    async def describe_configs(
        self, resource_type: int, name: str, keys: Sequence[str] | None = None, *, node: Target = None
    ) -> list[DescribeConfigsResourceResult]:
        """Return the configs of one resource: those named in `keys`, by default all. Raises RequestFailed."""
        resource = DescribeConfigsResource(resource_type, name, None if keys is None else list(keys))
        response = await self.request(DescribeConfigsRequest([resource]), DescribeConfigsResponse, node)
        what = f"configs of {_resource(resource_type, name)}"
        if len(response.results) != 1:
            raise RequestFailed(f"{what}: {len(response.results)} results instead of one")
        raise_on_error(response.results[0].error_code, response.results[0].error_message, what)
        return response.results[0].configs

    async def alter_configs(
        self,
        resource_type: int,
        name: str,
        changes: Mapping[str, str | None],
        *,
        validate_only: bool = False,
        by_broker: bool = False,
    ) -> None:
        """Set configs of one resource atomically; None deletes. Returns once they are committed.

        With `by_broker` the request goes to the broker called `name`, to any broker if that is "": brokers know their
        log directories. Raises RequestFailed.
        """
        configs = [
            AlterableConfig(key, _DELETE if value is None else _SET, value) for key, value in changes.items()
        ]
        request = IncrementalAlterConfigsRequest(
            [AlterConfigsResource(resource_type, name, configs)], validate_only
        )
        if by_broker:
            response = await self.request_at(await self._running_broker(name), request)
        else:
            response = await self.request(request, IncrementalAlterConfigsResponse, "leader")
        assert isinstance(response, IncrementalAlterConfigsResponse)
        for result in response.responses:
            raise_on_error(
                result.error_code, result.error_message, f"configs of {_resource(resource_type, name)}"
            )

    async def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        *,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
    ) -> CreatableTopicResult:
        """Create a topic with the given or default numbers of partitions and replicas, or with `assignments`, the
        replicas of each partition. Returns once the topic is committed. Raises RequestFailed."""
        wire = create_topics_request
        topic = wire.CreatableTopic(
            name,
            -1 if partitions is None else partitions,
            -1 if replication_factor is None else replication_factor,
            [wire.CreatableReplicaAssignment(n, list(ids)) for n, ids in (assignments or {}).items()],
            [wire.CreatableTopicConfig(key, value) for key, value in (configs or {}).items()],
        )
        request = wire.CreateTopicsRequest([topic], int(self.attempt_timeout_ms), validate_only)
        response, attempts = await self.request_counting_attempts(request, CreateTopicsResponse, "leader")
        (result,) = response.topics
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and attempts > 1:
            (found,) = await self.describe_topics([name])
            wanted = partitions if partitions is not None else len(assignments or found.partitions)
            if len(found.partitions) == wanted:
                # Created by an earlier attempt whose response was lost.
                return CreatableTopicResult(name, found.topic_id, 0, None, 0, wanted)
        raise_on_error(result.error_code, result.error_message, f"topic {name!r}")
        return result

    async def delete_topic(self, name: str) -> None:
        """Delete a topic; returns once the deletion is committed. Raises RequestFailed."""
        wire = delete_topics_request
        request = wire.DeleteTopicsRequest(
            [wire.DeleteTopicState(name)], [name], int(self.attempt_timeout_ms)
        )
        response, attempts = await self.request_counting_attempts(request, DeleteTopicsResponse, "leader")
        (result,) = response.responses
        if result.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or attempts == 1:
            raise_on_error(result.error_code, result.error_message, f"topic {name!r}")

    async def add_partitions(self, topic: str, total: int, *, validate_only: bool = False) -> None:
        """Raise the number of partitions of a topic to `total`. Raises RequestFailed."""
        wire = create_partitions_request
        request = wire.CreatePartitionsRequest(
            [wire.CreatePartitionsTopic(topic, total, None)], int(self.attempt_timeout_ms), validate_only
        )
        response, attempts = await self.request_counting_attempts(request, CreatePartitionsResponse, "leader")
        (result,) = response.results
        if result.error_code == ErrorCode.INVALID_PARTITIONS and attempts > 1:
            (found,) = await self.describe_topics([topic])
            if len(found.partitions) == total:
                return
        raise_on_error(result.error_code, result.error_message, f"topic {topic!r}")

    async def describe_topics(
        self, names: Sequence[str] | None = None, *, skip_unknown: bool = False
    ) -> list[DescribeTopicPartitionsResponseTopic]:
        """Return the named topics, by default all, with their partitions (KIP-966).

        The leader of the quorum describes them, or another node if a stock controller leads, which does not support
        that. Raises RequestFailed, also for an unknown topic unless `skip_unknown`.
        """
        wire = describe_topic_partitions_request
        topics: dict[str | None, DescribeTopicPartitionsResponseTopic] = {}
        if names is not None and not names:
            return []
        cursor: wire.Cursor | None = None
        while True:
            request = wire.DescribeTopicPartitionsRequest(
                [wire.TopicRequest(name) for name in sorted(names or ())], _PAGE_PARTITIONS, cursor
            )
            try:
                response = await self.request(request, DescribeTopicPartitionsResponse, "leader")
            except UnsupportedVersion as error:
                raise RequestFailed(
                    "stock Kafka controllers do not describe topics; add a quorumd node or a broker of Kafka 3.8 or "
                    "later to --bootstrap-server",
                    ErrorCode.UNSUPPORTED_VERSION,
                ) from error
            for topic in response.topics:
                if skip_unknown and topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                raise_on_error(topic.error_code, None, f"topic {topic.name!r}")
                known = topics.setdefault(topic.name, topic)
                if known is not topic:
                    known.partitions += topic.partitions
            if response.next_cursor is None:
                return list(topics.values())
            cursor = wire.Cursor(response.next_cursor.topic_name, response.next_cursor.partition_index)

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        may_change_replication_factor: bool = True,
    ) -> dict[TopicPartition, ItemError]:
        """Start the reassignment of each partition to its replicas; None cancels its reassignment.

        Returns the rejected partitions once the other reassignments have started, not finished. Raises RequestFailed.
        """
        wire = alter_partition_reassignments_request
        topics: dict[str, wire.ReassignableTopic] = {}
        for where, replicas in targets.items():
            topic = topics.setdefault(where.topic, wire.ReassignableTopic(where.topic))
            ids = None if replicas is None else list(replicas)
            topic.partitions.append(wire.ReassignablePartition(where.partition, ids))
        request = wire.AlterPartitionReassignmentsRequest(
            int(self.attempt_timeout_ms), may_change_replication_factor, list(topics.values())
        )
        response, attempts = await self.request_counting_attempts(
            request, AlterPartitionReassignmentsResponse, "leader"
        )
        raise_on_error(response.error_code, response.error_message, "AlterPartitionReassignments")
        refused: dict[TopicPartition, ItemError] = {}
        for result in response.responses:
            for item in result.partitions:
                is_repeated = item.error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS and attempts > 1
                if item.error_code and not is_repeated:
                    refused[TopicPartition(result.name, item.partition_index)] = _item_error(item)
        return refused

    async def list_reassignments(
        self, partitions: Sequence[TopicPartition] | None = None
    ) -> dict[TopicPartition, OngoingPartitionReassignment]:
        """Return the reassignments in progress, of these partitions or of all. Raises RequestFailed."""
        wire = list_partition_reassignments_request
        topics = None
        if partitions is not None:
            numbers = _by_topic(partitions)
            topics = [wire.ListPartitionReassignmentsTopics(topic, found) for topic, found in numbers.items()]
        request = wire.ListPartitionReassignmentsRequest(int(self.attempt_timeout_ms), topics)
        response = await self.request(request, ListPartitionReassignmentsResponse, "leader")
        raise_on_error(response.error_code, response.error_message, "ListPartitionReassignments")
        return {
            TopicPartition(topic.name, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }

    async def elect_leaders(
        self, election: ElectionType, partitions: Sequence[TopicPartition] | None = None
    ) -> dict[TopicPartition, ItemError | None]:
        """Trigger an election in these partitions, by default in all that need one. Returns the result of each
        election, None for a committed new leader. Raises RequestFailed."""
        wire = elect_leaders_request
        topics = None
        if partitions is not None:
            topics = [wire.TopicPartitions(topic, found) for topic, found in _by_topic(partitions).items()]
        request = wire.ElectLeadersRequest(election, topics, int(self.attempt_timeout_ms))
        response = await self.request(request, ElectLeadersResponse, "leader")
        raise_on_error(response.error_code, None, "ElectLeaders")
        return {
            TopicPartition(topic.topic, item.partition_id): _item_error(item) if item.error_code else None
            for topic in response.replica_election_results
            for item in topic.partition_result
        }

    async def describe_brokers(self) -> DescribeClusterResponse:
        """Return all brokers, fenced ones included, and the nodes of the quorum (endpoint type 1).

        The leader describes them, or another node if a stock controller leads, which describes only controllers.
        Raises RequestFailed.
        """
        request = DescribeClusterRequest(False, EndpointType.BROKER, True, True)
        response = await self.request(request, DescribeClusterResponse, "leader")
        if response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE:
            raise RequestFailed(
                "the leader is a stock Kafka controller, which does not describe brokers; add a quorumd node or a "
                "broker to --bootstrap-server",
                response.error_code,
            )
        raise_on_error(response.error_code, response.error_message, "DescribeCluster")
        return response

    async def _running_broker(self, name: str) -> Address:
        for broker in (await self.describe_brokers()).brokers:
            if name in ("", str(broker.broker_id)) and not broker.is_fenced:
                return broker_address(broker)
        raise RequestFailed(f"broker {name!r} is not running; start it first")

    async def describe_log_dirs(self, broker: Address) -> list[DescribeLogDirsResult]:
        """Return the log directories of the broker at this address, with the size of each replica. Raises
        RequestFailed, and UnsupportedVersion if a controller listens there."""
        response = await self.request_at(broker, DescribeLogDirsRequest(None))
        assert isinstance(response, DescribeLogDirsResponse)
        raise_on_error(response.error_code, None, "DescribeLogDirs")
        return response.results

    async def unregister_broker(self, broker_id: int) -> None:
        """Unregister a broker; returns once the change is committed. Raises RequestFailed."""
        request = UnregisterBrokerRequest(broker_id)
        response, attempts = await self.request_counting_attempts(request, UnregisterBrokerResponse, "leader")
        if response.error_code != ErrorCode.BROKER_ID_NOT_REGISTERED or attempts == 1:
            raise_on_error(response.error_code, response.error_message, f"broker {broker_id}")

    async def unregister_controller(self, controller_id: int) -> None:
        """Unregister a controller; returns once the change is committed. Raises RequestFailed."""
        request = UnregisterControllerRequest(controller_id)
        response, attempts = await self.request_counting_attempts(
            request, UnregisterControllerResponse, "leader"
        )
        if response.error_code != ErrorCode.CONTROLLER_ID_NOT_REGISTERED or attempts == 1:
            raise_on_error(response.error_code, response.error_message, f"controller {controller_id}")

    async def describe_features(self) -> Features:
        """Return the features of the cluster, as the leader knows them. Raises RequestFailed."""
        request = ApiVersionsRequest(CLIENT_SOFTWARE_NAME, "1")
        response = await self.request(request, ApiVersionsResponse, "leader")
        raise_on_error(response.error_code, None, "ApiVersions")
        return Features(
            {each.name: (each.min_version, each.max_version) for each in response.supported_features},
            {each.name: each.max_version_level for each in response.finalized_features},
            response.finalized_features_epoch,
        )

    async def update_features(
        self, levels: Mapping[str, int], upgrade_type: int, *, validate_only: bool = False
    ) -> None:
        """Set levels of features atomically; returns once they are committed. Raises RequestFailed, which has the
        reason for each rejected feature."""
        updates = [FeatureUpdateKey(name, level, False, upgrade_type) for name, level in levels.items()]
        request = UpdateFeaturesRequest(60_000, updates, validate_only)
        response = await self.request(request, UpdateFeaturesResponse, "leader")
        raise_on_error(response.error_code, response.error_message, "features")

    async def _is_voter(self, voter: ReplicaKey) -> bool:
        """Whether exactly this replica is a voter."""
        quorum = await self.describe_quorum()
        return any((v.replica_id, v.replica_directory_id) == voter for v in quorum.current_voters)


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


def _item_error(item: PartitionResult | ReassignablePartitionResponse) -> ItemError:
    return ItemError(item.error_code, item.error_message or ErrorCode.describe(item.error_code))


def _resource(resource_type: int, name: str) -> str:
    try:
        kind = ConfigResourceType(resource_type).name.lower()
    except ValueError:
        kind = f"resource type {resource_type}"
    return f"{kind} {name!r}"
