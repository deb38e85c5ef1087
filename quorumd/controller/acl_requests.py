"""CreateAcls, DeleteAcls and DescribeAcls."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.request_context import NO_CONTEXT, RequestContext
from quorumd.controller.steps import select_sorted
from quorumd.errors import ErrorCode, RequestError
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from quorumd.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from quorumd.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from quorumd.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from quorumd.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from quorumd.protocol.messages.describe_acls_request import DescribeAclsRequest
from quorumd.protocol.messages.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from quorumd.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from quorumd.protocol.wire import Message
from quorumd.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    is_valid_range,
)

RANGES_SINCE: Final = 32
"""The metadata version (4.4-IV1) from which ACLs may have hosts in CIDR notation (KIP-1276)."""
_KINDS: Final = frozenset(int(each) for each in ResourceType)
_OPERATIONS: Final = frozenset(int(each) for each in Operation)
_PATTERNS: Final = (int(PatternType.LITERAL), int(PatternType.PREFIXED))
_PERMISSIONS: Final = (int(Permission.DENY), int(Permission.ALLOW))
_COMPARISONS_PER_DELETION: Final = 16
"""Number of ACLs that can be compared with a filter in the time that the deletion of one takes."""
Selected = tuple[DeleteAclsFilter, list[KafkaUuid]]
"""A filter, and the ids of the ACLs that it selects."""
_UNKNOWN: Final = "The filter has an unknown resource type, pattern type, operation or permission."
DISABLED: Final = "No authorizer is configured: set authorizer.class.name on every node."


def plan_create_acls(controller: Controller, message: CreateAclsRequest, version: int) -> ControllerResult:
    """Create the ACLs that do not exist yet. Each ACL is checked separately and has its own result."""
    del version
    records: list[Message] = []
    results: list[AclCreationResult] = []
    created: set[Acl] = set()
    ids: set[KafkaUuid] = set()
    index = controller.image.security.acls
    for creation in message.creations:
        acl = _acl(creation)
        try:
            _check(controller, acl)
        except RequestError as rejection:
            results.append(AclCreationResult(int(rejection.error), rejection.message))
            continue
        results.append(AclCreationResult())
        if acl not in created and not index.contains(acl):
            created.add(acl)
            id = controller.new_uuid()
            while id in index.acls or id in ids:
                id = controller.new_uuid()
            ids.add(id)
            records.append(_record(id, acl))
    return ControllerResult(records, CreateAclsResponse(0, results))


def _acl(creation: AclCreation) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_pattern_type,
        creation.resource_name,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _record(id: KafkaUuid, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id,
        acl.resource_type,
        acl.name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def _check(controller: Controller, acl: Acl) -> None:
    """Raise RequestError for an ACL that cannot be created."""
    if not controller.settings.has_authorizer:
        raise RequestError(ErrorCode.SECURITY_DISABLED, DISABLED)
    if "/" in acl.host and controller.image.metadata_version < RANGES_SINCE:
        text = f"Ranges of hosts require metadata.version {RANGES_SINCE} or later."
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION, text)
    problem = _problem(acl)
    if problem is not None:
        raise RequestError(ErrorCode.INVALID_REQUEST, problem)


def _problem(acl: Acl) -> str | None:
    codes = (
        ("resource type", acl.resource_type, _KINDS),
        ("pattern type", acl.pattern_type, _PATTERNS),
        ("operation", acl.operation, _OPERATIONS),
        ("permission", acl.permission, _PERMISSIONS),
    )
    for what, code, known in codes:
        if code not in known:
            return f"Invalid {what} {code}."
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name of the CLUSTER resource is {CLUSTER_NAME}."
    if not acl.name:
        return "The resource name is empty."
    if ":" not in acl.principal:
        return f"{acl.principal!r} is not a principal; expected Type:Name."
    if not acl.host:
        return f"The host is empty; {WILDCARD} matches every host."
    if "/" in acl.host and not is_valid_range(acl.host):
        return f"{acl.host!r} is not a range of hosts in CIDR notation."
    return None


def plan_delete_acls(
    controller: Controller,
    message: DeleteAclsRequest,
    version: int,
    context: RequestContext = NO_CONTEXT,
) -> ControllerResult:
    """Delete the ACLs that the filters select. A part of a request deletes those of its `selected_ids` that still
    exist."""
    del version
    acls, selected_ids = controller.image.security.acls.acls, context.part.selected_ids
    removed: dict[KafkaUuid, None] = {}
    results: list[DeleteAclsFilterResult] = []
    for position, requested in enumerate(message.filters):
        selected = acl_filter(requested)
        if not controller.settings.has_authorizer:
            results.append(DeleteAclsFilterResult(int(ErrorCode.SECURITY_DISABLED), DISABLED))
        elif not selected.is_known:
            results.append(DeleteAclsFilterResult(int(ErrorCode.INVALID_REQUEST), _UNKNOWN))
        else:
            matching: list[DeleteAclsMatchingAcl] = []
            ids = (id for id, acl in acls.items() if selected.matches(acl))
            for id in ids if selected_ids is None else selected_ids[position]:
                if id in acls:
                    removed[id] = None
                    matching.append(_matching(acls[id]))
            results.append(DeleteAclsFilterResult(0, None, matching))
    records = [RemoveAccessControlEntryRecord(id) for id in removed]
    return ControllerResult(records, DeleteAclsResponse(0, results))


def acls_to_delete(
    controller: Controller, message: DeleteAclsRequest, max_deletions: int
) -> Iterator[list[Selected]] | None:
    """Select the ACLs to delete in one or more parts of about `max_deletions` each; None if the request is small.

    A filter may continue in the next part. It selects ALLOW before DENY, so that no principal gains a right if only
    some of the parts take effect.
    """
    if len(message.filters) * (1 + len(controller.image.security.acls.acls)) <= max_deletions:
        return None
    return _parts_to_delete(controller, message, max_deletions * _COMPARISONS_PER_DELETION)


def _parts_to_delete(
    controller: Controller, message: DeleteAclsRequest, comparisons: int
) -> Iterator[list[Selected]]:
    # ACLs may be created and deleted between two parts.
    ids = list(controller.image.security.acls.acls)
    part: list[Selected] = []
    budget = comparisons
    for requested in message.filters:
        if budget <= 0:
            yield part
            part, budget = [], comparisons
        budget -= _COMPARISONS_PER_DELETION
        selected: list[KafkaUuid] = []
        part.append((requested, selected))
        for id in _compare(controller, requested, ids):
            if budget <= 0:
                yield part
                selected = []
                part, budget = [(requested, selected)], comparisons
            budget -= 1 if id is None else _COMPARISONS_PER_DELETION
            if id is not None:
                selected.append(id)
    yield part


def _compare(
    controller: Controller, requested: DeleteAclsFilter, ids: Sequence[KafkaUuid]
) -> Iterator[KafkaUuid | None]:
    """Yield an id for each selected ACL, those with DENY last, and None for each ACL compared but not yielded."""
    selected = acl_filter(requested)
    if not controller.settings.has_authorizer or not selected.is_known:
        return
    denying: list[KafkaUuid] = []
    for id in ids:
        acl = controller.image.security.acls.acls.get(id)
        is_selected = acl is not None and selected.matches(acl)
        if is_selected and acl is not None and acl.permission == Permission.DENY:
            denying.append(id)
            is_selected = False
        yield id if is_selected else None
    yield from denying


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        0,
        None,
        acl.resource_type,
        acl.name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def acl_filter(requested: DeleteAclsFilter | DescribeAclsRequest) -> AclFilter:
    """Return the filter in a request."""
    return AclFilter(
        requested.resource_type_filter,
        requested.pattern_type_filter,
        requested.resource_name_filter,
        requested.principal_filter,
        requested.host_filter,
        requested.operation,
        requested.permission_type,
    )


def describe_acls(
    image: ClusterImage, message: DescribeAclsRequest
) -> Generator[None, None, DescribeAclsResponse]:
    """List the ACLs that the filter selects, grouped by resource pattern, in two steps per ACL."""
    return _describe(list(image.security.acls.acls.values()), message)


def _describe(
    acls: Sequence[Acl], message: DescribeAclsRequest
) -> Generator[None, None, DescribeAclsResponse]:
    selected = acl_filter(message)
    if not selected.is_known:
        return DescribeAclsResponse(0, int(ErrorCode.INVALID_REQUEST), _UNKNOWN)
    resources: list[DescribeAclsResource] = []
    pattern: Pattern | None = None
    for acl in (yield from select_sorted(acls, selected.matches, lambda acl: acl)):
        if acl.pattern != pattern:
            pattern = acl.pattern
            resources.append(DescribeAclsResource(acl.resource_type, acl.name, acl.pattern_type))
        resources[-1].acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission))
        yield
    return DescribeAclsResponse(0, 0, None, resources)
