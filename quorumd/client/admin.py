"""The admin client: asks a cluster, wherever its leader is at the moment.

    async with AdminClient([("127.0.0.1", 9192)]) as admin:
        quorum = await admin.describe_quorum()
        await admin.alter_configs(ResourceType.TOPIC, "orders", {"retention.ms": "1000"})
        await admin.alter_quorum([0, 3, 4])

A request is sent again, after a wait that grows (KIP-580), when a connection fails, when a node does not answer
in time, and when the answer says that the leader is elsewhere; so it may be carried out more than once. All of
it ends at one deadline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

from quorumd.client.cluster_client import ENDPOINTS_OF_CONTROLLERS, ClusterClient, Target, raise_for
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, Endpoint, ReplicaKey
from quorumd.protocol.messages import add_raft_voter_request, alter_quorum_request, describe_quorum_request
from quorumd.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from quorumd.protocol.messages.alter_quorum_response import AlterQuorumResponse
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from quorumd.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from quorumd.protocol.messages.describe_quorum_response import DescribeQuorumResponse, PartitionData
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse

_SET, _DELETE = 0, 1


class ResourceType(IntEnum):
    """Kafka's resource types of configs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class AdminClient(ClusterClient):
    """What can be asked of a cluster. Every method raises RequestFailed: at the deadline, or for an error that
    asking again does not mend."""

    async def describe_quorum(self) -> PartitionData:
        """The metadata partition as its leader sees it. Raises RequestFailed."""
        topic = describe_quorum_request.TopicData(
            METADATA_TOPIC, [describe_quorum_request.PartitionData(METADATA_PARTITION)]
        )
        request = describe_quorum_request.DescribeQuorumRequest([topic])
        response = await self.ask(request, DescribeQuorumResponse, "leader")
        raise_for(response.error_code, response.error_message, "DescribeQuorum")
        partitions = [partition for topic in response.topics for partition in topic.partitions]
        if len(partitions) != 1:
            raise RequestFailed(f"DescribeQuorum: {len(partitions)} partitions where one was asked for")
        raise_for(partitions[0].error_code, partitions[0].error_message, "DescribeQuorum")
        return partitions[0]

    async def alter_quorum(self, voters: Sequence[int] | None) -> None:
        """Set the target that the leader leads the voters to, one after the other; None stays with those of now.

        Returns when the target is committed, before it is reached (KIP-595 draft). Raises RequestFailed.
        """
        wire = alter_quorum_request
        targets = None if voters is None else [wire.TargetVoter(voter) for voter in voters]
        partition = wire.PartitionData(METADATA_PARTITION, targets)
        request = wire.AlterQuorumRequest("", [wire.TopicData(METADATA_TOPIC, [partition])])
        response = await self.ask(request, AlterQuorumResponse, "leader")
        for topic in response.topics:
            for answer in topic.partitions:
                raise_for(answer.error_code, answer.error_message, "AlterQuorum")

    async def add_voter(self, voter: ReplicaKey, endpoints: Sequence[Endpoint]) -> None:
        """Give one replica a vote (KIP-853); returns when that is committed. While it is not caught up, or other
        voters are changing, it is tried again until the deadline. Raises RequestFailed.
        """
        wire = add_raft_voter_request
        listeners = [wire.Listener(*endpoint) for endpoint in endpoints]
        patience_ms = int(self._attempt_timeout_ms * 2 / 3)
        request = wire.AddRaftVoterRequest(None, patience_ms, *voter, listeners)
        response, attempts = await self.sent(request, "leader")
        assert isinstance(response, AddRaftVoterResponse)
        was_before = response.error_code == ErrorCode.DUPLICATE_VOTER and attempts > 1
        if not (was_before and await self._votes(voter)):
            raise_for(response.error_code, response.error_message, f"voter {voter.id}")

    async def remove_voter(self, voter: ReplicaKey) -> None:
        """Take one replica its vote (KIP-853); returns when that is committed. Raises RequestFailed."""
        request = RemoveRaftVoterRequest(None, *voter)
        response, attempts = await self.sent(request, "leader")
        assert isinstance(response, RemoveRaftVoterResponse)
        was_before = response.error_code == ErrorCode.VOTER_NOT_FOUND and attempts > 1
        if not (was_before and not await self._votes(voter)):
            raise_for(response.error_code, response.error_message, f"voter {voter.id}")

    async def describe_cluster(self, node: Target = None) -> DescribeClusterResponse:
        """The nodes of the quorum and their leader as controllers (endpoint type 2). Raises RequestFailed."""
        request = DescribeClusterRequest(endpoint_type=ENDPOINTS_OF_CONTROLLERS)
        response = await self.ask(request, DescribeClusterResponse, node)
        raise_for(response.error_code, response.error_message, "DescribeCluster")
        return response

    async def metadata(self, node: Target = None) -> MetadataResponse:
        """The nodes and the controller as Metadata tells them, without topics. Raises RequestFailed."""
        response = await self.ask(MetadataRequest(), MetadataResponse, node)
        raise_for(response.error_code, None, "Metadata")
        return response

    async def describe_configs(
        self, resource_type: int, name: str, keys: Sequence[str] | None = None, *, node: Target = None
    ) -> list[DescribeConfigsResourceResult]:
        """The configs of one resource, those in `keys` or all of them. Raises RequestFailed."""
        resource = DescribeConfigsResource(resource_type, name, None if keys is None else list(keys))
        response = await self.ask(DescribeConfigsRequest([resource]), DescribeConfigsResponse, node)
        what = f"configs of {_resource(resource_type, name)}"
        if len(response.results) != 1:
            raise RequestFailed(f"{what}: {len(response.results)} results where one was asked for")
        raise_for(response.results[0].error_code, response.results[0].error_message, what)
        return response.results[0].configs

    async def alter_configs(
        self, resource_type: int, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set configs of one resource, all or none; None deletes. Returns when they are committed.

        Raises RequestFailed.
        """
        configs = [
            AlterableConfig(key, _DELETE if value is None else _SET, value) for key, value in changes.items()
        ]
        request = IncrementalAlterConfigsRequest(
            [AlterConfigsResource(resource_type, name, configs)], validate_only
        )
        response = await self.ask(request, IncrementalAlterConfigsResponse, "leader")
        for answer in response.responses:
            raise_for(answer.error_code, answer.error_message, f"configs of {_resource(resource_type, name)}")

    async def _votes(self, voter: ReplicaKey) -> bool:
        """Whether exactly this replica votes now."""
        quorum = await self.describe_quorum()
        return any((v.replica_id, v.replica_directory_id) == voter for v in quorum.current_voters)


def _resource(resource_type: int, name: str) -> str:
    try:
        kind = ResourceType(resource_type).name.lower()
    except ValueError:
        kind = f"resource type {resource_type}"
    return f"{kind} {name!r}"
