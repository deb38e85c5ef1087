"""Leader balance: a preferred leader that is in sync and active again leads again (auto.leader.rebalance.enable)."""

from __future__ import annotations

from typing import Final

from quorumd.controller.controller import Controller
from quorumd.controller.partition_change import Election, Rules, Wish, plan_change
from quorumd.controller.rules import rules_for
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord

_MOST_RECORDS: Final = 1_000
"""As in Kafka: some ten milliseconds of planning."""


def balance_step(controller: Controller) -> int:
    """How many leaders are elected in one step at most."""
    return min(_MOST_RECORDS, controller.step)


def balance_leaders(controller: Controller) -> list[PartitionChangeRecord]:
    """Elect preferred leaders in one step. If it has `balance_step` records, there may be more to elect once these
    are applied.

    The leader that is replaced stays in the ISR. As in Kafka's KRaft controllers no share of imbalanced partitions is
    left alone: leader.imbalance.per.broker.percentage has no effect.
    """
    topics = controller.image.topics
    most = balance_step(controller)
    rules: dict[KafkaUuid, Rules] = {}
    records: list[PartitionChangeRecord] = []
    for broker_id, partitions in controller.image.index.to_balance.items():
        if not controller.is_active(broker_id):
            continue
        for where in partitions:
            if len(records) == most:
                return records
            topic = topics[where.topic_id]
            known = rules.get(topic.id)
            if known is None:
                known = rules[topic.id] = rules_for(controller, topic.name)
            partition = topic.partitions[where.number]
            record = plan_change(where, partition, Wish(election=Election.PREFERRED), known)
            if record is not None and partition.changed(record).has_preferred_leader:
                records.append(record)
    return records
