"""One partition with real planners: each plan is applied immediately, as if it were committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quorumd.controller.alter_partition import plan_alter_partition
from quorumd.controller.broker import Broker
from quorumd.controller.broker_heartbeat import plan_broker_heartbeat
from quorumd.controller.cluster_image import ELR_VERSION, MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION
from quorumd.controller.config_effects import plan_effects
from quorumd.controller.controller import Controller, ControllerSettings
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, partition_record
from quorumd.controller.partition_change import Election, PartitionChange, build_partition_change
from quorumd.controller.partition_rules import PartitionRules
from quorumd.controller.reassignments import plan_alter_partition_reassignments
from quorumd.ids import KafkaUuid
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from quorumd.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.topic_record import TopicRecord

TOPIC = "moved"
TOPIC_ID = KafkaUuid(b"the topic's id..")
WHERE = PartitionId(TOPIC_ID, 0)


def broker_epoch(broker_id: int) -> int:
    """Return the epoch of a broker's first incarnation."""
    return 1000 + broker_id


@dataclass
class PartitionHarness:
    """A controller with brokers and one partition. `next_offset` increases with every record."""

    brokers: list[int]
    min_isr: int = 2
    elr: bool = True
    unclean: bool = False
    now_ms: float = 0.0
    next_offset: int = 5000
    controller: Controller = field(init=False)

    def __post_init__(self) -> None:
        self.controller = Controller(
            ControllerSettings(),
            lambda: "cluster",
            lambda: self.now_ms,
            lambda: self.next_offset,
            lambda: KafkaUuid(self.next_offset.to_bytes(16, "big")),
        )
        image = self.controller.image
        if self.elr:
            image.apply(FeatureLevelRecord(ELR_VERSION, 1), [])
        for broker_id in self.brokers:
            directory = KafkaUuid(bytes([broker_id + 1]) * 16)
            broker = Broker(
                broker_id, broker_epoch(broker_id), directory, (), (), None, False, False, (directory,)
            )
            image.brokers[broker_id] = broker
        image.apply(TopicRecord(TOPIC, TOPIC_ID), [])
        self.configure(MIN_INSYNC_REPLICAS, str(self.min_isr))
        self.configure(UNCLEAN_ELECTION, "true" if self.unclean else "false")

    @property
    def partition(self) -> Partition:
        partition = self.controller.image.partition(WHERE)
        assert partition is not None
        return partition

    def begin(self, partition: Partition) -> None:
        self.apply(partition_record(WHERE, partition))

    def apply(self, *records: Any) -> None:
        for record in records:
            if record is not None:
                self.controller.image.apply(record, [])
                self.next_offset += 1

    def configure(self, key: str, value: str) -> None:
        self.controller.image.set_config((int(ConfigResourceType.TOPIC), TOPIC), key, value, [])

    def change(self, wanted: PartitionChange) -> None:
        self.apply(
            build_partition_change(WHERE, self.partition, wanted, PartitionRules(self.controller, TOPIC))
        )

    # Events

    def reassign(self, target: list[int] | None, allow_replication_factor_change: bool = True) -> int:
        """Request a reassignment, or its cancellation with None; return the error."""
        requested = ReassignableTopic(TOPIC, [ReassignablePartition(0, target)])
        request = AlterPartitionReassignmentsRequest(60_000, allow_replication_factor_change, [requested])
        plan = plan_alter_partition_reassignments(self.controller, request, 1)
        self.apply(*plan.records)
        reply: Any = plan.response
        return int(reply.responses[0].partitions[0].error_code)

    def alter(
        self,
        isr: list[int],
        *,
        sender: int | None = None,
        sender_epoch: int | None = None,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        recovery: int = 0,
        wrong_epoch_of: int | None = None,
        topic_id: KafkaUuid = TOPIC_ID,
        version: int = 3,
    ) -> int:
        """Send AlterPartition, by default with the current values; return the top-level or the partition's error."""
        partition = self.partition
        sender = partition.leader if sender is None else sender
        data = PartitionData(0, partition.leader_epoch if leader_epoch is None else leader_epoch)
        data.partition_epoch = partition.partition_epoch if partition_epoch is None else partition_epoch
        data.leader_recovery_state = recovery
        if version >= 3:
            data.new_isr_with_epochs = [
                BrokerState(member, self.epoch_of(member) - (member == wrong_epoch_of)) for member in isr
            ]
        else:
            data.new_isr = isr
        if sender_epoch is None:
            sender_epoch = self.epoch_of(sender)
        request = AlterPartitionRequest(sender, sender_epoch, [TopicData(TOPIC, topic_id, [data])])
        plan = plan_alter_partition(self.controller, request, version)
        self.apply(*plan.records)
        reply: Any = plan.response
        return int(reply.error_code or reply.topics[0].partitions[0].error_code)

    def epoch_of(self, broker_id: int) -> int:
        broker = self.controller.image.brokers.get(broker_id)
        return broker.epoch if broker is not None else broker_epoch(broker_id)

    def fence(self, broker_id: int) -> None:
        isr = tuple(member for member in self.partition.isr if member != broker_id)
        self.change(PartitionChange(isr=isr, ineligible={broker_id}))
        self._set(broker_id, is_fenced=True)

    def unfence(self, broker_id: int) -> None:
        self._set(broker_id, is_fenced=False, in_controlled_shutdown=False)
        if self.partition.leader == NO_LEADER:
            self.change(PartitionChange())

    def restart_uncleanly(self, broker_id: int) -> None:
        isr = tuple(member for member in self.partition.isr if member != broker_id)
        self.change(PartitionChange(isr=isr, unclean={broker_id}))
        self.next_offset += 1
        self._set(broker_id, is_fenced=True, epoch=self.next_offset)

    def shut_down(self, broker_id: int) -> None:
        """Let a broker request a controlled shutdown, by which other replicas take over leadership."""
        request = BrokerHeartbeatRequest(broker_id, self.epoch_of(broker_id), self.next_offset, False, True)
        self.apply(*plan_broker_heartbeat(self.controller, request, 1).records)

    def set_min_isr(self, least: int) -> None:
        """Alter the config, together with its effects on partitions."""
        change = ConfigRecord(int(ConfigResourceType.TOPIC), TOPIC, MIN_INSYNC_REPLICAS, str(least))
        self.apply(change, *plan_effects(self.controller, [change]))

    def elect(self, election: Election) -> None:
        self.change(PartitionChange(election=election))

    def _set(self, broker_id: int, **fields: Any) -> None:
        brokers = self.controller.image.brokers
        brokers[broker_id] = brokers[broker_id]._replace(**fields)
