"""The APIs that administer groups: ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Final

from quorumd.broker.api.context import AccessLookup, may_describe
from quorumd.broker.api.coordinator_lookup import GroupLookup
from quorumd.broker.coordinator.classic_group import ClassicGroup, GroupState
from quorumd.errors import ErrorCode
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.delete_groups_request import DeleteGroupsRequest
from quorumd.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from quorumd.protocol.messages.describe_groups_request import DescribeGroupsRequest
from quorumd.protocol.messages.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from quorumd.protocol.messages.list_groups_request import ListGroupsRequest
from quorumd.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from quorumd.protocol.response_task import begin_response
from quorumd.protocol.routes import Route, Session, SlicedTask
from quorumd.security.acls import Operation, ResourceType
from quorumd.security.authorizer import Access

NOT_FOUND_SINCE: Final = 6
"""The first version of DescribeGroups with an error for an unknown group; earlier versions describe it as Dead."""

_Collect = Callable[[int, ErrorCode], None]


class GroupAdminApis:
    """Handlers of ListGroups, DescribeGroups and DeleteGroups. `begin` runs a task in slices."""

    def __init__(
        self, groups: GroupLookup, access: AccessLookup, begin: Callable[[SlicedTask], None]
    ) -> None:
        self._groups = groups
        self._access = access
        self._begin = begin

    def routes(self) -> Iterable[Route]:
        """Return the routes of these APIs."""
        return (
            Route(ListGroupsRequest, self.list_groups),
            Route(DescribeGroupsRequest, self.describe_groups),
            Route(DeleteGroupsRequest, self.delete_groups),
        )

    def list_groups(self, session: Session, request: Request[ListGroupsRequest]) -> None:
        """List the groups of every loaded partition that the client may describe, in slices."""
        access = self._access(session, ApiKey.LIST_GROUPS)
        if access is not None and access.allows_cluster(Operation.DESCRIBE, logs_denied=False):
            access = None
        begin_response(session, request, self._listed(request.message, access), self._begin)

    def _listed(
        self, message: ListGroupsRequest, access: Access | None
    ) -> Generator[None, None, ListGroupsResponse]:
        states: set[str] = set()
        types: set[str] = set()
        for known, names in ((states, message.states_filter), (types, message.types_filter)):
            for name in names:
                known.add(name.lower())
                yield
        error = ErrorCode.NONE
        found: list[ListedGroup] = []
        for shard in self._groups.all():
            if not shard.is_active:
                error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                continue
            for group in shard.machine.listings():
                yield
                if group is None or (states and group.state.lower() not in states):
                    continue
                if (not types or group.type in types) and may_describe(
                    access, ResourceType.GROUP, group.group
                ):
                    found.append(ListedGroup(group.group, group.protocol_type, group.state, group.type))
        return ListGroupsResponse(0, error, found)

    def describe_groups(self, session: Session, request: Request[DescribeGroupsRequest]) -> None:
        """Describe classic groups."""
        groups = [self._describe(group, request.api_version) for group in request.message.groups]
        session.respond(request, DescribeGroupsResponse(0, groups))

    def _describe(self, group_id: str, version: int) -> DescribedGroup:
        found = self._groups.get(group_id, lambda machine, times: machine.find_classic(group_id))
        if isinstance(found, ErrorCode):
            return DescribedGroup(found, None, group_id)
        if found is None:
            dead = GroupState.DEAD.value
            if version >= NOT_FOUND_SINCE:
                text = f"group {group_id} is not known as a classic group"
                return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, text, group_id, dead)
            return DescribedGroup(ErrorCode.NONE, None, group_id, dead)
        return _described(found)

    def delete_groups(self, session: Session, request: Request[DeleteGroupsRequest]) -> None:
        """Delete groups without members, independently of each other."""
        names = request.message.groups_names
        results: dict[int, DeletableGroupResult] = {}

        def collect(index: int, error: ErrorCode) -> None:
            results[index] = DeletableGroupResult(names[index], error, None)
            if len(results) == len(names):
                ordered = [results[each] for each in range(len(names))]
                session.respond(request, DeleteGroupsResponse(0, ordered))

        for index, group_id in enumerate(names):
            self._delete(group_id, index, collect)
        if not names:
            session.respond(request, DeleteGroupsResponse())

    def _delete(self, group_id: str, index: int, collect: _Collect) -> None:
        def on_error(error: ErrorCode) -> None:
            collect(index, error)

        self._groups.run(group_id, lambda machine, times: machine.delete_group(group_id, on_error), on_error)


def _described(group: ClassicGroup) -> DescribedGroup:
    # Between generations no assignor is selected, so members have no metadata to show.
    is_stable = group.state is GroupState.STABLE
    members = [
        DescribedGroupMember(
            member.id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.metadata(group.protocol) if is_stable else b"",
            member.assignment if is_stable else b"",
        )
        for member in group.members.values()
    ]
    protocol = (group.protocol or "") if is_stable else ""
    return DescribedGroup(
        ErrorCode.NONE, None, group.id, group.state.value, group.protocol_type or "", protocol, members
    )
