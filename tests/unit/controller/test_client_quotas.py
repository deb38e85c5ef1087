"""AlterClientQuotas and DescribeClientQuotas."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.client_quotas import describe_client_quotas, plan_alter_client_quotas
from quorumd.errors import ErrorCode
from quorumd.protocol.messages import alter_client_quotas_request as wire
from quorumd.protocol.messages.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from tests.support.protocol.steps import run_steps
from tests.support.security.controllers import SecurityController
from tests.support.text import CountedName

Entity = dict[str, str | None]
ALICE: Entity = {"user": "alice"}


def entry(entity: Entity, *ops: wire.OpData) -> wire.EntryData:
    return wire.EntryData([wire.EntityData(*part) for part in entity.items()], list(ops))


def set_to(value: float, key: str = "producer_byte_rate") -> wire.OpData:
    return wire.OpData(key, value, False)


def alter(controller: SecurityController, *entries: wire.EntryData, validate_only: bool = False) -> list[int]:
    request = wire.AlterClientQuotasRequest(list(entries), validate_only)
    result = controller.commit(plan_alter_client_quotas(controller.controller, request, 1))
    return [each.error_code for each in result.response.entries]


def test_quotas_are_set_changed_and_removed() -> None:
    controller = SecurityController()
    both: Entity = {"user": None, "client-id": "c"}
    assert alter(controller, entry(ALICE, set_to(10.0)), entry(both, set_to(0.5, "request_percentage"))) == [
        0,
        0,
    ]
    quotas = controller.image.security.quotas
    assert quotas == {
        (("user", "alice"),): {"producer_byte_rate": 10.0},
        (("client-id", "c"), ("user", None)): {"request_percentage": 0.5},
    }
    remove = wire.OpData("producer_byte_rate", 0.0, True)
    assert alter(controller, entry(ALICE, remove)) == [0]
    assert (("user", "alice"),) not in quotas
    assert alter(controller, entry(ALICE, remove)) == [0]


def test_unchanged_quotas_are_not_written() -> None:
    controller = SecurityController()
    alter(controller, entry(ALICE, set_to(10.0)))
    request = wire.AlterClientQuotasRequest([entry(ALICE, set_to(10.0))], False)
    assert plan_alter_client_quotas(controller.controller, request, 1).records == []


@pytest.mark.parametrize(("count", "is_named"), [(16, False), (17, True)])
def test_entity_has_at_most_sixteen_changes(count: int, is_named: bool) -> None:
    request = wire.AlterClientQuotasRequest([entry(ALICE, *[set_to(1.0)] * count)], False)
    response: Any = plan_alter_client_quotas(SecurityController().controller, request, 1).response
    (refused,) = response.entries
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert ("more than 16 changes" in refused.error_message) is is_named


def test_validation_changes_nothing() -> None:
    controller = SecurityController()
    assert alter(controller, entry(ALICE, set_to(10.0)), validate_only=True) == [0]
    assert controller.image.security.quotas == {}


@pytest.mark.parametrize(
    "wrong",
    [
        entry({}, set_to(1.0)),
        wire.EntryData([wire.EntityData("user", "a"), wire.EntityData("user", "b")], []),
        entry({"team": "a"}, set_to(1.0)),
        entry({"user": ""}, set_to(1.0)),
        entry({"ip": "10.0.0.1", "user": "a"}, set_to(1.0, "connection_creation_rate")),
        entry({"ip": "host.example"}, set_to(1.0, "connection_creation_rate")),
        entry({"ip": "10.0.0.1"}, set_to(1.0)),
        entry(ALICE, set_to(1.0), set_to(2.0)),
        entry(ALICE, set_to(1.0, "connection_creation_rate")),
        entry(ALICE, set_to(0.0)),
        entry(ALICE, set_to(float("nan"))),
        entry(ALICE, set_to(1e30)),
        entry(ALICE, set_to(1.5)),
    ],
)
def test_invalid_quotas_are_refused_per_entity(wrong: wire.EntryData) -> None:
    controller = SecurityController()
    valid = entry({"user": "bob"}, set_to(1.5, "controller_mutation_rate"))
    assert alter(controller, wrong, valid) == [ErrorCode.INVALID_REQUEST, 0]
    assert list(controller.image.security.quotas) == [(("user", "bob"),)]


def test_rate_of_connections_is_a_32_bit_number() -> None:
    controller = SecurityController()
    for value, error in ((2.0**31 - 1, 0), (2.0**31, ErrorCode.INVALID_REQUEST)):
        quota = set_to(value, "connection_creation_rate")
        assert alter(controller, entry({"ip": None}, quota)) == [error]


def test_entity_occurs_once_per_request() -> None:
    controller = SecurityController()
    assert alter(controller, entry(ALICE, set_to(1.0)), entry(ALICE, set_to(2.0))) == [42, 42]
    assert alter(controller, entry({"ip": None}, set_to(3.0, "connection_creation_rate"))) == [0]


def test_large_entries_are_refused_with_a_small_result() -> None:
    """50,000 types of one entity, and 50,000 quotas of it, must not take the time to examine each."""
    controller = SecurityController()
    types = wire.EntryData([wire.EntityData("user", str(number)) for number in range(1000)], [set_to(1.0)])
    request = wire.AlterClientQuotasRequest([types, entry(ALICE, *[set_to(1.0)] * 17)], False)
    result = plan_alter_client_quotas(controller.controller, request, 1)
    entries = result.response.entries  # type: ignore[attr-defined]  # of this API
    assert [(each.error_code, len(each.entity)) for each in entries] == [(42, 3), (42, 1)]
    assert list(result.records) == []


@pytest.mark.parametrize("address", ["10.0.0.1", "2001:db8::1"])
def test_ip_entity_is_an_address(address: str) -> None:
    controller = SecurityController()
    assert alter(controller, entry({"ip": address}, set_to(3.0, "connection_creation_rate"))) == [0]


def describe(
    controller: SecurityController, *components: ComponentData, strict: bool = False
) -> list[Entity] | int:
    request = DescribeClientQuotasRequest(list(components), strict)
    response: Any
    _, response = run_steps(describe_client_quotas(controller.image, request))
    if response.error_code:
        code: int = response.error_code
        return code
    return [{part.entity_type: part.entity_name for part in each.entity} for each in response.entries]


@pytest.fixture
def some() -> SecurityController:
    controller = SecurityController()
    entities: list[Entity] = [ALICE, {"user": None}, {"user": "alice", "client-id": "c"}, {"client-id": "c"}]
    alter(controller, *(entry(each, set_to(1.0)) for each in entities))
    return controller


def test_filter_selects_entities(some: SecurityController) -> None:
    exact = ComponentData("user", 0, "alice")
    assert describe(some, exact) == [{"client-id": "c", "user": "alice"}, ALICE]
    assert describe(some, exact, strict=True) == [ALICE]
    assert describe(some, ComponentData("user", 1, None)) == [{"user": None}]
    assert describe(some, ComponentData("user", 2, None), strict=True) == [{"user": None}, ALICE]
    every = describe(some)
    assert isinstance(every, list)
    assert len(every) == 4
    assert describe(some, strict=True) == []
    both = (ComponentData("user", 2, None), ComponentData("client-id", 2, None))
    assert describe(some, *both) == [{"client-id": "c", "user": "alice"}]


def test_filter_selects_addresses(some: SecurityController) -> None:
    address: Entity = {"ip": "10.0.0.1"}
    alter(some, entry(address, set_to(3.0, "connection_creation_rate")))
    assert describe(some, ComponentData("ip", 2, None)) == [address]


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([ComponentData("user", 2, None)] * 2, ErrorCode.INVALID_REQUEST),
        ([ComponentData("", 2, None)], ErrorCode.INVALID_REQUEST),
        ([ComponentData("team", 2, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([ComponentData("user", 9, None)], ErrorCode.INVALID_REQUEST),
        ([ComponentData("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([ComponentData("user", 1, "a")], ErrorCode.INVALID_REQUEST),
        ([ComponentData("ip", 2, None), ComponentData("user", 2, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_filters_are_refused(
    some: SecurityController, components: list[ComponentData], error: ErrorCode
) -> None:
    assert describe(some, *components) == error


def test_entities_are_not_compared_with_all_others_of_a_request() -> None:
    CountedName.comparisons = 0
    names = [CountedName(f"user-{number}") for number in range(200)]
    assert alter(SecurityController(), *(entry({"user": name}, set_to(1.0)) for name in names)) == [0] * 200
    assert CountedName.comparisons < 10 * len(names)
