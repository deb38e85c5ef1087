"""ElectLeaders, and the elections that the controller holds by itself (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from quorumd.controller.cluster_image import ClusterImage, Topic
from quorumd.controller.controller import Controller
from quorumd.controller.partition import NO_LEADER, RECOVERING, PartitionId
from quorumd.controller.partition_change import Election, Rules, Wish, plan_change
from quorumd.controller.plan import Plan
from quorumd.controller.rules import rules_for
from quorumd.errors import ErrorCode
from quorumd.protocol.messages import elect_leaders_response as wire
from quorumd.protocol.messages.elect_leaders_request import ElectLeadersRequest
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord

UNCLEAN_SWEEP_MS: Final = 300_000
"""How often leaderless partitions that allow it are looked at (Kafka's
unclean.leader.election.interval.ms): a safety net, since whatever makes a replica electable elects it."""

SWEEP_RECORDS: Final = 1_000
"""Of one sweep: some ten milliseconds of planning."""

_ELECTIONS: Final = (Election.PREFERRED, Election.UNCLEAN)
"""By ElectionType."""


class UncleanElection(NamedTuple):
    """A leader that may lack committed records. `is_last_known`: elected without consent of the topic, since it led
    last and every replica that had all of them is lost (KIP-966)."""

    topic: str
    number: int
    leader: int
    is_last_known: bool


def unclean_election(image: ClusterImage, record: PartitionChangeRecord) -> UncleanElection | None:
    """The election that this record, which is not applied yet, is; None if it is another one, or none."""
    if record.leader < 0:
        return None
    topic = image.topics[record.topic_id]
    before = topic.partitions[record.partition_id]
    if record.leader == before.leader or record.leader in before.isr or record.leader in before.elr:
        return None
    if before.changed(record).recovery != RECOVERING:
        return None
    is_last_known = not before.isr and not before.elr and before.last_known_elr == (record.leader,)
    return UncleanElection(topic.name, record.partition_id, record.leader, is_last_known)


def is_eligible_election(image: ClusterImage, record: PartitionChangeRecord) -> bool:
    """Whether this record, which is not applied yet, elects an eligible replica since none is in sync (KIP-966)."""
    if record.leader < 0:
        return False
    before = image.topics[record.topic_id].partitions[record.partition_id]
    return record.leader != before.leader and record.leader in before.elr


class _Outcome(NamedTuple):
    error: ErrorCode
    text: str | None
    record: PartitionChangeRecord | None = None


def plan_elect_leaders(controller: Controller, message: ElectLeadersRequest, version: int) -> Plan:
    """Each partition by itself; all changes are one. Without partitions: all of them, and of these only those are
    told where an election was needed."""
    del version
    if not 0 <= message.election_type < len(_ELECTIONS):
        return Plan((), _refused(message))
    election = _ELECTIONS[message.election_type]
    records: dict[PartitionId, PartitionChangeRecord] = {}
    results: list[wire.ReplicaElectionResult] = []
    for name, topic, numbers in _asked_about(controller, message):
        rules = rules_for(controller, name)
        told: list[wire.PartitionResult] = []
        for number in numbers:
            outcome = _elect(name, topic, number, election, rules, records)
            if message.topic_partitions is not None or outcome.error != ErrorCode.ELECTION_NOT_NEEDED:
                told.append(wire.PartitionResult(number, int(outcome.error), outcome.text))
            if topic is not None and outcome.record is not None:
                records[PartitionId(topic.id, number)] = outcome.record
        if told or message.topic_partitions is not None:
            results.append(wire.ReplicaElectionResult(name, told))
    return Plan(list(records.values()), wire.ElectLeadersResponse(0, 0, results))


def unclean_sweep(controller: Controller) -> list[PartitionChangeRecord]:
    """Leaders for partitions that have none, of topics where one may lead that lacks committed records.

    At most SWEEP_RECORDS; where there are so many, there may be more once these are applied.
    """
    image = controller.image
    rules: dict[str, Rules] = {}
    records: list[PartitionChangeRecord] = []
    for where in image.index.leaderless:
        topic = image.topics[where.topic_id]
        known = rules.get(topic.name)
        if known is None:
            known = rules[topic.name] = rules_for(controller, topic.name)
        if not known.unclean_election:
            continue
        partition = topic.partitions[where.number]
        record = plan_change(where, partition, Wish(election=Election.UNCLEAN), known)
        if record is not None and partition.changed(record).leader != NO_LEADER:
            records.append(record)
            if len(records) == SWEEP_RECORDS:
                break
    return records


def _asked_about(
    controller: Controller, message: ElectLeadersRequest
) -> Iterable[tuple[str, Topic | None, Sequence[int]]]:
    image = controller.image
    if message.topic_partitions is not None:
        return [
            (asked.topic, image.topic_named(asked.topic), asked.partitions)
            for asked in message.topic_partitions
        ]
    topics = [image.topics[topic_id] for _, topic_id in sorted(image.topic_ids.items())]
    return [(topic.name, topic, sorted(topic.partitions)) for topic in topics]


def _elect(
    name: str,
    topic: Topic | None,
    number: int,
    election: Election,
    rules: Rules,
    planned: dict[PartitionId, PartitionChangeRecord],
) -> _Outcome:
    partition = topic.partitions.get(number) if topic is not None else None
    if topic is None or partition is None:
        return _Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {number} of {name!r}.")
    where = PartitionId(topic.id, number)
    preferred = partition.replicas[0]
    if election is Election.PREFERRED and partition.leader == preferred:
        return _Outcome(ErrorCode.ELECTION_NOT_NEEDED, f"The preferred leader {preferred} leads.")
    if election is Election.UNCLEAN and partition.leader != NO_LEADER:
        return _Outcome(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {partition.leader} leads.")
    if where in planned:
        return _Outcome(ErrorCode.ELECTION_NOT_NEEDED, f"Partition {number} of {name!r} is named twice.")
    record = plan_change(where, partition, Wish(election=election), rules)
    after = partition.changed(record) if record is not None else partition
    if election is Election.PREFERRED and after.leader != after.replicas[0]:
        text = f"The preferred leader {preferred} is not in sync, or not there."
        return _Outcome(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, text)
    if after.leader == NO_LEADER:
        text = f"None of the replicas {list(partition.replicas)} is there."
        return _Outcome(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, text)
    return _Outcome(ErrorCode.NONE, None, record)


def _refused(message: ElectLeadersRequest) -> wire.ElectLeadersResponse:
    error = int(ErrorCode.INVALID_REQUEST)
    text = f"Election type {message.election_type} is neither 0 (preferred) nor 1 (unclean)."
    results = [
        wire.ReplicaElectionResult(
            asked.topic, [wire.PartitionResult(number, error, text) for number in asked.partitions]
        )
        for asked in message.topic_partitions or ()
    ]
    return wire.ElectLeadersResponse(0, error, results)
