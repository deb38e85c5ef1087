"""The parts of a broker that its APIs share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from quorumd.broker.controller_requests.producer_ids import ProducerIds
from quorumd.broker.controller_requests.topic_creation import NewTopic, TopicCreation
from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.broker.partitions.directory_moves import DirectoryMoves
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.partitions.partitions import Partitions
from quorumd.broker.replication.replica import NOT_GIVEN
from quorumd.broker.settings.broker_settings import BrokerSettings
from quorumd.controller.broker import Broker, BrokerEndpoint
from quorumd.controller.partition import NO_LEADER, PartitionId
from quorumd.errors import ErrorCode, RequestError
from quorumd.ids import KafkaUuid
from quorumd.ports import Clock, Entropy
from quorumd.protocol.routes import Session, SlicedTask
from quorumd.quotas.client_quotas import NO_QUOTAS, ClientQuotas
from quorumd.security.acls import Operation
from quorumd.security.authorizer import Access


class TransactionVerification(Protocol):
    """See `quorumd.broker.api.transaction_verification`."""

    def verify(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        target: TopicPartition,
        adds: bool,
        done: Callable[[ErrorCode], None],
    ) -> None: ...


AccessLookup = Callable[[Session, int], Access | None]
"""(session, API key) -> the rights of the client, None if it may do everything."""


def unrestricted(session: Session, api_key: int) -> Access | None:
    """The `AccessLookup` of a broker without an authorizer."""
    del session, api_key
    return None


def may_describe(access: Access | None, resource_type: int, name: str) -> bool:
    """Whether a resource that the client did not name may be listed for it."""
    return access is None or access.allows(Operation.DESCRIBE, resource_type, name, logs_denied=False)


@dataclass(frozen=True, slots=True)
class BrokerApiContext:
    """The parts of a broker from which its API handlers are built."""

    settings: BrokerSettings
    clock: Clock
    entropy: Entropy
    metadata: BrokerMetadata
    partitions: Partitions
    moves: DirectoryMoves
    producer_ids: ProducerIds
    topic_creation: TopicCreation
    begin: Callable[[SlicedTask], None]
    """Runs a task in slices."""
    verifier: TransactionVerification | None = None
    access: AccessLookup = unrestricted
    quotas: ClientQuotas = NO_QUOTAS

    def partition_id(self, topic: KafkaUuid | str, number: int) -> PartitionId | None:
        """Look up a partition by the id or the name of its topic; None if the topic does not exist."""
        topic_id = self.metadata.image.topic_ids.get(topic) if isinstance(topic, str) else topic
        return PartitionId(topic_id, number) if topic_id in self.metadata.image.topics else None

    def leader(self, topic: KafkaUuid | str, number: int, leader_epoch: int = NOT_GIVEN) -> HostedPartition:
        """Find a partition that this broker leads. Raises RequestError."""
        hosted = self.partitions.find(topic, number)
        error = hosted.replica.check_leader(leader_epoch)
        if error is not ErrorCode.NONE:
            raise RequestError(error)
        return hosted

    def current_leader(self, topic: KafkaUuid | str, number: int) -> tuple[int, int]:
        """Return the leader and its epoch in the metadata, -1 for each if unknown (KIP-951)."""
        id = self.partition_id(topic, number)
        known = self.metadata.image.partition(id) if id is not None else None
        return (known.leader, known.leader_epoch) if known is not None else (NO_LEADER, -1)

    def unfenced(self, broker_id: int) -> Broker | None:
        """Return a registered broker unless it is fenced."""
        broker = self.metadata.image.brokers.get(broker_id)
        return None if broker is None or broker.is_fenced else broker

    def endpoint(self, listener: str, broker_id: int) -> tuple[BrokerEndpoint, str | None] | None:
        """Return the endpoint of an unfenced broker for clients of a listener, and its rack; None if there is no
        endpoint."""
        broker = self.unfenced(broker_id)
        endpoint = self.metadata.endpoint(broker_id, listener)
        if broker is None or endpoint is None:
            return None
        return endpoint, broker.rack

    def topic_defaults(self, name: str) -> NewTopic:
        """Return the settings of a topic that is created because a client named it."""
        del name
        return NewTopic(self.settings.num_partitions, self.settings.default_replication_factor)
