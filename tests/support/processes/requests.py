"""Requests that tests send through `Wire`, and the fields of the responses that they use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kio.schema.describe_configs.v4 import request as describe_configs
from kio.schema.describe_quorum.v2 import request as describe_quorum
from kio.schema.incremental_alter_configs.v1 import request as alter_configs
from kio.schema.metadata.v12 import request as metadata

from tests.support.processes.wire import Wire

CLIENT_METRICS = 16
REGISTER = "metrics"
"""The config that tests write: a list without constraints on its items, which a stock controller accepts, too."""


@dataclass(frozen=True)
class Quorum:
    """The response to DescribeQuorum for the metadata partition."""

    error: int
    leader: int
    epoch: int
    high_watermark: int
    voters: dict[int, int]
    """Log end offset by voter id."""
    observers: dict[int, int]

    @property
    def replicas(self) -> dict[int, int]:
        """Log end offset by node id, of voters and observers."""
        return {**self.observers, **self.voters}


class Refused(Exception):
    """A response with an error code."""


def set_register(wire: Wire, name: str, value: str) -> None:
    """Commit one ConfigRecord. Raises Refused on an error code, OSError without a response."""
    change = alter_configs.AlterableConfig(name=REGISTER, config_operation=0, value=value)
    resource = alter_configs.AlterConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=name, configs=(change,)
    )
    response = wire.request(
        alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    )
    (result,) = response.responses
    if result.error_code != 0:
        raise Refused(f"{result.error_code!r}: {result.error_message}")


def get_registers(wire: Wire, *names: str) -> dict[str, str]:
    """Return the values of registers that are set, read linearizably."""
    resources = tuple(
        describe_configs.DescribeConfigsResource(
            resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=(REGISTER,)
        )
        for name in names
    )
    response = wire.request(
        describe_configs.DescribeConfigsRequest(
            resources=resources, include_synonyms=False, include_documentation=False
        )
    )
    for result in response.results:
        if result.error_code != 0:
            raise Refused(f"{result.error_code!r}: {result.error_message}")
    return {result.resource_name: config.value for result in response.results for config in result.configs}


NO_TOPICS = metadata.MetadataRequest(
    topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False
)


def leader_known(wire: Wire) -> int:
    """Return the controller id in Metadata, -1 if the node knows no leader."""
    return int(wire.request(NO_TOPICS).controller_id)


def nodes_known(wire: Wire) -> set[int]:
    """Return the ids of the brokers in Metadata."""
    return {int(node.node_id) for node in wire.request(NO_TOPICS).brokers}


def quorum(wire: Wire) -> Quorum:
    """Return this node's response to DescribeQuorum; a follower's has only the error."""
    partition = describe_quorum.PartitionData(partition_index=0)
    topic = describe_quorum.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    response: Any = wire.request(describe_quorum.DescribeQuorumRequest(topics=(topic,)))
    if response.error_code != 0:
        return Quorum(int(response.error_code), -1, -1, -1, {}, {})
    (partition_data,) = response.topics[0].partitions
    return Quorum(
        error=int(partition_data.error_code),
        leader=partition_data.leader_id,
        epoch=partition_data.leader_epoch,
        high_watermark=partition_data.high_watermark,
        voters={replica.replica_id: replica.log_end_offset for replica in partition_data.current_voters},
        observers={replica.replica_id: replica.log_end_offset for replica in partition_data.observers},
    )
