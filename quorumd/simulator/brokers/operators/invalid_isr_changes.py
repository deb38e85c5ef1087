"""AlterPartition requests that no correct leader sends: invalid members, wrong epochs, a sender that does not lead.

They add no replica to an ISR, so that no record is lost even if the controller accepts one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import Partition, PartitionId
from quorumd.protocol.messages import alter_partition_request as wire
from quorumd.simulator.brokers.operators.operator import AdminRequest

UNKNOWN_BROKER: Final = 9999
EPOCHS_SINCE: Final = 3
TOPIC_IDS_SINCE: Final = 2
NO_TOPIC: Final = "no-such-topic"


class InvalidIsrChanges:
    """Builds invalid requests from the committed metadata, which `image()` returns."""

    def __init__(self, random: Random, image: Callable[[], ClusterImage], broker_ids: Sequence[int]) -> None:
        self._random = random
        self._image = image
        self._broker_ids = broker_ids
        self._flaws: tuple[
            Callable[[wire.AlterPartitionRequest, wire.PartitionData, Partition], None], ...
        ] = (
            self._unknown_member,
            self._duplicate_member,
            self._without_leader,
            self._unknown_incarnation,
            self._outdated_and_ineligible,
            self._newer_epoch,
            self._older_epoch,
            self._recovering,
            self._other_sender,
            self._restarted_sender,
            self._repeated,
            self._unknown_partition,
        )

    def next(self) -> AdminRequest | None:
        """Return the next request, which has one flaw given the current state of a partition."""
        image, random = self._image(), self._random
        led = [
            (PartitionId(topic.id, number), topic.name, row)
            for _, topic_id in sorted(image.topic_ids.items())
            for topic in (image.topics[topic_id],)
            for number, row in topic.partitions.items()
            if row.leader in image.brokers
        ]
        if not led:
            return None
        where, name, row = random.choice(led)
        members = [wire.BrokerState(member, self._epoch_of(member)) for member in row.isr]
        part = wire.PartitionData(where.number, row.leader_epoch, [], members, 0, row.partition_epoch)
        topic = wire.TopicData(name, where.topic_id, [part])
        request = wire.AlterPartitionRequest(row.leader, self._epoch_of(row.leader), [topic])
        random.choice(self._flaws)(request, part, row)
        version = random.choice((0, 1, 2, 3, 3, 3))
        return AdminRequest(_in_version(request, version), version)

    def _epoch_of(self, broker_id: int) -> int:
        broker = self._image().brokers.get(broker_id)
        return broker.epoch if broker is not None else -1

    def _unknown_member(
        self, request: wire.AlterPartitionRequest, part: wire.PartitionData, row: Partition
    ) -> None:
        others = [broker for broker in self._broker_ids if broker not in row.replicas]
        broker_id = self._random.choice([UNKNOWN_BROKER, *others])
        part.new_isr_with_epochs.append(wire.BrokerState(broker_id, self._epoch_of(broker_id)))

    def _duplicate_member(
        self, request: wire.AlterPartitionRequest, part: wire.PartitionData, row: Partition
    ) -> None:
        part.new_isr_with_epochs.append(self._random.choice(part.new_isr_with_epochs))

    def _without_leader(
        self, request: wire.AlterPartitionRequest, part: wire.PartitionData, row: Partition
    ) -> None:
        part.new_isr_with_epochs = [each for each in part.new_isr_with_epochs if each.broker_id != row.leader]

    def _unknown_incarnation(
        self, request: wire.AlterPartitionRequest, part: wire.PartitionData, row: Partition
    ) -> None:
        member = self._random.choice(part.new_isr_with_epochs)
        member.broker_epoch += self._random.choice((-1, 1_000_000))

    def _outdated_and_ineligible(
        self, request: wire.AlterPartitionRequest, part: wire.PartitionData, row: Partition
    ) -> None:
        self._unknown_incarnation(request, part, row)
        part.partition_epoch -= 1

    def _newer_epoch(
        self, request: wire.AlterPartitionRequest, part: wire.PartitionData, row: Partition
    ) -> None:
        if self._random.random() < 0.5:
            part.leader_epoch += 1_000_000
        else:
            part.partition_epoch += 1_000_000

    def _older_epoch(
        self, request: wire.AlterPartitionRequest, part: wire.PartitionData, row: Partition
    ) -> None:
        if self._random.random() < 0.5:
            part.leader_epoch -= 1
        else:
            part.partition_epoch -= 1

    def _recovering(
        self, request: wire.AlterPartitionRequest, part: wire.PartitionData, row: Partition
    ) -> None:
        part.leader_recovery_state = self._random.choice((1, 2, -1))

    def _other_sender(
        self, request: wire.AlterPartitionRequest, part: wire.PartitionData, row: Partition
    ) -> None:
        other = self._random.choice([broker for broker in self._broker_ids if broker != row.leader])
        request.broker_id, request.broker_epoch = other, self._epoch_of(other)

    def _restarted_sender(
        self, request: wire.AlterPartitionRequest, part: wire.PartitionData, row: Partition
    ) -> None:
        request.broker_epoch += self._random.choice((-1, 1, 1_000_000))

    def _repeated(
        self, request: wire.AlterPartitionRequest, part: wire.PartitionData, row: Partition
    ) -> None:
        """Name the partition twice; the controller may apply only one of the two."""
        leader = [each for each in part.new_isr_with_epochs if each.broker_id == row.leader]
        part.new_isr_with_epochs = leader
        again = wire.PartitionData(
            part.partition_index, part.leader_epoch, [], leader, 0, part.partition_epoch
        )
        request.topics[0].partitions.append(again)

    def _unknown_partition(
        self, request: wire.AlterPartitionRequest, part: wire.PartitionData, row: Partition
    ) -> None:
        if self._random.random() < 0.5:
            part.partition_index += 100
        else:
            request.topics[0].topic_name = NO_TOPIC
            request.topics[0].topic_id = type(request.topics[0].topic_id)(bytes(15) + b"\x63")


def _in_version(request: wire.AlterPartitionRequest, version: int) -> wire.AlterPartitionRequest:
    """Omit the fields that the version does not have."""
    for topic in request.topics:
        if version >= TOPIC_IDS_SINCE:
            topic.topic_name = ""
        else:
            topic.topic_id = type(topic.topic_id)(bytes(16))
        for part in topic.partitions:
            if version < EPOCHS_SINCE:
                part.new_isr = [each.broker_id for each in part.new_isr_with_epochs]
                part.new_isr_with_epochs = []
            if version < 1:
                part.leader_recovery_state = 0
    return request
