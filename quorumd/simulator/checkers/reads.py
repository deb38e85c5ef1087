"""Responses to clients that read the cluster, compared with the committed log ("Staleness of reads" in
docs/decisions.md)."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final, NamedTuple

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC_ID, ZERO_UUID
from quorumd.protocol.endpoint_type import EndpointType
from quorumd.protocol.messages.api_versions_response import ApiVersionsResponse
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from quorumd.protocol.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
)
from quorumd.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from quorumd.protocol.messages.metadata_response import MetadataResponse, MetadataResponsePartition
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.base import InvariantViolation
from quorumd.simulator.checkers.committed_state import (
    BROKER,
    FEATURE,
    PARTITION,
    TOPIC,
    BrokerState,
    Claim,
    CommittedState,
    Key,
    PartitionState,
    Value,
    broker_key,
    feature_key,
    partition_key,
    topic_key,
)
from quorumd.simulator.checkers.read_scope import EVERYTHING, Scope

KRAFT_VERSION: Final = "kraft.version"
"""Its level follows from the voters, not from a record."""
NO_LEADER: Final = -1

Process = tuple[int, int]
"""The id of a node and its incarnation."""


class Reported(NamedTuple):
    """A partition in a response; `elr` and `last_known_elr` are None where the API lacks them."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


class Moment(NamedTuple):
    """Claims that hold at one moment. An ordered moment is not before the previous ordered moment."""

    claims: list[Claim]
    is_ordered: bool = True


class ReadsAreCommitted:
    """Every response shows the committed state at one moment, a Metadata response at one moment per topic. The moment
    is not before the moment of the previous response of the same process, nor, for linearizable reads, before the
    request.

    DescribeQuorum shows a leader of its epoch and a high watermark that does not exceed the committed records.
    """

    committed = "reads show one committed state and never go back"
    linearizable = "listed reassignments are linearizable"
    quorum = "DescribeQuorum shows a leader and what it has committed"

    def __init__(self, state: CommittedState) -> None:
        self.counters: Counter[str] = Counter()
        self._state = state
        self._shown: dict[Process, int] = {}
        """The earliest offset that explains the last response of each process."""
        self._high_watermarks: dict[tuple[int, int], int] = {}
        """The last high watermark by leader and epoch."""

    @property
    def end_offset(self) -> int:
        """The end of the committed log: a linearizable read requested now shows this state or a later one."""
        return self._state.end_offset

    @property
    def topics(self) -> list[tuple[str, str]]:
        """The names and ids of all topics that have ever existed."""
        self._state.follow()
        ids = sorted({key[1] for key in self._state.keys(PARTITION, 0)})
        return [(self._state.name_of(topic_id), topic_id) for topic_id in ids]

    def responded(
        self, message: Message, process: Process | None, requested_at: int, scope: Scope = EVERYTHING
    ) -> None:
        """Check a response of a process, None if unknown. `requested_at` is the end of the committed log at the time
        of the request. Raises InvariantViolation."""
        self._state.follow()
        self.counters[f"checked: {type(message).__name__.removesuffix('Response')}"] += 1
        if isinstance(message, ListPartitionReassignmentsResponse):
            if message.error_code == ErrorCode.NONE:
                claims = self._reassignments(message, requested_at, scope)
                for together in [[claim] for claim in claims] if scope.is_split else [claims]:
                    self._match(self.linearizable, together, requested_at, message)
        elif isinstance(message, DescribeQuorumResponse):
            self._check_quorum(message)
        else:
            before = self._shown.get(process, 0) if process is not None else 0
            after = self._match_moments(message, before, scope)
            if process is not None:
                self._shown[process] = after

    def first_difference(self, message: Message, since: int) -> str:
        """Describe how a response differs from the state at the end of the committed log; "" if it does not.
        Responses that show a state between `since` and the end do not differ."""
        self._state.follow()
        try:
            self._match_moments(message, since)
        except InvariantViolation as difference:
            return difference.text
        return ""

    def _match_moments(self, message: Message, since: int, scope: Scope = EVERYTHING) -> int:
        """Return the earliest offset at which the response is correct."""
        first = since
        for moment in self._moments(message, since, scope):
            found = self._match(self.committed, moment.claims, since if moment.is_ordered else first, message)
            since = found if moment.is_ordered else since
        if isinstance(message, ApiVersionsResponse) and message.finalized_features_epoch >= 0:
            epoch = message.finalized_features_epoch
            text = self._state.first_contradiction(self._features(message), epoch)
            if text or epoch > self._state.end_offset:
                raise InvariantViolation(
                    self.committed, f"the epoch of finalized features is {epoch}: {text}"
                )
        return since

    def _match(self, invariant: str, claims: list[Claim], since: int, message: Message) -> int:
        found = self._state.first_match(claims, since)
        if found is None:
            state = self._state
            texts = dict.fromkeys(state.first_contradiction(claims, at) for at in (since, state.end_offset))
            raise InvariantViolation(
                invariant,
                f"{type(message).__name__} is true at no offset from {since} to {state.end_offset}: "
                f"{'; '.join(texts)}",
            )
        return found

    # Claims

    def _moments(self, message: Message, since: int, scope: Scope) -> list[Moment]:
        if isinstance(message, MetadataResponse):
            return self._moments_of_metadata(message, since, scope)
        if isinstance(message, DescribeTopicPartitionsResponse):
            found = [topic for topic in message.topics if not topic.error_code]
            claims = self._absent({topic.name or "" for topic in found}, since, scope)
            for topic in found:
                rows = {each.partition_index: _described(each) for each in topic.partitions}
                claims += self._topic(topic.name or "", str(topic.topic_id), rows, scope)
                claims += [_offline(str(topic.topic_id), number, row) for number, row in rows.items()]
            return [Moment(claims)]
        if isinstance(message, DescribeClusterResponse):
            if message.error_code or message.endpoint_type != EndpointType.BROKER:
                return []
            fenced = {broker.broker_id: broker.is_fenced for broker in message.brokers}
            return [Moment(self._brokers(fenced, scope.fenced_brokers, since))]
        assert isinstance(message, ApiVersionsResponse), f"{type(message).__name__} is not a read of a node"
        return [Moment(self._features(message))] if scope.features else []

    def _moments_of_metadata(self, message: MetadataResponse, since: int, scope: Scope) -> list[Moment]:
        """Return the moments of a response: topics are described one after the other, brokers with the last topic.
        All partitions of a topic show the state at the time of the first partition, but offline replicas may be
        later."""
        moments = []
        if scope.topics:
            found = [
                topic
                for topic in message.topics
                if not topic.error_code and topic.topic_id != METADATA_TOPIC_ID
            ]
            unknown = {str(topic.topic_id) for topic in message.topics if topic.error_code} - {str(ZERO_UUID)}
            absent = self._absent({topic.name or "" for topic in found}, since, scope)
            absent += [
                Claim(f"there is no topic with id {each}", (partition_key(each, 0),), _is_nothing)
                for each in sorted(unknown)
            ]
            moments = [Moment([claim], False) for claim in absent]
            for topic in found:
                topic_id = str(topic.topic_id)
                rows = {each.partition_index: _listed(each) for each in topic.partitions}
                moments.append(Moment(self._topic(topic.name or "", topic_id, rows, scope)))
                for row in rows.values():
                    online = [replica for replica in row.replicas if replica not in row.offline]
                    moments += [Moment([_is_online(replica)], False) for replica in online]
        if scope.brokers:
            fenced = {broker.node_id: False for broker in message.brokers}
            moments.append(Moment(self._brokers(fenced, False, since)))
        return moments

    def _absent(self, listed: set[str], since: int, scope: Scope) -> list[Claim]:
        names = [
            key[1] for key in self._state.keys(TOPIC, since) if key[1] not in listed and scope.covers(key[1])
        ]
        return [Claim(f"there is no topic {name!r}", (topic_key(name),), _is_nothing) for name in names]

    def _topic(self, name: str, topic_id: str, rows: dict[int, Reported], scope: Scope) -> list[Claim]:
        state = self._state
        claims = [Claim(f"topic {name!r} has id {topic_id}", (topic_key(name),), partial(_is, topic_id))]
        if name not in scope.partial:
            text = f"topic {name!r} has {len(rows)} partitions"
            claims.append(Claim(text, (partition_key(topic_id, len(rows)),), _is_nothing))
        for number, row in rows.items():
            # A leader that was unregistered is reported as none.
            is_open = row.leader == NO_LEADER and any(state.was_absent(broker_key(r)) for r in row.replicas)
            claims.append(
                Claim(
                    f"{name}-{number} is {row}",
                    (partition_key(topic_id, number),),
                    partial(_is_row, row, is_open),
                )
            )
        return claims

    def _brokers(self, fenced: dict[int, bool], includes_fenced: bool, since: int) -> list[Claim]:
        """Return the claims of a list of brokers, `fenced` by id. Only brokers that were ever registered count, since
        nodes of the quorum may be listed, too."""
        ids = {key[2] for key in self._state.keys(BROKER, 0)}
        return [
            Claim(
                f"broker {broker_id} is {'fenced' if fenced.get(broker_id) else 'listed'}"
                if broker_id in fenced
                else f"broker {broker_id} is not listed",
                (broker_key(broker_id),),
                partial(_is_broker, fenced.get(broker_id), includes_fenced),
            )
            for broker_id in sorted(ids)
        ]

    def _features(self, message: ApiVersionsResponse) -> list[Claim]:
        levels = {each.name: each.max_version_level for each in message.finalized_features}
        names = {key[1] for key in self._state.keys(FEATURE, 0)} | levels.keys()
        return [
            Claim(f"{name} is {levels.get(name)}", (feature_key(name),), partial(_is, levels.get(name)))
            for name in sorted(names - {KRAFT_VERSION})
        ]

    def _reassignments(
        self, message: ListPartitionReassignmentsResponse, since: int, scope: Scope
    ) -> list[Claim]:
        """Return the claims of a list of reassignments, by the names of topics."""
        listed = {
            (topic.name, each.partition_index): (
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in message.topics
            for each in topic.partitions
        }  # fmt: skip
        by_name: dict[tuple[str, int], list[Key]] = {key: [] for key in listed}
        for key in self._state.keys(PARTITION, since):
            where = self._state.name_of(key[1]), key[2]
            if scope.partitions is None or where in scope.partitions:
                by_name.setdefault(where, []).append(key)
        return [
            Claim(
                f"the reassignment of {name}-{number} is {listed.get((name, number))}",
                tuple(keys),
                partial(_is_reassignment, listed.get((name, number))),
            )
            for (name, number), keys in by_name.items()
        ]

    def _check_quorum(self, message: DescribeQuorumResponse) -> None:
        for topic in message.topics:
            for each in topic.partitions:
                if message.error_code or each.error_code:
                    continue
                leader, key = each.leader_id, (each.leader_id, each.leader_epoch)
                before = self._high_watermarks.get(key, -1)
                self._high_watermarks[key] = each.high_watermark
                text = (
                    f"node {leader} of epoch {each.leader_epoch} reports high watermark {each.high_watermark}"
                )
                if each.high_watermark > self._state.end_offset:
                    raise InvariantViolation(
                        self.quorum, f"{text}, committed are the records below {self._state.end_offset}"
                    )
                if each.high_watermark < before:
                    raise InvariantViolation(self.quorum, f"{text} after {before}")


def _described(each: DescribeTopicPartitionsResponsePartition) -> Reported:
    return Reported(
        each.leader_id,
        each.leader_epoch,
        tuple(each.replica_nodes),
        tuple(each.isr_nodes),
        tuple(each.offline_replicas),
        tuple(each.eligible_leader_replicas or ()),
        tuple(each.last_known_elr or ()),
    )


def _listed(each: MetadataResponsePartition) -> Reported:
    return Reported(
        each.leader_id,
        each.leader_epoch,
        tuple(each.replica_nodes),
        tuple(each.isr_nodes),
        tuple(each.offline_replicas),
    )


def _is_nothing(value: Value) -> bool:
    return value is None


def _is(expected: Value, value: Value) -> bool:
    return value == expected


def _is_row(row: Reported, has_any_leader: bool, value: Value) -> bool:
    return (
        isinstance(value, PartitionState)
        and (has_any_leader or value.leader == row.leader)
        and (value.leader_epoch, value.replicas, value.isr) == (row.leader_epoch, row.replicas, row.isr)
        and (row.elr is None or (value.elr, value.last_known_elr) == (row.elr, row.last_known_elr))
    )


def _is_broker(is_fenced: bool | None, includes_fenced: bool, value: Value) -> bool:
    """Whether a broker may be reported as `is_fenced`, or not be listed if that is None."""
    if not isinstance(value, BrokerState):
        return is_fenced is None
    if is_fenced is None:
        return value.is_fenced and not includes_fenced
    return value.is_fenced == is_fenced


def _is_online(replica: int) -> Claim:
    return Claim(f"broker {replica} is online", (broker_key(replica),), partial(_is_broker, False, True))


def _offline(topic_id: str, number: int, row: Reported) -> Claim:
    keys = (partition_key(topic_id, number), *(broker_key(replica) for replica in row.replicas))
    return Claim(
        f"{topic_id}-{number} has the offline replicas {row.offline}", keys, partial(_has_offline, row)
    )


def _has_offline(row: Reported, value: Value, *brokers: Value) -> bool:
    if not isinstance(value, PartitionState) or value.replicas != row.replicas:
        return False
    directories = value.directories or (None,) * len(row.replicas)
    return row.offline == tuple(
        replica
        for replica, directory, broker in zip(row.replicas, directories, brokers, strict=True)
        if not isinstance(broker, BrokerState) or not broker.is_online(directory)
    )


def _is_reassignment(
    listed: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None, *found: Value
) -> bool:
    rows = [
        value for value in found if isinstance(value, PartitionState) and (value.adding or value.removing)
    ]
    return listed == ((rows[0].replicas, rows[0].adding, rows[0].removing) if rows else None)
