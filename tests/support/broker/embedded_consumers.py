"""Consumers that use the classic protocol, as real clients do: subscriptions and assignments of the embedded consumer
protocol, an assignment by the leader, and partitions that are revoked before the consumer joins again."""

from __future__ import annotations

from quorumd.broker.coordinator.classic_group import JoinResult, SyncResult
from quorumd.broker.coordinator.consumer_group import EMPTY_ASSIGNMENT, Assignment
from quorumd.broker.coordinator.embedded_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    partitions_of,
)
from quorumd.errors import ErrorCode
from quorumd.protocol.codec import encode_into
from quorumd.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)
from tests.support.broker.classic_members import ClassicClient, Groups
from tests.support.broker.coordinator_shards import FixedTopics, topic_id

VERSION = 3
OVER = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


def subscription(topics: tuple[str, ...], owned: Assignment = EMPTY_ASSIGNMENT) -> bytes:
    """Return the metadata of a consumer that subscribes to `topics`."""
    listed = [
        TopicPartition(name, sorted(number for each, number in owned if each == topic_id(name)))
        for name in topics
    ]
    out = bytearray(VERSION.to_bytes(2, "big"))
    encode_into(ConsumerProtocolSubscription(list(topics), owned_partitions=listed), VERSION, out)
    return bytes(out)


class EmbeddedConsumer(ClassicClient):
    """A consumer, which joins, syncs and sends heartbeats in turn. A cooperative one keeps its partitions while it
    joins again (KIP-429); any other revokes all of them before."""

    def __init__(
        self,
        groups: Groups,
        topics: FixedTopics,
        *subscribed: str,
        instance_id: str | None = None,
        is_cooperative: bool = False,
        needs_member_id: bool = True,
        protocol: str = "range",
        **timeouts: int,
    ) -> None:
        super().__init__(groups, instance_id=instance_id, needs_member_id=needs_member_id, **timeouts)
        self.topics = topics
        self.subscribed = subscribed
        self.is_cooperative = is_cooperative
        self.protocol = protocol
        self.phase = "join"
        self.is_waiting = False
        self.owned: Assignment = EMPTY_ASSIGNMENT
        self.known_offset = 0

    def step(self) -> ErrorCode:
        """Make the next request, unless one is waiting; return the error of the last response."""
        if self.phase == "join":
            return self._join()
        if self.phase == "sync":
            return self._sync()
        if self.leads and self.topics.offset != self.known_offset:
            # The leader watches the topics.
            self._rejoin(ErrorCode.REBALANCE_IN_PROGRESS)
            return ErrorCode.NONE
        error = self.heartbeat()
        if error is not ErrorCode.NONE:
            self._rejoin(error)
        return error

    def _rejoin(self, error: ErrorCode) -> None:
        self.phase, self.is_waiting = "join", False
        if error in OVER:
            self.member_id = ""
        if error is not ErrorCode.REBALANCE_IN_PROGRESS or not self.is_cooperative:
            self.owned = EMPTY_ASSIGNMENT

    def _join(self) -> ErrorCode:
        if not self.is_waiting:
            self.protocols = ((self.protocol, subscription(self.subscribed, self.owned)),)
            self.is_waiting = True
            self.join()
        if self.joined is None:
            return ErrorCode.NONE
        self.is_waiting = False
        if self.joined.error is ErrorCode.NONE:
            self.phase = "sync"
        elif self.joined.error is not ErrorCode.MEMBER_ID_REQUIRED:
            self._rejoin(self.joined.error)
        return self.joined.error

    def _sync(self) -> ErrorCode:
        assert self.joined is not None
        if not self.is_waiting:
            self.is_waiting = True
            self.known_offset = self.topics.offset
            self.sync(_assign(self.joined, self.topics) if self.leads else None)
        if self.synced is None:
            return ErrorCode.NONE
        self.is_waiting = False
        if self.synced.error is ErrorCode.NONE:
            self._adopt(self.synced)
        else:
            self._rejoin(self.synced.error)
        return self.synced.error

    def _adopt(self, synced: SyncResult) -> None:
        self.phase = "beat"
        assigned = EMPTY_ASSIGNMENT
        if synced.assignment:
            assigned = partitions_of(decode_assignment(synced.assignment).assigned_partitions, self.topics)
        lost, self.owned = self.owned - assigned, assigned
        if lost:
            self._rejoin(ErrorCode.REBALANCE_IN_PROGRESS)


def _assign(joined: JoinResult, topics: FixedTopics) -> dict[str, bytes]:
    """Assign the partitions of each topic in turn; cooperative members give up partitions one generation before
    others get them."""
    members = {member_id: decode_subscription(metadata) for member_id, _, metadata in joined.members}
    owners = {
        each: member_id
        for member_id, known in members.items()
        for each in partitions_of(known.owned_partitions, topics)
    }
    assigned: dict[str, set[tuple[object, int]]] = {member_id: set() for member_id in members}
    for name in sorted({topic for known in members.values() for topic in known.topics}):
        subscribers = sorted(member_id for member_id, known in members.items() if name in known.topics)
        for number in range(topics.counts.get(name, 0)):
            chosen = subscribers[number % len(subscribers)]
            each = (topic_id(name), number)
            if owners.get(each, chosen) == chosen:
                assigned[chosen].add(each)
    metadata = {member_id: metadata for member_id, _, metadata in joined.members}
    return {
        member_id: encode_assignment(frozenset(each), metadata[member_id], topics)  # type: ignore[arg-type]  # pairs
        for member_id, each in assigned.items()
    }
