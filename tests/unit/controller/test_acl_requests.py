"""CreateAcls, DeleteAcls and DescribeAcls."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.acl_requests import describe_acls, plan_create_acls, plan_delete_acls
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from quorumd.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from quorumd.protocol.messages.describe_acls_request import DescribeAclsRequest
from tests.support.protocol.steps import run_steps
from tests.support.security.controllers import SecurityController


def creation(**fields: Any) -> AclCreation:
    acl = AclCreation(2, "orders", 3, "User:alice", "*", 3, 3)
    for name, value in fields.items():
        setattr(acl, name, value)
    return acl


@pytest.fixture
def controller() -> SecurityController:
    return SecurityController(has_authorizer=True)


def create(controller: SecurityController, *acls: AclCreation) -> list[int]:
    result = controller.commit(plan_create_acls(controller.controller, CreateAclsRequest(list(acls)), 3))
    return [each.error_code for each in result.response.results]


def test_acls_are_created_once(controller: SecurityController) -> None:
    assert create(controller, creation(), creation(), creation(host="10.0.0.1")) == [0, 0, 0]
    assert len(controller.image.security.acls.acls) == 2
    assert create(controller, creation()) == [0]
    assert len(controller.image.security.acls.acls) == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"resource_type": 1},
        {"resource_type": 0},
        {"resource_type": 99},
        {"resource_pattern_type": 2},
        {"operation": 1},
        {"operation": 0},
        {"permission_type": 1},
        {"resource_type": 4},
        {"resource_name": ""},
        {"principal": "alice"},
        {"host": ""},
    ],
)
def test_invalid_acls_are_refused_one_by_one(controller: SecurityController, fields: dict[str, Any]) -> None:
    assert create(controller, creation(**fields), creation()) == [ErrorCode.INVALID_REQUEST, 0]
    assert len(controller.image.security.acls.acls) == 1


def test_ranges_of_hosts_need_their_metadata_version(controller: SecurityController) -> None:
    controller.finalize(31)
    assert create(controller, creation(host="10.0.0.0/8")) == [ErrorCode.UNSUPPORTED_VERSION]
    controller.finalize(32)
    assert create(controller, creation(host="10.0.0.0/8"), creation(host="10.0.0.0/99")) == [0, 42]


def test_cluster_has_one_name(controller: SecurityController) -> None:
    assert create(controller, creation(resource_type=4, resource_name="kafka-cluster", operation=5)) == [0]


def test_new_ids_are_unused(controller: SecurityController) -> None:
    create(controller, creation())
    controller.repeat_uuid()
    assert create(controller, creation(host="10.0.0.1"), creation(host="10.0.0.2")) == [0, 0]
    assert len(controller.image.security.acls.acls) == 3


def test_filters_delete_what_they_select(controller: SecurityController) -> None:
    create(controller, creation(), creation(resource_name="payments"), creation(resource_type=3))
    filters = [
        DeleteAclsFilter(2, None, 1, "User:alice", None, 1, 1),
        DeleteAclsFilter(2, "orders", 3, None, None, 1, 1),
        DeleteAclsFilter(0, None, 1, None, None, 1, 1),
    ]
    plan = plan_delete_acls(controller.controller, DeleteAclsRequest(filters), 3)
    assert len(plan.records) == 2
    results = controller.commit(plan).response.filter_results
    assert [each.error_code for each in results] == [0, 0, ErrorCode.INVALID_REQUEST]
    assert [[acl.resource_name for acl in each.matching_acls] for each in results] == [
        ["orders", "payments"],
        ["orders"],
        [],
    ]
    assert [acl.resource_type for acl in controller.image.security.acls.acls.values()] == [3]


def test_acls_are_described_by_pattern(controller: SecurityController) -> None:
    create(controller, creation(), creation(principal="User:bob"), creation(resource_pattern_type=4))
    everything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    _, response = run_steps(describe_acls(controller.image, everything))
    found = [(each.pattern_type, [acl.principal for acl in each.acls]) for each in response.resources]
    assert found == [(3, ["User:alice", "User:bob"]), (4, ["User:alice"])]
    none = DescribeAclsRequest(3, None, 1, None, None, 1, 1)
    assert run_steps(describe_acls(controller.image, none))[1].resources == []
    unknown = DescribeAclsRequest(77, None, 1, None, None, 1, 1)
    assert run_steps(describe_acls(controller.image, unknown))[1].error_code == ErrorCode.INVALID_REQUEST


def test_without_an_authorizer_acls_cannot_be_changed() -> None:
    controller = SecurityController()
    assert create(controller, creation()) == [ErrorCode.SECURITY_DISABLED]
    request = DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 1, 1)])
    (result,) = plan_delete_acls(controller.controller, request, 3).response.filter_results
    assert result.error_code == ErrorCode.SECURITY_DISABLED
