"""The APIs of the consumer protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quorumd.broker.api.classic_groups import client_host
from quorumd.broker.api.context import AccessLookup
from quorumd.broker.api.coordinator_lookup import GroupLookup
from quorumd.broker.coordinator.consumer_group import (
    EMPTY_ASSIGNMENT,
    JOINING,
    Assignment,
    ConsumerGroup,
    ConsumerMember,
    by_topic,
)
from quorumd.broker.coordinator.consumer_membership import Heartbeat, HeartbeatResult
from quorumd.broker.coordinator.effects import Times
from quorumd.broker.coordinator.groups import GroupCoordinator
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.broker.settings.broker_settings import BrokerSettings
from quorumd.errors import ErrorCode
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import consumer_group_describe_response as described
from quorumd.protocol.messages import consumer_group_heartbeat_response as responses
from quorumd.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from quorumd.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from quorumd.protocol.routes import Route, Session
from quorumd.security.acls import Operation, ResourceType

CLIENT_IDS_SINCE = 1
"""The first version in which clients choose their member ids (KIP-1082)."""
CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1
"""The MemberType of members that use the consumer protocol."""


class ConsumerGroupApis:
    """Handlers of ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

    def __init__(
        self, groups: GroupLookup, metadata: BrokerMetadata, settings: BrokerSettings, access: AccessLookup
    ) -> None:
        self._groups = groups
        self._metadata = metadata
        self._access = access
        self._interval_ms = settings.groups.consumer_heartbeat_interval_ms
        self._default_assignor = settings.groups.consumer_assignors[0]

    def routes(self) -> Iterable[Route]:
        """Return the routes of these APIs."""
        return (
            Route(ConsumerGroupHeartbeatRequest, self.heartbeat),
            Route(ConsumerGroupDescribeRequest, self.describe),
        )

    def heartbeat(self, session: Session, request: Request[ConsumerGroupHeartbeatRequest]) -> None:
        """Join or leave a group, or extend the session and return the assignment."""
        message = request.message
        owned: Assignment | None = None
        if message.topic_partitions is not None:
            owned = frozenset(
                (topic.topic_id, number) for topic in message.topic_partitions for number in topic.partitions
            )
        heartbeat = Heartbeat(
            message.group_id,
            message.member_id,
            message.member_epoch,
            message.instance_id,
            message.rack_id,
            message.rebalance_timeout_ms,
            message.subscribed_topic_names,
            message.subscribed_topic_regex,
            message.server_assignor,
            owned,
            request.client_id or "",
            client_host(session),
            self._may_describe(session),
        )

        def respond(result: HeartbeatResult) -> None:
            session.respond(request, self._response(result))

        gets_id = request.api_version < CLIENT_IDS_SINCE and heartbeat.epoch == JOINING

        def run(machine: GroupCoordinator, times: Times) -> None:
            member_id = heartbeat.member_id
            if gets_id and not member_id:
                member_id = machine.new_member_id(heartbeat.client_id)
            machine.consumer_heartbeat(heartbeat._replace(member_id=member_id), times, respond)

        self._groups.run(heartbeat.group, run, lambda error: respond(HeartbeatResult(error)))

    def _may_describe(self, session: Session) -> Callable[[str], bool]:
        access = self._access(session, ApiKey.CONSUMER_GROUP_HEARTBEAT)

        def may_describe(topic: str) -> bool:
            return access is None or access.allows(
                Operation.DESCRIBE, ResourceType.TOPIC, topic, logs_denied=False
            )

        return may_describe

    def _response(self, result: HeartbeatResult) -> responses.ConsumerGroupHeartbeatResponse:
        assignment = None
        if result.assignment is not None:
            assignment = responses.Assignment(
                [responses.TopicPartitions(*each) for each in by_topic(result.assignment)]
            )
        failed = result.error is not ErrorCode.NONE
        return responses.ConsumerGroupHeartbeatResponse(
            0,
            result.error,
            result.message,
            result.member_id,
            result.epoch,
            0 if failed else self._interval_ms,
            assignment,
        )

    def describe(self, session: Session, request: Request[ConsumerGroupDescribeRequest]) -> None:
        """Describe groups with their members and assignments."""
        groups = [self._describe(group_id) for group_id in request.message.group_ids]
        session.respond(request, described.ConsumerGroupDescribeResponse(0, groups))

    def _describe(self, group_id: str) -> described.DescribedGroup:
        found = self._groups.get(group_id, lambda machine, times: machine.consumers.groups.get(group_id))
        if isinstance(found, ErrorCode):
            return described.DescribedGroup(found, None, group_id)
        if found is None:
            text = f"group {group_id} is not known as a consumer group"
            return described.DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, text, group_id)
        members = [self._member(found, member) for member in found.members.values()]
        return described.DescribedGroup(
            0,
            None,
            group_id,
            found.state,
            found.epoch,
            found.target_epoch,
            found.assignor(self._default_assignor),
            members,
        )

    def _member(self, group: ConsumerGroup, member: ConsumerMember) -> described.Member:
        return described.Member(
            member.id,
            member.instance_id,
            member.rack_id,
            member.epoch,
            member.client_id,
            member.client_host,
            sorted(member.topics),
            member.regex,
            self._assignment(member.assigned),
            self._assignment(group.targets.get(member.id, EMPTY_ASSIGNMENT)),
            CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
        )

    def _assignment(self, assignment: Assignment) -> described.Assignment:
        topics = self._metadata.image.topics
        return described.Assignment(
            [
                described.TopicPartitions(topic_id, topics[topic_id].name, numbers)
                for topic_id, numbers in by_topic(assignment)
                if topic_id in topics
            ]
        )
