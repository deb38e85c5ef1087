"""Records that fence, unfence, drain or unregister a broker, and the partition changes that go with them.

A broker is fenced or unregistered by the last record, after it has lost its partitions, and unfenced by the first,
before it is elected. So every prefix of the log is consistent, and a broker with very many partitions can leave and
join in steps. A step that changes `limit` partitions may not be the last; the next one is planned once this one is
applied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from quorumd.controller.broker import Broker
from quorumd.controller.controller import Controller
from quorumd.controller.partition import Partition, PartitionId
from quorumd.controller.partition_change import (
    PartitionChange,
    build_partition_change,
    exclude,
)
from quorumd.controller.partition_rules import PartitionRules
from quorumd.controller.record_versions import CORDONED_SINCE
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from quorumd.protocol.wire import Message

NO_LIMIT: Final = 1 << 62

UNFENCED, FENCED = -1, 1
"""BrokerRegistrationChangeRecord.Fenced; 0 means no change."""
DRAINING = 1
"""BrokerRegistrationChangeRecord.InControlledShutdown; 0 means no change."""


def fence(controller: Controller, broker: Broker, limit: int = NO_LIMIT) -> list[Message]:
    """Fence a broker whose session expired or that requested it, after `remove_from_isrs`. The partition epoch of a
    partition without the broker in the ISR does not change, which is why AlterPartition names the broker epoch of
    each ISR member (KIP-903).

    The last step fences the broker: see `completes_fencing`.
    """
    records = remove_from_isrs(controller, broker.id, limit)
    if len(records) < limit:
        records.append(BrokerRegistrationChangeRecord(broker.id, broker.epoch, FENCED))
    return records


def completes_fencing(records: Sequence[Message]) -> bool:
    """Whether these records, returned by `fence`, are the last step."""
    return isinstance(records[-1], BrokerRegistrationChangeRecord)


def unfence(controller: Controller, broker: Broker, limit: int = NO_LIMIT) -> list[Message]:
    """Unfence the broker and elect it for leaderless partitions where it is electable. It joins no ISR."""
    change = BrokerRegistrationChangeRecord(broker.id, broker.epoch, UNFENCED)
    return [change, *elect_broker(controller, broker._replace(is_fenced=False), limit)]


def elect_broker(controller: Controller, broker: Broker, limit: int = NO_LIMIT) -> list[Message]:
    """Elect the broker, in its new state, for leaderless partitions where it is electable."""

    def is_active(broker_id: int) -> bool:
        return broker.is_active if broker_id == broker.id else controller.is_active(broker_id)

    def change(partition: Partition) -> PartitionChange | None:
        return PartitionChange() if broker.id in partition.replicas else None

    return _partition_changes(controller, controller.image.index.leaderless, change, is_active, limit)


def drain(controller: Controller, broker: Broker, limit: int = NO_LIMIT) -> list[Message]:
    """Begin a controlled shutdown: remove the broker from ISRs and leaderships while it still serves clients that
    have older metadata."""
    change = BrokerRegistrationChangeRecord(broker.id, broker.epoch, 0, DRAINING)
    return [change, *remove_from_isrs(controller, broker.id, limit)]


def unregister(controller: Controller, broker: Broker) -> list[Message]:
    """Unregister the broker. It stays in ELRs until it registers again, which counts as after an unclean shutdown."""
    records = remove_from_isrs(controller, broker.id)
    records.append(UnregisterBrokerRecord(broker.id, broker.epoch))
    return records


def remove_from_isrs(controller: Controller, broker_id: int, limit: int = NO_LIMIT) -> list[Message]:
    """Remove the broker from every leadership and every ISR. Without ELR, the last member of an ISR stays in it."""

    def change(partition: Partition) -> PartitionChange | None:
        if broker_id not in partition.isr:
            return None
        return PartitionChange(isr=exclude(partition.isr, (broker_id,)), ineligible=(broker_id,))

    return _partition_changes(
        controller, controller.image.index.partitions_with_broker(broker_id), change, limit=limit
    )


def remove_after_unclean_shutdown(controller: Controller, broker_id: int) -> list[Message]:
    """Remove a broker that may have lost data from every ISR and ELR."""

    def change(partition: Partition) -> PartitionChange | None:
        return PartitionChange(isr=exclude(partition.isr, (broker_id,)), unclean=(broker_id,))

    return _partition_changes(controller, controller.image.index.partitions_with_broker(broker_id), change)


def mark_directories_offline(
    controller: Controller, broker: Broker, offline: Collection[KafkaUuid]
) -> list[Message]:
    """Treat the broker as fenced for its replicas in these directories, which it can no longer read (KIP-858).

    At least one of them is in its registration. If no directory of the broker is left, its registration keeps them:
    such a broker shuts itself down.
    """

    def change(partition: Partition) -> PartitionChange | None:
        if broker.id not in partition.isr or not partition.directories:
            return None
        directory = partition.directories[partition.replicas.index(broker.id)]
        if directory not in offline:
            return None
        return PartitionChange(isr=exclude(partition.isr, (broker.id,)), ineligible=(broker.id,))

    records = _partition_changes(controller, controller.image.index.partitions_with_broker(broker.id), change)
    remaining = [directory for directory in broker.directories if directory not in offline]
    if remaining:
        records.append(BrokerRegistrationChangeRecord(broker.id, broker.epoch, log_dirs=remaining))
    return records


def cordon(controller: Controller, broker: Broker, cordoned: Collection[KafkaUuid] | None) -> list[Message]:
    """Record the cordoned directories that a broker reports (KIP-1066); None reports nothing.

    Returns no record if they are unchanged or the metadata version does not support them.
    """
    if cordoned is None or controller.image.metadata_version < CORDONED_SINCE:
        return []
    if broker.cordoned is not None and set(broker.cordoned) == set(cordoned):
        return []
    return [BrokerRegistrationChangeRecord(broker.id, broker.epoch, cordoned_log_dirs=list(cordoned))]


def _partition_changes(
    controller: Controller,
    partitions: Iterable[PartitionId],
    change_for: Callable[[Partition], PartitionChange | None],
    is_active: Callable[[int], bool] | None = None,
    limit: int = NO_LIMIT,
) -> list[Message]:
    """Return the change records of these partitions, at most `limit`."""
    topics = controller.image.topics
    rules: dict[KafkaUuid, PartitionRules] = {}
    records: list[Message] = []
    for tp in partitions:
        topic = topics[tp.topic_id]
        partition = topic.partitions[tp.number]
        change = change_for(partition)
        if change is None:
            continue
        topic_rules = rules.get(topic.id)
        if topic_rules is None:
            topic_rules = rules[topic.id] = PartitionRules(controller, topic.name, is_active)
        record = build_partition_change(tp, partition, change, topic_rules)
        if record is not None:
            records.append(record)
            if len(records) == limit:
                break
    return records
