"""Invariants of topics and elections that operators request.

They are checked against requests and committed records, without the controller's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from quorumd.broker.api.topic_messages import INTERNAL_TOPICS
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, ZERO_UUID, KafkaUuid
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest
from quorumd.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from quorumd.protocol.messages.elect_leaders_request import ElectLeadersRequest
from quorumd.protocol.messages.elect_leaders_response import ElectLeadersResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.checkers.base import BrokerChecker, SentRequests
from quorumd.simulator.brokers.cluster_view import ClusterView, PartitionChange

USE_DEFAULT: Final = -1
PREFERRED: Final = 0
UNCLEAN: Final = 1

NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class _Creation(NamedTuple):
    """The replicas of each partition, and the configs, with which a topic was created."""

    topic_id: KafkaUuid
    replicas: dict[int, tuple[int, ...]]
    configs: dict[str, str]

    def matches(self, wanted: CreatableTopic) -> bool:
        """Whether the topic is as requested; partitions may have been added in the same batch."""
        if self.configs != {config.name: config.value for config in wanted.configs}:
            return False
        if wanted.assignments:
            return all(
                self.replicas.get(each.partition_index) == tuple(each.broker_ids)
                for each in wanted.assignments
            )
        factors = {len(self.replicas.get(number, ())) for number in range(max(1, wanted.num_partitions))}
        return wanted.replication_factor == USE_DEFAULT or factors == {wanted.replication_factor}


class RequestedTopicsAreCreated(BrokerChecker):
    """A topic is created only as requested by a valid part of a request, with its assignment and configs. A response
    reports each name of its request, and success only for a valid topic that was created."""

    invariant = "topics are created as requested"

    def __init__(self) -> None:
        self._wanted: dict[str, list[CreatableTopic]] = {}
        self._created: dict[str, list[_Creation]] = {}
        self._new: dict[KafkaUuid, tuple[str, _Creation]] = {}
        self._known: set[KafkaUuid] = set()
        self._sent = SentRequests[dict[str, int]]()
        """Each request, with the number of topics created under each of its names before it was sent, -1 for a name
        in use."""

    def admin_request_sent(self, view: ClusterView, request: Message) -> None:
        if not isinstance(request, CreateTopicsRequest):
            return
        before = {}
        for topic in request.topics:
            exists = topic.name in view.image.topic_ids
            before[topic.name] = -1 if exists else len(self._created.get(topic.name, ()))
            if not request.validate_only and not _problem(view, request, topic):
                self._wanted.setdefault(topic.name, []).append(topic)
        self._sent.add(request, before)

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        where, after = change.where, change.after
        if change.before is not None or after is None:
            return
        if where.topic_id not in self._known:
            self._known.add(where.topic_id)
            name = view.image.topics[where.topic_id].name
            configs = dict(view.image.config((int(ConfigResourceType.TOPIC), name)))
            self._new[where.topic_id] = name, _Creation(where.topic_id, {}, configs)
        if where.topic_id in self._new:
            self._new[where.topic_id][1].replicas[where.number] = after.replicas

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        for name, creation in self._new.values():
            self._created.setdefault(name, []).append(creation)
            if name not in INTERNAL_TOPICS and not any(
                creation.matches(wanted) for wanted in self._wanted.get(name, ())
            ):
                raise self.violation(f"topic {name!r} was not requested as {creation}")
        self._new.clear()

    def admin_request_completed(self, view: ClusterView, request: Message, response: Message) -> None:
        if not isinstance(request, CreateTopicsRequest) or not isinstance(response, CreateTopicsResponse):
            return
        before = self._sent.take(request) or {}
        results = {result.name: result for result in response.topics}
        if results.keys() != {topic.name for topic in request.topics}:
            raise self.violation(f"the response to {request!r} is about {list(results)}")
        for topic in request.topics:
            self._check_result(view, request, topic, results[topic.name], before.get(topic.name, -1))

    def _check_result(
        self,
        view: ClusterView,
        request: CreateTopicsRequest,
        topic: CreatableTopic,
        result: CreatableTopicResult,
        before: int,
    ) -> None:
        created = self._created.get(topic.name, [])
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and before == len(created):
            raise self.violation(f"topic {topic.name!r} did not exist: {result!r}")
        if result.error_code:
            return
        problem = _problem(view, request, topic)
        if problem:
            raise self.violation(f"topic {topic!r} {problem}, but there is no error: {result!r}")
        if request.validate_only:
            return
        found = [each for each in created if result.topic_id in (ZERO_UUID, each.topic_id)]
        if not any(each.matches(topic) for each in found):
            raise self.violation(f"topic {topic!r} was not created: {result!r}, but {found}")


def _problem(view: ClusterView, request: CreateTopicsRequest, topic: CreatableTopic) -> str:
    """Describe why the topic is invalid in any state of the cluster, "" if it is valid."""
    replicas = [each.broker_ids for each in topic.assignments]
    numbers = sorted(each.partition_index for each in topic.assignments)
    defaults = topic.num_partitions == USE_DEFAULT and topic.replication_factor == USE_DEFAULT
    problems = {
        "occurs twice": sum(each.name == topic.name for each in request.topics) > 1,
        "has an invalid name": not topic.name or not set(topic.name) <= NAME_CHARACTERS,
        "is the metadata log": topic.name == METADATA_TOPIC,
        "has an assignment and a number of partitions": bool(replicas) and not defaults,
        "has a gap": numbers != list(range(len(numbers))),
        "has no replicas": any(not each for each in replicas),
        "has duplicate replicas": any(len(set(each)) != len(each) for each in replicas),
        "has unequal replication factors": len({len(each) for each in replicas}) > 1,
        "has unknown brokers": any(broker not in view.brokers for each in replicas for broker in each),
        "has no partitions": topic.num_partitions == 0 or topic.num_partitions < USE_DEFAULT,
        "has an invalid replication factor": topic.replication_factor == 0
        or topic.replication_factor > len(view.brokers),
    }
    return next((problem for problem, exists in problems.items() if exists), "")


class OnlyRequestedTopicsAreDeleted(BrokerChecker):
    """A topic is deleted only if a request named it, by name or by id. A topic that is reported as deleted is gone,
    and a topic that is reported as unknown did not exist at some time since the request."""

    invariant = "topics are deleted as requested"

    def __init__(self) -> None:
        self._requested: set[str | KafkaUuid] = set()
        self._names: dict[KafkaUuid, str] = {}
        self._sent = SentRequests[dict[str, KafkaUuid]]()
        """Each request, with the ids of all topics by name when it was sent."""

    def admin_request_sent(self, view: ClusterView, request: Message) -> None:
        if isinstance(request, DeleteTopicsRequest):
            names = [*request.topic_names, *(each.name for each in request.topics if each.name is not None)]
            self._requested.update(names)
            self._requested.update(each.topic_id for each in request.topics if each.name is None)
            self._sent.add(request, dict(view.image.topic_ids))

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        topic_id = change.where.topic_id
        if change.after is not None:
            self._names[topic_id] = view.image.topics[topic_id].name
        elif not self._requested & {topic_id, self._names[topic_id]}:
            raise self.violation(
                f"topic {self._names[topic_id]!r} ({topic_id}) was deleted without a request"
            )

    def admin_request_completed(self, view: ClusterView, request: Message, response: Message) -> None:
        if not isinstance(request, DeleteTopicsRequest) or not isinstance(response, DeleteTopicsResponse):
            return
        before = self._sent.take(request) or {}
        for result in response.responses:
            self._check_result(view, result, before)

    def _check_result(
        self, view: ClusterView, result: DeletableTopicResult, before: dict[str, KafkaUuid]
    ) -> None:
        named = before.get(result.name, ZERO_UUID) if result.name is not None else ZERO_UUID
        topic_id = result.topic_id if result.topic_id != ZERO_UUID else named
        if topic_id not in before.values() or topic_id not in view.image.topics:
            return
        unknown = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not result.error_code or result.error_code in unknown:
            raise self.violation(f"topic {self._names[topic_id]!r} ({topic_id}) still exists: {result!r}")


class ElectionRequestsTakeEffect(BrokerChecker):
    """Between a request for an election and its response without error, or with ELECTION_NOT_NEEDED, the partition
    was led by its preferred leader, or in an unclean election by any replica. An unknown election type is refused."""

    invariant = "requested elections elect"

    def __init__(self) -> None:
        self._changes = 0
        self._ended: dict[tuple[PartitionId, int], int] = {}
        """The number of the change that last ended the requested state, by partition and election type."""
        self._sent = SentRequests[int]()

    def admin_request_sent(self, view: ClusterView, request: Message) -> None:
        if isinstance(request, ElectLeadersRequest):
            self._sent.add(request, self._changes)

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        self._changes += 1
        before, after = change.before, change.after
        if before is None:
            return
        for kind in (PREFERRED, UNCLEAN):
            if _is_elected(before, kind) and (after is None or not _is_elected(after, kind)):
                self._ended[change.where, kind] = self._changes

    def admin_request_completed(self, view: ClusterView, request: Message, response: Message) -> None:
        if not isinstance(request, ElectLeadersRequest) or not isinstance(response, ElectLeadersResponse):
            return
        since, kind = self._sent.take(request), request.election_type
        if kind not in (PREFERRED, UNCLEAN):
            if not response.error_code:
                raise self.violation(f"{request!r} was accepted: {response!r}")
            return
        for result in response.replica_election_results:
            topic = view.image.topic_by_name(result.topic)
            for part in result.partition_result:
                row = topic.partitions.get(part.partition_id) if topic is not None else None
                if row is None or topic is None or since is None or part.error_code not in _FULFILLED:
                    continue
                ended = self._ended.get((PartitionId(topic.id, part.partition_id), kind), -1)
                if not _is_elected(row, kind) and ended <= since:
                    text = f"{result.topic}-{part.partition_id} was never led as requested: {row!r}, {part!r}"
                    raise self.violation(text)


_FULFILLED: Final = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)


def _is_elected(row: Partition, kind: int) -> bool:
    return row.leader == row.replicas[0] if kind == PREFERRED else row.leader != NO_LEADER
