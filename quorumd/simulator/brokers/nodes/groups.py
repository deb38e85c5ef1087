"""Members of consumer groups, of the classic and of the consumer protocol (KIP-848), which commit offsets."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from quorumd.broker.coordinator.consumer_group import LEAVING
from quorumd.broker.coordinator.embedded_protocol import VERSION_BYTES, decode_assignment
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.protocol.codec import encode
from quorumd.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from quorumd.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from quorumd.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from quorumd.protocol.messages.heartbeat_request import HeartbeatRequest
from quorumd.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from quorumd.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from quorumd.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from quorumd.protocol.messages.offset_commit_response import OffsetCommitResponse
from quorumd.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from quorumd.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.cluster_view import OwnerCommit
from quorumd.simulator.brokers.nodes.clients import BACKOFF_MS, GROUP, BrokerClient, topics_of
from quorumd.simulator.brokers.nodes.record import Recorder
from quorumd.simulator.brokers.options import BrokerOptions

JOIN_VERSION: Final = 9
SYNC_VERSION: Final = 5
HEARTBEAT_VERSION: Final = 4
LEAVE_VERSION: Final = 5
COMMIT_VERSION: Final = 9
FETCH_VERSION: Final = 9
CONSUMER_VERSION: Final = 1
SUBSCRIBED: Final = ("a", "b", "c", "d", "e")
REGEXES: Final = ("", "[a-c]", "^[c-e]$")
"""Regular expressions to which members subscribe. A member with "" subscribes to the names in `SUBSCRIBED`."""
MAX_STEP: Final = 5
PAUSES: Final = 0.02
"""Share of heartbeats before which a member pauses for 1.5 session timeouts on average."""
LEAVES: Final = 0.05
"""Share of heartbeats instead of which a member leaves, if it does."""
LATE_COMMITS: Final = 0.7
"""Share of new epochs of a member after which a late commit with its previous epoch arrives."""


class Membership(NamedTuple):
    """A member at the time of a commit."""

    member_id: str
    epoch: int
    positions: dict[PartitionId, int]


class GroupMember(ABC):
    """Joins, commits increasing offsets of its assigned partitions, and sometimes pauses, until `running` is
    False. It leaves the group from time to time if `left` is given, which is called afterwards."""

    def __init__(
        self,
        client: BrokerClient,
        options: BrokerOptions,
        recorder: Recorder,
        group: str,
        left: Callable[[], None] | None = None,
    ) -> None:
        self.client = client
        self.running = True
        self.group = group
        self.options = options
        self.random = client.random
        self.coordinator = -1
        self.member_id = ""
        self.epoch = -1
        """The generation, or the member epoch."""
        self.positions: dict[PartitionId, int] = {}
        """The position in each partition that it owns."""
        self._left = left
        self._owned_since_ms: dict[PartitionId, float] = {}
        self._recorder = recorder
        self._former: Membership | None = None

    def start(self) -> None:
        """Join after a random pause."""
        if self.running:
            self.client.later(self.random.random() * 2 * self.options.heartbeat_ms, self._find)

    def _find(self) -> None:
        def found(coordinator: int) -> None:
            self.coordinator = coordinator
            if coordinator < 0:
                self.start()
            else:
                self.client.refresh(self.join)

        self.client.find_coordinator(self.group, GROUP, found)

    @abstractmethod
    def join(self) -> None:
        """Join the group."""

    def call(
        self, request: Message, version: int, done: Callable[[Any], None], wait_ms: float = 1000.0
    ) -> None:
        """Send a request to the coordinator; without a response, look up the coordinator again."""

        def responded(response: Any) -> None:
            if response is None:
                self.start()
            else:
                done(response)

        self.client.call(self.coordinator, request, version, responded, wait_ms, "group")

    def rejoin(self, error: ErrorCode) -> None:
        """Give up the owned partitions after an error, and join again."""
        self.positions.clear()
        if error not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id, self.epoch = "", -1
        self.start()

    # Offsets

    def fetch_offsets(self, owned: list[PartitionId], done: Callable[[], None]) -> None:
        """Fetch the committed offsets of partitions that the member has begun to own, and continue from them."""
        names = {each.topic: each.id.topic_id for each in self.client.partitions.values()}
        by_id = {topic_id: name for name, topic_id in names.items()}
        topics = [
            OffsetFetchRequestTopics(by_id[topic_id], partition_indexes=[each.number for each in ids])
            for topic_id, ids in topics_of(dict.fromkeys(owned)).items()
            if topic_id in by_id
        ]
        expected = self._recorder.offsets_requested(self.group, owned)
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(self.group, None, -1, topics)])

        def fetched(response: Any) -> None:
            group = response.groups[0]
            if group.error_code:
                self.rejoin(ErrorCode(group.error_code))
                return
            for topic in group.topics:
                for each in topic.partitions:
                    where = PartitionId(names[topic.name], each.partition_index)
                    if not each.error_code:
                        self.positions[where] = max(0, each.committed_offset)
                        self._owned_since_ms[where] = self.client.heap.now_ms
                        self._recorder.offset_fetched(self.group, where, each.committed_offset, expected)
            done()

        self.call(request, FETCH_VERSION, fetched)

    def commit(self, done: Callable[[], None]) -> None:
        """Commit a later offset for every owned partition."""
        by_id = {each.id: each.topic for each in self.client.partitions.values()}
        offered = {
            where: position + 1 + self.random.randrange(MAX_STEP)
            for where, position in self.positions.items()
            if where in by_id
        }
        if not offered:
            done()
            return
        self._former = Membership(self.member_id, self.epoch, offered)
        request = self._commit_request(self._former)
        sent_ms = self.client.heap.now_ms

        def committed(response: Message) -> None:
            errors = commit_errors(response)
            for where, offset in offered.items():
                if errors.get((by_id[where], where.number)) is ErrorCode.NONE:
                    self.positions[where] = offset
                    owner, since_ms = self.client.name, self._owned_since_ms[where]
                    received_ms = self.client.heap.now_ms
                    commit = OwnerCommit(self.group, where, offset, owner, since_ms, sent_ms, received_ms)
                    self._recorder.offset_committed(by_id[where], commit)
            failed = next((error for error in errors.values() if error is not ErrorCode.NONE), None)
            if failed is None or failed is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                done()
            else:
                self.rejoin(failed)

        self.call(request, COMMIT_VERSION, committed, self.options.write_timeout_ms + 300.0)

    def _commit_request(self, by: Membership) -> OffsetCommitRequest:
        by_id = {each.id: each.topic for each in self.client.partitions.values()}
        topics = [
            OffsetCommitRequestTopic(
                by_id[ids[0]],
                partitions=[OffsetCommitRequestPartition(each.number, by.positions[each]) for each in ids],
            )
            for ids in topics_of(by.positions).values()
            if ids[0] in by_id
        ]
        return OffsetCommitRequest(self.group, by.epoch, by.member_id, topics=topics)

    def commit_late(self, is_same_member: bool) -> None:
        """Once this member has a later epoch, send another commit with the previous one, which must be refused."""
        former, self._former = self._former, None
        if former is None or self.epoch <= former.epoch or self.random.random() >= LATE_COMMITS:
            return
        if is_same_member and self.member_id != former.member_id:
            return
        request = self._commit_request(former)
        if not request.topics:
            return
        self._recorder.counts["late commits"] += 1

        def committed(response: Message | None) -> None:
            if response is not None:
                for (topic, number), error in commit_errors(response).items():
                    self._recorder.late_commit(self.group, topic, number, error)

        delay_ms = self.random.random() * self.options.session_timeout_ms
        send = partial(
            self.client.call, self.coordinator, request, COMMIT_VERSION, committed, purpose="late commit"
        )
        self.client.later(delay_ms, send)

    def schedule_heartbeat(self) -> None:
        """Schedule the next heartbeat, possibly after a commit."""
        if not self.running:
            return
        wait_ms = self.options.heartbeat_ms
        if self.random.random() < PAUSES:
            wait_ms = 1.5 * self.options.session_timeout_ms
        what = partial(self.commit, self.heartbeat) if self.random.random() < 0.7 else self.heartbeat
        if self._left is not None and self.random.random() < LEAVES:
            what = partial(self._leave, self._left)
        self.client.later(self.random.random() * 2 * wait_ms, what)

    def _leave(self, left: Callable[[], None]) -> None:
        def responded(response: object) -> None:
            self._recorder.counts["members that left"] += response is not None
            left()

        request, version = self.leave_request()
        self.client.call(self.coordinator, request, version, responded, purpose="group")

    @abstractmethod
    def heartbeat(self) -> None:
        """Send a heartbeat, and react to changes of the group."""

    @abstractmethod
    def leave_request(self) -> tuple[Message, int]:
        """Return the request that leaves the group, and its version."""


def commit_errors(response: Message) -> dict[tuple[str, int], ErrorCode]:
    """Return the errors in a response to OffsetCommit, by topic and partition."""
    assert isinstance(response, OffsetCommitResponse)
    return {
        (topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in response.topics
        for each in topic.partitions
    }


class ClassicMember(GroupMember):
    """The classic protocol; the leader assigns the partitions of the subscribed topics in turn. A group with members
    of the other protocol has no leader."""

    def join(self) -> None:
        request = JoinGroupRequest(
            self.group,
            int(self.options.session_timeout_ms),
            int(2 * self.options.session_timeout_ms),
            self.member_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol("turns", _embedded(ConsumerProtocolSubscription([*SUBSCRIBED])))
            ],
        )
        self.call(request, JOIN_VERSION, self._joined, 3 * self.options.session_timeout_ms + 1000.0)

    def _joined(self, response: Any) -> None:
        self.member_id = response.member_id or self.member_id
        if response.error_code:
            self.rejoin(ErrorCode(response.error_code))
            return
        self.epoch = response.generation_id
        is_consumer_group = not response.leader
        self._recorder.counts["classic members of consumer groups"] += is_consumer_group
        # No member of the previous generation of a classic group may commit, whatever its id.
        self.commit_late(is_same_member=is_consumer_group)
        assignments = []
        if response.leader == self.member_id:
            members = sorted(each.member_id for each in response.members)
            for index, member in enumerate(members):
                owned = self._subscribed_partitions()[index :: len(members)]
                assignments.append(
                    SyncGroupRequestAssignment(member, _embedded(ConsumerProtocolAssignment(owned)))
                )
        request = SyncGroupRequest(
            self.group, self.epoch, self.member_id, None, "consumer", response.protocol_name, assignments
        )
        self.call(request, SYNC_VERSION, self._synced, 3 * self.options.session_timeout_ms + 1000.0)

    def _subscribed_partitions(self) -> list[TopicPartition]:
        known = sorted(self.client.partitions.values(), key=lambda each: (each.id.topic_id, each.id.number))
        return [TopicPartition(each.topic, [each.id.number]) for each in known if each.topic in SUBSCRIBED]

    def _synced(self, response: Any) -> None:
        if response.error_code:
            self.rejoin(ErrorCode(response.error_code))
            return
        ids = {(each.topic, each.id.number): each.id for each in self.client.partitions.values()}
        topics = decode_assignment(response.assignment).assigned_partitions if response.assignment else []
        names = [(each.topic, number) for each in topics for number in each.partitions]
        owned = [ids[name] for name in names if name in ids]
        self._recorder.assigned(self.group, SUBSCRIBED, owned, by_regex=False)
        self._recorder.counts["generations joined"] += 1
        self.positions.clear()
        self.fetch_offsets(owned, self.schedule_heartbeat)

    def leave_request(self) -> tuple[Message, int]:
        return LeaveGroupRequest(self.group, members=[MemberIdentity(self.member_id)]), LEAVE_VERSION

    def heartbeat(self) -> None:
        def responded(response: Any) -> None:
            if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                self.positions.clear()
                self.client.refresh(self.join)
            elif response.error_code:
                self.rejoin(ErrorCode(response.error_code))
            else:
                self.schedule_heartbeat()

        self.call(HeartbeatRequest(self.group, self.epoch, self.member_id), HEARTBEAT_VERSION, responded)


def _embedded(message: Message) -> bytes:
    """Encode a subscription or an assignment in version 0, after the version."""
    return bytes(VERSION_BYTES) + encode(message, 0)


class ConsumerProtocolMember(GroupMember):
    """The consumer protocol (KIP-848): the coordinator assigns partitions of the topics to which each member
    subscribes, by their names or by a regular expression."""

    def __init__(
        self,
        client: BrokerClient,
        options: BrokerOptions,
        recorder: Recorder,
        group: str,
        left: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(client, options, recorder, group, left)
        self._regex = self.random.choice(REGEXES)
        self._subscribed = [name for name in SUBSCRIBED if not self._regex or re.fullmatch(self._regex, name)]

    def join(self) -> None:
        if not self.member_id:
            self.member_id = f"{self.client.name}-{self.random.getrandbits(40):x}"
        self.epoch = 0
        self.positions.clear()
        self._beat(is_full=True)

    def heartbeat(self) -> None:
        self._beat(is_full=False)

    def _beat(self, *, is_full: bool) -> None:
        owned = [
            TopicPartitions(topic_id, [each.number for each in ids])
            for topic_id, ids in topics_of(self.positions).items()
        ]
        request = ConsumerGroupHeartbeatRequest(
            self.group,
            self.member_id,
            self.epoch,
            rebalance_timeout_ms=int(2 * self.options.session_timeout_ms) if is_full else -1,
            subscribed_topic_names=list(SUBSCRIBED) if is_full and not self._regex else None,
            subscribed_topic_regex=self._regex if is_full and self._regex else None,
            topic_partitions=owned,
        )
        self.call(request, CONSUMER_VERSION, self._responded)

    def _responded(self, response: Any) -> None:
        if response.error_code:
            self.rejoin(ErrorCode(response.error_code))
            return
        self.epoch = response.member_epoch
        self.commit_late(is_same_member=True)
        if response.assignment is None:
            self.schedule_heartbeat()
            return
        assigned = [
            PartitionId(topic.topic_id, number)
            for topic in response.assignment.topic_partitions
            for number in topic.partitions
        ]
        self._recorder.assigned(self.group, self._subscribed, assigned, by_regex=bool(self._regex))
        kept = {where: position for where, position in self.positions.items() if where in assigned}
        self.positions = kept
        new = [where for where in assigned if where not in kept]

        def fetched() -> None:
            self.client.later(BACKOFF_MS, self.heartbeat)

        if new:
            self.client.refresh(lambda: self.fetch_offsets(new, fetched))
        else:
            fetched()

    def leave_request(self) -> tuple[Message, int]:
        return ConsumerGroupHeartbeatRequest(self.group, self.member_id, LEAVING), CONSUMER_VERSION
