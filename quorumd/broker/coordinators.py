"""The coordinators of a broker: one for each partition of an internal topic that it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quorumd.broker.api.classic_groups import ClassicGroupApis
from quorumd.broker.api.consumer_groups import ConsumerGroupApis
from quorumd.broker.api.context import AccessLookup
from quorumd.broker.api.coordinator_lookup import CoordinatorLookup
from quorumd.broker.api.find_coordinator import GROUP_KEY, TRANSACTION_KEY, FindCoordinatorApis
from quorumd.broker.api.group_admin import GroupAdminApis
from quorumd.broker.api.offsets import OffsetApis
from quorumd.broker.api.transaction_admin import TransactionAdminApis
from quorumd.broker.api.transaction_markers import TransactionMarkerApis
from quorumd.broker.api.transaction_verification import TransactionVerifier
from quorumd.broker.api.transactional_offsets import TransactionalOffsetApis
from quorumd.broker.api.transactions import TransactionApis
from quorumd.broker.channels.broker_client import BrokerClient
from quorumd.broker.controller_requests.producer_ids import ProducerIds
from quorumd.broker.controller_requests.topic_creation import TopicCreation
from quorumd.broker.coordinator.consumer_rebalance import Regexes
from quorumd.broker.coordinator.groups import GroupCoordinator
from quorumd.broker.coordinator.hosted_log import CoordinatorPartitions
from quorumd.broker.coordinator.internal_topics import InternalTopics, offsets_topic, transactions_topic
from quorumd.broker.coordinator.large_members import LargeMembers
from quorumd.broker.coordinator.metadata_topics import MetadataTopics
from quorumd.broker.coordinator.regex_evaluator import RegexEvaluator
from quorumd.broker.coordinator.shards import Shard, Shards
from quorumd.broker.coordinator.topic_regexes import EvaluatedRegexes
from quorumd.broker.coordinator.transaction import Transaction
from quorumd.broker.coordinator.transaction_markers import TransactionMarkers
from quorumd.broker.coordinator.transactions import TransactionCoordinator
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.broker.metadata.metadata_delta import MetadataDelta
from quorumd.broker.partitions.partitions import Partitions
from quorumd.broker.settings.broker_settings import BrokerSettings
from quorumd.controller.broker import BrokerEndpoint
from quorumd.ports import Clock, Entropy
from quorumd.protocol.coordinator_record import GROUP, TRANSACTION
from quorumd.protocol.routes import Route, Session, SlicedTask


class Coordinators:
    """The coordinators of groups and transactions; created once per broker and shared by its listeners."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        entropy: Entropy,
        metadata: BrokerMetadata,
        partitions: Partitions,
        topic_creation: TopicCreation,
        producer_ids: ProducerIds,
        client: BrokerClient,
        regexes: RegexEvaluator,
    ) -> None:
        self._metadata = metadata
        self._topics = MetadataTopics(metadata)
        self._regexes = regexes
        self._entropy = entropy
        self._large_members = LargeMembers()
        self._settings = settings
        self._internal_topics = InternalTopics(metadata, topic_creation)
        self._offsets_topic = offsets_topic(settings.groups)
        self._groups: Shards[GroupCoordinator] = Shards(
            GROUP,
            self._offsets_topic.name,
            clock,
            self._new_group_coordinator,
            settings.groups.load_buffer_bytes,
            settings.groups.commit_timeout_ms,
        )
        CoordinatorPartitions(partitions, clock, self._groups)
        self._group_lookup = CoordinatorLookup(self._groups, self._internal_topics, self._offsets_topic)
        self._transactions_topic = transactions_topic(settings.transactions)
        self._transactions: Shards[TransactionCoordinator] = Shards(
            TRANSACTION,
            self._transactions_topic.name,
            clock,
            self._new_transaction_coordinator,
            settings.transactions.load_buffer_bytes,
            settings.transactions.write_timeout_ms,
        )
        CoordinatorPartitions(partitions, clock, self._transactions)
        self._transaction_lookup = CoordinatorLookup(
            self._transactions, self._internal_topics, self._transactions_topic
        )
        self._create_transaction_apis(clock, partitions, producer_ids, client)

    def _create_transaction_apis(
        self, clock: Clock, partitions: Partitions, producer_ids: ProducerIds, client: BrokerClient
    ) -> None:
        settings, metadata = self._settings, self._metadata
        self._marker_apis = TransactionMarkerApis(partitions, self._groups)
        self._markers = TransactionMarkers(
            settings.broker_id,
            metadata,
            client,
            clock,
            self._marker_apis.write,
            self._coordinator_epoch,
            self._on_markers_written,
        )
        self.transactions = TransactionApis(
            self._transaction_lookup,
            self._internal_topics,
            self._offsets_topic,
            metadata,
            producer_ids,
        )
        self.verifier = TransactionVerifier(
            settings.broker_id,
            clock,
            self._internal_topics,
            self._transactions_topic,
            self.transactions,
            client,
        )

    def _new_group_coordinator(self, partition: int) -> GroupCoordinator:
        del partition
        regexes = Regexes(
            self._regexes.compile,
            lambda evaluation: self._regexes.evaluate(evaluation, self._on_regexes_evaluated),
        )
        return GroupCoordinator(
            self._settings.groups, self._new_member_id, self._topics, regexes, self._large_members
        )

    def _on_regexes_evaluated(self, evaluated: EvaluatedRegexes) -> None:
        shard = self._group_lookup.shard_of(evaluated.group)
        if isinstance(shard, Shard):
            shard.run(lambda machine, times: machine.regexes_evaluated(evaluated, times))

    def _new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{self._entropy.uuid()}"

    def _new_transaction_coordinator(self, partition: int) -> TransactionCoordinator:
        del partition
        return TransactionCoordinator(self._settings.transactions, self._markers.send)

    def _transaction_shard(self, transactional_id: str) -> Shard[TransactionCoordinator] | None:
        shard = self._transaction_lookup.shard_of(transactional_id)
        return shard if isinstance(shard, Shard) else None

    def _coordinator_epoch(self, transactional_id: str) -> int | None:
        shard = self._transaction_shard(transactional_id)
        return None if shard is None else shard.log.leader_epoch

    def _on_markers_written(self, transactional_id: str, transaction: Transaction) -> None:
        shard = self._transaction_shard(transactional_id)
        if shard is not None:
            shard.run(lambda machine, times: machine.markers_written(transactional_id, transaction, times))

    def routes(self, access: AccessLookup, begin: Callable[[SlicedTask], None]) -> Iterable[Route]:
        """Return the routes of all coordinators. Clients get the endpoints of the listener that they use. `begin`
        runs a task in slices."""

        def endpoint(session: Session, broker_id: int) -> BrokerEndpoint | None:
            broker = self._metadata.broker(broker_id)
            is_down = broker is None or broker.is_fenced
            return None if is_down else self._metadata.endpoint(broker_id, session.origin.listener)

        groups = self._group_lookup
        offsets = TransactionalOffsetApis(
            groups, self._metadata, self._internal_topics, self._offsets_topic, self.verifier
        )
        find_coordinator = FindCoordinatorApis(
            self._internal_topics,
            {GROUP_KEY: self._offsets_topic, TRANSACTION_KEY: self._transactions_topic},
            endpoint,
        )
        return [
            *find_coordinator.routes(),
            *ClassicGroupApis(groups).routes(),
            *OffsetApis(groups, self._metadata).routes(),
            *GroupAdminApis(groups, access, begin).routes(),
            *ConsumerGroupApis(groups, self._metadata, self._settings, access).routes(),
            *self.transactions.routes(),
            *TransactionAdminApis(self._transaction_lookup, access, begin).routes(),
            *self._marker_apis.routes(),
            *offsets.routes(),
        ]

    def apply(self, delta: MetadataDelta) -> None:
        """Apply a metadata change, and delete the offsets of deleted topics."""
        self._topics.apply(delta)
        names = {topic.name for topic in delta.removed_topics}
        deleted = frozenset(name for name in names if name not in self._metadata.image.topic_ids)
        if not deleted:
            return
        for shard in self._groups.all():
            if shard.is_active:
                shard.run(lambda machine, times: machine.delete_topics(deleted, times))
