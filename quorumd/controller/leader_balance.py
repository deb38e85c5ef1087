"""Leader balance: election of preferred leaders that are in sync and active (auto.leader.rebalance.enable)."""

from __future__ import annotations

from typing import Final

from quorumd.controller.controller import Controller
from quorumd.controller.partition_change import (
    Election,
    PartitionChange,
    build_partition_change,
)
from quorumd.controller.partition_rules import PartitionRules
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord

_MAX_RECORDS: Final = 1_000
"""Kafka's limit per step: about ten milliseconds of planning."""


def max_balance_records(controller: Controller) -> int:
    """Return the maximum number of elections in one step."""
    return min(_MAX_RECORDS, controller.step)


def balance_leaders(controller: Controller) -> list[PartitionChangeRecord]:
    """Elect preferred leaders in one step. If it returns `max_balance_records` records, call it again once they are
    applied.

    The replaced leader stays in the ISR. As in Kafka's KRaft controllers, no share of imbalanced partitions is
    tolerated: leader.imbalance.per.broker.percentage has no effect.
    """
    topics = controller.image.topics
    limit = max_balance_records(controller)
    rules: dict[KafkaUuid, PartitionRules] = {}
    records: list[PartitionChangeRecord] = []
    for broker_id, partitions in controller.image.index.rebalance_candidates.items():
        if not controller.is_active(broker_id):
            continue
        for tp in partitions:
            if len(records) == limit:
                return records
            topic = topics[tp.topic_id]
            topic_rules = rules.get(topic.id)
            if topic_rules is None:
                topic_rules = rules[topic.id] = PartitionRules(controller, topic.name)
            partition = topic.partitions[tp.number]
            record = build_partition_change(
                tp, partition, PartitionChange(election=Election.PREFERRED), topic_rules
            )
            if record is not None and partition.apply(record).has_preferred_leader:
                records.append(record)
    return records
