"""The requests that tests send by hand, and what they need of the answers."""

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
"""The config that tests write: a list of any text, which a stock controller accepts as well."""


@dataclass(frozen=True)
class Quorum:
    """What DescribeQuorum says of the metadata partition."""

    error: int
    leader: int
    epoch: int
    high_watermark: int
    voters: dict[int, int]
    """Log end offset by voter id."""
    observers: dict[int, int]

    @property
    def replicas(self) -> dict[int, int]:
        """Log end offset by node id, whether it votes or not."""
        return {**self.observers, **self.voters}


class Refused(Exception):
    """An answer with an error code in it."""


def set_register(wire: Wire, name: str, value: str) -> None:
    """Commit one ConfigRecord. Raises Refused on an error code, OSError without an answer."""
    change = alter_configs.AlterableConfig(name=REGISTER, config_operation=0, value=value)
    resource = alter_configs.AlterConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=name, configs=(change,)
    )
    answer = wire.ask(
        alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    )
    (response,) = answer.responses
    if response.error_code != 0:
        raise Refused(f"{response.error_code!r}: {response.error_message}")


def get_registers(wire: Wire, *names: str) -> dict[str, str]:
    """The values of those that are set, read linearizably."""
    resources = tuple(
        describe_configs.DescribeConfigsResource(
            resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=(REGISTER,)
        )
        for name in names
    )
    answer = wire.ask(
        describe_configs.DescribeConfigsRequest(
            resources=resources, include_synonyms=False, include_documentation=False
        )
    )
    for result in answer.results:
        if result.error_code != 0:
            raise Refused(f"{result.error_code!r}: {result.error_message}")
    return {result.resource_name: config.value for result in answer.results for config in result.configs}


NO_TOPICS = metadata.MetadataRequest(
    topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False
)


def leader_known(wire: Wire) -> int:
    """The node that this one takes for the leader, -1 for none."""
    return int(wire.ask(NO_TOPICS).controller_id)


def nodes_known(wire: Wire) -> set[int]:
    """The nodes to which this one sends clients."""
    return {int(node.node_id) for node in wire.ask(NO_TOPICS).brokers}


def quorum(wire: Wire) -> Quorum:
    """DescribeQuorum as this node answers it; a follower's answer has the error and no numbers."""
    partition = describe_quorum.PartitionData(partition_index=0)
    topic = describe_quorum.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    answer: Any = wire.ask(describe_quorum.DescribeQuorumRequest(topics=(topic,)))
    if answer.error_code != 0:
        return Quorum(int(answer.error_code), -1, -1, -1, {}, {})
    (told,) = answer.topics[0].partitions
    return Quorum(
        error=int(told.error_code),
        leader=told.leader_id,
        epoch=told.leader_epoch,
        high_watermark=told.high_watermark,
        voters={replica.replica_id: replica.log_end_offset for replica in told.current_voters},
        observers={replica.replica_id: replica.log_end_offset for replica in told.observers},
    )
