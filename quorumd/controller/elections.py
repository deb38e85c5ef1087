"""ElectLeaders (KIP-183, KIP-460), and the periodic unclean elections of the controller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from quorumd.controller.cluster_image import ClusterImage, Topic
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.partition import NO_LEADER, RECOVERING, PartitionId
from quorumd.controller.partition_change import (
    Election,
    PartitionChange,
    build_partition_change,
)
from quorumd.controller.partition_rules import PartitionRules
from quorumd.controller.partitions_by_topic import by_topic
from quorumd.controller.request_context import NO_CONTEXT, RequestContext
from quorumd.errors import ErrorCode
from quorumd.protocol.messages import elect_leaders_response as wire
from quorumd.protocol.messages.elect_leaders_request import ElectLeadersRequest
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord

MAX_SWEEP_RECORDS: Final = 1_000
"""Limit per sweep: about ten milliseconds of planning."""

_EXAMINED_PER_CHANGE: Final = 16
"""Number of partitions that can be examined in the time that the change of one takes."""

_OMITTED_ERRORS: Final = (ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""Errors that a response for all partitions omits: the partition needs no election, or has been deleted."""

_ELECTIONS: Final = (Election.PREFERRED, Election.UNCLEAN)
"""The elections by ElectionType of the request."""


class UncleanElection(NamedTuple):
    """The election of a leader that may lack committed records. `is_last_known`: whether it is the last known leader,
    which is elected even if the topic does not allow unclean election, as no eligible replica is left (KIP-966)."""

    topic: str
    number: int
    leader: int
    is_last_known: bool


def unclean_election(image: ClusterImage, record: PartitionChangeRecord) -> UncleanElection | None:
    """Return the unclean election in this record, which is not applied yet; None if it has none."""
    if record.leader < 0:
        return None
    topic = image.topics[record.topic_id]
    before = topic.partitions[record.partition_id]
    if record.leader == before.leader or record.leader in before.isr or record.leader in before.elr:
        return None
    if before.apply(record).recovery != RECOVERING:
        return None
    is_last_known = not before.isr and not before.elr and before.last_known_elr == (record.leader,)
    return UncleanElection(topic.name, record.partition_id, record.leader, is_last_known)


def is_eligible_election(image: ClusterImage, record: PartitionChangeRecord) -> bool:
    """Whether this record, which is not applied yet, elects a member of the ELR (KIP-966)."""
    if record.leader < 0:
        return False
    before = image.topics[record.topic_id].partitions[record.partition_id]
    return record.leader != before.leader and record.leader in before.elr


class _ElectionResult(NamedTuple):
    error: ErrorCode
    text: str | None
    record: PartitionChangeRecord | None = None


def partitions_to_elect(
    controller: Controller, message: ElectLeadersRequest, chunk_size: int
) -> Iterator[dict[str, list[int]] | None] | None:
    """Expand a request for all partitions: iterate over chunks of at most `chunk_size` partitions that need an
    election, as numbers by topic name.

    Yields None whenever it has examined many partitions without filling a chunk, so that the caller can pause.
    Returns None if the cluster has at most `chunk_size` partitions, or for an unknown election type.
    """
    partition_count = controller.image.index.partition_count
    if partition_count <= chunk_size or not 0 <= message.election_type < len(_ELECTIONS):
        return None
    if _ELECTIONS[message.election_type] is Election.UNCLEAN:
        return by_topic(controller.image, list(controller.image.index.leaderless), chunk_size)
    return _without_preferred_leader(controller.image, chunk_size)


def _without_preferred_leader(image: ClusterImage, chunk_size: int) -> Iterator[dict[str, list[int]] | None]:
    found: dict[str, list[int]] = {}
    count = examined = 0
    for name, topic_id in list(image.topic_ids.items()) if image.index.imbalanced_count else ():
        topic = image.topics.get(topic_id)
        for number, partition in list(topic.partitions.items()) if topic is not None else ():
            examined += 1
            if not partition.has_preferred_leader:
                found.setdefault(name, []).append(number)
                count += 1
            if count == chunk_size:
                yield found
                found, count, examined = {}, 0, 0
            elif examined == _EXAMINED_PER_CHANGE * chunk_size:
                yield None
                examined = 0
    if found:
        yield found


def plan_elect_leaders(
    controller: Controller,
    message: ElectLeadersRequest,
    version: int,
    context: RequestContext = NO_CONTEXT,
) -> ControllerResult:
    """Plan each partition separately; all changes form one atomic batch.

    A request with null partitions is for all of them; its response lists only those that needed an election.
    """
    del version
    reports_all = message.topic_partitions is not None and not context.part.is_of_all
    if not 0 <= message.election_type < len(_ELECTIONS):
        return ControllerResult((), _error_response(message))
    election = _ELECTIONS[message.election_type]
    records: dict[PartitionId, PartitionChangeRecord] = {}
    results: list[wire.ReplicaElectionResult] = []
    for name, topic, numbers in _requested_partitions(controller, message):
        rules = PartitionRules(controller, name)
        partition_results: list[wire.PartitionResult] = []
        for number in numbers:
            result = _elect(name, topic, number, election, rules, records)
            if reports_all or result.error not in _OMITTED_ERRORS:
                partition_results.append(wire.PartitionResult(number, int(result.error), result.text))
            if topic is not None and result.record is not None:
                records[PartitionId(topic.id, number)] = result.record
        if partition_results or reports_all:
            results.append(wire.ReplicaElectionResult(name, partition_results))
    return ControllerResult(list(records.values()), wire.ElectLeadersResponse(0, 0, results))


def elect_unclean_leaders(controller: Controller) -> list[PartitionChangeRecord]:
    """Elect leaders for leaderless partitions of topics that allow unclean election.

    Returns at most MAX_SWEEP_RECORDS records. If it returns that many, call it again once they are applied.
    """
    image = controller.image
    rules: dict[str, PartitionRules] = {}
    records: list[PartitionChangeRecord] = []
    for tp in image.index.leaderless:
        topic = image.topics[tp.topic_id]
        topic_rules = rules.get(topic.name)
        if topic_rules is None:
            topic_rules = rules[topic.name] = PartitionRules(controller, topic.name)
        if not topic_rules.unclean_election:
            continue
        partition = topic.partitions[tp.number]
        record = build_partition_change(tp, partition, PartitionChange(), topic_rules)
        if record is not None and partition.apply(record).leader != NO_LEADER:
            records.append(record)
            if len(records) == MAX_SWEEP_RECORDS:
                break
    return records


def _requested_partitions(
    controller: Controller, message: ElectLeadersRequest
) -> Iterable[tuple[str, Topic | None, Sequence[int]]]:
    image = controller.image
    if message.topic_partitions is not None:
        return [
            (requested.topic, image.topic_by_name(requested.topic), requested.partitions)
            for requested in message.topic_partitions
        ]
    topics = [image.topics[topic_id] for _, topic_id in sorted(image.topic_ids.items())]
    return [(topic.name, topic, sorted(topic.partitions)) for topic in topics]


def _elect(
    name: str,
    topic: Topic | None,
    number: int,
    election: Election,
    rules: PartitionRules,
    planned: dict[PartitionId, PartitionChangeRecord],
) -> _ElectionResult:
    partition = topic.partitions.get(number) if topic is not None else None
    if topic is None or partition is None:
        return _ElectionResult(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Partition {number} of topic {name!r} does not exist."
        )
    tp = PartitionId(topic.id, number)
    preferred = partition.replicas[0]
    if election is Election.PREFERRED and partition.leader == preferred:
        return _ElectionResult(
            ErrorCode.ELECTION_NOT_NEEDED, f"The preferred leader {preferred} is already the leader."
        )
    if election is Election.UNCLEAN and partition.leader != NO_LEADER:
        return _ElectionResult(
            ErrorCode.ELECTION_NOT_NEEDED, f"Broker {partition.leader} is already the leader."
        )
    if tp in planned:
        return _ElectionResult(
            ErrorCode.ELECTION_NOT_NEEDED, f"Duplicate partition {number} of topic {name!r} in the request."
        )
    record = build_partition_change(tp, partition, PartitionChange(election=election), rules)
    after = partition.apply(record) if record is not None else partition
    if election is Election.PREFERRED and after.leader != after.replicas[0]:
        text = f"The preferred leader {preferred} is not available or not in sync."
        return _ElectionResult(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, text)
    if after.leader == NO_LEADER:
        text = f"None of the replicas {list(partition.replicas)} is available."
        return _ElectionResult(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, text)
    return _ElectionResult(ErrorCode.NONE, None, record)


def _error_response(message: ElectLeadersRequest) -> wire.ElectLeadersResponse:
    error = int(ErrorCode.INVALID_REQUEST)
    text = f"Unknown election type {message.election_type}; expected 0 (preferred) or 1 (unclean)."
    results = [
        wire.ReplicaElectionResult(
            requested.topic, [wire.PartitionResult(number, error, text) for number in requested.partitions]
        )
        for requested in message.topic_partitions or ()
    ]
    return wire.ElectLeadersResponse(0, error, results)
