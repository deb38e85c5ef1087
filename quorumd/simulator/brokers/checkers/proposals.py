"""Invariants of AlterPartition requests, checked against the request and the committed metadata (KIP-497,
KIP-903)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from quorumd.broker.replication.isr_proposal import CommittedIsr, IsrProposal
from quorumd.controller.cluster_image import Topic
from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID
from quorumd.protocol.messages.alter_partition_request import AlterPartitionRequest, PartitionData, TopicData
from quorumd.protocol.messages.alter_partition_response import AlterPartitionResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.checkers.base import BrokerChecker, SentRequests
from quorumd.simulator.brokers.cluster_view import BrokerView, ClusterView
from quorumd.simulator.brokers.isr_channel import TOPIC_IDS_SINCE

NEWER_ERRORS: Final = (
    ErrorCode.INELIGIBLE_REPLICA,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
"""Errors of requests with topic ids."""
UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
INELIGIBLE: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
INVALID: Final = frozenset({ErrorCode.INVALID_REQUEST})
RECOVERED: Final = 0


class _State(NamedTuple):
    """The state that a request is checked against."""

    row: Partition | None
    sender_epoch: int
    members: tuple[tuple[int, bool], ...]
    """The registered broker epoch of each proposed member, and whether it is active."""


class InvalidProposalsAreRefused(BrokerChecker):
    """A request that is invalid both when it is sent and when its response arrives is refused. If the state did not
    change in between, an invalid request gets the error of the first failing check, and a valid request succeeds.

    The error matters: a leader gives a proposal up only after certain errors (races R6, R26).
    """

    invariant = "an invalid ISR change is refused with the right error"

    def __init__(self) -> None:
        self._sent = SentRequests[list[_State]]()

    def proposal_completed(
        self,
        view: ClusterView,
        broker: BrokerView,
        proposal: IsrProposal,
        error: ErrorCode,
        committed: CommittedIsr | None,
    ) -> None:
        version = broker.alter_partition_version
        if version < TOPIC_IDS_SINCE and error in NEWER_ERRORS:
            raise self.violation(f"version {version} does not have the error {error!r}")

    def admin_request_sent(self, view: ClusterView, request: Message) -> None:
        if isinstance(request, AlterPartitionRequest):
            self._sent.add(request, [_state(view, request, *each) for each in _partitions(request)])

    def admin_request_completed(self, view: ClusterView, request: Message, response: Message) -> None:
        if not isinstance(request, AlterPartitionRequest) or not isinstance(response, AlterPartitionResponse):
            return
        states = self._sent.take(request)
        assert states is not None
        errors = [ErrorCode(part.error_code) for topic in response.topics for part in topic.partitions]
        if response.error_code:
            errors = [ErrorCode(response.error_code)] * len(states)
        by_name = any(topic.topic_id == ZERO_UUID for topic in request.topics)
        repeated: set[tuple[object, int]] = set()
        for (topic, part), before, error in zip(_partitions(request), states, errors, strict=True):
            key = (topic.topic_id, part.partition_index)
            after = _state(view, request, topic, part)
            expected = [
                _expected(request, part, each, is_repeated=key in repeated) for each in (before, after)
            ]
            repeated.add(key)
            text = f"{request!r} in {before} and {after}: {error!r}"
            if not error and all(expected):
                raise self.violation(f"accepted: {text}")
            if before == after and error not in (expected[0] or {ErrorCode.NONE}) and error not in RETRIABLE:
                raise self.violation(f"expected {expected[0]}: {text}")
            if by_name and error in NEWER_ERRORS:
                raise self.violation(f"its version does not have the error: {text}")


RETRIABLE: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.STALE_BROKER_EPOCH)
"""Errors of the node or of the sender, which may have changed in between."""


def _partitions(request: AlterPartitionRequest) -> Iterator[tuple[TopicData, PartitionData]]:
    for topic in request.topics:
        for part in topic.partitions:
            yield topic, part


def _topic(view: ClusterView, requested: TopicData) -> Topic | None:
    if requested.topic_id != ZERO_UUID:
        return view.image.topics.get(requested.topic_id)
    return view.image.topic_by_name(requested.topic_name)


def _state(
    view: ClusterView, request: AlterPartitionRequest, requested: TopicData, part: PartitionData
) -> _State:
    topic, brokers = _topic(view, requested), view.image.brokers
    row = topic.partitions.get(part.partition_index) if topic is not None else None
    sender = brokers.get(request.broker_id)
    members = []
    for member in _members(part):
        known = brokers.get(member)
        members.append((known.epoch, known.is_active) if known is not None else (-1, False))
    return _State(row, sender.epoch if sender is not None else -1, tuple(members))


def _members(part: PartitionData) -> list[int]:
    return part.new_isr or [member.broker_id for member in part.new_isr_with_epochs]


def _expected(
    request: AlterPartitionRequest, part: PartitionData, state: _State, *, is_repeated: bool
) -> frozenset[ErrorCode]:
    """Return the possible errors in this state, empty for a valid request."""
    row, members = state.row, _members(part)
    if state.sender_epoch != request.broker_epoch:
        return frozenset({ErrorCode.STALE_BROKER_EPOCH})
    if row is None:
        return UNKNOWN
    if is_repeated and set(members) != set(row.isr):
        return INVALID
    if part.leader_epoch > row.leader_epoch or part.partition_epoch > row.partition_epoch:
        return frozenset({ErrorCode.NOT_CONTROLLER})
    if part.leader_epoch < row.leader_epoch:
        return frozenset({ErrorCode.FENCED_LEADER_EPOCH})
    if request.broker_id != row.leader:
        return INVALID
    if part.partition_epoch < row.partition_epoch:
        return frozenset({ErrorCode.INVALID_UPDATE_VERSION})
    if (
        len(set(members)) != len(members)
        or not set(members) <= set(row.replicas)
        or row.leader not in members
    ):
        return INVALID
    is_recovering = part.leader_recovery_state != RECOVERED
    if is_recovering and (part.leader_recovery_state != 1 or len(members) > 1 or row.recovery == RECOVERED):
        return INVALID
    epochs = [member.broker_epoch for member in part.new_isr_with_epochs] or [-1] * len(members)
    for epoch, (known, is_active) in zip(epochs, state.members, strict=True):
        if not is_active or epoch not in (-1, known):
            return INELIGIBLE
    return frozenset()
