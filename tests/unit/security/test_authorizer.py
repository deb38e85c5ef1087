"""Decisions of the authorizer, their audit log and their counters."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from quorumd.log_limit import INTERVAL_MS
from quorumd.security.acls import (
    Acl,
    AclIndex,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from quorumd.security.authorizer import (
    Access,
    Authorizer,
    AuthorizerNotReady,
    AuthorizerSettings,
    Client,
    parse_super_users,
)
from tests.support.call_counter import CallCounter
from tests.support.security.index import index_of

ALICE = Client("User:alice", "10.0.0.1", "Produce")
TOPIC = ResourceType.TOPIC


def acl(
    name: str = "orders",
    operation: int = Operation.READ,
    permission: int = Permission.ALLOW,
    pattern_type: int = PatternType.LITERAL,
    principal: str = "User:alice",
    host: str = "*",
) -> Acl:
    return Acl(TOPIC, pattern_type, name, principal, host, operation, permission)


def authorizer(*acls: Acl, supers: str = "", allows_without_acl: bool = False) -> Authorizer:
    settings = AuthorizerSettings(parse_super_users(supers), allows_without_acl)
    index = index_of(acls)
    return Authorizer(settings, lambda: index, lambda: True, lambda: 0.0)


def test_only_what_an_acl_allows_is_allowed() -> None:
    decider = authorizer(acl())
    assert decider.authorize(ALICE, Operation.READ, TOPIC, "orders")
    assert not decider.authorize(ALICE, Operation.WRITE, TOPIC, "orders")
    assert not decider.authorize(ALICE, Operation.READ, TOPIC, "orders2")
    assert not decider.authorize(ALICE, Operation.READ, ResourceType.GROUP, "orders")
    assert not decider.authorize(ALICE._replace(principal="User:bob"), Operation.READ, TOPIC, "orders")


def test_deny_beats_allow() -> None:
    decider = authorizer(
        acl(principal="User:*"), acl("ord", Operation.ALL, Permission.DENY, PatternType.PREFIXED)
    )
    assert not decider.authorize(ALICE, Operation.READ, TOPIC, "orders")
    assert decider.authorize(ALICE._replace(principal="User:bob"), Operation.READ, TOPIC, "orders")


def test_allowed_operation_implies_describe_but_a_denied_one_does_not() -> None:
    assert authorizer(acl()).authorize(ALICE, Operation.DESCRIBE, TOPIC, "orders")
    both = authorizer(acl(operation=Operation.DESCRIBE), acl(permission=Permission.DENY))
    assert both.authorize(ALICE, Operation.DESCRIBE, TOPIC, "orders")
    configs = authorizer(acl(operation=Operation.ALTER_CONFIGS))
    assert configs.authorize(ALICE, Operation.DESCRIBE_CONFIGS, TOPIC, "orders")
    assert not configs.authorize(ALICE, Operation.DESCRIBE, TOPIC, "orders")


def test_default_applies_only_to_resources_without_any_acl() -> None:
    decider = authorizer(acl(principal="User:bob"), allows_without_acl=True)
    assert not decider.authorize(ALICE, Operation.READ, TOPIC, "orders")
    assert decider.authorize(ALICE, Operation.READ, TOPIC, "payments")
    assert not authorizer().authorize(ALICE, Operation.READ, TOPIC, "payments")


def test_host_must_match() -> None:
    decider = authorizer(acl(host="10.0.0.0/24"))
    assert decider.authorize(ALICE, Operation.READ, TOPIC, "orders")
    assert not decider.authorize(ALICE._replace(host="10.0.1.1"), Operation.READ, TOPIC, "orders")


def test_super_users_may_do_everything_even_before_the_acls_are_loaded() -> None:
    settings = AuthorizerSettings(parse_super_users("User:alice; User:CN=x,O=y"))
    decider = Authorizer(settings, AclIndex, lambda: False, lambda: 0.0)
    assert decider.authorize(ALICE, Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
    assert decider.authorize(Client("User:CN=x,O=y", "h", "Vote"), Operation.ALTER, TOPIC, "t")
    with pytest.raises(AuthorizerNotReady):
        decider.authorize(Client("User:bob", "h", "Vote"), Operation.ALTER, TOPIC, "t")


@pytest.mark.parametrize("text", ["alice", ":alice", "User:"])
def test_super_users_must_be_principals(text: str) -> None:
    with pytest.raises(ValueError, match="User:alice"):
        parse_super_users(text)


def test_any_resource_of_a_kind() -> None:
    write = Operation.WRITE
    assert authorizer(acl(operation=write)).authorize_any(ALICE, write, TOPIC)
    assert not authorizer(acl()).authorize_any(ALICE, write, TOPIC)
    denied = acl("o", write, Permission.DENY, PatternType.PREFIXED)
    assert not authorizer(acl(operation=write), denied).authorize_any(ALICE, write, TOPIC)
    everything = acl("*", write, Permission.DENY)
    assert not authorizer(acl(operation=write), everything).authorize_any(ALICE, write, TOPIC)
    assert authorizer(acl("*", write), acl("hardcode", write, Permission.DENY)).authorize_any(
        ALICE, write, TOPIC
    )
    literal = acl("orders", write, Permission.DENY)
    assert not authorizer(acl(operation=write), literal).authorize_any(ALICE, write, TOPIC)
    prefix = acl("ord", write, pattern_type=PatternType.PREFIXED)
    same = prefix._replace(permission=Permission.DENY)
    assert not authorizer(prefix, same).authorize_any(ALICE, write, TOPIC)
    assert authorizer(prefix, same._replace(name="orders")).authorize_any(ALICE, write, TOPIC)


def test_audit_log_has_denials_and_at_debug_what_is_allowed(caplog: pytest.LogCaptureFixture) -> None:
    decider = authorizer(acl())
    with caplog.at_level(logging.INFO, "quorumd.authorizer"):
        decider.authorize(ALICE, Operation.READ, TOPIC, "orders")
        decider.authorize(ALICE, Operation.WRITE, TOPIC, "orders")
        decider.authorize(ALICE, Operation.WRITE, TOPIC, "orders", logs_denied=False)
    assert [record.levelname for record in caplog.records] == ["INFO"]
    for part in ("User:alice", "10.0.0.1", "denied", "WRITE", "TOPIC", "orders", "Produce", "DefaultDeny"):
        assert part in caplog.text
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "quorumd.authorizer"):
        decider.authorize(ALICE, Operation.READ, TOPIC, "orders")
        decider.authorize(ALICE, Operation.READ, TOPIC, "orders", logs_allowed=False)
        decider.authorize(ALICE, 99, TOPIC, "orders")
    assert [record.levelname for record in caplog.records] == ["DEBUG", "INFO"]
    assert "ALLOW READ on TOPIC:LITERAL:orders" in caplog.text
    assert "denied 99" in caplog.text


def test_repeated_denials_are_logged_at_debug_until_the_interval_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_ms = [0.0]
    decider = Authorizer(AuthorizerSettings(), AclIndex, lambda: True, lambda: now_ms[0])
    with caplog.at_level(logging.DEBUG, "quorumd.authorizer"):
        for number in range(100):
            decider.authorize(ALICE, Operation.READ, TOPIC, f"topic-{number}")
        assert [record.levelname for record in caplog.records] == ["INFO", *["DEBUG"] * 99]
        now_ms[0] += INTERVAL_MS
        decider.authorize(ALICE, Operation.READ, TOPIC, "last")
    assert caplog.records[-1].levelname == "INFO"
    assert "'last'" in caplog.messages[-1]
    assert "99 more" in caplog.messages[-1]
    assert decider.counters.denied_total == 101


def test_denials_of_other_principals_operations_and_resource_types_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    decider = authorizer()
    with caplog.at_level(logging.INFO, "quorumd.authorizer"):
        for _ in range(2):
            decider.authorize(ALICE, Operation.READ, TOPIC, "orders")
            decider.authorize(ALICE, Operation.WRITE, TOPIC, "orders")
            decider.authorize(ALICE, Operation.READ, ResourceType.GROUP, "orders")
            decider.authorize(ALICE._replace(principal="User:bob"), Operation.READ, TOPIC, "orders")
    assert len(caplog.records) == 4


def test_every_operation_of_a_super_user_is_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    decider = authorizer(supers="User:alice")
    with caplog.at_level(logging.DEBUG, "quorumd.authorizer"):
        for _ in range(3):
            decider.authorize(ALICE, Operation.ALTER, TOPIC, "orders")
    assert [record.levelname for record in caplog.records] == ["DEBUG"] * 3


def test_denials_are_counted_by_api() -> None:
    decider = authorizer(acl())
    for operation in (Operation.READ, Operation.WRITE, Operation.WRITE):
        decider.authorize(ALICE, operation, TOPIC, "orders")
    decider.authorize(ALICE, Operation.WRITE, TOPIC, "orders", logs_denied=False)
    assert (decider.counters.allowed_total, decider.counters.denied) == (1, {"Produce": 2})
    assert decider.counters.denied_total == 2


def test_operations_of_a_resource_are_bits() -> None:
    access = Access(authorizer(acl()), ALICE)
    assert access.operations(TOPIC, "orders") == 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert access.operations(TOPIC, "other") == 0
    assert access.allowed(Operation.READ, TOPIC, ["orders", "other"]) == {"orders"}
    assert not access.allows_cluster(Operation.ALTER)
    assert access.allows_any(Operation.READ, TOPIC)


SHAPES: dict[str, Callable[[int], list[Acl]]] = {
    "names": lambda count: [acl(f"t{number}") for number in range(count)],
    "prefixes of ten lengths": lambda count: [
        acl(f"{'p' * (number % 10)}-{number:05}", pattern_type=PatternType.PREFIXED)
        for number in range(count)
    ],
    "principals of one topic": lambda count: [acl(principal=f"User:{number}") for number in range(count)],
    "hosts of one principal": lambda count: [
        acl(host=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}") for number in range(count)
    ],
    "ranges of one principal": lambda count: [
        acl(host=f"10.{number >> 8}.{number & 255}.0/24") for number in range(count)
    ],
    "operations of others": lambda count: [
        acl(f"t{number}", Operation.WRITE, principal=f"User:{number}") for number in range(count)
    ],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_work_of_a_decision_does_not_grow_with_the_acls(shape: str) -> None:
    """50,000 ACLs of these shapes need at most 0.05 ms."""
    counts = []
    for count in (500, 4000):
        decider, calls = authorizer(*SHAPES[shape](count)), CallCounter()
        client = ALICE._replace(host="192.0.2.1")
        for name in ("orders", "p-00001"):
            with calls.counted():
                decider.authorize(client, Operation.READ, TOPIC, name)
        with calls.counted():
            decider.authorize_any(client, Operation.CREATE, TOPIC)
        counts.append(calls.longest)
    assert counts[1] <= 1.2 * counts[0]
