"""The APIs of members of classic groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from quorumd.broker.api.coordinator_lookup import GroupLookup
from quorumd.broker.coordinator.classic_group import JoinResult, SyncResult
from quorumd.broker.coordinator.classic_membership import Join, Sync
from quorumd.broker.coordinator.groups import GroupClient
from quorumd.errors import ErrorCode
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.heartbeat_request import HeartbeatRequest
from quorumd.protocol.messages.heartbeat_response import HeartbeatResponse
from quorumd.protocol.messages.join_group_request import JoinGroupRequest
from quorumd.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from quorumd.protocol.messages.leave_group_request import LeaveGroupRequest
from quorumd.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from quorumd.protocol.messages.sync_group_request import SyncGroupRequest
from quorumd.protocol.messages.sync_group_response import SyncGroupResponse
from quorumd.protocol.routes import Route, Session

MEMBER_ID_SINCE: Final = 4
NULLABLE_PROTOCOL_SINCE: Final = 7
SKIP_ASSIGNMENT_SINCE: Final = 9
SYNC_PROTOCOL_SINCE: Final = 5
LEAVE_SEVERAL_SINCE: Final = 3


class ClassicGroupApis:
    """Handlers of JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

    def __init__(self, groups: GroupLookup) -> None:
        self._groups = groups

    def routes(self) -> Iterable[Route]:
        """Return the routes of these APIs."""
        return (
            Route(JoinGroupRequest, self.join_group),
            Route(SyncGroupRequest, self.sync_group),
            Route(HeartbeatRequest, self.heartbeat),
            Route(LeaveGroupRequest, self.leave_group),
        )

    def join_group(self, session: Session, request: Request[JoinGroupRequest]) -> None:
        """Respond when the next generation begins, or immediately with an error."""
        message, version = request.message, request.api_version
        timeout_ms = message.session_timeout_ms
        join = Join(
            message.group_id,
            message.member_id,
            message.group_instance_id,
            request.client_id or "",
            client_host(session),
            message.rebalance_timeout_ms if message.rebalance_timeout_ms >= 0 else timeout_ms,
            timeout_ms,
            message.protocol_type,
            tuple((protocol.name, protocol.metadata) for protocol in message.protocols),
            version >= MEMBER_ID_SINCE,
            version >= SKIP_ASSIGNMENT_SINCE,
        )

        def respond(result: JoinResult) -> None:
            session.respond(request, _join_response(result, version))

        self._groups.run(
            join.group,
            lambda machine, times: machine.join(join, times, respond),
            lambda error: respond(JoinResult(error, join.member_id)),
        )

    def sync_group(self, session: Session, request: Request[SyncGroupRequest]) -> None:
        """Respond once the assignment of the generation is committed."""
        message = request.message

        def respond(result: SyncResult) -> None:
            session.respond(
                request,
                SyncGroupResponse(0, result.error, result.protocol_type, result.protocol, result.assignment),
            )

        has_protocol = message.protocol_type is not None and message.protocol_name is not None
        if request.api_version >= SYNC_PROTOCOL_SINCE and not has_protocol:
            respond(SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        sync = Sync(
            message.group_id,
            message.generation_id,
            message.member_id,
            message.group_instance_id,
            message.protocol_type,
            message.protocol_name,
            {each.member_id: each.assignment for each in message.assignments},
        )
        self._groups.run(
            sync.group,
            lambda machine, times: machine.sync(sync, times, respond),
            lambda error: respond(SyncResult(error)),
        )

    def heartbeat(self, session: Session, request: Request[HeartbeatRequest]) -> None:
        """Respond immediately: a heartbeat writes no record."""
        message = request.message
        member = GroupClient(
            message.group_id, message.member_id, message.group_instance_id, message.generation_id
        )
        error = self._groups.get(member.group, lambda machine, times: machine.heartbeat(member, times))
        session.respond(request, HeartbeatResponse(0, error))

    def leave_group(self, session: Session, request: Request[LeaveGroupRequest]) -> None:
        """Remove the members that the request names, and return the error of each."""
        message = request.message
        leaving: list[tuple[str, str | None]] = [(message.member_id, None)]
        if request.api_version >= LEAVE_SEVERAL_SINCE:
            leaving = [(member.member_id, member.group_instance_id) for member in message.members]

        def respond(failure: ErrorCode, results: Sequence[tuple[str, ErrorCode]]) -> None:
            if failure is not ErrorCode.NONE:
                response = LeaveGroupResponse(0, failure)
            elif request.api_version >= LEAVE_SEVERAL_SINCE:
                members = [
                    MemberResponse(member_id, instance_id, error)
                    for (member_id, instance_id), (_, error) in zip(leaving, results, strict=True)
                ]
                response = LeaveGroupResponse(0, 0, members)
            else:
                response = LeaveGroupResponse(0, results[0][1])
            session.respond(request, response)

        self._groups.run(
            message.group_id,
            lambda machine, times: machine.leave(message.group_id, leaving, times, respond),
            lambda error: respond(error, []),
        )


def client_host(session: Session) -> str:
    """Return the address of a client as Kafka's tools print it: `/` followed by the host."""
    return "/" + session.origin.peer.rpartition(":")[0].strip("[]")


def _join_response(result: JoinResult, version: int) -> JoinGroupResponse:
    protocol = result.protocol
    if protocol is None and version < NULLABLE_PROTOCOL_SINCE:
        protocol = ""
    members = [JoinGroupResponseMember(*member) for member in result.members]
    return JoinGroupResponse(
        0,
        result.error,
        result.generation,
        result.protocol_type,
        protocol,
        result.leader,
        result.skip_assignment and version >= SKIP_ASSIGNMENT_SINCE,
        result.member_id,
        members,
    )
