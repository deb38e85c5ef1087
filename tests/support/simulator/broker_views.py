"""Cluster views for tests of the checkers of brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quorumd.broker.replication.leadership import Leadership
from quorumd.broker.replication.replica import Replica
from quorumd.controller.broker import Broker
from quorumd.controller.cluster_image import Topic
from quorumd.controller.partition import Partition, PartitionId
from quorumd.ids import KafkaUuid
from quorumd.simulator.brokers.checkers.base import BrokerChecker
from quorumd.simulator.brokers.cluster_view import BrokerView, ClusterView, PartitionChange
from quorumd.simulator.brokers.data_log import DataLog, Record
from quorumd.simulator.checkers.base import InvariantViolation

TOPIC = KafkaUuid(bytes(15) + b"\x07")
WHERE = PartitionId(TOPIC, 0)
NAME = "orders"


class IdleContext:
    """A `ReplicaContext` for a replica without requests."""

    def min_isr(self, where: PartitionId) -> int:
        return 2

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: None


def broker(broker_id: int, *, epoch: int | None = None, incarnation: int = 1, **fields: Any) -> Broker:
    given = {"is_fenced": False, "in_controlled_shutdown": False} | fields
    return Broker(
        broker_id, broker_id * 10 if epoch is None else epoch, KafkaUuid(bytes([incarnation]) * 16), (), (), None,
        directories=(), **given,
    )  # fmt: skip


def row(isr: tuple[int, ...] = (1, 2), leader: int = 1, **fields: Any) -> Partition:
    return Partition(fields.pop("replicas", (1, 2, 3)), isr, leader, **fields)


def view_with(partition: Partition | None = None, *brokers: Broker, least: str = "2") -> ClusterView:
    """Return a view with a topic that has this partition, and with these brokers, by default three active ones."""
    view = ClusterView()
    topic = Topic(NAME, TOPIC)
    view.image.topics[TOPIC] = topic
    view.image.topic_ids[NAME] = TOPIC
    view.image.set_config((2, NAME), "min.insync.replicas", least, [])
    view.image.features["eligible.leader.replicas.version"] = 1
    if partition is not None:
        topic.partitions[0] = partition
    for each in brokers or (broker(1), broker(2), broker(3)):
        view.image.brokers[each.id] = each
        view.brokers[each.id] = BrokerView(each.id, True, 1, True, each.epoch)
    return view


def commit(view: ClusterView, count: int) -> list[Record]:
    records = [Record(0, value) for value in range(count)]
    view.history(WHERE).consumed = list(records)
    return records


def host(
    view: ClusterView, broker_id: int, *values: int, known: Partition | None = None, leads: bool = False
) -> Replica[DataLog]:
    """Add a replica with these values in its log to a broker."""
    log = DataLog(Record(0, value) for value in values)
    replica = Replica(WHERE, broker_id, log, IdleContext())  # type: ignore[arg-type]  # has any attribute
    replica.metadata = known if known is not None else view.row(WHERE)
    if leads:
        replica.leadership = Leadership(replica.leader_epoch, 0)
    view.brokers[broker_id].replicas = {WHERE: replica}
    return replica


def breaks(look: Callable[..., None], *arguments: Any) -> bool:
    try:
        look(*arguments)
    except InvariantViolation as violation:
        return bool(violation.invariant and violation.text)
    return False


def batch(checker: BrokerChecker, partition: Partition, *brokers: Broker, least: str = "2") -> bool:
    """Whether a committed batch that leads to this partition violates the invariant."""
    return breaks(checker.batch_committed, view_with(partition, *brokers, least=least), [WHERE])


def step(
    checker: BrokerChecker,
    before: Partition,
    after: Partition,
    *,
    names_leader: bool = False,
    view: ClusterView | None = None,
) -> bool:
    """Whether a record that changes `before` to `after` violates the invariant."""
    change = PartitionChange(WHERE, before, after, names_leader, 2)
    return breaks(checker.partition_changed, view or view_with(after), change)
