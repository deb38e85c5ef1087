"""What becomes of partitions when a broker comes, goes, drains, or starts anew: the records, in their order.

A broker that leaves first loses its partitions and is then said to be gone; one that comes is first said to be there
and then leads. So the log is never without sense, wherever it is cut. That also lets a broker with very many
partitions leave and come in steps: while a leader plans, nobody hears of it. Where `most` partitions change in a step
there may be more, and the next step is planned once this one is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from quorumd.controller.broker import Broker
from quorumd.controller.controller import Controller
from quorumd.controller.partition import Partition, PartitionId
from quorumd.controller.partition_change import Rules, Wish, plan_change, without
from quorumd.controller.record_versions import CORDONED_SINCE
from quorumd.controller.rules import rules_for
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from quorumd.protocol.wire import Message

ALL: Final = 1 << 62

UNFENCED, FENCED = -1, 1
"""BrokerRegistrationChangeRecord.Fenced; 0 leaves it."""
DRAINING = 1


def fence(controller: Controller, broker: Broker, most: int = ALL) -> list[Message]:
    """The broker was not heard of, or wants to be fenced: it is in no ISR and leads nothing. Where it was in no ISR
    no partition epoch moves, which is why members of an ISR are named with their broker epochs (KIP-903).

    It is fenced with the last step: see `is_fenced_by`.
    """
    records = without_broker(controller, broker.id, most)
    if len(records) < most:
        records.append(BrokerRegistrationChangeRecord(broker.id, broker.epoch, FENCED))
    return records


def is_fenced_by(records: Sequence[Message]) -> bool:
    """Whether these records of `fence` are the last step."""
    return isinstance(records[-1], BrokerRegistrationChangeRecord)


def unfence(controller: Controller, broker: Broker, most: int = ALL) -> list[Message]:
    """The broker is there: it leads where nobody does and it may. It joins no ISR by that."""
    change = BrokerRegistrationChangeRecord(broker.id, broker.epoch, UNFENCED)
    return [change, *elect_from(controller, broker._replace(is_fenced=False), most)]


def elect_from(controller: Controller, broker: Broker, most: int = ALL) -> list[Message]:
    """The broker, as it is to be, leads where nobody does and it may."""

    def is_active(broker_id: int) -> bool:
        return broker.is_active if broker_id == broker.id else controller.is_active(broker_id)

    def wish(partition: Partition) -> Wish | None:
        return Wish() if broker.id in partition.replicas else None

    return _changes(controller, controller.image.index.leaderless, wish, is_active, most)


def drain(controller: Controller, broker: Broker, most: int = ALL) -> list[Message]:
    """The broker is about to stop: others lead and are in sync from now on, while it still serves whoever did not
    hear of it."""
    change = BrokerRegistrationChangeRecord(broker.id, broker.epoch, 0, DRAINING)
    return [change, *without_broker(controller, broker.id, most)]


def unregister(controller: Controller, broker: Broker) -> list[Message]:
    """The broker is forgotten. What it has eligible for a leader stays so until it registers again."""
    records = without_broker(controller, broker.id)
    records.append(UnregisterBrokerRecord(broker.id, broker.epoch))
    return records


def without_broker(controller: Controller, broker_id: int, most: int = ALL) -> list[Message]:
    """The broker is in no ISR any more, and leads nothing."""

    def wish(partition: Partition) -> Wish | None:
        if broker_id not in partition.isr:
            return None
        return Wish(isr=without(partition.isr, (broker_id,)), leaving=(broker_id,))

    return _changes(controller, controller.image.index.held_by(broker_id), wish, most=most)


def without_unclean(controller: Controller, broker_id: int) -> list[Message]:
    """The broker may have lost what it had: it is neither in an ISR nor eligible for a leader any more."""

    def wish(partition: Partition) -> Wish | None:
        return Wish(isr=without(partition.isr, (broker_id,)), unclean=(broker_id,))

    return _changes(controller, controller.image.index.held_by(broker_id), wish)


def lose_directories(controller: Controller, broker: Broker, offline: Collection[KafkaUuid]) -> list[Message]:
    """The broker cannot read these of its directories any more: as if it were fenced for what is in them (KIP-858).

    A broker that has no other directory stops by itself.
    """

    def wish(partition: Partition) -> Wish | None:
        if broker.id not in partition.isr or not partition.directories:
            return None
        directory = partition.directories[partition.replicas.index(broker.id)]
        if directory not in offline:
            return None
        return Wish(isr=without(partition.isr, (broker.id,)), leaving=(broker.id,))

    records = _changes(controller, controller.image.index.held_by(broker.id), wish)
    left = [directory for directory in broker.directories if directory not in offline]
    if left and len(left) < len(broker.directories):
        records.append(BrokerRegistrationChangeRecord(broker.id, broker.epoch, log_dirs=left))
    return records


def cordon(controller: Controller, broker: Broker, cordoned: Collection[KafkaUuid] | None) -> list[Message]:
    """The broker says which of its directories take no new replicas (KIP-1066), None while it does not know yet.
    Readers of older metadata versions do not know of cordons: for them nothing is written."""
    if cordoned is None or controller.image.metadata_version < CORDONED_SINCE:
        return []
    if broker.cordoned is not None and set(broker.cordoned) == set(cordoned):
        return []
    return [BrokerRegistrationChangeRecord(broker.id, broker.epoch, cordoned_log_dirs=list(cordoned))]


def _changes(
    controller: Controller,
    partitions: Iterable[PartitionId],
    wish_for: Callable[[Partition], Wish | None],
    is_active: Callable[[int], bool] | None = None,
    most: int = ALL,
) -> list[Message]:
    """The records that these partitions need for what is wished of each."""
    topics = controller.image.topics
    rules: dict[KafkaUuid, Rules] = {}
    records: list[Message] = []
    for where in partitions:
        topic = topics[where.topic_id]
        partition = topic.partitions[where.number]
        wish = wish_for(partition)
        if wish is None:
            continue
        known = rules.get(topic.id)
        if known is None:
            known = rules[topic.id] = rules_for(controller, topic.name, is_active)
        record = plan_change(where, partition, wish, known)
        if record is not None:
            records.append(record)
            if len(records) == most:
                break
    return records
